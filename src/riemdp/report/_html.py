"""The privacy report as one self-contained HTML page."""

from __future__ import annotations

from html import escape
from importlib import resources

from ._curve import posterior
from ._facts import ReportFacts
from ._svg import guess_bar_svg, trade_off_svg
from ._words import percent, rounded_up, strength

_CSS = resources.files(__package__).joinpath("templates/style.css").read_text(encoding="utf-8")


def page(report: ReportFacts) -> str:
    """The whole page. Every text that came from outside is escaped."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src'
        " 'unsafe-inline'\">"
        f"<title>{escape(report.title)}</title><style>{_CSS}</style></head><body><main>"
        f"{_head(report)}{_banner(report)}{_cautions(report)}{_summary(report)}{_attacker(report)}{_released(report)}{_limits(report)}"
        f"{_origin(report)}{_signature(report)}</main></body></html>\n"
    )


def _head(report: ReportFacts) -> str:
    return (
        '<header><p class="kicker">Differential privacy · statement for one'
        f' release</p><h1>{escape(report.title)}</h1><p class="meta">{escape(report.created)} ·'
        f" riemdp {escape(report.versions['riemdp'])}</p></header>"
    )


def _banner(report: ReportFacts) -> str:
    if report.reproducible:
        return (
            '<div class="banner danger" role="alert"><strong>Not private. Do not publish.</strong>'
            " The noise of this run was made from a seed, so that the run can be repeated. Whoever"
            " knows or guesses the seed can take the noise away again. Repeat the release without a"
            " seed. The figures below describe what such a release would guarantee.</div>"
        )
    if not report.private:
        return (
            '<div class="banner danger" role="alert"><strong>Not private.</strong> This result was'
            " made without a privacy guarantee (epsilon is unlimited). It must not be published as"
            " private.</div>"
        )
    return ""


def _cautions(report: ReportFacts) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in report.cautions)
    if not items:
        return ""
    return (
        '<div class="banner caution" role="alert"><strong>Before you sign</strong>'
        f"<ul>{items}</ul></div>"
    )


def _summary(report: ReportFacts) -> str:
    body = "".join(
        f'<div class="card"><dt>{escape(k)}</dt><dd>{escape(v)}</dd><p>{escape(why)}</p></div>'
        for k, v, why in report.cards
    )
    return f'<section><dl class="cards">{body}</dl></section>'


def _attacker(report: ReportFacts) -> str:
    bound = report.trade_off
    word, sentence = strength(bound.best_guess)
    if not report.private:
        word, sentence = "none", "No protection is claimed for this result."
    loss = bound.loss_bound(report.delta)
    rows = "".join(
        f"<tr><td>{percent(p)}</td><td>{percent(posterior(p, loss), up=True)}</td></tr>"
        for p in (0.01, 0.1, 0.5)
    )
    but_delta = (
        f", except with probability at most {rounded_up(report.delta)}" if report.delta > 0 else ""
    )
    return (
        "<section><h2>What an attacker can learn about one record</h2>"
        "<p>Assume the worst: somebody who knows every other record, the method and all its"
        " settings, has unlimited "
        "computing "
        "power, and has narrowed one record down to two candidates that seem equally likely. From"
        " the release alone, "
        "their "
        "best possible guess is right at most"
        f" <strong>{percent(bound.best_guess, up=True)}</strong> of the time.</p>"
        f"{guess_bar_svg(bound.best_guess)}"
        f'<p class="reading"><span class="tag {word}">{word}</span> {escape(sentence)}</p>'
        '<div class="two"><div><h3>Trade-off of every attack</h3>'
        f"{trade_off_svg(bound)}"
        '<p class="caption"><span class="key bound"></span>no attack gets below this line '
        '<span class="key guess"></span>blind guessing <span class="key impossible"></span>out of'
        " reach</p></div>"
        '<div><h3>In figures</h3><ul class="plain">'
        "<li>At a false-alarm rate of 1 %, an attack detects a given record at most "
        f"<strong>{percent(bound.detected(0.01), up=True)}</strong> of the time.</li>"
        "<li>At a false-alarm rate of 0.1 %: at most "
        f"<strong>{percent(bound.detected(0.001), up=True)}</strong>.</li></ul>"
        "<p>A belief about one record held before the release can grow at most like"
        f" this{but_delta}:</p>"
        "<table><thead><tr><th>before</th><th>after, at"
        f" most</th></tr></thead><tbody>{rows}</tbody></table>"
        '<p class="small">Computed from the bound on the attacker\'s odds. It is a worst case over'
        " all data sets and "
        "attacks; typical attacks achieve less.</p></div></div></section>"
    )


def _released(report: ReportFacts) -> str:
    stated = ""
    if report.stated:
        stated = (
            '<p class="small">The release itself does not hold these facts; they are stated by the'
            f" publisher and were not checked: {escape(', '.join(report.stated))}.</p>"
        )
    return f"<section><h2>What was released, and how</h2>{_table(report.rows)}{stated}</section>"


def _limits(report: ReportFacts) -> str:
    items = "".join(f"<li><strong>{escape(h)}.</strong> {escape(s)}</li>" for h, s in report.limits)
    return f'<section><h2>What is not guaranteed</h2><ul class="limits">{items}</ul></section>'


def _origin(report: ReportFacts) -> str:
    return f"<section><h2>Where it comes from</h2>{_table(report.origin)}</section>"


def _signature(report: ReportFacts) -> str:
    if not report.private:
        return ""
    k = report.max_records_per_person
    several = "" if k is None else f", or one person has at most {k:,} records"
    lines = "".join(
        f'<div><span class="line"></span><p>{label}</p></div>'
        for label in ("Name and role", "Date", "Signature")
    )
    return (
        '<section class="sign"><h2>Statement of the publisher</h2><p>The centre, radius, budget'
        " and mechanism were fixed without looking at the records; one record stands for one"
        f" person{several}; and every other release from the same records is accounted for.</p>"
        f'<div class="lines">{lines}</div></section>'
    )


def _table(rows: list[tuple[str, str]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in rows
    )
    return f'<table class="facts"><tbody>{body}</tbody></table>'

"""The report: what it says, that it holds nothing secret, that it is one safe page, written whole
or not at all.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import riemdp
from riemdp import (
    Ball,
    Budget,
    Euclidean,
    InvalidArgument,
    Ledger,
    PrivatePCA,
    WrappedGaussian,
    WrappedLaplace,
    privacy,
    private_frechet_mean,
)
from riemdp.inference import Facts
from riemdp.report import privacy_report
from tests.seam import Commands, Doors

SPACE = Euclidean(3)
BALL = Ball(np.zeros(3), 2.0)
BUDGET = Budget(1.0, 1e-5)


def make(rng=None, budget=BUDGET, **options):
    """A release by hand, with the facts that a release of records has."""
    mechanism = WrappedGaussian(SPACE, np.zeros(3), sensitivity=0.01, budget=budget)
    release = mechanism.release(np.array([0.123456789, 0.2, 0.3]), rng)
    known = {**release.details, "n": 400, "manifold": SPACE, "ball": BALL, "budget": budget}
    release = dataclasses.replace(release, facts=Facts.of(known))
    return release, privacy_report(release, **options)


class Page(HTMLParser):
    """Collects tags, attributes and text, and complains about tags left open."""

    EMPTY = ("meta", "line", "rect", "circle", "polygon", "polyline", "br")

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_page_is_self_contained_and_well_formed():
    _, report = make(record_is="one <b>scan</b> & its mask")
    page = Page(report.html())
    assert "script" not in page.tags
    assert not {"src", "href", "onclick"} & {name for name, _ in page.attributes}
    assert "http" not in report.html().replace("http-equiv", "")
    assert page.tags.count("svg") == 2
    assert "<b>scan" not in report.html()
    assert any(
        "one <b>scan</b> & its mask" in t for t in page.text
    )  # escaped in the source, read back as text


def test_figures_are_those_of_the_guarantee():
    release, report = make()
    facts = report.to_dict()
    json.loads(report.to_json())
    assert facts["guarantee"]["epsilon"] == release.guarantee.epsilon(1e-5)
    assert facts["guarantee"]["delta"] == 1e-5
    assert facts["records"] == 400
    assert facts["private"] is True
    assert facts["mechanism"] == "wrapped-gaussian"
    assert facts["noise_scale"] == release.scale
    mu = release.sensitivity / release.scale
    from scipy import stats

    assert facts["attacker"]["best_guess_between_two_candidates"] == pytest.approx(
        stats.norm.cdf(mu / 2), rel=1e-6
    )
    assert "400" in report.html()
    assert Commands.rounded_up(report.epsilon) in report.html()


def test_an_attacker_is_all_powerful_but_for_what_a_guarantee_assumes():
    release, plain = make()
    assumed = dataclasses.replace(release, guarantee=release.guarantee.assuming("two of three"))
    report = privacy_report(assumed)
    assert "as far as" not in plain.html()
    assert "as far as" in report.html()
    assert "two of three" in report.html()


def test_nothing_secret_is_in_it():
    release, report = make(rng=1)  # six digits of a fresh draw may stand in another number
    text = report.html() + report.to_json() + repr(report)
    digits = [f"{abs(x):.6f}"[2:] for x in np.asarray(release.value)] + ["123456789"[:6]]
    assert not [d for d in digits if d in text]


def test_seeded_release_gets_a_red_banner_and_no_signature():
    _, report = make(rng=7)
    page = report.html()
    assert "Do not publish" in page
    assert 'class="banner danger"' in page
    assert 'class="sign"' not in page
    assert report.private is False
    assert report.to_dict()["private"] is False
    assert report.to_dict()["cryptographic_randomness"] is False
    _, private = make()
    assert 'class="banner' not in private.html()
    assert 'class="sign"' in private.html()


def test_no_guarantee_says_so():
    plain = type(
        "Plain",
        (),
        {"guarantee": privacy.none(), "scale": 0.0, "mechanism": "none", "reproducible": False},
    )()
    report = privacy_report(plain)
    assert report.private is False
    assert "Not private" in report.html()
    json.loads(report.to_json())


def test_pure_release_states_delta_zero():
    release = WrappedLaplace(SPACE, np.zeros(3), sensitivity=0.01, epsilon=0.5).release(np.zeros(3))
    report = privacy_report(release)
    assert report.delta == 0.0
    assert report.epsilon == pytest.approx(0.5)
    assert "(pure)" in report.html()
    assert "slack delta" not in report.html()


def test_ledger_and_checksum_are_shown_only_when_given():
    ledger = Ledger(Budget(2.0, 1e-4))
    mechanism = WrappedGaussian(SPACE, np.zeros(3), sensitivity=0.01, budget=BUDGET)
    release = mechanism.release(np.zeros(3), ledger=ledger)
    shown = privacy_report(release, ledger=ledger, checksum="ab" * 32).html()
    assert "a ledger in memory: epsilon" in shown
    assert "of 2 spent so far" in shown
    assert "ab" * 32 in shown
    hidden = make()[1].html()
    assert "Ledger" not in hidden


def test_saved_whole_or_not_at_all(tmp_path):
    _, report = make()
    page, beside = report.save(tmp_path / "r.html")
    assert json.loads(Path(beside).read_text())["schema"] == "riemdp.privacy-report/2"
    assert Path(page).read_text() == report.html()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.json"]
    with pytest.raises(OSError):
        report.save(tmp_path / "missing" / "r.html")
    with pytest.raises(InvalidArgument, match="path"):
        report.save(tmp_path / "r.pdf")
    book = tmp_path / "book.json"
    Ledger(Budget(1.0), path=book)
    charged = book.read_bytes()
    with pytest.raises(InvalidArgument, match="ledger"):
        report.save(tmp_path / "book.html")
    assert book.read_bytes() == charged
    assert not (tmp_path / "book.html").exists()


def test_staged_files_leave_nothing_behind_on_failure(tmp_path):
    (tmp_path / "a").write_text("old")

    def interrupted() -> None:
        with Doors.staged(tmp_path / "a", tmp_path / "b") as (a, b):
            a.write_text("new")
            b.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_numbers_in_words():
    assert Commands.number(0.00001) == "10⁻⁵"
    assert Commands.number(1234567.0) == "1.23 × 10⁶"
    assert Commands.number(0.5) == "0.5"
    assert Commands.number(None) == "not stated"
    assert Commands.rounded_up(1.00001) == "1.001"
    assert Commands.rounded_up(0.99999) == "1"
    assert Commands.rounded_up(float("inf")) == "unlimited"
    assert Commands.percent(0.5541, up=True) == "55.5\N{NO-BREAK SPACE}%"
    for p in np.linspace(0.0005, 0.9995, 300):
        shown = float(re.sub(r"[^\d.]", "", Commands.percent(p, up=True)))
        assert shown >= 100 * p - 1e-9


def test_a_protected_number_of_records_is_not_printed():
    records = np.zeros((37, 3))
    neighbours = {"n_min": 30}
    release = private_frechet_mean(
        SPACE, records, BALL, BUDGET, mechanism="wrapped-gaussian", **neighbours
    )
    report = privacy_report(release)
    assert "at least 30 records" in report.html()
    assert report.to_dict()["records_is_lower_bound"] is True
    assert "at least 400" not in make()[1].html()


def a_mean(**options):
    """A release that knows its facts: 200 records, radius 2, epsilon 1."""
    return private_frechet_mean(
        SPACE, np.zeros((200, 3)), BALL, BUDGET, mechanism="wrapped-gaussian", **options
    )


def test_every_fact_comes_from_the_release():
    report = privacy_report(a_mean())
    assert report.records == 200
    assert report.space == f"{SPACE!r} (dimension 3)"
    assert report.domain.endswith("distance 2 of the public centre, the origin of the space")
    assert report.budget == BUDGET
    assert "not stated" not in report.html()
    assert "dp-accounting" not in report.to_json()


def test_what_a_bare_mechanism_does_not_know_is_said():
    mechanism = WrappedGaussian(SPACE, np.zeros(3), sensitivity=0.01, budget=BUDGET)
    report = privacy_report(mechanism.release(np.zeros(3)))
    rows = dict(report.rows)
    for name in ("Made from", "Domain", "Clipping"):
        assert "not stated by the release" in rows[name]
    assert report.to_dict()["records"] is None


def test_cautions_are_on_the_page():
    tame = privacy_report(a_mean(rng=1))  # the noisy count of records outside may be a caution
    assert tame.cautions == []
    assert "Before you sign" not in tame.html()
    slack = private_frechet_mean(
        SPACE, np.zeros((20, 3)), BALL, Budget(1.0, 0.05), mechanism="wrapped-gaussian"
    )
    report = privacy_report(slack)
    assert "not below 1/n = 0.05" in report.cautions[0]
    assert "Before you sign" in report.html()
    noisy = private_frechet_mean(
        SPACE, np.zeros((5, 3)), BALL, Budget(0.1, 1e-6), mechanism="wrapped-gaussian"
    )
    assert any("public centre" in c for c in privacy_report(noisy).cautions)


def test_delta_is_called_slack_and_the_error_is_that_from_noise():
    page = " ".join(privacy_report(a_mean()).html().split())
    assert "exceptional case" not in page
    assert "additive slack" in page
    assert "Error from noise" in page
    assert "Expected error" not in page
    assert "farther than 2 from the centre" in page


def test_what_an_attacker_finds_of_a_person_and_of_the_whole_ledger():
    """Exact for Gaussian releases: k records multiply mu by k, the ledger adds squares."""
    mechanism = WrappedGaussian(SPACE, np.zeros(3), sensitivity=0.01, budget=BUDGET)
    ledger = Ledger(Budget(10.0, 1e-5))
    for _ in range(4):
        release = mechanism.release(np.zeros(3), ledger=ledger)
    report = privacy_report(release, ledger=ledger, max_records_per_person=3)
    mu = 1.0 / mechanism.noise_multiplier
    rates = report.to_dict()["attacker"]["detection_rates_of_more"]
    page = " ".join(report.html().split())
    for kind, times in (("person", 3.0), ("ledger", 2.0)):
        for level, name in ((0.01, "1"), (0.001, "0.1")):
            exact = stats.norm.cdf(stats.norm.ppf(level) + times * mu)
            found = rates[kind][f"at_{name}_percent_false_alarms"]
            assert found == pytest.approx(exact, rel=1e-9)
            assert found > release.guarantee.trade_off().rate(level)
            assert " ".join(Commands.percent(found, up=True).split()) in page
    assert "All 3 records of one person together: at most" in page
    assert "everything that the ledger has charged: at most" in page
    alone = privacy_report(release).to_dict()
    assert alone["attacker"]["detection_rates_of_more"] == {}


def test_one_person_with_several_records():
    """`Guarantee.group`: for a Gaussian exactly k times mu."""
    release = a_mean()
    report = privacy_report(release, max_records_per_person=5)
    whole = release.guarantee.group(5).epsilon(1e-5)
    assert report.to_dict()["guarantee"]["epsilon_of_one_person"] == pytest.approx(whole)
    assert whole > release.guarantee.repeat(5).epsilon(1e-5)
    page = " ".join(report.html().split())
    assert f"one person with up to 5 records: epsilon {Commands.rounded_up(whole)}" in page
    assert "roughly k times" not in page
    assert Commands.rounded_up(release.guarantee.group(2).epsilon(1e-5)) in page


def test_an_estimator_is_no_release_and_the_error_says_what_is():
    """It was an AttributeError."""
    model = PrivatePCA(n_components=1, row_norm=1.0, budget=BUDGET)
    with pytest.raises(InvalidArgument, match="not fitted; call fit, and give its `release_`"):
        privacy_report(model)  # type: ignore[arg-type]
    model.fit(np.zeros((50, 3)))
    with pytest.raises(InvalidArgument, match="it is an estimator; give its `release_`"):
        privacy_report(model)  # type: ignore[arg-type]
    assert privacy_report(model.release_).records == 50
    with pytest.raises(InvalidArgument, match=r"`release`.*give a Release"):
        privacy_report(np.zeros(3))  # type: ignore[arg-type]


def test_a_release_that_the_ledger_never_charged_is_not_called_included(tmp_path):
    """The page looks the charge up by its random id, in memory and in a file."""
    X, space = np.zeros((400, 2)), Euclidean(2)
    budget, ball = Budget(1.0, 1e-5), Ball(np.zeros(2), 1.0)
    books = Ledger(Budget(9.0, 1e-4)), Ledger(Budget(9.0, 1e-4), path=tmp_path / "ledger.json")
    for ledger in books:
        alone = riemdp.private_frechet_mean(space, X, ball, budget, rng=1)
        mean = riemdp.private_frechet_mean(space, X, ball, budget, rng=1, ledger=ledger)
        for held, release in ((True, mean), (False, alone)):
            report = privacy_report(release, ledger=ledger)
            said = "this release included" if held else "is not in this ledger"
            assert said in report.html()
            assert ("the ledger ledger.json" in report.html()) is (ledger is books[1])
            assert json.loads(report.to_json())["in_ledger"] is held
        other = Ledger(Budget(9.0, 1e-4))
        assert "is not in this ledger" in privacy_report(mean, ledger=other).html()
    optimized = riemdp.private_minimize(
        riemdp.problems.frechet_mean(space, ball=ball),
        X,
        np.zeros(2),
        riemdp.DPRGD(300, 0.1, 1.0),
        budget,
        ledger=books[1],
    )
    report = privacy_report(optimized, ledger=books[1])
    assert "this release included" in report.html()
    assert (report.records, report.space) == (400, f"{space!r} (dimension 2)")
    assert optimized.receipt.in_ledger
    with books[1]:
        model = riemdp.PrivatePGA(manifold=space, budget=budget, ball=ball).fit(X)
    for release in (model.release_, *model.releases_.values()):
        assert release.receipt == model.release_.receipt
        assert books[1].holds(release.receipt.id)
    assert pickle.loads(pickle.dumps(mean)).receipt == mean.receipt
    assert "not in this ledger" not in privacy_report(mean).to_json()

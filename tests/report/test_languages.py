"""A report in German: every sentence is translated, and no number is changed."""

from __future__ import annotations

import dataclasses
import html as html_module
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riemdp
import riemdp.report
from riemdp import Ball, Budget
from riemdp.mechanisms import BASELINES, FOR_MEANS
from riemdp.optimizers import OPTIMIZERS
from riemdp.report import PrivacyReport, privacy_report
from tests import schemas
from tests.seam import Commands, Masks

SPACE, BALL, BUDGET = riemdp.Euclidean(2), Ball(np.zeros(2), 1.0), Budget(1.0, 1e-5)
SEARCH = riemdp.AdaptiveBall(Ball(np.zeros(2), 50.0))
X = np.random.default_rng(0).normal(scale=0.3, size=(400, 2))
OWN = "die drei Messungen von Patient Nr. 4.5"
TEMPLATES = Path(riemdp.report.__file__).parent / "templates"
# Words that no German sentence of a report holds.
ENGLISH = re.compile(
    r"\b(?:the|of|and|is|were|with|that|which|by|from|this|one|noise|record|records|release|"
    r"released|person|people|centre|ball|mean|noisy|number|numbers|attack|at|most|not|no|each|"
    r"every|private|public|found|error|distance|within|vector|vectors|stated|half|more|larger)\b"
)


def quiet(make, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*args, **options)


def mean(n=400, budget=BUDGET, ball: Any = BALL, **options):
    rows = X if n == 400 else np.tile(X, (-(-n // 400), 1))[:n]
    return quiet(riemdp.private_frechet_mean, SPACE, rows, ball, budget, **options)


def pca(groups=None, **options):
    model = quiet(riemdp.PrivatePCA(n_components=1, budget=BUDGET, **options).fit, X, groups=groups)
    return model.release_


def reports() -> dict[str, PrivacyReport]:
    people = np.arange(400) // 2
    ledger = riemdp.Ledger(Budget(3.0, 1e-5))
    found = {
        "wrapped": privacy_report(mean(ledger=ledger), ledger=ledger, max_records_per_person=3),
        "seed": privacy_report(mean(rng=1, mechanism="wrapped-laplace")),
        "few": privacy_report(mean(n=3)),
        "outside": privacy_report(mean(ball=Ball(np.array([5.0, 5.0]), 1.0))),
        "slack": privacy_report(mean(budget=Budget(20.0, 0.05))),
        "checksum": privacy_report(mean(), checksum="ab12" * 16),
        "riemannian": privacy_report(mean(mechanism="riemannian-laplace")),
        "k-norm": privacy_report(mean(mechanism="k-norm-gradient")),
        "tangent": privacy_report(mean(mechanism="tangent-mean")),
        "extrinsic": privacy_report(mean(mechanism="extrinsic-gaussian")),
        "n_min": privacy_report(mean(adjacency="add-or-remove-one", n_min=300)),
        "people": privacy_report(mean(groups=people)),
        "people outside": privacy_report(mean(groups=people, ball=Ball(np.full(2, 5.0), 1.0))),
        "people tangent": privacy_report(mean(groups=people, mechanism="tangent-mean")),
        "search": privacy_report(mean(n=2000, ball=SEARCH, budget=Budget(2.0, 1e-5))),
        "sites people": privacy_report(
            quiet(
                riemdp.federated.private_frechet_mean,
                SPACE,
                [X[:200], X[200:]],
                SEARCH,
                Budget(8.0, 1e-6),
                variance=0.1,
                groups=[people[:200], people[200:]],
            )
        ),
        "search people": privacy_report(
            mean(
                n=2000,
                ball=SEARCH,
                budget=Budget(2.0, 1e-5),
                groups=np.arange(2000),
            )
        ),
        "median": privacy_report(
            quiet(riemdp.private_geometric_median, SPACE, X, BUDGET, search=SEARCH)
        ),
        "median people": privacy_report(
            quiet(riemdp.private_geometric_median, SPACE, X, BUDGET, search=SEARCH, groups=people)
        ),
        "variance": privacy_report(quiet(riemdp.private_frechet_variance, SPACE, X, BALL, BUDGET)),
        "pca": privacy_report(pca(row_norm=1.0)),
        "pca people": privacy_report(pca(row_norm=1.0, groups=people)),
        "clipping people": privacy_report(
            quiet(riemdp.private_clipping_bound, SPACE, X, BALL, 5.0, BUDGET, groups=people)
        ),
        "descent": privacy_report(mean(mechanism="dp-rgd")),
        "no guarantee": dataclasses.replace(
            privacy_report(mean()), guarantee=riemdp.privacy.none()
        ),
        "stated": privacy_report(
            riemdp.WrappedGaussian(SPACE, np.zeros(2), sensitivity=0.1, budget=BUDGET).release(
                X[0]
            ),
            records=400,
            manifold=SPACE,
            ball=BALL,
            budget=BUDGET,
        ),
    }
    return found


@pytest.fixture(scope="module")
def all_reports() -> dict[str, tuple[PrivacyReport, str, str]]:
    """Reports with their pages in English and German."""
    return {
        name: (report, report.html(), dataclasses.replace(report, language="de").html())
        for name, report in reports().items()
    }


def parts(page: str) -> list[str]:
    """The texts of a page, tags, styles and coordinates left out; spaces as one."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    labels = re.findall(r'aria-label="([^"]*)"', body)
    texts = re.split(r"<[^>]*>", body)
    whole = (re.sub(r"[ \n]+", " ", html_module.unescape(t)) for t in (*texts, *labels))
    return [text for text in whole if text.strip()]


def numbers(page: str, *, german: bool) -> list[str]:
    """All numbers of a page, as a computer writes them, sorted."""
    text = " ".join(parts(page))
    if german:
        text = re.sub(r"(?<=\d),(?=\d)", ".", text.replace("\N{NARROW NO-BREAK SPACE}", ""))
    else:
        text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    return sorted(re.findall(r"\d+(?:\.\d+)*|[⁻⁰¹²³⁴-⁹]+", text))


def test_every_sentence_is_in_german(all_reports):
    german = Commands.language_of("de")
    for name, (report, _, page) in all_reports.items():
        unknown: list[str] = []
        said = [text for pair in (*report.rows, *report.origin, *report.limits) for text in pair]
        said += [*report.cautions, *(x for card in report.cards for x in card), report.title]
        for text in said:
            german.say(text, unknown.append)
        names = [x for x in unknown if not x.startswith("riemdp ")]  # versions
        assert names == [], (name, names)
        assert '<html lang="de">' in page
        left = [t for t in parts(page) if ENGLISH.search(t)]
        assert left == [], (name, left)
    # the same test finds English on the English page, and in a sentence that no pattern knows
    assert [t for t in parts(all_reports["wrapped"][1]) if ENGLISH.search(t)]
    # what shared noise rests on
    for tolerated in (0, 1):
        assumes = Masks.SharedSum(3, tolerated, 1, 1.0, 1.0).assumes
        assert not ENGLISH.search(german.say(assumes).replace("secure sums", ""))
    unknown = []
    german.say("noise of my own mechanism", unknown.append)
    assert unknown == ["noise of my own mechanism"]


def test_numbers_are_the_same_in_both(all_reports):
    for name, (_, english, german) in all_reports.items():
        one, other = numbers(english, german=False), numbers(german, german=True)
        assert len(one) > 30
        assert (name, one) == (name, other)
    report = all_reports["wrapped"][0]
    assert report.to_dict() == dataclasses.replace(report, language="de").to_dict()


def test_numbers_are_written_as_germans_do():
    say = Commands.language_of("de").say
    narrow = "\N{NARROW NO-BREAK SPACE}"
    assert say("1,797") == f"1{narrow}797"
    assert say("0.0571") == "0,0571"
    assert say("2.8\N{NO-BREAK SPACE}%") == "2,8\N{NO-BREAK SPACE}%"
    assert say("1.2 × 10⁻⁵") == "1,2 × 10⁻⁵"
    assert say("at least 12,345.5") == f"mindestens 12{narrow}345,5"
    assert say("epsilon 0.5, delta 10⁻⁵") == "Epsilon 0,5, Delta 10⁻⁵"
    assert Commands.language_of("en").say("0.5") == "0.5"


def test_words_of_the_publisher_and_versions_stay():
    report = privacy_report(mean(), record_is=OWN, query="Mittel der Studie 4.5", language="de")
    page = report.html()
    assert OWN in page
    assert "Datenschutzbericht: Mittel der Studie 4.5" in page
    assert riemdp.__version__ in page
    assert json.loads(report.to_json())["one_record_is"] == OWN


def test_both_templates_have_the_same_places():
    places = [
        re.findall(r"\{[{%].*?[%}]\}", (TEMPLATES / name).read_text("utf-8"), flags=re.DOTALL)
        for name in ("report.html.j2", "report.de.html.j2")
    ]
    ours = [[p for p in page if "Name" not in p] for page in places]
    assert len(ours[0]) > 50
    assert ours[0] == ours[1]


def test_patterns_have_the_same_places():
    place = re.compile(r"\{(\w+)")
    for english, german in Commands.patterns("de"):
        assert set(place.findall(english)) == set(place.findall(german)), english


def test_all_mechanisms_have_german_words():
    say = Commands.language_of("de").say
    kinds: tuple[Any, ...] = (
        *FOR_MEANS,
        *BASELINES,
        *OPTIMIZERS,
        riemdp.mechanisms.TangentMeanNoise,
    )
    for kind in kinds:
        unknown: list[str] = []
        for law in ("Gaussian noise", "Laplace noise"):
            say(kind.words.replace("Gaussian or Laplace noise", law), unknown.append)
        assert unknown == [], kind


def test_the_json_of_every_report_is_that_of_the_schema(all_reports):
    schema = schemas.schema("privacy-report-2.json")
    told: dict[str, Any] = {}
    for name, (report, _, _) in all_reports.items():
        told = json.loads(report.to_json())
        assert schemas.faults(told, schema) == [], name
    # planted: what is missing, unknown, of another type or out of range is found
    for change in ({"radius": "2"}, {"more": 1}, {"private": "yes"}, {"records": 1.5}):
        assert schemas.faults(told | change, schema)
    assert schemas.faults({k: v for k, v in told.items() if k != "guarantee"}, schema)
    told["attacker"]["advantage"] = 1.5
    assert schemas.faults(told, schema)


def test_a_count_of_valid_records_is_on_the_page():
    """The one that a search for a ball released, with its noise and what it cost."""
    release = riemdp.private_frechet_mean(SPACE, X, SEARCH, BUDGET, rng=1)
    valid = release.details["valid"]
    report = privacy_report(release)
    assert report.to_dict()["records_valid"] == valid.to_dict()
    assert dict(report.rows)["Valid"].startswith(f"{valid} were valid points of the space")
    public = riemdp.private_frechet_mean(SPACE, X, BALL, BUDGET, rng=1)
    other = privacy_report(public)
    assert other.to_dict()["records_valid"] is None


def test_another_language_is_refused():
    with pytest.raises(riemdp.InvalidArgument, match="language"):
        privacy_report(mean(), language="fr")


def test_a_report_about_people_speaks_of_people(all_reports):
    """What the publisher signs, too: that one record stands for one person would be false."""
    _, english, german = all_reports["sites people"]
    for page, right, wrong in (
        (
            english,
            (
                "What an attacker can learn about one person",
                "knows all records of everybody else",
                "narrowed everything of one person down to",
                "detects a given person at most",
                "belief about one person",
                "all records of a person have the same label",
                "what the guarantee assumes holds; and",
            ),
            ("stands for one person", "given record", "one record down", "about one record"),
        ),
        (
            german,
            (
                "über eine Person erfahren kann",
                "alle Datensätze aller anderen",
                "alles von einer Person auf zwei",
                "eine bestimmte Person",
                "alle Datensätze einer Person tragen dieselbe Kennung",
                "was die Garantie voraussetzt, gilt; und",
                "alle Datensätze einer Person liegen an einem Standort",
            ),
            ("steht für eine Person", "bestimmten Datensatz", "über einen Datensatz"),
        ),
    ):
        text = re.sub(r"[ \n]+", " ", " ".join(parts(page)))
        assert [w for w in right if w not in text] == []
        assert [w for w in wrong if w in text] == []
    assert "stands for one person" in re.sub(r"[ \n]+", " ", all_reports["wrapped"][1])


@pytest.mark.parametrize(("delta", "law"), [(1e-5, "Gaussian"), (0.0, "Laplace")])
def test_a_release_names_the_law_that_was_drawn(delta, law):
    """It said "Gaussian or Laplace noise", and left the reader to guess."""
    budget = Budget(2.0, delta)
    rows, own = np.tile(X, (5, 1)), np.arange(2000)
    releases = (
        mean(mechanism="tangent-mean", budget=budget),
        mean(mechanism="tangent-mean", budget=budget, groups=np.arange(400) // 2),
        mean(n=2000, ball=SEARCH, budget=budget),
        mean(n=2000, ball=SEARCH, budget=budget, groups=own),
        quiet(riemdp.private_frechet_variance, SPACE, X, BALL, budget),
        quiet(riemdp.private_frechet_variance, SPACE, rows, SEARCH, budget),
        quiet(riemdp.private_clipping_bound, SPACE, X, BALL, 5.0, budget),
        quiet(riemdp.private_tangent_covariance, SPACE, X, BALL, budget),
    )
    for release in releases:
        assert f"{law} noise on the" in release.words, release.mechanism
        assert " or " not in release.words


def test_one_record_is_not_1_records():
    """The page said "1 records", and in German "aus 1 Datensätze"."""
    say = Commands.language_of("de").say
    for n, groups, english, german in (
        (1, None, "1 record; ", "1 Datensatz; "),
        (1, np.zeros(1), "1 person, ", "1 Person, "),
        (400, None, "400 records; ", "400 Datensätzen; "),  # a dative, after "hergestellt aus"
    ):
        report = privacy_report(mean(n=n, groups=groups))
        made = dict(report.rows)["Made from"]
        assert made.startswith(english)
        assert say(made).startswith(german)


def test_the_error_bar_of_components_is_about_their_matrix():
    """It spoke of a noisy vector that was released at a centre; there is neither."""
    report = privacy_report(pca(row_norm=1.0))
    assert report.region is not None
    assert report.region.subject == "the second-moment matrix of the clipped rows"
    assert "of the noisy matrix whose leading eigenvectors were released" in report.region.sentence
    assert "centre" not in report.region.sentence
    unknown: list[str] = []
    Commands.language_of("de").say(report.region.sentence, unknown.append)
    assert unknown == []

"""Reports of every kind of release: the page, and the JSON of its schema."""

from __future__ import annotations

import dataclasses
import html as html_module
import json
import re
import warnings
from typing import Any

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.report import PrivacyReport, privacy_report
from tests import schemas
from tests.seam import Commands

SPACE, BALL, BUDGET = riemdp.Euclidean(2), Ball(np.zeros(2), 1.0), Budget(1.0, 1e-5)
SEARCH = riemdp.AdaptiveBall(Ball(np.zeros(2), 50.0))
X = np.random.default_rng(0).normal(scale=0.3, size=(400, 2))
CIRCLE = X / np.linalg.norm(X, axis=1, keepdims=True)


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
        "n_min": privacy_report(mean(n_min=300)),
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
        "median": privacy_report(quiet(riemdp.private_geometric_median, SPACE, X, SEARCH, BUDGET)),
        "median people": privacy_report(
            quiet(riemdp.private_geometric_median, SPACE, X, SEARCH, BUDGET, groups=people)
        ),
        "variance": privacy_report(quiet(riemdp.private_frechet_variance, SPACE, X, BALL, BUDGET)),
        "direction": privacy_report(
            quiet(riemdp.private_mean_direction, riemdp.Sphere(2), CIRCLE, BUDGET)
        ),
        "no direction": privacy_report(
            quiet(riemdp.private_mean_direction, riemdp.Sphere(2), 2.0 * CIRCLE, BUDGET)
        ),
        "comparison": privacy_report(
            quiet(
                riemdp.private_comparison, SPACE, X, BALL, BUDGET, samples=np.arange(len(X)) % 2
            ).release
        ),
        "class means": privacy_report(
            quiet(
                riemdp.PrivateMDM(metric="logeuclid", budget=Budget(3.0, 1e-5)).fit,
                np.tile(np.eye(2), (400, 1, 1)),
                np.arange(400) % 2,
            ).release_
        ),
        "pca": privacy_report(pca(row_norm=1.0)),
        "pca people": privacy_report(pca(row_norm=1.0, groups=people)),
        "descent": privacy_report(mean(mechanism="dp-rgd")),
        "no guarantee": privacy_report(
            dataclasses.replace(mean(), guarantee=riemdp.privacy.none())
        ),
        "bare": privacy_report(
            riemdp.WrappedGaussian(SPACE, np.zeros(2), sensitivity=0.1, budget=BUDGET).release(X[0])
        ),
    }
    return found


@pytest.fixture(scope="module")
def all_reports() -> dict[str, PrivacyReport]:
    return reports()


def words(report: PrivacyReport) -> str:
    """The text of a page, tags and styles left out; spaces as one."""
    body = re.sub(r"<style>.*?</style>", "", report.html(), flags=re.DOTALL)
    return re.sub(r"[ \n]+", " ", html_module.unescape(re.sub(r"<[^>]*>", " ", body)))


def test_every_page_says_who_is_protected_who_sees_what_and_how_large_the_error_is(all_reports):
    for name, report in all_reports.items():
        rows = dict(report.rows)
        assert rows["Protected unit"].startswith("one person" if report.of_people else "one record")
        assert rows["Error from noise"]
        sites = name.startswith("sites")
        assert ("The server" in rows["Who sees what"]) is sites, name
        assert ("What the server and the other sites learn" in words(report)) is sites, name
        assert all(text in words(report) for text in rows.values()), name


def test_the_page_of_a_federated_run_is_not_silent_about_the_server_and_the_sites():
    """It stated one epsilon, and nothing of those who see the answers of a site."""
    problem = riemdp.problems.frechet_mean(SPACE, ball=BALL)
    local = riemdp.DPRGD(1, 0.25, sensitivity="domain")
    run = riemdp.PriRFed(problem, local, rounds=6, agents_per_round=2)
    budget = Budget(2.0, 1e-5)
    done = riemdp.run_in_process(run, [X[:200], X[200:300], X[300:]], np.zeros(2), budget)
    report = privacy_report(done)
    page = words(report)
    assert "The server, and whoever reads its messages, see the noisy answer of every site" in page
    most = max(done.invitations.values())
    cost = done.participation_guarantee(most).epsilon(report.delta)
    assert f"took part {most} times can state epsilon {Commands.rounded_up(cost)}" in page
    assert report.records == 400
    # the section that is signed: what each site's part has cost it, and what the noise does
    assert "What the server and the other sites learn" in page
    assert "The other sites see what the server sends" in page
    told = report.to_dict()
    for site in told["sites"]:
        asked = done.invitations[site["name"]]
        assert done.plan is not None
        own = done.plan.local[done.details["sizes"][site["name"]]].repeat(asked)
        assert site["epsilon"] == pytest.approx(own.epsilon(report.delta), rel=1e-12)
        assert f"asked {asked} times: epsilon {Commands.rounded_up(site['epsilon'])}" in page
    # one step of 0.25 along a mean gradient in the plane, averaged over two sites
    expected = 0.25 * max(done.plan.sigmas) * 2**0.5 / 2**0.5
    assert told["noise_of_a_round"] == pytest.approx(expected, rel=1e-12)


def test_the_json_of_every_report_is_that_of_the_schema(all_reports):
    schema = schemas.schema("privacy-report-2.json")
    told: dict[str, Any] = {}
    for name, report in all_reports.items():
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


def test_a_report_about_people_speaks_of_people(all_reports):
    """What the publisher signs, too: that one record stands for one person would be false."""
    page = words(all_reports["sites people"])
    for right in (
        "What an attacker can learn about one person",
        "knows all records of everybody else",
        "narrowed everything of one person down to",
        "detects a given person at most",
        "belief about one person",
        "all records of a person have the same label",
        "what the guarantee assumes holds; and",
        "user-level",
    ):
        assert right in page
    for wrong in ("stands for one person", "given record", "one record down", "about one record"):
        assert wrong not in page
    assert "stands for one person" in words(all_reports["wrapped"])


@pytest.mark.parametrize(("delta", "distribution"), [(1e-5, "Gaussian"), (0.0, "Laplace")])
def test_a_release_names_the_distribution_that_was_drawn(delta, distribution):
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
    )
    for release in releases:
        assert f"{distribution} noise on the" in release.words, release.mechanism
        assert " or " not in release.words


def test_one_record_is_not_1_records():
    for n, groups, said in ((1, None, "1 record"), (1, np.zeros(1), "1 person, ")):
        made = dict(privacy_report(mean(n=n, groups=groups)).rows)["Made from"]
        assert made.startswith(said)
        assert "records" not in made.split(",")[0]


def test_the_error_bar_of_components_is_about_their_matrix():
    """It spoke of a noisy vector that was released at a centre; there is neither."""
    report = privacy_report(pca(row_norm=1.0))
    told = dict(report.rows)["Confidence region"]
    assert "the second-moment matrix of the clipped rows" in told
    assert "of the noisy matrix whose leading eigenvectors were released" in told
    assert "centre" not in told

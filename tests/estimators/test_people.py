"""`groups=` of classifiers, components and centres: a person counts once, whatever the records."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest

import riemdp
from riemdp import (
    Ball,
    Budget,
    InvalidArgument,
    Ledger,
    PrivateMDM,
    PrivatePCA,
    PrivateTLCenter,
    PrivateTSClassifier,
)
from riemdp.audit import gaussian_mu_lower_bound
from riemdp.domains import AdaptiveBall
from riemdp.randomness import noise_source
from riemdp.report import privacy_report
from tests.mechanisms.numpy_search import unlimited
from tests.seam import Searches, Sums

BUDGET, SURE = Budget(3.0, 1e-5), Budget(20.0, 1e-5)
BALL = Ball(np.eye(3), 2.0)
PRIVATE = {"labels": "private", "classes": [0, 1, 2], "metric": "logeuclid"}
MODELS = [PrivateTSClassifier, PrivateMDM]
COMPILED = [0]


def matrices(n=600, seed=0):
    """Three classes of 3 x 3 covariances, their labels, and people with one to nine records."""
    rng = np.random.default_rng(seed)
    signals = rng.normal(size=(n, 3, 30))
    y = np.arange(n) % 3
    signals *= np.exp(0.7 * (np.arange(3) == y[:, None]))[:, :, None]
    people = np.sort(rng.integers(0, n // 4, n) % (n // 4 - np.arange(n) % 9))
    return signals @ signals.transpose(0, 2, 1) / 30, y, people


def with_many(X, y, people, side, labels):
    """The last person has 1000 records: far on one side, and some that are no points."""
    keep = people != people[-1]
    more = np.tile(side, (1000, 1, 1))
    more[1::7], more[2::7], more[3::7] = np.nan, np.inf, 0.0
    given = np.resize(labels, 1000)
    return (
        np.concatenate([X[keep], more]),
        np.concatenate([y[keep], given]),
        np.concatenate([people[keep], np.full(1000, people[-1])]),
    )


# --------------------------------------------------------------------- sensitivities
def data_sets():
    """One person of three has one record, or 1000 of several kinds; (z, labels, groups)."""
    rest = np.array([[0.3, 0.0, 0.1, 0.0], [0.0, 0.2, 0.0, 0.0]])
    ends = [np.eye(4)[0], -np.eye(4)[0], np.eye(4)[1], np.zeros(4)]
    rng = np.random.default_rng(1)
    some = rng.normal(size=(1000, 4))
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    kinds = [(e[None], [a]) for e in ends for a in (0, 1, -1)]
    kinds += [(np.tile(ends[1], (1000, 1)), [a] * 1000) for a in (0, 1)]
    kinds += [(some, rng.integers(-1, 2, 1000)), (np.tile(ends[2], (1000, 1)), [0, 1] * 500)]
    for own, labels in kinds:
        groups = [0, 1, *[2] * len(own)]
        yield np.vstack([rest, own]), np.array([0, 1, *labels]), groups


@pytest.mark.parametrize("kind", [Sums.ClassSums, Sums.ClassMoments])
def test_one_person_moves_the_joint_vector_by_at_most_two(kind):
    sums = kind(3, 2, 4, None)
    joint = [sums.joint(z, y, Sums.Membership(g, len(z))) for z, y, g in data_sets()]
    worst = max(float(np.linalg.norm(a - b)) for a in joint for b in joint)
    assert worst <= sums.sensitivity
    assert worst == pytest.approx(2.0)
    planted = [sums.joint(np.asarray(z), y) for z, y, _ in data_sets()]  # weight 1, not 1/m
    assert max(float(np.linalg.norm(a - b)) for a in planted for b in planted) > 100


def test_one_person_moves_class_means_by_at_most_two():
    mechanism = Sums.ClassMeansNoise(
        riemdp.SPDLogEuclidean(2), AdaptiveBall(), n=3, classes=2, budget=BUDGET
    )
    sums = [mechanism.sums.joint(z, y, Sums.Membership(g, len(z))) for z, y, g in data_sets()]
    worst = max(float(np.linalg.norm(a - b)) for a in sums for b in sums)
    assert worst == pytest.approx(2.0)
    assert worst <= mechanism.sums.sensitivity


def test_answers_of_a_search_are_those_of_people():
    """Counts of people by half of their records, and a mean of one vector each, by hand."""
    line = riemdp.Euclidean(1)
    X = np.array([[0.1], [0.2], [9.0], [0.3], [8.0], [8.0], [np.nan], [1.5]])
    groups = [0, 0, 0, 1, 1, 2, 2, 3]

    def search(X, groups, unit=4.0):
        domain = AdaptiveBall(outer=Ball(np.zeros(1), unit)).on(line)
        members = Sums.Membership(groups, len(X))
        found = Searches.SearchPeople(domain, X, members, unlimited(BUDGET, noise_source(0)))
        found.set_scales(())
        return found

    records = search(X, groups)
    assert records.n == 4
    # within 1: two of three; one of two; none, for the NaN is in no count; none
    assert [records.within(r / records.unit) for r in (0.15, 1.0, 2.0, 9.0)] == [0, 2, 3, 4]
    assert records.valid_count() == 4  # of the NaN's person one record of two is valid
    query = riemdp.statistics.TangentMean(Ball(np.zeros(1), 2.0).on(line), 4)
    expected = ((0.1 + 0.2 + 2.0) / 3 + (0.3 + 2.0) / 2 + (2.0 + 0.0) / 2 + 1.5) / 4
    assert np.asarray(records.coordinates(query)) == pytest.approx([expected])
    for many in (np.full((1000, 1), -50.0), np.full((1000, 1), 0.0)):
        other = search(np.vstack([X[:-1], many]), [*groups[:-1], *[3] * 1000])
        for r in (0.15, 1.0, 2.0, 9.0):
            assert abs(other.within(r / other.unit) - records.within(r / records.unit)) <= 1
        moved = np.abs(np.asarray(other.coordinates(query)) - expected)
        assert np.all(moved <= query.sensitivity)


def test_means_and_majorities_of_many_records():
    rng = np.random.default_rng(2)
    places = rng.integers(0, 5, 30000)
    rows, flags = rng.normal(size=(30000, 2)), rng.random(30000) < 0.5
    members = Sums.Membership(places, 30000)
    by_hand = np.stack([rows[places == i].mean(axis=0) for i in range(5)])
    assert np.allclose(members.means(rows), by_hand, atol=1e-15, rtol=1e-12)
    assert members.majority(flags) == sum(flags[places == i].mean() >= 0.5 for i in range(5))
    assert members.shares @ np.ones(30000) == pytest.approx(5.0)


# --------------------------------------------------------------------- whole fits
@pytest.mark.parametrize("ball", [None, BALL])
@pytest.mark.parametrize("model", MODELS)
def test_it_finds_the_classes_and_speaks_of_people(model, ball):
    X, y, people = matrices()
    n = len(np.unique(people))
    with Ledger(Budget(40.0, 1e-4)) as ledger:
        fitted = model(budget=SURE, ball=ball, random_state=1, **PRIVATE).fit(X, y, groups=people)
    assert fitted.score(X, y) > 0.85
    assert fitted.guarantee_.unit == ledger.spent.unit == "person"
    release = fitted.release_
    assert release.details["n"] == release.details["people"] == n
    assert 0.8 * n < sum(release.details["sizes"]) < 1.2 * n
    assert "all records of one person" in str(release)
    assert f"{n} people, one vector each" in dict(privacy_report(release).rows)["Made from"]


@pytest.mark.parametrize("ball", [None, BALL])
@pytest.mark.parametrize("model", MODELS)
def test_nothing_public_tells_how_many_records_there_are(model, ball):
    X, y, people = matrices(300)
    far = 1e3 * np.diag([1.0, 1.0, 1e-9])
    options = {"budget": BUDGET, "ball": ball, "on_invalid": "center", "random_state": 1}

    def shown(*given):
        before = COMPILED[0]
        fitted = model(**options, **PRIVATE).fit(given[0], given[1], groups=given[2])
        compiled = COMPILED[0] - before
        release = fitted.release_
        page = json.loads(privacy_report(release).to_json())
        public = {k: page[k] for k in ("people", "records", "protects", "guarantee", "mechanism")}
        found = release.details["ball"].radius if ball is None else 1.0
        same = round(release.scale / (found if model is PrivateMDM else 1.0), 9)
        return compiled, (public, same, fitted.guarantee_, sorted(release.details))

    shown(X, y, people)
    compiled, few = shown(X, y, people)
    assert compiled == 0
    compiled, many = shown(*with_many(X, y, people, far, [0, 1]))
    assert compiled == 0
    assert few == many
    assert few[0]["records"] is None


def test_a_person_with_many_hostile_records_does_not_show():
    """Whole releases of class means in a public ball. With weights of records the same person is
    found at once.
    """
    space, ball, n = riemdp.SPDLogEuclidean(2), Ball(np.eye(2), 2.0**0.5), 12
    X = np.concatenate(
        [np.tile(np.eye(2), (11, 1, 1)), np.tile(np.diag([np.e, 1 / np.e]), (200, 1, 1))]
    )
    Y = np.linalg.inv(X)
    groups = np.concatenate([np.arange(11), np.full(200, 11)])
    one = np.concatenate([np.arange(11) % 2, np.zeros(200, int)])
    other = np.concatenate([np.arange(11) % 2, np.ones(200, int)])
    budget = Budget(6.0, 1e-5)

    def scores(mechanism, members):
        source, found = noise_source(4), []
        for x, labels in ((X, one), (Y, other)):
            seen = [mechanism.release((x, labels, members), source).details for _ in range(80)]
            sums = [d["coordinates"] / ball.radius * np.array(d["sizes"])[:, None] for d in seen]
            change = np.array([s[0] + s[1] for s in sums]) @ np.array([1.0, -1.0, 0.0])
            found.append(change + np.array([d["sizes"][0] - d["sizes"][1] for d in seen]) / 3.0)
        return gaussian_mu_lower_bound(*found)

    mu = 1.0 / riemdp.gaussian_noise_multiplier(budget)
    of_people = Sums.DiscriminantNoise(space, ball, n=n, classes=2, budget=budget)
    assert scores(of_people, Sums.Membership(groups, len(X))) < mu

    class OfRecords(Sums.DiscriminantNoise):  # a planted fault: weight 1 with the noise of people
        def _draw(self, value, source):
            flat = Sums.Membership(np.arange(len(value.labels)), len(value.labels))
            return super()._draw(value._replace(members=flat), source)

    planted = OfRecords(space, ball, n=n, classes=2, budget=budget)
    assert scores(planted, Sums.Membership(groups, len(X))) > 2 * mu


@pytest.mark.parametrize("model", MODELS)
def test_people_outside_a_public_ball_are_counted(model):
    """By more than half of their matrices; a thousand matrices of one person are one."""
    rng = np.random.default_rng(8)
    people, y = np.repeat(np.arange(120), 4), np.tile([0, 1], 240)
    X = np.stack([np.diag(np.exp(v)) for v in rng.uniform(-0.3, 0.3, (480, 3))])
    X[:160] = 1e9 * np.eye(3)  # 40 people
    X[160:200:2] = 1e9 * np.eye(3)  # 10 people with half of theirs
    more = np.concatenate([X, np.full((1000, 3, 3), np.nan)])
    given = {"on_invalid": "center", "random_state": 3, "metric": "riemann", **PRIVATE}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model(budget=BUDGET, ball=BALL, **given)
        with Ledger(BUDGET) as ledger:
            few = fitted.fit(X, y, groups=people).outside_
        many = fitted.fit(more, np.resize(y, 1480), groups=np.append(people, [119] * 1000)).outside_
        without = model(budget=BUDGET, ball=BALL, count_outside=False, **given)
        without.fit(X, y, groups=people)
    assert (few.unit, few.n) == ("person", 120)
    assert abs(few.count - 40) <= 6 * few.deviation < 60
    assert abs(many.count - few.count) <= 1  # the same seed
    assert (ledger.charges, ledger.spent) == (1, fitted.guarantee_)
    assert without.outside_ is None
    assert fitted.guarantee_.epsilon(BUDGET.delta) == pytest.approx(
        without.guarantee_.epsilon(BUDGET.delta), rel=1e-6
    )


@pytest.mark.parametrize("model", MODELS)
def test_what_cannot_be_is_refused_before_anything_is_spent(model):
    X, y, people = matrices(71)
    given = {"budget": BUDGET, "ball": BALL, **PRIVATE}
    with Ledger(BUDGET) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for change, groups, labels, named in (
            ({"labels": "public"}, people, y, "labels"),
            ({}, people[:-1], y, "groups"),
            ({}, [None, *people[1:]], y, "groups"),
            ({}, people, y[:-1], "y"),
            ({"ball": None}, np.zeros(71, int), y, "ball"),  # one person, however many records
        ):
            with pytest.raises(InvalidArgument, match=f"`{named}`") as caught:
                model(**{**given, **change}).fit(X, labels, groups=groups)
            assert not re.search(r"\b(70|71)\b", str(caught.value))
        if model is PrivateMDM:
            with pytest.raises(InvalidArgument, match="count_outside"):
                model(**{**given, "count_outside": "yes"}).fit(X, y, groups=people)
    assert ledger.charges == 0


# --------------------------------------------------------------------- components and centres
def table(n=400, d=4):
    """Rows along the first axis, and people with one to nine of them."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(n, d)) * [3.0, 1.0, 0.5, 0.5]
    return rows, np.sort(rng.integers(0, n // 4, n))


def test_one_person_moves_second_moments_by_no_more_than_one_row():
    """1000 rows instead of one, orthogonal to it: sqrt(2) R^2 / n, and attained."""
    rest = np.array([[0.3, 0.1, 0.0], [0.0, 0.2, 0.5]])
    found = []
    for own in (np.eye(3)[:1], np.tile(np.eye(3)[1], (1000, 1)), np.tile(np.eye(3), (300, 1))):
        rows = np.vstack([rest, own])
        query = Sums.of_rows(3, 3, 1.0, people=True)
        members = Sums.Membership([0, 1, *[2] * len(own)], len(rows))
        found.append(query.value(query.prepare(rows, members)))
    stated = query.sensitivity
    moved = [float(np.linalg.norm(a - b)) for a in found for b in found]
    assert max(moved) <= stated
    assert max(moved) == pytest.approx(np.sqrt(2.0) / 3)


@pytest.mark.parametrize(
    "options",
    [{"row_norm": 5.0}, {"row_norm": "private"}],
    ids=["public", "found"],
)
def test_components_of_people(options):
    rows, people = table()
    n = len(np.unique(people))

    def fit(rows, people):
        before = COMPILED[0]
        pca = PrivatePCA(
            n_components=1, budget=SURE, on_invalid="center", random_state=1, **options
        ).fit(rows, groups=people)
        return COMPILED[0] - before, pca

    with Ledger(Budget(100.0, 1e-3)) as ledger:
        _, few = fit(rows, people)
        keep = people != people[-1]
        many = np.concatenate([rows[keep], np.tile([0.0, 0.0, 1e9, np.nan], (500, 1))])
        many[::2, 3] = 0.0
        compiled, lots = fit(many, np.concatenate([people[keep], np.full(500, people[-1])]))
    assert compiled == 0
    assert abs(few.components_[0, 0]) > 0.9
    assert abs(lots.components_[0, 0]) > 0.9  # one person with 500 rows far away
    assert few.guarantee_ == lots.guarantee_
    assert few.guarantee_.unit == ledger.spent.unit == "person"
    assert few.n_samples_ == few.release_.details["people"] == n
    same = few.row_norm_ == lots.row_norm_
    assert (few.noise_scale_ == lots.noise_scale_) is same
    assert f"{n} people, one" in dict(privacy_report(few.release_).rows)["Made from"]


def test_noise_of_components_is_made_for_people():
    rows, people = table()
    n = len(np.unique(people))
    pca = PrivatePCA(n_components=1, budget=BUDGET, row_norm=2.0).fit(rows, groups=people)
    z = riemdp.gaussian_noise_multiplier(BUDGET)
    assert pca.noise_scale_ == pytest.approx(z * np.sqrt(2.0) * 4.0 / n, rel=1e-4)


def test_centres_of_people_in_domains():
    X, _, people = matrices(300)
    domain = np.where(people % 2 == 0, "a", "b")
    given = {"budget": SURE, "ball": BALL, "metric": "logeuclid"}
    with Ledger(Budget(50.0, 1e-4)) as ledger:
        fitted = PrivateTLCenter(**given).fit(X, domains=domain, groups=people)
        assert ledger.charges == 1
        for name in "ab":
            n = len(np.unique(people[domain == name]))
            assert fitted.releases_[name].details["people"] == n
            assert fitted.releases_[name].guarantee.unit == "person"
        assert fitted.guarantee_.unit == ledger.spent.unit == "person"
        whole = PrivateTLCenter(**given).fit_transform(X, groups=people)
        assert whole.shape == X.shape
        spent = ledger.charges
        with pytest.raises(InvalidArgument, match="several domains"):
            PrivateTLCenter(**given).fit(X, domains=np.arange(300) % 2, groups=people)
        with pytest.raises(InvalidArgument, match="groups"):
            PrivateTLCenter(**given).fit(X, groups=people[:-1])
        assert ledger.charges == spent


def test_both_parts_of_principal_geodesics_speak_of_people():
    """Of 30 people with ten records each the mean said "30 records"."""
    space = riemdp.Euclidean(2)
    X = np.random.default_rng(0).normal(scale=0.1, size=(3000, 2))
    model = riemdp.PrivatePGA(
        manifold=space, budget=BUDGET, ball=Ball(np.zeros(2), 1.0), random_state=0
    ).fit(X, groups=np.arange(3000) // 10)
    for name in ("mean", "covariance"):
        part = model.releases_[name]
        assert part.guarantee.unit == "person"
        assert part.details["people"] == 300
        assert "one person" in str(part)
        made = dict(riemdp.report.privacy_report(part).rows)["Made from"]
        assert made.startswith("300 people")

"""A ball, a mean and a variance that several sites find together: what leaves a site, what the
server can make a site do, and what goes wrong without changing the privacy.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import riemdp
from riemdp import AdaptiveBall, Ball, Budget, InvalidArgument, RiemdpError, noise_source
from riemdp.federated import private_ball, private_frechet_mean
from riemdp.privacy import Ledger, charge, gaussian_noise_multiplier
from tests.seam import Masks, Searches, Servers, original, plant
from tests.statistical import ALPHA, coverage_p_value, gaussian_p_value

SPACE = riemdp.SPDLogEuclidean(2)
SEARCH = AdaptiveBall()
BUDGET = Budget(1.0, 1e-6)
Z = gaussian_noise_multiplier(BUDGET)
CENTER = 3.0 * np.eye(2)


def cloud(n: int, key: int = 0, spread: float = 0.3) -> np.ndarray:
    v = SPACE.tangent_normal(key, CENTER, spread, (n,))
    return np.asarray(SPACE.exp(CENTER, v))


SITES = [cloud(n, key) for key, n in enumerate((400, 300, 500))]
ALL = np.concatenate(SITES)


def terms(noise: str = "shared", tolerated: int = 0, sites=None, **changed) -> Searches.SearchTerms:
    sizes = {f"site-{i}": len(x) for i, x in enumerate(SITES if sites is None else sites)}
    told = {"release": "ball", "budget": BUDGET, "sizes": sizes, "run": "one"} | changed
    return Searches.SearchTerms(
        manifold=SPACE, search=told.pop("search", SEARCH), noise=noise, tolerated=tolerated, **told
    )


def parts(agreed: Searches.SearchTerms, sites=None, seed: int = 1) -> list[Searches.SearchSite]:
    domain, source = SEARCH.on(SPACE), noise_source(seed)
    noise = agreed.noise_of_sites
    given = SITES if sites is None else sites
    return [Searches.SearchSite(domain, x, noise, source, charge(noise.guarantee)) for x in given]


def server(agreed: Searches.SearchTerms, sites=None, seed: int = 1) -> tuple[Any, Any]:
    """A server, and what carries its questions to sites, which are `held`."""
    held = parts(agreed, sites, seed)
    carried: Any = Searches.in_process(agreed, held)
    carried.held = dict(zip(agreed.sizes, held, strict=True))
    return Searches.SumsOverSites(agreed, carried), carried


class Between:
    """What stands between a server and its sites; a subclass changes something."""

    def __init__(self, carried: Any):
        self.carried = carried

    def there(self, count: int, sizes: Any = None) -> Any:
        return self.carried.there(count, sizes)

    def ask(self, names: Any, question: Any, number: int, sound: Any, **limits: int) -> Any:
        sent = self.sent(names, question, number)
        kept = {name: reply for name, reply in sent.items() if sound(name, reply, None)}
        return Servers.Replies(kept)

    def sent(self, names: tuple[str, ...], question: Searches.Ask, number: int) -> Any:
        """Whatever the sites send."""
        limits = {"quorum": len(names)}
        return dict(self.carried.ask(names, question, number, lambda *_: True, **limits).sound)


def tangents(share: float = 0.1, radius: float = 0.8) -> Searches.Ask:
    return Searches.Ask("tangents", share, CENTER, radius)


ASKS = [
    Searches.Ask("scale", 0.1, CENTER, 1.25),
    Searches.Ask("within", 0.1, CENTER, 0.6, 2.0),
    tangents(),
    Searches.Ask("squares", 0.1, CENTER, 0.5),
]


# ---------------------------------------------------------------------------- what comes out of it
@pytest.mark.parametrize(("noise", "tolerated"), [("local", 0), ("shared", 1)])
def test_sites_find_a_ball_and_the_mean_and_variance_in_it(noise: str, tolerated: int) -> None:
    ledger = Ledger(BUDGET)
    release = private_frechet_mean(
        SPACE,
        SITES,
        budget=BUDGET,
        noise=noise,
        tolerated=tolerated,
        variance=0.2,
        rng=4,
        ledger=ledger,
    )
    mean = riemdp.frechet_mean(SPACE, ALL).value
    assert float(SPACE.dist(mean, release.value)) < 0.15
    ball = release.details["ball"]
    assert 0.6 < np.mean(np.asarray(ball.contains(SPACE, ALL))) <= 1.0
    distances = np.asarray(SPACE.dist(release.value, ALL))
    exact = float(np.mean(np.minimum(distances, ball.radius) ** 2))
    assert abs(release.details["variance"] - exact) < 6 * release.details["variance_deviation"]
    # the budget is used exactly, once, and says what it rests on
    assert ledger.charges == 1
    assert 0.99 < release.guarantee.epsilon(1e-6) <= 1.0 + 1e-9
    assert ("3 sites at most 1" in release.guarantee.assumes) == (noise == "shared")
    assert release.guarantee.assumes or noise == "local"
    assert release.details["sizes"] == (400, 300, 500)
    assert "found privately" in str(release)
    # the value before noise is in the region: the mean of the shortened logarithms
    logs = np.asarray(SPACE.to_coordinates(ball.center, SPACE.log(ball.center, ALL)))
    lengths = np.linalg.norm(logs, axis=1, keepdims=True)
    y = np.mean(logs * np.minimum(1.0, ball.radius / lengths), axis=0)
    clipped = SPACE.exp(ball.center, SPACE.from_coordinates(ball.center, y))
    region = release.confidence_region(1 - 1e-6)
    assert bool(region.contains(clipped))
    assert region.radius < 0.3
    assert not bool(release.confidence_region(1e-9).contains(clipped))


def test_a_ball_and_a_public_variance() -> None:
    found = private_ball(SPACE, SITES, SEARCH, BUDGET, noise="shared", rng=2)
    assert 0.6 < np.mean(np.asarray(found.value.contains(SPACE, ALL))) <= 1.0
    assert found.mechanism == "private-ball"
    spread = riemdp.federated.private_frechet_variance(SPACE, SITES, found.value, BUDGET, rng=3)
    center, radius = found.value.center, found.value.radius
    distances = np.minimum(np.asarray(SPACE.dist(center, ALL)), radius)
    exact = float(np.mean(distances**2))
    assert spread.scale == pytest.approx(math.sqrt(3) * Z * radius**2 / 1200, rel=1e-3)
    assert abs(float(spread.value) - exact) < 6 * spread.scale
    assert not spread.guarantee.assumes


def test_the_search_is_the_one_of_a_single_party() -> None:
    """Without noise the sites' questions and answers are those of all records in one place."""

    class Silent:
        reproducible = True

        def rounded_normals(self, scale, shape=()):
            return np.zeros(shape, dtype=np.int64)

    agreed = terms("local")
    domain, noise = SEARCH.on(SPACE), agreed.noise_of_sites
    silent: Any = Silent()
    sites = [Searches.SearchSite(domain, x, noise, silent, charge(noise.guarantee)) for x in SITES]
    several = Searches.SumsOverSites(agreed, Searches.in_process(agreed, sites))
    one = Searches.SearchRecords(domain, ALL, Searches.Purse(noise.noise, silent))
    told: dict[str, list[Any]] = {"several": [], "one": []}

    def listening(name: str, answers: Any) -> Any:
        for method in ("scale_count", "count"):
            inner = getattr(answers, method)

            def said(*given, inner=inner):
                told[name].append((len(given), *given[-2:], inner(*given)))
                return told[name][-1][-1]

            setattr(answers, method, said)
        return answers

    plan = agreed.plan
    found = [
        Searches.run_search(plan, listening(k, a)) for k, a in (("several", several), ("one", one))
    ]
    assert len(told["one"]) > 12
    np.testing.assert_allclose(told["several"], told["one"], rtol=1e-12)
    assert found[0].radii == found[1].radii
    assert found[0].rounds == found[1].rounds >= 1
    np.testing.assert_allclose(several.center, one.center, atol=1e-5)


# ----------------------------------------------------------------------------- one record, one site
HOSTILE = [
    np.full((2, 2), np.nan),
    np.full((2, 2), 1e300),
    np.zeros((2, 2)),
    1e-8 * np.eye(2),
    1e8 * np.eye(2),
    np.diag([1e8, 1e-8]),
    CENTER,
]


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ask.kind)
def test_one_record_moves_the_integers_by_no_more_than_the_claim(ask: Searches.Ask) -> None:
    agreed = terms(tolerated=1)
    noise = agreed.noise_of_sites
    size = ask.size(SPACE)
    plan = noise.shared(ask, size)
    claim = plan.moved

    def integers(records: np.ndarray) -> np.ndarray:
        return Searches.SearchSite(SEARCH.on(SPACE), records, noise, noise_source(0))._exact(ask)

    found = []
    for hostile in HOSTILE:
        other = SITES[0].copy()
        other[7] = hostile
        found.append(integers(other))
    gaps = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(found, 2)]
    assert max(gaps) <= claim
    attained = {"scale": 1.0, "within": 1.0, "tangents": 2 * 0.8, "squares": 0.25}[ask.kind]
    assert max(gaps) > 0.98 * math.ldexp(attained, -plan.exponent)  # so the claim is not loose
    # and the noise is made for the claim: (J - q) s^2 >= (z D)^2
    multiplier = Z / math.sqrt(ask.share)
    assert 2 * plan.share**2 >= (multiplier * claim) ** 2


@pytest.mark.parametrize(("noise", "tolerated"), [("local", 0), ("shared", 1)])
def test_one_record_is_paid_for_along_a_whole_search(noise: str, tolerated: int) -> None:
    """The squares of (change / noise that is left) of all answers add up to at most mu^2: what the
    theorem asks of every path, for a record that is moved from end to end.
    """
    near, far = SITES[0].copy(), SITES[0].copy()
    near[7], far[7] = 3.0 * np.diag([20.0, 0.05]), 3.0 * np.diag([0.05, 20.0])
    agreed = terms(noise, tolerated, release="mean", variance=0.1)
    told, carried = server(agreed, [near, *SITES[1:]])
    other = Searches.SearchSite(SEARCH.on(SPACE), far, agreed.noise_of_sites, noise_source(0))
    paid: list[float] = []

    class Watched(Between):
        def sent(self, names, question, number):
            sent, ask = super().sent(names, question, number), question
            added, size = agreed.noise_of_sites, ask.size(SPACE)
            gap = np.linalg.norm(self.carried.held["site-0"]._exact(ask) - other._exact(ask))
            gap = np.ldexp(gap, added.exponent(ask, size))
            left = added.deviation(ask, size, 1 if noise == "local" else 2)
            paid.append(float(gap / left) ** 2)
            return sent

    told.sites = Watched(carried)
    Searches.MeanOverSites(agreed).drawn(told)
    assert len(paid) > 12
    assert sum(paid) * Z**2 <= 1.0
    assert sum(paid) * Z**2 > 0.6  # the mean pays for nearly all of it
    assert all(site.spent <= 1.0 + 1e-12 for site in carried.held.values())


# ------------------------------------------------------------------------ the distribution of a sum
def errors(
    agreed: Searches.SearchTerms,
    ask: Searches.Ask,
    times: int,
    faulty: Callable[[Searches.SearchSite], None] | None = None,
):
    """Noise of `times` sums over sites, by the server's own code, and what the sums are."""
    sites = parts(agreed)
    if faulty is not None:
        faulty(sites[0])
    carried = Searches.in_process(agreed, sites)
    told = Searches.SumsOverSites(agreed, carried)
    exponent = agreed.noise_of_sites.exponent(ask, ask.size(SPACE))
    for site in sites:  # the records are the same each time
        site._exact = functools.cache(site._exact)
    exact = np.ldexp(sum(site._exact(ask) for site in sites).astype(float), exponent)
    found = []
    for _ in range(times):
        for site in sites:
            site.spent = Fraction(0)  # the same question again, for its distribution
        told.asked = 0
        found.append(told.summed(ask).mean * len(ALL) - exact)
    return np.array(found)


def mute(site: Searches.SearchSite) -> None:
    """A planted fault: this site's noise is 0."""
    noise = site.noise

    class Mute(Searches.NoiseOfSites):
        def noisy(self, steps, ask, source):
            if self.tolerated is None:
                return np.ldexp(steps.astype(float), self.exponent(ask, steps.size))
            return steps

    site.noise = Mute(noise.each.budget, noise.parties, noise.tolerated)


DISTRIBUTIONS = [
    pytest.param("local", 0, ASKS[1], id="local-count"),
    pytest.param("local", 0, ASKS[2], id="local-sum", marks=pytest.mark.slow),
    pytest.param("shared", 1, ASKS[1], id="shared-count", marks=pytest.mark.slow),
    pytest.param("shared", 1, ASKS[2], id="shared-sum"),
]


@pytest.mark.parametrize(("noise", "tolerated", "ask"), DISTRIBUTIONS)
def test_a_sum_has_its_distribution(noise: str, tolerated: int, ask: Searches.Ask) -> None:
    """Against the formula, written again: z times what one record changes, over the root of the
    share, times the root of J (local) or of J / (J - q) (shared).
    """
    changes = 1.0 if ask.kind == "within" else 2 * 0.8
    factor = 3.0 if noise == "local" else 3.0 / 2.0
    sigma = Z * changes / math.sqrt(ask.share) * math.sqrt(factor)
    times = 800 if ask.kind == "within" else 250
    drawn = errors(terms(noise, tolerated), ask, times)
    assert gaussian_p_value(drawn, sigma) > ALPHA
    assert gaussian_p_value(errors(terms(noise, tolerated), ask, times, mute), sigma) < ALPHA


@pytest.mark.parametrize("sites", [3, 10, 30])
def test_error_beside_one_party_who_holds_all_records(sites: int) -> None:
    """Local noise is sqrt(J) times, shared noise sqrt(J / (J - q)) times that of one party."""
    ask = tangents(0.3, 0.8)
    central = Z * 2 * 0.8 / math.sqrt(0.3)
    local = Searches.NoiseOfSites(BUDGET, sites, None).deviation(ask, 3, sites)
    assert local / central == pytest.approx(math.sqrt(sites), rel=1e-3)
    for q in (0, 1, 2):
        shared = Searches.NoiseOfSites(BUDGET, sites, q)
        ratio = shared.deviation(ask, 3, sites) / central
        assert ratio == pytest.approx(math.sqrt(sites / (sites - q)), rel=0.02)
        # and the plan of the search knows it
        assert shared.noise.multiplier == pytest.approx(
            Z * math.sqrt(sites / (sites - q)), rel=1e-9
        )


# ------------------------------------------------------------------------------- the server's view
def words_of(rounds: int, ask: Searches.Ask) -> np.ndarray:
    """What the server receives (rounds, sites, coordinates) for the same question again."""
    agreed = terms(tolerated=1)
    _, carried = server(agreed)
    out = []
    for number in range(rounds):
        for site in carried.held.values():
            site.spent = Fraction(0)
        sent = Between(carried).sent(tuple(agreed.sizes), ask, number)
        out.append([sent[name] for name in agreed.sizes])
    return np.array(out)


def uniform(words: np.ndarray) -> float:
    high = np.bincount((words.ravel() >> np.uint64(58)).astype(int), minlength=64)
    low = np.bincount((words.ravel() & np.uint64(15)).astype(int), minlength=16)
    return min(1.0, 2 * min(float(stats.chisquare(x).pvalue) for x in (high, low)))


def view_p_value(words: np.ndarray) -> float:
    """Proper parts of a question's words are uniform, and so are their differences from question to
    question: the words can be made from the sums alone.
    """
    subsets = [*itertools.combinations(range(3), 1), *itertools.combinations(range(3), 2)]
    sums = [np.asarray(words[:, list(s)].sum(axis=1)) for s in subsets]
    sums += [x[1:] - x[:-1] for x in list(sums)]
    return min(1.0, len(sums) * min(map(uniform, sums)))


def test_the_servers_view_is_a_function_of_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    assert view_p_value(words_of(100, tangents())) > ALPHA
    # planted: the number of the question does not enter the masks
    question = original("what a masked question is of")
    plant(
        monkeypatch,
        "what a masked question is of",
        lambda a, number, roster, context: question(a, 0, roster, context),
    )
    assert view_p_value(words_of(100, tangents())) < ALPHA


def test_answers_to_other_questions_have_no_sum() -> None:
    agreed = terms(tolerated=1)
    _, carried = server(agreed)
    names = tuple(agreed.sizes)
    asks = [tangents(), tangents(), tangents(radius=0.8000001)]
    sent: list[Any] = [
        Between(carried).sent(names, ask, 0)[name] for name, ask in zip(names, asks, strict=True)
    ]
    plan = agreed.noise_of_sites.shared(tangents(), 3)
    assert plan.value(Masks.total(sent), 1e4) is None
    sent = list(Between(carried).sent(names, tangents(), 1).values())
    assert plan.value(Masks.total(sent), 1e4) is not None


# -------------------------------------------------------------------------- sites that go or lie
class Leaving(Between):
    """A site that does not answer question `gone`, nor any later one."""

    gone = 5
    name = "site-1"
    left = False

    def there(self, count, sizes=None):
        here = self.carried.there(count, sizes)
        return {name: n for name, n in here.items() if name != self.name or not self.left}

    def sent(self, names, question, number):
        self.left = self.left or number > self.gone
        sent = super().sent(names, question, number)
        if number >= self.gone:
            self.carried.held[self.name].spent -= Fraction(question.share) * (self.name in names)
            sent.pop(self.name, None)
        return sent


@pytest.mark.parametrize(("noise", "tolerated"), [("local", 0), ("shared", 1)])
def test_a_site_that_leaves_costs_its_question_and_no_privacy(noise: str, tolerated: int) -> None:
    agreed = terms(noise, tolerated, release="mean")
    told, carried = server(agreed)
    told.sites = Leaving(carried)
    drawn = Searches.MeanOverSites(agreed).drawn(told)
    mean = riemdp.frechet_mean(SPACE, np.concatenate([SITES[0], SITES[2]])).value
    assert float(SPACE.dist(mean, drawn.value)) < 0.2
    assert told.failed == (0 if noise == "local" else 1)
    assert (told.lost > 0) == (noise == "shared")
    spent = {name: site.spent for name, site in carried.held.items()}
    assert max(spent.values()) <= 1.0 + 1e-12
    assert spent["site-0"] == pytest.approx(1.0, abs=1e-12)
    assert spent["site-1"] < 0.5
    # the noise that is stated is that of the two sites that answered
    assert drawn.sensitivity is not None
    share = 1.0 - drawn.details["share_of_search"]
    factor = math.sqrt(2.0) if noise == "local" else 1.0
    assert drawn.scale == pytest.approx(Z / math.sqrt(share) * drawn.sensitivity * factor, rel=0.01)


def test_without_tolerance_a_missing_site_ends_the_search() -> None:
    agreed = terms(tolerated=0)
    told, carried = server(agreed)
    told.sites = Leaving(carried)
    with pytest.raises(RiemdpError, match=r"2 sites are there, and the noise needs 3 of 3"):
        Searches.run_search(agreed.plan, told)


def test_a_site_that_masks_another_sum_leaves_none_and_the_search_ends() -> None:
    agreed = terms(tolerated=1)
    told, carried = server(agreed)

    class Hiding(Between):
        def sent(self, names, question, number):
            other = super().sent(names, question, number + 1000)
            for site in carried.held.values():
                site.spent -= Fraction(question.share)  # it was one answer, and not two
            return super().sent(names, question, number) | {"site-0": other["site-0"]}

    told.sites = Hiding(carried)
    with pytest.raises(RiemdpError, match="sums over sites failed"):
        Searches.run_search(agreed.plan, told)
    assert told.failed == told.asked > 1
    assert all(site.spent <= 1.0 for site in carried.held.values())


# --------------------------------------------------------------------- what a site's records answer
def test_a_site_answers_no_question_above_its_budget_and_none_that_is_none() -> None:
    noise = terms(tolerated=1).noise_of_sites
    paid = charge(noise.guarantee)
    here = Searches.SearchSite(SEARCH.on(SPACE), SITES[0], noise, noise_source(3), paid)
    here.answer(tangents(0.4))
    here.answer(tangents(0.4))
    with pytest.raises(RiemdpError, match="is spent"):
        here.answer(tangents(0.4))
    with pytest.raises(InvalidArgument, match="no question"):
        here.answer(dataclasses.replace(tangents(0.1), share=math.nan))
    assert here.spent == 2 * Fraction(0.4)


def test_shares_that_float64_would_not_add_are_counted() -> None:
    """Near 1 a float64 does not grow by such a share: a server could ask for ever."""
    noise = terms("local").noise_of_sites
    paid = charge(noise.guarantee)
    here = Searches.SearchSite(SEARCH.on(SPACE), SITES[0][:2], noise, noise_source(3), paid)
    tiny = Searches.Ask("squares", 2.0**-54, CENTER, 0.5)
    here.answer(Searches.Ask("squares", 1.0, CENTER, 0.5))
    assert 1.0 + tiny.share == 1.0
    for _ in range(3):
        here.answer(tiny)
    assert here.spent == 1 + 3 * Fraction(tiny.share)
    here.spent = Fraction(1.0 + 5e-13)  # what many more of them would come to
    assert not here.affords(tiny)


def test_replies_that_are_none_are_not_added() -> None:
    agreed = terms("local")
    told, carried = server(agreed)

    class Odd(Between):
        def sent(self, names, question, number):
            sent = super().sent(names, question, number)
            odd = [np.full(3, np.nan), np.ones(4), np.ones(3, np.float32), "text", None]
            sent["site-1"] = odd[number % len(odd)]
            return sent

    told.sites = Odd(carried)
    for _ in range(5):
        for site in carried.held.values():
            site.spent = Fraction(0)
        heard = told.summed(tangents())
        assert heard.records == 900
        told._absences._back.clear()
    assert [len(question["answered"]) for question in told.questions] == [2] * 5


# -------------------------------------------------------------------------------------- charging
def test_a_site_draws_for_what_was_charged_and_for_nothing_else() -> None:
    class Counting:
        reproducible, drawn = True, 0

        def discrete_gaussians(self, scale, count):
            self.drawn += 1
            return np.zeros(count, dtype=np.int64)

    noise = terms(tolerated=1).noise_of_sites
    source: Any = Counting()
    enough = Ledger(BUDGET)
    for permit in (None, charge(riemdp.gaussian(1e6))):
        site = Searches.SearchSite(SEARCH.on(SPACE), SITES[0], noise, source, permit)
        with pytest.raises(riemdp.RiemdpError, match="charged"):
            site.answer(tangents())
    assert source.drawn == 0
    site = Searches.SearchSite(
        SEARCH.on(SPACE), SITES[0], noise, source, charge(noise.guarantee, enough)
    )
    for _ in range(3):
        site.answer(tangents())
    assert (source.drawn, enough.charges) == (3, 1)
    assert enough.spent.epsilon(1e-6) == pytest.approx(1.0, rel=1e-2)


# ----------------------------------------------------------------------------------------- people
def test_everything_of_one_person_is_one_record() -> None:
    groups = [np.arange(len(x)) // 4 for x in SITES]
    release = private_frechet_mean(
        SPACE, SITES, budget=Budget(4.0, 1e-6), noise="shared", tolerated=1, groups=groups, rng=3
    )
    assert release.guarantee.unit == "person"
    assert "all records of one person are at one site" in release.guarantee.assumes
    assert (release.details["people"], release.details["sizes"]) == (300, (100, 75, 125))
    # a person with other records, and another number of them, moves no sum by more than the claim
    given = _people(SITES, groups)
    hostile = SITES[0].copy()
    hostile[:4] = 1e8 * np.eye(2)
    more = np.concatenate([hostile, np.tile(1e8 * np.eye(2), (9, 1, 1))])
    labels = np.concatenate([groups[0], np.zeros(9, dtype=int)])
    other = _people([more, *SITES[1:]], [labels, *groups[1:]])
    noise = terms(tolerated=1).noise_of_sites
    for ask in ASKS:
        one, two = (
            Searches.SearchSite(SEARCH.on(SPACE), x[0], noise, noise_source(0))._exact(ask)
            for x in (given, other)
        )
        assert 0 < np.linalg.norm(one - two) <= noise.shared(ask, ask.size(SPACE)).moved


def _people(sites, groups) -> list[np.ndarray]:
    found = Searches.Given(SPACE, sites, groups, "a test")
    return [np.asarray(x) for x in found.records]


# --------------------------------------------------------------------------------------- the region
def clipped_mean(kind: str, records: np.ndarray, ball: Ball) -> np.ndarray:
    """Written again, by eigenvalues in NumPy: the end of the mean of the logarithms at the centre,
    each shortened to the radius.
    """

    def of_eigenvalues(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(x)
        return np.asarray((vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))

    center = np.asarray(ball.center)
    half = of_eigenvalues(np.sqrt, center) if kind == "affine-invariant" else np.eye(2)
    back = np.linalg.inv(half)
    base = np.zeros((2, 2)) if kind == "affine-invariant" else of_eigenvalues(np.log, center)
    logs = of_eigenvalues(np.log, back @ records @ back) - base
    lengths = np.linalg.norm(logs, axis=(-2, -1), keepdims=True)
    mean = np.mean(logs * np.minimum(1.0, float(ball.radius) / lengths), axis=0)
    return half @ of_eigenvalues(np.exp, base + mean) @ half


def coverage(kind: str, noise: str, tolerated: int, times: int, small: float) -> list[float]:
    """p-values of the stated levels, of all regions and of those with a radius too small."""
    space: Any = riemdp.SPDAffineInvariant(2) if kind == "affine-invariant" else SPACE
    told = {"budget": BUDGET, "noise": noise, "tolerated": tolerated}
    levels, hits = (0.1, 0.5, 0.9), []
    for seed in range(times):
        release = private_frechet_mean(space, SITES, rng=seed, **told)
        exact = clipped_mean(kind, ALL, release.details["ball"])
        regions = [release.confidence_region(level) for level in levels]
        regions += [dataclasses.replace(r, radius=small * r.radius) for r in regions]
        hits.append([bool(region.contains(exact)) for region in regions])
    flags = np.array(hits).T
    p = [coverage_p_value(f, level) for f, level in zip(flags, levels * 2, strict=True)]
    return [min(p[:3]), min(p[3:])]


@pytest.mark.parametrize(
    ("kind", "noise", "tolerated", "times", "small"),
    [
        ("log-Euclidean", "local", 0, 40, 0.4),
        pytest.param("log-Euclidean", "shared", 1, 300, 0.7, marks=pytest.mark.slow),
        pytest.param("affine-invariant", "local", 0, 300, 0.7, marks=pytest.mark.slow),
    ],
)
def test_a_region_holds_the_mean_as_often_as_stated(
    kind: str, noise: str, tolerated: int, times: int, small: float
) -> None:
    good, planted = coverage(kind, noise, tolerated, times, small)
    assert good > ALPHA / 3
    assert planted < ALPHA / 3


def test_there_is_no_region_of_a_population() -> None:
    """The ball is of the same records, and the mean one of tangent vectors: Lemma 8 has neither."""
    release = private_frechet_mean(SPACE, SITES, budget=BUDGET, variance=0.2, rng=1)
    spread = riemdp.federated.private_frechet_variance(
        SPACE, SITES, release.details["ball"], BUDGET, rng=2
    )
    for dispersion in (None, spread):
        with pytest.raises(InvalidArgument, match=r"several sites found.*public ball"):
            release.confidence_region(0.9, "population", dispersion=dispersion)
    assert release.confidence_region(0.9, "sample").of == "sample"

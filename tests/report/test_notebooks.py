"""What a notebook shows: small tables, escaped, with nothing that printing does not show but the
released value.
"""

from __future__ import annotations

import html as standard
import pickle
from html.parser import HTMLParser

import numpy as np
import pytest

import riemdp
from tests.seam import Commands

SPACE = riemdp.Euclidean(2)
BALL = riemdp.Ball(np.zeros(2), 1.0)
BUDGET = riemdp.Budget(1.0, 1e-6)
SEEDED = "NOT PRIVATE"


class Checker(HTMLParser):
    """Collects the tags, and refuses those that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(page: str) -> str:
    """The page, whole and without anything that runs."""
    parser = Checker()
    parser.feed(page)
    assert not parser.open
    assert parser.seen <= {"div", "table", "caption", "tr", "th", "td", "pre", "p"}
    return standard.unescape(page)


def release(**options):
    X = np.random.default_rng(0).normal(size=(300, 2))
    return riemdp.private_frechet_mean(SPACE, X, BALL, BUDGET, **options)


def test_a_release_shows_its_guarantee_and_its_value():
    made = release()
    page = checked(made._repr_html_())
    assert str(made.guarantee) in page
    assert np.array2string(np.asarray(made.value), precision=5, suppress_small=True) in page
    assert SEEDED not in page


def test_a_seeded_release_says_so_once_and_first():
    page = checked(release(rng=3)._repr_html_())
    assert page.count(SEEDED) == 1
    assert page.index(SEEDED) < page.index("guarantee")


def test_an_optimiser_shows_no_history():
    X = np.random.default_rng(0).normal(size=(50, 2))
    result = riemdp.private_minimize(
        riemdp.problems.frechet_mean(SPACE),
        X,
        np.zeros(2),
        riemdp.DPRGD(2, 0.1, 1.0),
        BUDGET,
        record_every=1,
    )
    page = checked(result._repr_html_())
    assert str(result.guarantee) in page
    for row in result.history:
        assert f"{row.objective:.6g}" not in page


@pytest.mark.parametrize(
    "guarantee",
    [riemdp.gaussian(3.0), riemdp.pure(0.5), riemdp.none(), riemdp.Guarantee("replace-one")],
    ids=str,
)
def test_a_guarantee_says_what_printing_says(guarantee):
    page = checked(guarantee._repr_html_())
    for word in str(guarantee).rstrip(".").replace(",", " ").split():
        assert word.strip(":;") in page


def test_plans_show_the_rows_and_the_choice():
    plan = riemdp.plan_private_mean(SPACE, BALL, 300, [BUDGET, 0.5])
    page = checked(plan._repr_html_())
    for budget in plan.budgets:
        assert f"{plan.best(budget).expected_error:.5g}" in page
    assert page.count("<- auto") == 2
    adaptive = riemdp.plan_private_mean(riemdp.Sphere(3), riemdp.AdaptiveBall(), 5000, BUDGET)
    assert f"{adaptive.need:,}" in checked(adaptive._repr_html_())


def test_tables_escape_every_text():
    bad = "<b>&\"'"
    for page in (
        Commands.facts(bad, [(bad, bad), ("", bad)], warning=bad, block=bad),
        Commands.html_grid(bad, [bad], [[bad]], note=bad),
        Commands.of_lines(f"{bad}\n  {bad}: {bad}\n {bad}"),
    ):
        assert "<b>" not in page
        checked(page)


def arrays_in(value) -> list:
    return [leaf for part in value for leaf in arrays_in(part)] if type(value) is tuple else [value]


def test_what_a_user_holds_are_numpy_arrays_that_stay_as_they_are():
    """Also after a pickle, on a product, and in what belongs to a release."""
    made = release()
    plain = np.random.default_rng(1).normal(size=(300, 2))
    both = riemdp.Product(SPACE, riemdp.Euclidean(3))
    ball = riemdp.Ball((np.zeros(2), np.zeros(3)), 1.0)
    X = (plain, np.random.default_rng(2).normal(size=(300, 3)))
    product = riemdp.private_frechet_mean(both, X, ball, BUDGET)
    problem = riemdp.problems.frechet_mean(SPACE, ball=BALL)
    with pytest.warns(riemdp.NotPrivateWarning, match="record_every"):
        run = riemdp.private_minimize(
            problem, plain, np.zeros(2), riemdp.DPRGD(2, 0.2, 1.0), BUDGET, record_every=1
        )
    fitted = riemdp.PrivateFrechetMean(manifold=SPACE, budget=BUDGET, ball=BALL).fit(plain)
    kept = [pickle.loads(pickle.dumps(x)) for x in (made, product, run)]
    values = [x.value for x in (made, product, run, *kept, *run.history, *kept[-1].history)]
    region = made.confidence_region()
    values += [BALL.center, ball.center, made.details["ball"].center, region.center]
    values += [region.boundary(8), fitted.mean_, riemdp.frechet_mean(SPACE, plain).value]
    for array in (array for value in values for array in arrays_in(value)):
        assert type(array) is np.ndarray
        assert array.dtype == np.float64
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_a_ball_keeps_a_copy_of_its_center():
    given = np.zeros(2)
    ball = riemdp.Ball(given, 1.0)
    given[0] = 3.0
    assert ball.center.tolist() == [0.0, 0.0]

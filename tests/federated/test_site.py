"""A site trusts nobody: its own file decides what it answers, how often, with how much noise."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import riemdp
from riemdp import (
    DPRGD,
    DPRSVRG,
    Ball,
    Budget,
    InvalidArgument,
    Ledger,
    PriRFed,
    privacy,
    problems,
)
from riemdp.federated import Message, Refused, Setup, Site, plan_federated
from tests.seam import Gradients, Sites

DIM = 4
E1 = np.eye(DIM)[0]
TEN = PriRFed(
    problems.principal_eigenvector(DIM), DPRGD(1, 0.1, 1.0), rounds=10, agents_per_round=2
)


def _rows(seed=1, n=30):
    rows = np.random.default_rng(seed).normal(size=(n, DIM)) * [1.0, 2.0, 0.5, 0.5]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _setup(prirfed=TEN, budget=Budget(1.0, 1e-5), agents=4, start=E1):  # noqa: B008
    return Setup(prirfed, start, budget, agents)


def _site(folder, **keywords):
    return Site(**{"name": "a", "answers": folder / "answers.json"} | keywords)


def _ask(site, setup, round_number=0, point=E1, **keywords):
    records = _rows()
    sigma = keywords.pop("sigma", setup.sigma(len(records)))
    message = Message(point, round_number, agreement=keywords.pop("agreement", None))
    return riemdp.federated.answer(site, setup, records, message, sigma=sigma, **keywords)


def _answers(site, setup, rounds, **keywords):
    """How many of these messages are answered."""
    count = 0
    for k in rounds:
        try:
            _ask(site, setup, k, **keywords)
            count += 1
        except Refused:
            pass
    return count


# ------------------------------------------------------------------------------------------------
# how often
def test_one_round_asked_sixty_times_is_answered_once(tmp_path):
    site, setup = _site(tmp_path), _setup()
    assert _answers(site, setup, [0] * 60) == 1
    assert site.rounds_answered() == (0,)


def test_without_a_ledger_there_are_as_many_answers_as_the_plan_has(tmp_path):
    site, setup = _site(tmp_path), _setup()
    rounds = [*range(40), *range(40), -1, True, 1.5, "3", None, 2**70]
    assert _answers(site, setup, rounds) == 10
    in_turn = PriRFed(
        TEN.problem, TEN.local, rounds=10, agents_per_round=2, participation="round-robin"
    )
    other = _site(tmp_path, answers=tmp_path / "other.json")
    assert _answers(other, _setup(in_turn), range(10)) == 5  # ceil(10 * 2 / 4)


def test_a_site_may_allow_fewer_answers_and_its_ledger_fewer_still(tmp_path):
    setup = _setup()
    assert _answers(_site(tmp_path, most_answers=3), setup, range(10)) == 3
    cost = _ask(_site(tmp_path, answers=tmp_path / "b.json"), setup).guarantee
    book = Ledger(Budget(cost.repeat(2).epsilon(1e-5) * 1.01, 1e-5), path=tmp_path / "book.json")
    site = _site(tmp_path, answers=tmp_path / "c.json", ledger=book)
    assert _answers(site, setup, range(10)) == 2
    assert book.charges == 2
    assert len(site.rounds_answered()) == 2  # what the ledger refuses is not counted as answered


def test_a_site_of_a_run_that_was_paid_gives_away_its_part_and_charges_no_ledger(tmp_path):
    setup = _setup()
    plan = plan_federated(setup.prirfed, [30] * 4, setup.budget)
    with Ledger(Budget(1.5, 1e-5)) as book:
        permit = privacy.charge(plan.guarantee, book)
        first, other, *_ = Sites.permits_of(permit, plan, 10)
        site = _site(tmp_path, paid=first)
        assert _answers(site, setup, range(10)) == 10
        again = _site(tmp_path, answers=tmp_path / "lost.json", paid=first)
        with pytest.raises(riemdp.RiemdpError, match="more than was charged"):
            _ask(again, setup)
        assert book.charges == 1
        permit.close()
        with pytest.raises(riemdp.RiemdpError, match="is over"):
            _ask(_site(tmp_path, answers=tmp_path / "late.json", paid=other), setup)


def test_counts_outlive_the_process_and_hold_for_all_of_them(tmp_path):
    setup = _setup()
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: _answers(_site(tmp_path), setup, [0]), range(16)))
    assert sum(got) == 1
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: _answers(_site(tmp_path), setup, range(10)), range(4)))
    assert sum(got) == 9


def test_links_lead_to_one_count(tmp_path):
    site, setup = _site(tmp_path), _setup()
    _ask(site, setup)
    os.symlink(site.answers, tmp_path / "link.json")
    assert _answers(_site(tmp_path, answers=tmp_path / "link.json"), setup, [0]) == 0
    assert (tmp_path / "link.json").is_symlink()
    os.link(site.answers, tmp_path / "hard.json")
    with pytest.raises(riemdp.RiemdpError, match="hard links"):
        _ask(_site(tmp_path, answers=tmp_path / "hard.json"), setup, 1)


def test_an_answer_is_counted_and_charged_before_its_noise_is_drawn(tmp_path, monkeypatch):
    """A power cut after the noise was drawn must not allow a second answer."""
    book = Ledger(Budget(50.0, 1e-5), path=tmp_path / "book.json")
    site, setup, seen = _site(tmp_path, ledger=book), _setup(), []
    real = riemdp.randomness.NoiseSource.normals

    def normals(self, *arguments, **keywords):
        seen.append((site.rounds_answered(), Ledger.open(tmp_path / "book.json").charges))
        return real(self, *arguments, **keywords)

    monkeypatch.setattr(riemdp.randomness.NoiseSource, "normals", normals)
    _ask(site, setup, 4)
    assert seen == [((4,), 1)]
    assert stat.S_IMODE(site.answers.stat().st_mode) == 0o600


def test_a_file_that_is_not_a_count_is_not_overwritten(tmp_path):
    site, setup = _site(tmp_path), _setup()
    for text in ("", "{}", json.dumps({"format": "riemdp-answers", "version": 1, "answers": [{}]})):
        site.answers.write_text(text)
        with pytest.raises(riemdp.RiemdpError, match="not overwritten"):
            _ask(site, setup)
        assert site.answers.read_text() == text


def test_a_count_belongs_to_one_agreement(tmp_path):
    site = _site(tmp_path)
    _ask(site, _setup())
    assert _answers(site, _setup(budget=Budget(2.0, 1e-5)), range(10)) == 0


# ------------------------------------------------------------------------------------------------
# with how much noise
def test_the_floor_of_the_noise_is_the_sites(tmp_path):
    setup = _setup()
    cost = _ask(_site(tmp_path), setup).guarantee.epsilon(1e-6)
    enough = _site(tmp_path, answers=tmp_path / "b.json", one_answer=Budget(cost * 1.01, 1e-6))
    assert _answers(enough, setup, [0]) == 1
    for floor in (Budget(cost * 0.99, 1e-6), Budget(cost * 1.01, 1e-7)):
        site = _site(tmp_path, answers=tmp_path / "c.json", one_answer=floor)
        with pytest.raises(Refused, match="one answer would cost more"):
            _ask(site, setup)
        assert site.rounds_answered() == ()


def test_a_run_without_noise_is_declined(tmp_path):
    with pytest.raises(Refused, match="no budget"):
        _ask(_site(tmp_path), _setup(budget=None))
    assert _ask(_site(tmp_path, without_noise=True), _setup(budget=None)).sigma is None


def test_settings_that_are_not_the_agreed_ones_are_declined(tmp_path):
    setup = _setup()
    site = _site(tmp_path, agreement=setup.fingerprint)
    assert _answers(site, setup, [0], agreement=setup.fingerprint) == 1
    others = {
        "budget": _setup(budget=Budget(1e6, 1e-5)),
        "agents": _setup(agents=5),
        "start": _setup(start=-E1),
        "clip": _setup(dataclasses.replace(TEN, local=DPRGD(1, 0.1, 1.5))),
        "space": _setup(
            PriRFed(problems.principal_eigenvector(5), TEN.local, rounds=10, agents_per_round=2),
            start=np.eye(5)[0],
        ),
    }
    assert len({s.fingerprint for s in [setup, *others.values()]}) == 6
    for other in others.values():
        with pytest.raises(Refused, match="not those that it agreed to"):
            _ask(site, other, 1, sigma=1.0)
        with pytest.raises(Refused, match="server's settings"):
            _ask(site, setup, 1, agreement=other.fingerprint)
    assert site.rounds_answered() == (0,)


@pytest.mark.slow
def test_an_agreement_is_the_same_in_every_process():
    import subprocess
    import sys

    code = (
        "import numpy as np, riemdp; from riemdp.federated import Setup\n"
        "m = riemdp.SPDLogEuclidean(3)\n"
        "p = riemdp.problems.frechet_mean(m, ball=riemdp.Ball(np.eye(3), 2.0))\n"
        "local = riemdp.DPRGD(2, lambda t: 0.1, sensitivity='domain')\n"
        "run = riemdp.PriRFed(p, local, rounds=3, agents_per_round=2)\n"
        "print(Setup(run, np.eye(3), riemdp.Budget(1.0, 1e-5), 4).text)\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in (1, 2)
    }
    assert len(texts) == 1
    assert " at 0x" not in texts.pop()


# ------------------------------------------------------------------------------------------------
# what the server sends
@pytest.mark.parametrize(
    "point",
    [
        None,
        E1.astype(np.float32),
        np.full(DIM, np.nan),
        np.eye(5)[0],
        E1[None],
        1.1 * E1,
        E1 * (1 + 2e-6),
        (E1,),
        "a point",
    ],
)
def test_what_is_no_point_is_declined_and_costs_nothing(tmp_path, point):
    book = Ledger(Budget(50.0, 1e-5), path=tmp_path / "book.json")
    site = _site(tmp_path, ledger=book)
    with pytest.raises(Refused, match="no valid point"):
        _ask(site, _setup(), point=point)
    assert (book.charges, site.rounds_answered()) == (0, ())


def _displacement(prirfed, data, neighbour, point):
    """How far apart one noise-free local step takes two neighbours, per learning rate.

    The noise is 1e-9 and the same for both, and the clip is at work.
    """
    manifold, rate = prirfed.problem.manifold, prirfed.local.learning_rate
    payer = Gradients.Account()
    first, second = (
        Sites.updated(prirfed, records, point, 1e-9, payer, rng=1) for records in (data, neighbour)
    )
    moved = float(manifold.dist(first.value, second.value)) / rate
    return moved, first.details["sensitivity"]


@pytest.mark.parametrize(
    ("space", "off"),
    [
        ("sphere", 6e-8),
        ("sphere", 9e-7),
        ("sphere", -9e-7),
        ("grassmann", 6e-8),
        ("grassmann", 3e-7),
        ("grassmann", -3e-7),
    ],
)
def test_a_point_off_the_manifold_does_not_lift_the_clip(space, off):
    """A server that sends u (1 + 9e-7) and one long record along u: the clip must hold."""
    n, size = 10, 1e6
    if space == "sphere":
        problem, u = problems.principal_eigenvector(DIM), E1
        aligned = np.cos(1e-4) * E1 + np.sin(1e-4) * np.eye(DIM)[1]
    else:
        problem, u = problems.principal_subspace(DIM, 2), np.eye(DIM)[:, :2]
        aligned = np.cos(1e-4) * E1 + np.sin(1e-4) * np.eye(DIM)[2]
    prirfed = PriRFed(problem, DPRGD(1, 1e-3, 1.0), rounds=1, agents_per_round=1)
    data, neighbour = np.zeros((n, DIM)), np.zeros((n, DIM))
    data[0], neighbour[0] = size * aligned, np.eye(DIM)[3]
    moved, claimed = _displacement(prirfed, data, neighbour, u * (1 + off))
    assert claimed == pytest.approx(2.0 / n)
    assert moved <= claimed * (1 + 1e-5)


@pytest.mark.parametrize("distance", [1.5, 2.5, 2.84, 3.1])
def test_a_point_outside_the_ball_is_moved_into_it(distance):
    """Under "domain" the sensitivity holds in the ball: a server cannot choose other points."""
    sphere, radius, n = riemdp.Sphere(3), 0.3, 10
    ball = Ball(np.array([0.0, 0.0, 1.0]), radius)
    prirfed = PriRFed(
        problems.frechet_mean(sphere, ball=ball),
        DPRGD(1, 1e-3, sensitivity="domain"),
        rounds=1,
        agents_per_round=1,
    )
    data = np.tile([0.0, 0.0, 1.0], (n, 1))
    neighbour = data.copy()
    data[0], neighbour[0] = ([0.0, s * np.sin(radius), np.cos(radius)] for s in (1.0, -1.0))
    far = np.array([np.sin(distance), 0.0, np.cos(distance)])
    moved, claimed = _displacement(prirfed, data, neighbour, far)
    assert 0.2 * claimed < moved <= claimed * (1 + 1e-6)
    admitted = Sites.admit_current(prirfed, far)
    assert float(sphere.dist(ball.center, admitted)) <= radius


def test_a_point_of_the_space_is_taken_as_it_is():
    for local in (DPRGD(1, 0.1, 1.0), DPRSVRG(1, 2, 0.1, 1.0)):
        np.testing.assert_array_equal(
            Sites.admit_current(dataclasses.replace(TEN, local=local), E1), E1
        )


# ------------------------------------------------------------------------------------------------
# the site's file
SITE = """
name = "hospital"
agreement = "{agreement}"
[limits]
answers = 7
answer = {{ epsilon = 0.5, delta = 1e-6 }}
total = {{ epsilon = 3.0, delta = 1e-5 }}
[files]
answers = "counted.json"
[run]
rounds = 10
[data]
part = 2
"""


def test_a_site_reads_its_file(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(SITE.format(agreement="ab" * 32))
    site = Site.read(path)
    assert (site.name, site.most_answers, site.agreement) == ("hospital", 7, "ab" * 32)
    assert site.one_answer == Budget(0.5, 1e-6)
    assert site.answers == tmp_path / "counted.json"
    assert (site.settings, site.data) == ({"rounds": 10}, {"part": 2})
    assert site.ledger is not None
    assert site.ledger.budget == Budget(3.0, 1e-5)
    assert (tmp_path / "site-ledger.json").exists()  # a file, so that it outlives the process
    assert not site.without_noise
    path.write_text('name = "h"')
    assert Site.read(path).ledger is None
    assert Site.read(path).answers == tmp_path / "site-answers.json"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("answers = 7", "anwsers = 7", "anwsers"),
        ("total", "totl", "totl"),
        ("[limits]", "[limit]", "limit"),
        ("answers = 7", "answers = 0", r"\[limits\] answers"),
        ("answers = 7", 'answers = "many"', r"\[limits\] answers"),
        ("epsilon = 0.5, delta = 1e-6", "epsilon = 0.5", "answer"),
        ("epsilon = 0.5", "epsilon = -1", "epsilon"),
        ('name = "hospital"', "", "name"),
        ("ab" * 32, "ab", "agreement"),
        ("[run]\nrounds = 10", "run = 3", "run"),
        ('"counted.json"', '"counted.json"\nwithout_noise = true', "without_noise"),
        ("[limits]", "[limits", "cannot be read"),
        ("total = { epsilon = 3.0, delta = 1e-5 }", "", "ledger"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, old, new, named):
    text = SITE.format(agreement="ab" * 32).replace("[run]", 'ledger = "l.json"\n[run]', 1)
    assert old in text
    (tmp_path / "site.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidArgument, match=named):
        Site.read(tmp_path / "site.toml")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match="cannot be read"):
        Site.read(tmp_path / "site.toml")

"""`make audit`: attack every mechanism and optimiser, and write the tables of
docs/evidence/audit.md, bounds next to claims.

A row that is refuted makes the program fail, and so does a planted fault that is not. `--quick`
runs fewer trials, for a test that every attack runs, and plants nothing; it writes nothing, nor
does `--only`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from tests.seam import Noise, Sums, original, plant

import riemdp
from papers.tables import DOCS, table, write_between
from riemdp.audit import AuditResult, OneRunAudit
from riemdp.domains import Domain, Frame
from riemdp.randomness import NoiseSource

from . import audit_rows as rows

HEAD = (
    "attacked | trials per side | epsilon claimed (delta = 1e-5) | epsilon seen, at least"
    " | mu seen, at least | refuted"
)
ONE_RUN = (
    "attacked, once | adjacency | canaries | right guesses | epsilon claimed (delta = 1e-5)"
    " | epsilon seen, at least | refuted"
)


class LittleNoise(NoiseSource):
    """A planted fault: a quarter of the noise."""

    def rounded_normals(self, *arguments: Any, **more: Any) -> Any:
        return super().rounded_normals(*arguments, **more) // 4


def planted() -> Iterator[rows.Row]:
    """What users call, with a fault behind it. Each must be refuted."""
    far = rows.FAR
    fault = rows.sum_over_sites("the server sees the sum", forgetful=2)
    yield "a sum over sites, the server, two sites forget their noise", fault, 4_000
    fault = rows.sum_over_sites("the server and one site", forgetful=1)
    yield "a sum over sites, the server and one site, another forgets its noise", fault, 4_000
    fault = rows.sum_over_sites("an outsider sees the words", bare=True)
    yield "a sum over sites, an outsider, there are no masks", fault, 4_000

    def a_quarter(x: Any, rng: Any) -> riemdp.Release:
        return rows.mean(x, LittleNoise(int(rng.integers(0, 2**31))))

    yield "a quarter of the noise", rows.through(a_quarter, far, -far), 1_000

    def not_moved(x: Any, rng: Any) -> riemdp.Release:
        with (
            mock.patch.object(Frame, "clamp_flagged", lambda self, x: (x, np.zeros(len(x), bool))),
            mock.patch.object(Domain, "clamp", lambda self, point: point),
        ):
            return rows.mean(x, rng)

    yield "records are not moved into the ball", rows.through(not_moved, far, -far), 1_000

    def own_radius(x: Any, rng: Any) -> riemdp.Release:
        return rows.mean(x, rng, riemdp.Ball(np.zeros(1), float(np.max(np.abs(x)))))

    title = "the radius is that of the records"
    yield title, rows.through(own_radius, 1e-12 * far, 1e-6 * far), 1_000

    def stages_for_nothing(x: Any, rng: Any) -> riemdp.Release:
        with pytest.MonkeyPatch.context() as patch:
            small = lambda noise, sensitivity, dim, _=1: Noise.on_grid(0.1, sensitivity, dim)  # noqa: E731
            plant(patch, "scale of a share", small)
            return rows.in_a_ball_found(x, rng)

    title = "private ball, the moves of the centre and the mean are not paid for"
    yield title, rows.through(stages_for_nothing, rows.MANY, -rows.MANY), 1_000


def planted_in_estimators() -> Iterator[rows.Row]:
    """Estimators with a fault behind them. Each must be refuted."""
    people = rows.of_people()
    honest_means = Sums.Membership.means

    def means(members: Any, x: Any) -> Any:
        return (honest_means(members, x).T * members.counts).T

    moments = type(Sums.of_rows(5, 60, 1.0))
    ones = 1.0 + 0.0 * rows.WHO
    for title, fit, pair, trials, (owner, name, fault) in (
        (
            "PrivateTSClassifier, its sums are taken to change by an eighth",
            rows.classifier,
            rows.sides(),
            500,
            (Sums.ClassMoments, "sensitivity", 0.25),
        ),
        (
            "PrivateTSClassifier, a prior, contrasts are taken to change by an eighth",
            rows.with_prior,
            rows.across(),
            500,
            (Sums.ClassContrasts, "factor", 0.125),
        ),
        (
            "PrivateTSRegressor, its moments are taken to change by an eighth",
            rows.regression,
            rows.ages(),
            500,
            (moments, "sensitivity", 2.12 / 60 / 8),
        ),
        (
            "PrivateMDM, groups, every matrix counts as a person",
            people["PrivateMDM"][0],
            people["PrivateMDM"][1:],
            300,
            (Sums.Membership, "means", means),
        ),
        (
            "PrivatePCA, groups, every row counts as a person",
            people["PrivatePCA"][0],
            people["PrivatePCA"][1:],
            300,
            (Sums.Membership, "shares", ones),
        ),
    ):

        def faulty(
            x: Any, rng: Any, fit: Any = fit, owner: Any = owner, name: str = name, new: Any = fault
        ) -> Any:
            with mock.patch.object(owner, name, new):
                return fit(x, rng)

        yield title, rows.through(faulty, *pair), trials

    def about_their_mean(x: Any, rng: Any) -> Any:
        honest = original("covariance of a PGA")

        def covariance(asked: Any, ball: Any, share: Any) -> Any:
            about = riemdp.Ball(np.mean(asked.points, axis=0), ball.radius)
            return honest(asked, about, share)

        with pytest.MonkeyPatch.context() as patch:
            plant(patch, "covariance of a PGA", covariance)
            return rows.geodesics(x, rng, of_mean=0.0)

    title = "PrivatePGA, the covariance is about the mean of the records"
    yield title, rows.through(about_their_mean, rows.ALONG, rows.ACROSS), 300


def said(result: AuditResult | OneRunAudit) -> str:
    return "**refuted**" if result.refuted else "no"


def audited(wanted: Iterable[tuple[str, AuditResult]]) -> Iterator[list[str]]:
    """Rows of the page."""
    for title, r in wanted:
        bounds = f"{r.claimed_epsilon:.3f}", f"{r.epsilon_lower:.3f}", f"{r.mu_lower:.3f}"
        yield [title, str(r.trials), *bounds, said(r)]


def audited_once(wanted: Iterable[tuple[str, OneRunAudit]]) -> Iterator[list[str]]:
    """Rows of the page on single runs."""
    for title, r in wanted:
        guesses = f"{r.correct} of {r.guesses}"
        bounds = f"{r.claimed_epsilon:.3f}", f"{r.epsilon_lower:.3f}"
        yield [title, r.claimed.adjacency, str(r.canaries), guesses, *bounds, said(r)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few trials, no planted faults")
    parser.add_argument("--only", default="", help="only rows whose title contains this text")
    given, begun = parser.parse_args(arguments), time.perf_counter()
    quick = {rows.RELEASES: 100, rows.RUNS: 400}

    def chosen(*kinds: Any) -> Iterator[tuple[str, AuditResult]]:
        for title, audit, trials in itertools.chain(*(kind() for kind in kinds)):
            if given.only in title:
                yield title, audit(quick.get(trials, 100) if given.quick else trials)

    attacks = (
        rows.mechanisms,
        rows.optimisers,
        rows.means,
        rows.tests_and_curves,
        rows.people,
        rows.estimators,
        rows.searches,
        rows.choices,
        rows.sites,
    )
    single = ((title, audit()) for title, audit in rows.one_run() if given.only in title)
    made = {
        "attacked": table(HEAD, audited(chosen(*attacks))),
        "planted": table(
            HEAD, audited(chosen() if given.quick else chosen(planted, planted_in_estimators))
        ),
        "once": table(ONE_RUN, audited_once(single)),
    }
    refuted = {name: text.count("**refuted**") for name, text in made.items()}
    missed = len(made["planted"].splitlines()) - 2 - refuted.pop("planted")
    minutes = (time.perf_counter() - begun) / 60
    print(f"{minutes:.1f} minutes: {sum(refuted.values())} refuted, {missed} planted faults missed")
    if not (given.quick or given.only):
        for name, text in made.items():
            write_between(DOCS / "evidence" / "audit.md", name, text)
    return 1 if missed or any(refuted.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

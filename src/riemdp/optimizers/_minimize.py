"""`private_minimize`: what it is given is checked, planned, carried out and reported."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from .._errors import InvalidArgument, NotPrivateWarning, integer, interrupts, invalid, truth, warn
from .._programs import double_precision
from ..manifolds._base import Point, RecordsLike
from ..privacy import Budget, Guarantee, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..problems._problem import Problem
from ..problems._trial import try_problem
from ..randomness import NoiseSource, noise_source
from ._account import Account
from ._checks import check_data, check_initial, check_objective, check_problem
from ._driver import RunContext, drive
from ._people import MOST, PERSON_IS, People, Whose, of_people, refuse_public_parts
from ._plan import AbstractOptimizer, AbstractPlan, check_optimizer, plan_optimizer
from ._private_step import NoisyGradient
from ._records import PrivateRecords
from ._result import OptimizationResult, Recorder
from ._run import Outcome, Run

_REQUIRED: Any = object()


def private_minimize(
    problem: Problem,
    data: RecordsLike,
    initial: Point,
    optimizer: AbstractOptimizer,
    budget: Budget | None = _REQUIRED,
    *,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    noise_std: float | None = None,
    record_every: int = 0,
    progress: bool = False,
    groups: object = None,
) -> OptimizationResult:
    """Minimise (1/n) sum_i loss(w, z_i) over the manifold of `problem` with a guarantee for every
    record.

    Every gradient is clipped in the Riemannian norm before averaging; gradients that are NaN or
    infinite count as zero; the denominator is public; the noise is isotropic in the metric of the
    current iterate.

    Args:
        problem: What is minimised.
        data: An array (n, *record shape), or a pytree of such with the same n; n is public. A
            mapped file, HDF5, Zarr or Dask array is read in parts, except with `groups`
            (docs/scale.md).
        initial: A point, public (a private one must be charged where it was made). It is projected
            onto the manifold, and with sensitivity="domain" moved into the ball.
        optimizer: `DPRGD`, `DPRSGD` or `DPRSVRG`.
        budget: A `Budget` with delta > 0, for which the noise is calibrated exactly. None runs the
            same loop without noise or clipping, not private.
        rng: None (operating system), a seed (not private) or a `NoiseSource`.
        ledger: Charged before noise is drawn, in a run of several blocks of noise block by block.
            None charges the innermost `with Ledger(...)`.
        noise_std: Instead of a budget: run with this sigma, per orthonormal coordinate of the
            averaged gradient, and report the guarantee that it really gives.
        record_every: k > 0 records the objective every k steps, computed WITHOUT noise: a
            `NotPrivateWarning` is given and the history must not be published.
        progress: A bar on the terminal.
        groups: One label of a person for each record. Then everything of one person is protected,
            n is the number of people, and every person counts once: what is minimised is the mean
            over people of the mean loss of each person's records. Batches are batches of people.
            How many records anybody has is private, and no bound on it is needed: at most 16 of
            each, drawn at random once, enter the run.

    Returns:
        The last released iterate and all public facts. Ctrl-C returns the last one so far, with the
        guarantee of what was drawn. That holds for a stop that does not depend on the iterates; if
        it did, quote `result.details["planned_guarantee"]`, which holds in any case.

    Raises:
        InvalidArgument: An argument is unusable; its name is in the message. A loss or gradient of
            your own that is not finite for any made-up record is refused too (`Problem.example`).
        BudgetExceeded: The whole run does not fit the ledger; nothing was drawn.

    Guarantee:
        As the optimiser states it: `result.guarantee`, within `budget`, replace-one (Poisson
        and allocation: add-or-remove-one). It holds against someone who sees all of w_1, ..., w_T.
        With `groups` the same, neighbours differing in everything of one person. Where
        `result.details["numerics"]` is "lattice" it holds for the numbers as computed.

    Source:
        Proof: docs/proofs/optimisers.md, docs/proofs/people.md
        (`groups`).

    Examples:
        >>> import numpy as np, riemdp
        >>> z = np.random.default_rng(0).normal(size=(5000, 3)) * [2.0, 1.0, 1.0]
        >>> z /= np.linalg.norm(z, axis=1, keepdims=True)
        >>> problem = riemdp.problems.principal_eigenvector(3)
        >>> start = np.ones(3) / np.sqrt(3)
        >>> result = riemdp.private_minimize(
        ...     problem, z, start, riemdp.DPRGD(), riemdp.Budget(1.0, 1e-6)
        ... )
        >>> bool(abs(result.value[0]) > 0.9)
        True
    """
    refuse_sent(budget, ledger)
    if budget is _REQUIRED:
        if noise_std is None:
            raise InvalidArgument(
                "argument `budget` is missing: give a Budget(epsilon, delta), noise_std=..., or "
                "budget=None for a run that is not private"
            )
        budget = None
    record_every = integer("record_every", record_every, at_least=0)
    progress = truth("progress", progress)
    whose = None if groups is None else Whose(groups, MOST)
    with interrupts():
        given = _given(problem, data, initial, optimizer, budget, noise_std, whose)
        if record_every:
            warn(
                "record_every computes objectives from the private records without noise: the"
                " history is NOT private",
                NotPrivateWarning,
            )
        return _carried_out(given, Account(ledger), rng, record_every, progress)


@interrupts()
def minimized(
    problem: Problem,
    data: RecordsLike,
    initial: Point,
    optimizer: AbstractOptimizer,
    budget: Budget | None = None,
    *,
    account: Account,
    rng: int | NoiseSource | None = None,
    noise_std: float | None = None,
    whose: Whose | None = None,
) -> OptimizationResult:
    """`private_minimize`, at the cost of an `Account`, which also says whether the records are
    points of one person each; with `whose` they become so here.
    """
    given = _given(problem, data, initial, optimizer, budget, noise_std, whose)
    return _carried_out(given, account, rng)


@dataclasses.dataclass(frozen=True, eq=False)
class _Given:
    """What a run is given, checked: nothing is charged or drawn yet."""

    problem: Problem
    point: Point
    records: PrivateRecords
    n: int  # how many records, or people
    people: People | None
    optimizer: AbstractOptimizer
    plan: AbstractPlan
    budget: Budget | None

    def bound(self, records: PrivateRecords) -> Run:
        """The run on some records."""
        return self.plan.bind(self.problem, records, self.point, kind=NoisyGradient)

    def settled(self, recorder: Recorder, source: NoiseSource) -> Run:
        """The run on people, once it is paid for: which of their records enter is drawn, and the
        recorder shows these.
        """
        assert self.people is not None
        recorder.records = PrivateRecords(self.people.drawn(source))
        return self.bound(recorder.records)


def _given(
    problem: Problem,
    data: RecordsLike,
    initial: Point,
    optimizer: AbstractOptimizer,
    budget: Budget | None,
    noise_std: float | None,
    whose: Whose | None,
) -> _Given:
    optimizer = check_optimizer(optimizer)
    if not isinstance(problem, Problem):
        raise invalid(
            "problem", problem, "give a riemdp.Problem, for example problems.frechet_mean(manifold)"
        )
    # the records of a person are brought together in memory
    point, given, n = checked(problem, data, initial, optimizer, in_parts=whose is None)
    people = None
    if whose is not None:
        refuse_public_parts(problem)
        people = People(given, n, *whose)
        n = people.n
    records = PrivateRecords(given)
    if budget is None and noise_std is None:
        check_objective(problem, point, records)
    else:
        try_problem(problem, point, records.form)
    plan: AbstractPlan = plan_optimizer(problem, max(n, 1), optimizer, budget, noise_std=noise_std)
    return _Given(problem, point, records, n, people, optimizer, plan, budget)


def _carried_out(
    given: _Given,
    account: Account,
    rng: int | NoiseSource | None,
    record_every: int = 0,
    progress: bool = False,
) -> OptimizationResult:
    source, problem, people, plan = noise_source(rng), given.problem, given.people, given.plan
    shown = problem if people is None else of_people(problem)
    recorder = Recorder(shown, given.records, record_every, progress)
    with double_precision():
        run = given.bound(given.records if people is None else PrivateRecords(people.nobody()))
    if people is not None:
        run = dataclasses.replace(run, settle=partial(given.settled, recorder))
    account.of_people |= people is not None
    delta = 0.0 if given.budget is None else given.budget.delta  # at which texts quote epsilon
    planned = account.stated(plan.guarantee()).quoted_at(delta)
    if given.budget is not None and account.permit is None:
        warn_of(planned, delta, None if given.optimizer.counts_are_private else given.n)
    done = drive(run, RunContext(source, given.n, account, recorder))
    places = 1 if people is None else people.places  # for records, of each entry of a batch
    return OptimizationResult(
        value=done.value,
        guarantee=done.guarantee.quoted_at(delta),
        sigma=plan.sigma if done.clip is None else plan.sigma * float(done.clip),
        history=recorder.history(),
        gradient_calls=places * done.gradient_calls,
        steps=done.steps,
        reproducible=done.reproducible,
        method=plan.method,
        status=done.status,
        details=_details(given, done, planned),
        receipt=account.receipt,
    )


def _details(given: _Given, done: Outcome, planned: Guarantee) -> dict[str, Any]:
    details = {
        **given.plan.details,
        "manifold": given.problem.manifold,
        "protects": given.problem.protects,
        "planned_guarantee": planned,
        "skipped_steps": int(done.skipped),
    }
    if given.people is not None:
        details["people"] = None if given.optimizer.counts_are_private else given.n
        details["records_per_person"] = given.people.places
        details["person_is"] = PERSON_IS
    if given.budget is not None:
        details["budget"] = given.budget
    if done.clip is not None:
        details["clip_norm"] = float(done.clip)
    return details


def checked(
    problem: Problem,
    data: RecordsLike,
    initial: Point,
    optimizer: AbstractOptimizer,
    *,
    in_parts: bool = False,
) -> tuple[Point, Any, int]:
    """Start, records and their number, all checked before anything is charged or drawn."""
    point = check_initial(problem, initial)
    # one record must not decide whether there is an error where it is added or removed
    hidden = optimizer.counts_are_private and getattr(optimizer, "population", None) is not None
    records, n = check_data(problem, data, may_be_empty=hidden, in_parts=in_parts)
    check_problem(problem, point, PrivateRecords(records).form)
    return point, records, n

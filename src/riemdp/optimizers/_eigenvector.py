"""Private principal eigenvector: iterative, projected and input-perturbation methods, and a choice
among them by formula.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike, NDArray

from .._errors import InvalidArgument, integer, invalid, magnitude, one_of, real
from .._programs import in_double_precision
from ..domains._door import taken
from ..domains._frame import MOST_TERMS
from ..domains._names import names_of
from ..manifolds import Sphere
from ..manifolds._spectral import unpack
from ..mechanisms._lattice import added, on_grid
from ..privacy import Budget, Ledger, charge, gaussian, gaussian_noise_multiplier
from ..privacy._arithmetic import LATTICE
from ..privacy._sent import refuse_sent
from ..problems import principal_eigenvector
from ..randomness import NoiseSource, noise_source
from ..statistics._membership import Membership
from ..statistics._second_moment import (
    PERSON_IS,
    clip_rows,
    second_moment,
    second_moment_sensitivity,
)
from ._checks import check_initial
from ._descent import DPRGD
from ._minimize import private_minimize
from ._plan import check_budget, plan_optimizer
from ._result import History, OptimizationResult

METHODS = ("auto", "gmip", "dp-rgd", "dp-pgd")
LARGEST_COVARIANCE = (
    5000  # columns for which a dense covariance with its eigenvectors is still made by "auto"
)


@in_double_precision
def private_principal_eigenvector(
    data: ArrayLike,
    budget: Budget,
    *,
    row_norm: float = 1.0,
    method: str = "auto",
    steps: int | None = None,
    learning_rate: float | None = None,
    initial: ArrayLike | None = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    groups: object = None,
) -> OptimizationResult:
    """Leading eigenvector of (1/n) sum z z^T under replace-one privacy. The sign of the vector
    means nothing.

    Args:
        data: Rows (n, d). Rows longer than `row_norm` are shortened. The names of a table's columns
            are in `result.details["names"]`.
        budget: A `Budget` with delta > 0.
        row_norm: R, public.
        method: "gmip", input perturbation: the covariance plus a symmetric Gaussian matrix
            (standard deviation sigma on and sigma / sqrt 2 off the diagonal: isotropic in the
            Frobenius norm), then eigh; replace-one Frobenius sensitivity sqrt(2) R^2 / n. "dp-rgd":
            `private_minimize` on the sphere from a public start; sensitivity 2 R^2 / n a step.
            "dp-pgd", a baseline: projected gradient descent, noise in the ambient space and
            division by the norm; sensitivity of the ambient gradient 2 R^2 / n a step (|2 (z z^T -
            z' z'^T) w| <= 2 R^2). "auto": by formula from (n, d, budget) only, never from the data:
            see `choose_method`.
        steps: For the iterative methods; default from public constants.
        learning_rate: The same.
        initial: A PUBLIC unit vector for the iterative methods. The better it is, the fewer steps
            are needed: the all-ones direction for non-negative data.
        rng: None (operating system), a seed (not private) or a `NoiseSource`.
        ledger: As in `private_minimize`.
        groups: One label of a person for each row. Then everything of one person is protected, n is
            the number of people, and a person counts once, by the mean of z z^T over that person's
            rows. How many rows anybody has is private. Not for "dp-pgd".

    Raises:
        InvalidArgument: An argument is unusable; its name is in the message.

    Guarantee:
        `result.guarantee`: exactly one Gaussian release, or T of them, composed exactly;
        replace-one. With `groups` neighbours differ in everything of one person
        (docs/proofs/people.md).

    Source:
        Han2024 section 6.3 with the sensitivity of GMIP corrected from 2 max|z|^2 / n to sqrt(2)
        max|z|^2 / n and exact calibration of both.
        Proof: docs/proofs/second-moment.md.
    """
    one_of("method", method, METHODS)
    r = magnitude("row_norm", row_norm, power=2)
    refuse_sent(check_budget(budget), ledger)
    rows = np.asarray(taken("data", data))
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or rows.shape[0] == 0 or rows.shape[1] < 2:
        raise invalid(
            "data", data, "give an array of real numbers of shape (n, d), n >= 1 and d >= 2"
        )
    members = None if groups is None else Membership(groups, len(rows), of="data")
    n, d = len(rows) if members is None else members.n, rows.shape[1]
    count = None if steps is None else integer("steps", steps)
    rate = None if learning_rate is None else real("learning_rate", learning_rate, above=0.0)
    if members is not None and method == "dp-pgd":
        raise invalid("groups", "given", 'the baseline "dp-pgd" is for records; choose "dp-rgd"')
    chosen = choose_method(n, d, budget) if method == "auto" else method
    if members is None:
        records = _shorten(jnp.asarray(rows, dtype=jnp.float64), r)
    else:  # no compiled shape follows how many rows the people have
        records = clip_rows(np.asarray(rows, dtype=np.float64), r)
    source = noise_source(rng)
    found = _by_method(chosen, records, members, r, budget, (count, rate, initial), source, ledger)
    names = names_of(data)
    if names is None or len(names) != 1 or len(names[0]) != d:
        return found
    return dataclasses.replace(found, details={**found.details, "names": names})


def _by_method(
    chosen: str,
    records: Array | NDArray[np.float64],
    members: Membership | None,
    r: float,
    budget: Budget,
    settings: tuple[int | None, float | None, ArrayLike | None],
    source: NoiseSource,
    ledger: Ledger | None,
) -> OptimizationResult:
    """The run of a method on rows that were shortened."""
    count, rate, initial = settings
    (n, d) = records.shape
    if chosen == "gmip":
        return _gmip(records, members, r, budget, source, ledger)
    problem = principal_eigenvector(d, row_norm=r)
    start = _public_start(d) if initial is None else check_initial(problem, initial)
    optimizer = DPRGD(count, rate)
    if chosen == "dp-rgd":
        groups = None if members is None else members.places
        return private_minimize(
            problem, records, start, optimizer, budget, rng=source, ledger=ledger, groups=groups
        )
    return _dp_pgd(
        jnp.asarray(records),
        r,
        budget,
        plan_optimizer(problem, n, optimizer, budget).rates,
        start,
        source,
        ledger,
    )


def choose_method(n: int, d: int, budget: Budget) -> str:
    """The method by public numbers only: GMIP while a dense d x d covariance is affordable (d <=
    5000), DP-RGD beyond.

    All methods spend the same total mu (a function of the budget). GMIP spends it at once: to first
    order its eigenvector is off by R^2 / (n mu gap) per coordinate. An iterative method spends mu /
    sqrt(T) in each of T steps; in the power iteration (projected gradient descent with a long step)
    each step adds R^2 sqrt(T) / (n mu lambda_1) and damps what was there by rho = lambda_2 /
    lambda_1, so its squared error is T (1 - rho) / (1 + rho) times GMIP's. That is below 1 only for
    T < (1 + rho) / (1 - rho), while about log(d) / (2 log(1 / rho)) steps are needed to leave an
    uninformative start: more than that as rho nears 1 for d > e^4, about as many (one or two)
    for small rho. So the budget and n cancel, the iteration gains nothing that a public number
    could promise, and only the dimension decides: d^2 numbers, d^3 operations. A
    first-order argument, not a theorem; measured figures are in docs/eigenvectors.md, and for tiny
    budgets no method works.
    """
    n, d = integer("n", n), integer("d", d, at_least=2)
    check_budget(budget)
    return "gmip" if d <= LARGEST_COVARIANCE else "dp-rgd"


@jax.jit
def _shorten(rows: Array, r: float) -> Array:
    """Rows moved into the ball of radius r; rows that are not finite become zero."""
    scale = jnp.max(jnp.abs(rows), axis=1)
    fine = jnp.isfinite(scale)
    safe = jnp.where(fine[:, None], rows, 0.0)
    # Scaled before squaring, so that rows of 1e200 do not overflow.
    unit = safe / jnp.where(fine & (scale > 0), scale, 1.0)[:, None]
    length = jnp.where(fine, scale, 0.0) * jnp.sqrt(jnp.sum(unit**2, axis=1))
    factor = jnp.where(length > r, r * (1 - 1e-12) / jnp.where(length > 0, length, 1.0), 1.0)
    return jnp.where(jnp.isfinite(length)[:, None], safe * factor[:, None], 0.0)


def _public_start(d: int) -> Array:
    """A fixed public start, the same for everybody: a direction without pattern (quadratic phases),
    no random number.
    """
    return Sphere(d).project(
        np.cos(2.0 * np.pi * np.modf(np.arange(1.0, d + 1.0) ** 2 * 0.6180339887498949)[0])
    )


def _gmip(
    records: Array | NDArray[np.float64],
    members: Membership | None,
    r: float,
    budget: Budget,
    source: NoiseSource,
    ledger: Ledger | None,
) -> OptimizationResult:
    rows, d = records.shape
    n, terms = (rows, None) if members is None else (members.n, MOST_TERMS)
    sensitivity = second_moment_sensitivity(r, n, terms=terms)
    multiplier = gaussian_noise_multiplier(budget)
    y = second_moment(np.asarray(records), members)
    sigma = on_grid(multiplier, sensitivity, y.size)
    guarantee = gaussian(multiplier)
    of_people = {}
    if members is not None:
        guarantee, of_people = guarantee.for_people(), {"people": n, "person_is": PERSON_IS}
    charge(guarantee, ledger)
    noisy = added(y, sigma, source)
    _, vectors = np.linalg.eigh(np.asarray(unpack(jnp.asarray(noisy), d)))
    return OptimizationResult(
        value=jnp.asarray(vectors[:, -1]),
        guarantee=guarantee,
        sigma=sigma,
        history=History(),
        gradient_calls=n,
        steps=1,
        reproducible=source.reproducible,
        method="GMIP",
        details={
            "n": n,
            "sensitivity": sensitivity,
            "noise_multiplier": multiplier,
            "row_norm": r,
            "arithmetic": LATTICE,
            **of_people,
        },
    )


def _dp_pgd(
    records: Array,
    r: float,
    budget: Budget,
    rates: NDArray[np.float64],
    start: Array,
    source: NoiseSource,
    ledger: Ledger | None,
) -> OptimizationResult:
    (n, d), steps = records.shape, len(rates)
    # |2 (z z^T - z' z'^T) w| <= 2 R^2: the largest eigenvalue of a difference of two rank-one
    # matrices of norm at most R^2.
    sensitivity = 2.0 * r**2 / n
    multiplier = gaussian_noise_multiplier(budget, steps)
    sigma = math.nextafter(multiplier * sensitivity, math.inf)
    guarantee = gaussian(multiplier, steps)
    charge(guarantee, ledger)
    w = _pgd_loop(records, start, source.normals((steps, d)), rates, sigma)
    return OptimizationResult(
        value=w,
        guarantee=guarantee,
        sigma=sigma,
        history=History(),
        gradient_calls=n * steps,
        steps=steps,
        reproducible=source.reproducible,
        method="DP-PGD",
        details={"n": n, "sensitivity": sensitivity, "noise_multiplier": multiplier, "row_norm": r},
    )


@jax.jit
def _pgd_loop(records: Array, start: Array, normals: Array, rates: Array, sigma: float) -> Array:
    n = records.shape[0]

    def step(w: Array, drawn: tuple[Array, Array]) -> tuple[Any, None]:
        z, rate = drawn
        gradient = -2.0 * (records.T @ (records @ w)) / n
        moved = w - rate * (gradient + sigma * z)
        return moved / jnp.linalg.norm(moved), None

    return jax.lax.scan(step, start, (normals, rates))[0]


def excess_risk(data: ArrayLike, w: ArrayLike) -> float:
    """lambda_max - w^T A w for the covariance A of `data`, without noise: NOT private, for
    comparisons on public data.
    """
    rows = np.asarray(data, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise InvalidArgument("argument `data` must have shape (n, d)")
    covariance = rows.T @ rows / rows.shape[0]
    v = np.asarray(w)
    return float(np.linalg.eigvalsh(covariance)[-1] - v @ covariance @ v)

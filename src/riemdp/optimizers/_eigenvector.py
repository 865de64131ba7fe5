"""Private principal eigenvector: an iterative and an input-perturbation method, and a choice among
them by formula.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike, NDArray

from .._errors import InvalidArgument, integer, magnitude, one_of
from .._isolation import isolated
from ..domains._points import admit_point
from ..domains._stacks import admit_stack
from ..manifolds import Sphere
from ..manifolds._base import RecordsLike
from ..mechanisms._second_moment import SecondMomentNoise, spectrum
from ..privacy import Budget, Ledger
from ..privacy._ledger import refuse_sent
from ..problems import principal_eigenvector
from ..randomness import NoiseSource, noise_source
from ..statistics._membership import Membership
from ..statistics._second_moment import SecondMoment, of_rows
from ._descent import DPRGD
from ._minimize import private_minimize
from ._plan import check_budget
from ._result import History, OptimizationResult

METHODS = ("auto", "gmip", "dp-rgd")
LARGEST_COVARIANCE = (
    5000  # columns for which a dense covariance with its eigenvectors is still made by "auto"
)


@isolated
def private_principal_eigenvector(
    data: RecordsLike,
    budget: Budget,
    *,
    row_norm: float = 1.0,
    method: str = "auto",
    initial: ArrayLike | None = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    groups: object = None,
) -> OptimizationResult:
    """Leading eigenvector of (1/n) sum z z^T under replace-one privacy. The sign of the vector
    means nothing.

    Args:
        data: Rows (n, d). Rows longer than `row_norm` are shortened. A row that is no d finite real
            numbers, or has a masked entry, counts as zero, silently. The number of columns is
            public; of a list it is the length of `initial`, or the length that most rows have.
        budget: A `Budget` with delta > 0.
        row_norm: R, public.
        method: "gmip", input perturbation: the covariance plus a symmetric Gaussian matrix
            (standard deviation sigma on and sigma / sqrt 2 off the diagonal: isotropic in the
            Frobenius norm), then eigh; replace-one Frobenius sensitivity sqrt(2) R^2 / n. "dp-rgd":
            `private_minimize` on the sphere from a public start, with the steps of `DPRGD()`;
            sensitivity 2 R^2 / n a step.
            "auto": by formula from (n, d, budget) only, never from the data: see `choose_method`.
        initial: A PUBLIC unit vector for "dp-rgd". The better it is, the fewer steps are needed:
            the all-ones direction for non-negative data.
        rng: None (operating system), a seed (not private) or a `NoiseSource`.
        ledger: As in `private_minimize`.
        groups: One label of a person for each row. Then everything of one person is protected, n is
            the number of people, and a person counts once, by the mean of z z^T over that person's
            rows. How many rows anybody has is private.

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
    rows = _rows(data, initial)
    members = None if groups is None else Membership(groups, len(rows), of="data")
    n, d = len(rows) if members is None else members.n, rows.shape[1]
    chosen = choose_method(n, d, budget) if method == "auto" else method
    start = None if initial is None else admit_point(Sphere(d), "initial", initial)
    source = noise_source(rng)
    query = of_rows(d, n, r, people=members is not None)
    if chosen == "gmip":
        return _gmip(query, (rows, members), budget, source, ledger)
    return private_minimize(
        principal_eigenvector(d, row_norm=r),
        query.prepare(rows, members).points,
        _public_start(d) if start is None else start,
        DPRGD(),
        budget,
        rng=source,
        ledger=ledger,
        groups=None if members is None else members.places,
    )


def _rows(data: RecordsLike, initial: ArrayLike | None) -> NDArray[np.float64]:
    """The rows as numbers, each read alone; NaN where a row is no `d` real numbers. Only the form
    of the whole can be refused.
    """
    rows = np.asarray(admit_stack("data", data, None if initial is None else np.shape(initial)))
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] < 2:
        raise InvalidArgument(
            "argument `data` is no table: give real numbers of shape (n, d), n >= 1 and d >= 2"
        )
    return rows


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
    first-order argument, not a theorem; measured figures are in docs/evidence/excess-risk.md, and
    for tiny budgets no method works.
    """
    n, d = integer("n", n), integer("d", d, at_least=2)
    check_budget(budget)
    return "gmip" if d <= LARGEST_COVARIANCE else "dp-rgd"


def _public_start(d: int) -> Array:
    """A fixed public start, the same for everybody: a direction without pattern (quadratic phases),
    no random number.
    """
    return Sphere(d).project(
        np.cos(2.0 * np.pi * np.modf(np.arange(1.0, d + 1.0) ** 2 * 0.6180339887498949)[0])
    )


def _gmip(
    query: SecondMoment,
    given: tuple[Any, Membership | None],
    budget: Budget,
    source: NoiseSource,
    ledger: Ledger | None,
) -> OptimizationResult:
    """The leading eigenvector of the released second moment."""
    mechanism = SecondMomentNoise(query, budget)
    release = mechanism.release(given, source, ledger=ledger)
    _, vectors = spectrum(release.value, query.dim)
    return OptimizationResult(
        value=jnp.asarray(vectors[:, -1]),
        guarantee=release.guarantee,
        sigma=release.scale,
        history=History(),
        gradient_calls=query.n,
        steps=1,
        reproducible=release.reproducible,
        method="GMIP",
        details={
            **release.details,
            "sensitivity": query.sensitivity,
            "noise_multiplier": mechanism.noise.multiplier,
        },
        receipt=release.receipt,
    )

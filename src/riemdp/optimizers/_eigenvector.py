"""Private principal eigenvector, by input perturbation."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, magnitude
from .._isolation import isolated
from ..domains._stacks import admit_stack
from ..manifolds._base import RecordsLike
from ..mechanisms._second_moment import SecondMomentNoise, spectrum
from ..privacy import Budget, Ledger
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource, noise_source
from ..statistics._membership import Membership
from ..statistics._second_moment import of_rows
from ._plan import check_budget
from ._result import History, OptimizationResult


@isolated
def private_principal_eigenvector(
    data: RecordsLike,
    budget: Budget,
    *,
    row_norm: float = 1.0,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    groups: object = None,
) -> OptimizationResult:
    """Leading eigenvector of (1/n) sum z z^T under replace-one privacy. The sign of the vector
    means nothing.

    It is that of the covariance plus a symmetric Gaussian matrix, of standard deviation sigma on
    and sigma / sqrt 2 off the diagonal: isotropic in the Frobenius norm. Where d^2 numbers are too
    many, `private_minimize` with `problems.principal_eigenvector(d)` needs d.

    Args:
        data: Rows (n, d). Rows longer than `row_norm` are shortened. A row that is no d finite real
            numbers, or has a masked entry, counts as zero, silently. The number of columns is
            public; of a list it is the length that most rows have.
        budget: A `Budget` with delta > 0.
        row_norm: R, public.
        rng: None (operating system), a seed (not private) or a `NoiseSource`.
        ledger: As in `private_minimize`.
        groups: One label of a person for each row. Then everything of one person is protected, n is
            the number of people, and a person counts once, by the mean of z z^T over that person's
            rows. How many rows anybody has is private.

    Raises:
        InvalidArgument: An argument is unusable; its name is in the message.

    Guarantee:
        `result.guarantee`: exactly one Gaussian release of Frobenius sensitivity sqrt(2) R^2 / n,
        replace-one. With `groups` neighbours differ in everything of one person
        (docs/proofs/people.md).

    Source:
        Han2024 section 6.3 (GMIP), with its sensitivity corrected from 2 max|z|^2 / n to sqrt(2)
        max|z|^2 / n and exact calibration.
        Proof: docs/proofs/second-moment.md.
    """
    r = magnitude("row_norm", row_norm, power=2)
    refuse_sent(check_budget(budget), ledger)
    rows = np.asarray(admit_stack("data", data, None))  # NaN where a row is no d real numbers
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] < 2:
        raise InvalidArgument(
            "argument `data` is no table: give real numbers of shape (n, d), n >= 1 and d >= 2"
        )
    members = None if groups is None else Membership(groups, len(rows), of="data")
    n = len(rows) if members is None else members.n
    query = of_rows(rows.shape[1], n, r, people=members is not None)
    mechanism = SecondMomentNoise(query, budget)
    release = mechanism.release((rows, members), noise_source(rng), ledger=ledger)
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

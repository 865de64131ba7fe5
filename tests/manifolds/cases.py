"""THE table of spaces: every geometry test is parametrised over it. Instances are small and few, as
each one is compiled.

To add a space, append a row. Keep dimensions different from one another and from the batch size 5,
so that a mixed-up axis shows as a wrong shape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from riemdp.manifolds import (
    AbstractManifold,
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
)


@dataclasses.dataclass(frozen=True)
class Case:
    """One space and what may be expected of it.

    radius: largest norm of the tangent vectors that the property tests draw (None: the default of
    `check`). tolerances: property name -> tolerance, only where the default of `check` is too
    strict, with the reason in a comment. not_offered: the operations that must raise
    NotImplementedError here, and no others. parallel: whether `transport` is parallel transport.
    """

    name: str
    manifold: AbstractManifold
    radius: float | None = None
    tolerances: Mapping[str, float] = dataclasses.field(default_factory=dict)
    not_offered: frozenset[str] = frozenset()
    parallel: bool = True

    @property
    def has_log(self) -> bool:
        return "log" not in self.not_offered

    @property
    def has_volume(self) -> bool:
        return "log_volume_density" not in self.not_offered


CASES: list[Case] = [
    Case("euclidean", Euclidean(2, 3), radius=3.0),
    Case("sphere", Sphere(4), radius=2.8),
    Case("lorentz", Lorentz(4), radius=3.0),
    Case("poincare", PoincareBall(2), radius=3.0),
    Case("grassmann", Grassmann(6, 2), radius=1.5),
    Case(
        "stiefel",
        Stiefel(6, 2),
        radius=1.5,
        parallel=False,
        not_offered=frozenset({"log", "dist", "squared_dist", "log_volume_density"}),
    ),
    Case("rotations", SpecialOrthogonal(3), radius=1.5),
    Case("shapes", KendallShapes(6), radius=1.4),
    Case("product", Product(Sphere(3), Euclidean(2))),
    Case("spd affine-invariant", SPDAffineInvariant(3)),
    Case("spd log-Euclidean", SPDLogEuclidean(3)),
    Case("spd Bures-Wasserstein", SPDBuresWasserstein(3), parallel=False),
]

BY_NAME: dict[str, Case] = {case.name: case for case in CASES}


def over_cases(*names: str, where: str | None = None) -> pytest.MarkDecorator:
    """Parametrise a test by `case`: all rows, or those named, or those with a flag
    (`where="has_log"`).
    """
    chosen = [
        case
        for case in CASES
        if (not names or case.name in names) and (where is None or getattr(case, where))
    ]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)

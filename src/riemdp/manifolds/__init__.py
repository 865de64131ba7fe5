"""Geometry: Riemannian manifolds with exact formulas, base point first, batched by broadcasting."""

from ._base import AbstractManifold
from ._check import CheckReport as CheckReport
from ._check import PropertyResult as PropertyResult
from ._check import check
from ._euclidean import Euclidean
from ._grassmann import Grassmann
from ._lorentz import Lorentz
from ._poincare import PoincareBall
from ._product import Product
from ._rotations import SpecialOrthogonal
from ._shapes import KendallShapes
from ._spd_affine import SPDAffineInvariant
from ._spd_bures import SPDBuresWasserstein
from ._spd_by_name import spd
from ._spd_log_euclidean import SPDLogEuclidean
from ._sphere import Sphere
from ._stiefel import Stiefel

__all__ = [
    "AbstractManifold",
    "Euclidean",
    "Grassmann",
    "KendallShapes",
    "Lorentz",
    "PoincareBall",
    "Product",
    "SPDAffineInvariant",
    "SPDBuresWasserstein",
    "SPDLogEuclidean",
    "SpecialOrthogonal",
    "Sphere",
    "Stiefel",
    "check",
    "spd",
]

"""Geometry: Riemannian manifolds with exact formulas, base point first, batched by broadcasting."""

from ._base import AbstractManifold
from ._euclidean import Euclidean
from ._grassmann import Grassmann
from ._lorentz import Lorentz
from ._poincare import PoincareBall
from ._product import Product
from ._sphere import Sphere
from ._stiefel import Stiefel

__all__ = [
    "AbstractManifold",
    "Euclidean",
    "Grassmann",
    "Lorentz",
    "PoincareBall",
    "Product",
    "Sphere",
    "Stiefel",
]

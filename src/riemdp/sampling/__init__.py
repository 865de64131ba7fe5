"""Exact samplers on manifolds. They know geometry, not privacy: releases are made in
`riemdp.mechanisms`.
"""

from ._laplace import laplace_scale_limit
from ._riemannian_laplace import riemannian_laplace

__all__ = ["laplace_scale_limit", "riemannian_laplace"]

"""Statistics on manifolds, and how far one record can move them."""

from ._sensitivity import frechet_mean_sensitivity, mean_gradient_sensitivity

__all__ = ["frechet_mean_sensitivity", "mean_gradient_sensitivity"]

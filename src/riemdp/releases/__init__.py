"""Releases from records: clamp, compute, bound the sensitivity, choose a mechanism, charge the ledger, add the noise."""

from ._mean import MeanNotConverged, private_frechet_mean

__all__ = ["MeanNotConverged", "private_frechet_mean"]

"""The factory `spd`: the space of SPD matrices with the metric of a name."""

from __future__ import annotations

from .._errors import one_of
from ._spd import AbstractSPD
from ._spd_affine import SPDAffineInvariant
from ._spd_bures import SPDBuresWasserstein
from ._spd_log_euclidean import SPDLogEuclidean

METRICS: dict[str, type[AbstractSPD]] = {
    "affine-invariant": SPDAffineInvariant,
    "riemann": SPDAffineInvariant,
    "log-euclidean": SPDLogEuclidean,
    "logeuclid": SPDLogEuclidean,
    "bures-wasserstein": SPDBuresWasserstein,
    "wasserstein": SPDBuresWasserstein,
}


def spd(k: int, metric: str = "affine-invariant") -> AbstractSPD:
    """The space of k x k SPD matrices with the metric of that name.

    Args:
        k: Number of rows, at least 1.
        metric: "affine-invariant" or "riemann"; "log-euclidean" or "logeuclid";
            "bures-wasserstein" or "wasserstein".

    Returns:
        The manifold.

    Raises:
        InvalidArgument: An unknown metric, or a `k` that is not a whole number of at least 1.

    Examples:
        >>> import riemdp
        >>> riemdp.spd(3, "riemann")
        SPDAffineInvariant(k=3)
    """
    return METRICS[one_of("metric", metric, tuple(METRICS))](k)

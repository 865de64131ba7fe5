"""Two-sided statistical checks with a stated false-alarm rate: each accepts the right distribution
and must reject a planted fault.

They return a p-value-like number instead of asserting: one call serves a test (`> ALPHA`) and its
planted twin (`< ALPHA`).
"""

from __future__ import annotations

import numpy as np
from scipy import stats

ALPHA = 1e-6  # false-alarm rate of one statistical test


def gaussian_p_value(samples: np.ndarray, sigma: float) -> float:
    """Smallest Bonferroni-corrected p-value that rows of `samples` (n, d) are iid N(0, sigma^2 I).

    Combines: the total variance (chi-square), each coordinate's variance, the mean, every pairwise
    correlation (d <= 60), and a Kolmogorov-Smirnov test of all coordinates pooled.
    """
    x = np.asarray(samples, dtype=np.float64) / sigma
    if not np.all(np.isfinite(x)):
        return 0.0
    n, d = x.shape
    p = [_two_sided_chi2(np.sum(x**2), n * d)]
    p.append(d * min(_two_sided_chi2(s, n) for s in np.sum(x**2, axis=0)))
    p.append(d * float(np.min(2 * stats.norm.sf(np.abs(x.mean(axis=0)) * np.sqrt(n)))))
    if 1 < d <= 60:
        cross = (x.T @ x) / np.sqrt(n)
        off = np.abs(cross[np.triu_indices(d, 1)])
        p.append(len(off) * float(np.min(2 * stats.norm.sf(off))))
    p.append(float(stats.kstest(x.ravel(), "norm").pvalue))
    return min(1.0, len(p) * min(p))


def ks_p_value(samples: np.ndarray, cdf) -> float:
    """Kolmogorov-Smirnov p-value of one-dimensional samples against a distribution function."""
    x = np.asarray(samples, dtype=np.float64).ravel()
    return float(stats.kstest(x, cdf).pvalue) if np.all(np.isfinite(x)) else 0.0


def two_sample_p_value(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sample Kolmogorov-Smirnov p-value."""
    return float(stats.ks_2samp(np.ravel(a), np.ravel(b)).pvalue)


def mean_p_value(samples: np.ndarray, expected: float) -> float:
    """z-test of a mean with the estimated standard error (for large samples)."""
    x = np.asarray(samples, dtype=np.float64).ravel()
    z = (x.mean() - expected) / (x.std(ddof=1) / np.sqrt(x.size))
    return float(2 * stats.norm.sf(abs(z)))


def _two_sided_chi2(value: float, dof: int) -> float:
    return float(2 * min(stats.chi2.cdf(value, dof), stats.chi2.sf(value, dof)))


def coverage_p_value(hits: np.ndarray, level: float, *, at_least: bool = False) -> float:
    """Binomial p-value that independent flags `hits` are set with probability `level` each;
    one-sided, against less, where `at_least`.
    """
    flags = np.asarray(hits, dtype=bool).ravel()
    side = "less" if at_least else "two-sided"
    return float(stats.binomtest(int(flags.sum()), flags.size, level, alternative=side).pvalue)

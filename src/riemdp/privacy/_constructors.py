"""The guarantees of known mechanisms, by which a `Guarantee` is made."""

from __future__ import annotations

import math

from .._errors import integer, one_of, real
from ._guarantee import ADD_REMOVE, ADJACENCIES, REPLACE_ONE, Guarantee, none
from .accounting.allocation import LEAST_NOISE
from .accounting.events import (
    AllocatedGaussianEvent,
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    merge,
)

_LARGEST_MU = 1e150  # noise so small that the square of mu would not be a float64
_LEAST_NOISE = 1e-12  # on batches: below it mu and mu - 1 are the same float64


def pure(epsilon: float, *, adjacency: str = REPLACE_ONE) -> Guarantee:
    """The guarantee of a release that is epsilon-differentially private with delta = 0 (Laplace,
    K-norm), under an adjacency, "replace-one" or "add-or-remove-one".

    Guarantee:
        (epsilon, 0). It enters compositions as the privacy-loss distribution of randomised
        response, which dominates that of every epsilon-private mechanism.

    Source:
        Kairouz, Oh and Viswanath 2015.
        Proof: docs/proofs/composition.md.
    """
    epsilon = real("epsilon", epsilon, at_least=0.0)
    return Guarantee(one_of("adjacency", adjacency, ADJACENCIES), merge([PureEvent(epsilon)]))


def approximate(epsilon: float, delta: float, *, adjacency: str = REPLACE_ONE) -> Guarantee:
    """The guarantee of a release that is known only to be (epsilon, delta)-differentially private,
    delta below 1. Where the mechanism is known, its own constructor composes more cheaply.

    Guarantee:
        (epsilon, delta).

    Source:
        Proof: docs/proofs/composition.md.
    """
    epsilon = real("epsilon", epsilon, at_least=0.0)
    delta = real("delta", delta, at_least=0.0, below=1.0)
    return Guarantee(
        one_of("adjacency", adjacency, ADJACENCIES), merge([ApproximateEvent(epsilon, delta)])
    )


def gaussian(noise_multiplier: float, steps: int = 1, *, adjacency: str = REPLACE_ONE) -> Guarantee:
    """The guarantee of `steps` adaptively chosen Gaussian releases on the whole data set, together
    exactly one of noise multiplier z / sqrt(steps).

    Args:
        noise_multiplier: z, above 0: sigma (per orthonormal coordinate, in the metric of a public
            base point) over the L2 sensitivity *under the stated adjacency*.
        steps: Number of releases, at least 1.
        adjacency: "replace-one" or "add-or-remove-one".

    Guarantee:
        delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), mu = sqrt(steps)/z.

    Source:
        Dong, Roth and Su 2022, Corollary 3.3.
        Proof: docs/proofs/gaussian.md.

    Examples:
        >>> import riemdp
        >>> round(riemdp.privacy.gaussian(4.0).epsilon(1e-5), 3)
        0.926
    """
    remedy = "give sigma / sensitivity, a finite number above 0 (privacy.none() is without noise)"
    z = real("noise_multiplier", noise_multiplier, above=0.0, remedy=remedy)
    steps = integer("steps", steps)
    adjacency = one_of("adjacency", adjacency, ADJACENCIES)
    if math.sqrt(steps) / z > _LARGEST_MU:
        return none()
    return Guarantee(
        adjacency, merge([GaussianEvent(steps / (z * z) if z < 1e150 else steps / z / z)])
    )


def subsampled_gaussian(
    noise_multiplier: float,
    *,
    population: int,
    batch_size: int,
    steps: int = 1,
    sampling: str = "without-replacement",
) -> Guarantee:
    """The guarantee of `steps` Gaussian releases, each on a fresh secret random batch of the
    records.

    - "without-replacement": every batch is a uniformly random subset of exactly `batch_size`
      records, drawn afresh, independently and kept secret (no epoch shuffling; indices are never
      published). The adjacency is "replace-one"; `noise_multiplier` is sigma over the replace-one
      sensitivity of one step (2 clip_norm / batch_size for a clipped average).
    - "poisson": every record takes part independently with probability batch_size / population. The
      adjacency is "add-or-remove-one"; `noise_multiplier` is sigma / (clip_norm / batch_size), the
      sum being divided by the *planned* batch size.

    Args:
        noise_multiplier: Sigma over the sensitivity of one step, above 0.
        population: Number of records.
        batch_size: Size of a batch, from 1 to `population`.
        steps: Number of releases.
        sampling: "without-replacement" or "poisson".

    Guarantee:
        Without replacement, one step has the profile q delta0(log(1 + (e^eps - 1)/q)) for eps >= 0,
        mirrored below 0, with q = batch_size/population and delta0 the Gaussian's; steps compose as
        privacy-loss distributions. batch_size = population is exactly `gaussian(noise_multiplier,
        steps)`.

    Source:
        Zhu, Dong and Wang 2022, Theorem 11 (without replacement) and Theorem 11/Proposition 30
        (Poisson); Doroshenko et al. 2022 (discretisation from above).
        Proof: docs/proofs/subsampling.md.
    """
    z = real("noise_multiplier", noise_multiplier, above=0.0)
    population = integer("population", population)
    batch_size = integer("batch_size", batch_size, at_most=population)
    steps = integer("steps", steps)
    sampling = one_of("sampling", sampling, ("without-replacement", "poisson"))
    adjacency = ADD_REMOVE if sampling == "poisson" else REPLACE_ONE
    if batch_size == population:
        return gaussian(z, steps, adjacency=adjacency)
    q = batch_size / population
    if z < _LEAST_NOISE:  # whoever is drawn is seen, and nothing more can be said
        return approximate(0.0, q, adjacency=adjacency).repeat(steps)
    return Guarantee(adjacency, merge([SampledGaussianEvent(z, q, sampling, count=steps)]))


def allocated_gaussian(noise_multiplier: float, *, steps: int, epochs: int = 1) -> Guarantee:
    """`epochs` epochs of random allocation ("balls in bins"): in each epoch every record takes part
    in exactly one of `steps` noisy steps.

    Each record's step is drawn uniformly, independently of the other records', afresh in every
    epoch, and is kept secret. The contribution of a record is clipped, and it is zero in all other
    steps; divisor, number of steps and learning rates are constants that are not taken from the
    number of records. Plain shuffling into batches of equal size is **not** covered.

    Args:
        noise_multiplier: z > 0, sigma / (clip_norm / planned batch size): sigma over what adding
            or removing one record can move the step it takes part in.
        steps: Noisy steps of an epoch.
        epochs: Epochs.

    Guarantee:
        Add-or-remove-one. One epoch has the profile of P = (1/steps) sum_i N(e_i, z^2 I) against
        Q = N(0, z^2 I), in both directions; epochs compose. The figures are upper bounds that
        exceed the exact ones by about 0.1 to 0.5 % of epsilon, with all rounding counted in delta.
        Below z = 0.3 they are those of a record whose step is known.

    Source:
        Feldman and Shenfeld 2025 (arXiv 2502.08202), the dominating pair; the
        discretisation is by mean-preserving spreads of the likelihood ratio.
        Proof: docs/proofs/subsampling.md.

    Examples:
        >>> from riemdp.privacy import allocated_gaussian, subsampled_gaussian
        >>> allocation = allocated_gaussian(1.0, steps=100, epochs=10)
        >>> poisson = subsampled_gaussian(
        ...     1.0, population=10_000, batch_size=100, steps=1000, sampling="poisson"
        ... )
        >>> allocation.epsilon(1e-5) < poisson.epsilon(1e-5)
        True
    """
    z = real("noise_multiplier", noise_multiplier, above=0.0)
    steps, epochs = integer("steps", steps), integer("epochs", epochs)
    if steps == 1 or z < LEAST_NOISE:
        return gaussian(z, epochs, adjacency=ADD_REMOVE)
    return Guarantee(ADD_REMOVE, merge([AllocatedGaussianEvent(z, steps, count=epochs)]))

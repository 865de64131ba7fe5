"""`Guarantee`: what a release, or any composition of releases, leaks about one record."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scipy.special import ndtr, ndtri

from .._errors import InvalidArgument, integer, invalid, one_of, real
from ._budget import Budget
from ._trade_off import TradeOff, trade_off
from .accounting import bounds
from .accounting.allocation import LEAST_NOISE
from .accounting.events import (
    AllocatedGaussianEvent,
    ApproximateEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    MixtureEvent,
    NoPrivacyEvent,
    PureEvent,
    SampledGaussianEvent,
    event_from_dict,
    merge,
)
from .accounting.trade_off import geometric_sum, pure_rate

REPLACE_ONE = "replace-one"
ADD_REMOVE = "add-or-remove-one"
ADJACENCIES = (REPLACE_ONE, ADD_REMOVE)
_LARGEST_MU = 1e150  # noise so small that the square of mu would not be a float64
_LEAST_NOISE = 1e-12  # on batches: below it mu and mu - 1 are the same float64


@dataclass(frozen=True)
class Guarantee:
    """A privacy guarantee: a composition of known mechanisms, kept symbolic, with exact or
    upper-bounded figures.

    Make one with `pure`, `approximate`, `gaussian`, `subsampled_gaussian`, `participation` or
    `none`; combine with `compose`. Two guarantees made of the same parts are equal and hash alike.
    `adjacency` says which data sets are neighbours: "replace-one" (same public size n, one record
    different) or "add-or-remove-one".

    **Guarantee:** for all neighbouring data sets D, D' and every event S, P(M(D) in S) <= e^epsilon
    P(M(D') in S) + delta(epsilon), for every epsilon at once, for adaptively chosen mechanisms too.
    """

    adjacency: str
    parts: tuple[Event, ...] = ()
    quoted_delta: float | None = field(default=None, compare=False, repr=False)

    # ---------------------------------------------------------------- figures
    def epsilon(self, delta: float) -> float:
        """The epsilon that holds at this `delta` in [0, 1) (an upper bound; `math.inf` where there
        is none).
        """
        return bounds.epsilon(self.parts, real("delta", delta, at_least=0.0, below=1.0))

    def delta(self, epsilon: float) -> float:
        """The delta that holds at this `epsilon` >= 0 (an upper bound in [0, 1])."""
        forever = isinstance(epsilon, float) and epsilon == math.inf
        return bounds.delta(
            self.parts, math.inf if forever else real("epsilon", epsilon, at_least=0.0)
        )

    def within(self, budget: Budget) -> bool:
        """Whether this guarantee costs no more than `budget` (a `Budget`)."""
        return bounds.within(self.parts, budget.epsilon, budget.delta)

    def trade_off(self) -> TradeOff:
        """What an attacker who decides between two neighbouring data sets can do at best."""
        return trade_off(self)

    @property
    def is_private(self) -> bool:
        """False for `none()` and whatever was composed with it."""
        return not any(isinstance(p, NoPrivacyEvent) for p in self.parts)

    # ---------------------------------------------------------------- composition
    def compose(self, *others: Guarantee) -> Guarantee:
        """This guarantee and `others` together: what all the releases leak about one record that is
        in every data set.

        Closed form where there is one (Gaussians add 1/z^2, pure epsilons add), privacy-loss
        distributions otherwise. A guarantee that costs nothing composes with anything; otherwise
        unlike adjacencies raise `InvalidArgument`.
        """
        for other in others:
            if not isinstance(other, Guarantee):
                raise invalid(
                    "others",
                    other,
                    "compose with Guarantee objects (see riemdp.privacy.pure, gaussian, ...)",
                )
        everything = (self, *others)
        if not all(g.is_private for g in everything):
            return none()
        adjacencies = {g.adjacency for g in everything if g.parts}
        if len(adjacencies) > 1:
            raise InvalidArgument(
                "argument `others` mixes the adjacencies "
                + " and ".join(sorted(adjacencies))
                + ": such guarantees speak of different neighbouring data sets and do not add up;"
                " account for both releases under one adjacency (for example"
                " sampling='without-replacement' instead of 'poisson')"
            )
        return Guarantee(
            adjacencies.pop() if adjacencies else self.adjacency,
            merge(p for g in everything for p in g.parts),
        )

    def repeat(self, times: int) -> Guarantee:
        """This guarantee `times` times over (0 gives a guarantee that costs nothing); same as
        composing it with itself: several releases, one record.

        For one release and several records of one person see `group`, which costs more.
        """
        times = integer("times", times, at_least=0)
        return Guarantee(
            self.adjacency, merge(p.repeat(times) for p in self.parts) if times else ()
        )

    def group(self, size: int) -> Guarantee:
        """What these releases leak about `size` records that change together: all records of one
        person, who has at most that many.

        Not to be confused with `repeat`, which is about one record and several releases. A group
        costs much more: noise is made for one record, and `size` records move the result `size`
        times as far.

        Args:
            size: The largest number of records of one person, >= 1.

        Returns:
            A guarantee whose neighbouring data sets differ in `size` records.

        Guarantee:
            Gaussian releases: exactly `size` times mu. Pure releases: `size` times epsilon.
            (epsilon, delta) releases: (size epsilon, delta (1 + e^epsilon + ... + e^((size-1)
            epsilon))). All others: the trade-off function applied `size` times, which is at most
            the rule for (epsilon, delta) at every epsilon.

        Raises:
            InvalidArgument: `size` is no whole number >= 1.

        Source:
            Dong, Roth and Su 2022, Theorem 2.14; Vadhan 2017, Lemma 2.2.

        Example:
            >>> from riemdp.privacy import gaussian
            >>> alone = gaussian(10.0)
            >>> alone.group(10) == gaussian(1.0)
            True
        """
        size = integer("size", size)
        if size == 1 or not self.parts or not self.is_private:
            return self
        alone = [self._group_of_part(p, size) for p in self.parts]
        known = [p for p in alone if p is not None]
        if len(known) == len(alone) and (
            len(known) == 1 or not any(isinstance(p, ApproximateEvent) for p in known)
        ):
            return Guarantee(self.adjacency, merge(known))
        return Guarantee(self.adjacency, merge([GroupEvent(size, self.parts)]))

    @staticmethod
    def _group_of_part(part: Event, size: int) -> Event | None:
        """The part for a group, where it is of the same kind."""
        if isinstance(part, GaussianEvent):
            return GaussianEvent(part.squared_mu * size * size)
        if isinstance(part, PureEvent):
            return PureEvent(part.epsilon * size, part.count)
        if isinstance(part, ApproximateEvent) and part.count == 1:
            failure = part.delta * geometric_sum(part.epsilon, size)
            return (
                ApproximateEvent(size * part.epsilon, failure) if failure < 1 else NoPrivacyEvent()
            )
        if isinstance(part, GroupEvent):
            return GroupEvent(part.size * size, part.inner)
        return None

    def attack_rate(self, false_positives: float) -> float:
        """The largest true-positive rate of any test that guesses from the releases which of two
        neighbouring data sets was used, at a given false-positive rate.

        Args:
            false_positives: How often the test may accuse wrongly, in [0, 1].

        Returns:
            An upper bound in [0, 1]; without any release it is `false_positives` itself. Exact for
            Gaussian releases, Phi(Phi^-1(false_positives) + mu), and for one pure release.

        Raises:
            InvalidArgument: `false_positives` is outside [0, 1].

        Source:
            Dong, Roth and Su 2022, Definition 2.1 and Proposition 2.12.

        Example:
            >>> from riemdp.privacy import gaussian
            >>> round(gaussian(1.0).attack_rate(0.01), 4)
            0.0924
        """
        f = real("false_positives", false_positives, at_least=0.0, at_most=1.0)
        if not self.parts:
            return f
        if not self.is_private:
            return 1.0
        if len(self.parts) == 1:
            (part,) = self.parts
            if isinstance(part, GaussianEvent):
                return float(ndtr(ndtri(f) + math.sqrt(part.squared_mu)))
            if isinstance(part, PureEvent) and part.count == 1:
                return pure_rate(part.epsilon, f)
            if isinstance(part, GroupEvent):
                return bounds.trade_off(part.inner).group_rate(f, part.size)
        return max(f, bounds.trade_off(self.parts).rate(f))

    # ---------------------------------------------------------------- words and JSON
    def quoted_at(self, delta: float) -> Guarantee:
        """The same guarantee, whose `str()` quotes epsilon at this delta (at 0: at 1e-5, unless it
        is pure).
        """
        return replace(self, quoted_delta=delta if delta > 0 else None)

    def __str__(self) -> str:
        if not self.parts:
            return f"Costs no privacy at all, {self.adjacency}."
        if not self.is_private:
            return "No privacy guarantee (epsilon is infinite): a non-private baseline."
        made_of = "; ".join(p.describe() for p in self.parts)
        if all(isinstance(p, PureEvent) for p in self.parts):
            figure = f"{self.epsilon(0.0):.4g}-differentially private"
        else:
            delta = 1e-5 if self.quoted_delta is None else self.quoted_delta
            figure = f"({self.epsilon(delta):.4g}, {delta:.4g})-differentially private"
        return f"{figure}, {self.adjacency} neighbours: {made_of}."

    def __repr__(self) -> str:
        return (
            f"Guarantee({self.adjacency!r}:"
            f" {'; '.join(p.describe() for p in self.parts) or 'costs nothing'})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready description; `Guarantee.from_dict` gives an equal guarantee back."""
        return {"adjacency": self.adjacency, "parts": [p.to_dict() for p in self.parts]}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Guarantee:
        """The guarantee that `to_dict` described. Raises `InvalidArgument` for anything else."""
        try:
            adjacency, parts = state["adjacency"], list(state["parts"])
        except (TypeError, KeyError) as error:
            raise InvalidArgument(
                "argument `state` is not the description of a Guarantee (see Guarantee.to_dict)"
            ) from error
        return Guarantee(
            one_of("adjacency", adjacency, ADJACENCIES), merge(event_from_dict(p) for p in parts)
        )


# -------------------------------------------------------------------- constructors
def pure(epsilon: float, *, adjacency: str = REPLACE_ONE) -> Guarantee:
    """A release that is `epsilon`-differentially private with delta = 0 (Laplace, K-norm).
    `epsilon` >= 0, finite.

    **Guarantee:** (epsilon, 0). Enters compositions as the privacy-loss distribution of randomised
    response, which dominates every epsilon-private mechanism (Kairouz, Oh and Viswanath 2015).
    """
    epsilon = real("epsilon", epsilon, at_least=0.0)
    return Guarantee(one_of("adjacency", adjacency, ADJACENCIES), merge([PureEvent(epsilon)]))


def approximate(epsilon: float, delta: float, *, adjacency: str = REPLACE_ONE) -> Guarantee:
    """A release known only to be (`epsilon`, `delta`)-differentially private. `epsilon` >= 0, 0 <=
    `delta` < 1.

    Where the mechanism is known, its own constructor composes more cheaply. **Guarantee:**
    (epsilon, delta).
    """
    epsilon = real("epsilon", epsilon, at_least=0.0)
    delta = real("delta", delta, at_least=0.0, below=1.0)
    return Guarantee(
        one_of("adjacency", adjacency, ADJACENCIES), merge([ApproximateEvent(epsilon, delta)])
    )


def gaussian(noise_multiplier: float, steps: int = 1, *, adjacency: str = REPLACE_ONE) -> Guarantee:
    """`steps` adaptively chosen Gaussian releases on the whole data set, each with the same
    `noise_multiplier`.

    `noise_multiplier` z > 0 is sigma over the L2 sensitivity *under the stated adjacency*, sigma
    per orthonormal coordinate. On any manifold, with noise in the metric of a public base point,
    the composition is exactly one Gaussian release of noise multiplier z / sqrt(steps).
    **Guarantee:** delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), mu = sqrt(steps)/z.
    Source: Dong, Roth and Su 2022, Corollary 3.3.
    """
    z = real(
        "noise_multiplier",
        noise_multiplier,
        above=0.0,
        remedy=(
            "give sigma / sensitivity, a finite number above 0 "
            "(privacy.none() describes a release without noise)"
        ),
    )
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
    """`steps` Gaussian releases, each on a fresh secret random batch of about `batch_size` of the
    `population` records.

    **Arguments.** `sampling`:
    - "without-replacement": every batch is a uniformly random subset of exactly `batch_size`
      records, drawn afresh, independently and kept secret (no epoch shuffling; indices are never
      published). Adjacency "replace-one"; `noise_multiplier` is sigma over the replace-one
      sensitivity of one step (2 clip_norm / batch_size for a clipped average).
    - "poisson": every record takes part independently with probability batch_size / population.
      Adjacency "add-or-remove-one"; `noise_multiplier` is sigma / (clip_norm / batch_size), the sum
      being divided by the *planned* batch size.

    `noise_multiplier` > 0, `population` >= 1, 1 <= `batch_size` <= `population`, `steps` >= 1.

    **Guarantee:** without replacement, one step has the profile q delta0(log(1 + (e^eps - 1)/q))
    for eps >= 0, mirrored below 0, with q = batch_size/population and delta0 the Gaussian's; steps
    compose as privacy-loss distributions. batch_size = population is exactly
    `gaussian(noise_multiplier, steps)`. Source: Zhu, Dong and Wang 2022, Theorem 11 (without
    replacement) and Theorem 11/Proposition 30 (Poisson); Doroshenko et al. 2022 (discretisation
    from above).
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
    return Guarantee(adjacency, merge([SampledGaussianEvent(z, q, sampling, steps)]))


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
        steps: Noisy steps of an epoch, >= 1.
        epochs: Epochs, >= 1.

    Returns:
        A guarantee with the adjacency "add-or-remove-one".

    Guarantee:
        One epoch has the profile of P = (1/steps) sum_i N(e_i, z^2 I) against Q = N(0, z^2 I), in
        both directions; epochs compose. The figures are upper bounds that exceed the exact ones by
        about 0.1 to 0.5 % of epsilon, with all rounding counted in delta. Below z = 0.3 the figures
        are those of a record whose step is known.

    Raises:
        InvalidArgument: An argument is out of range.

    Source:
        Dong, Chen and Feldman et al. 2025 (arXiv 2502.08202), the dominating pair; the
        discretisation is by mean-preserving spreads of the likelihood ratio.

    Example:
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
    return Guarantee(ADD_REMOVE, merge([AllocatedGaussianEvent(z, steps, epochs)]))


def none() -> Guarantee:
    """No privacy at all: epsilon is infinite and delta is 1. For non-private baselines; absorbs
    whatever it is composed with.
    """
    return Guarantee(REPLACE_ONE, (NoPrivacyEvent(),))


def participation(
    local: Guarantee,
    *,
    agents: int | None = None,
    sampled: int | None = None,
    rounds: int | None = None,
    invited: int | Iterable[int] | None = None,
    eligible: int | Iterable[int] | None = None,
) -> Guarantee:
    """What `rounds` federated rounds leak about one record, when each round invites a random part
    of the agents.

    A record belongs to one agent; a round in which that agent is not invited costs nothing, a round
    in which it is costs `local`. One round is therefore the mixture (1 - rho) nothing + rho
    `local`, *even against someone who sees who took part* (the server); rounds compose.

    **Arguments.** Either the plan: `agents` (N >= 1), `sampled` (1 <= s <= N) and `rounds`, with
    rho = s/N; or what happened: `invited` and `eligible`, one count (or one count a round) each,
    with rho = invited/eligible. Count the *invited* agents of a round, whether or not they
    answered, among the agents that were *eligible* in it: dropouts and over-invitation raise rho.
    The draw must be uniform among the eligible ones and secret until the round. For round-robin or
    capped participation, where an agent takes part exactly k times, use `local.repeat(k)` instead.

    **Guarantee:** delta(eps) of the composition over rounds of (1 - rho) identity + rho PLD(local);
    adjacency that of `local`. Plain amplification by rho does not hold here: replacing a sampled
    agent replaces a whole data set, not one record.
    """
    if not isinstance(local, Guarantee):
        raise invalid(
            "local",
            local,
            "give the Guarantee of one invited agent's local work, e.g. privacy.gaussian(z, steps)",
        )
    if not local.parts or not local.is_private:
        return local
    if any(isinstance(p, GroupEvent) for p in local.parts):
        raise invalid(
            "local",
            local,
            "take the group of the whole run instead: participation(local, ...).group(size)",
        )
    shares: dict[float, int] = {}
    for rho in _invitation_rates(agents, sampled, rounds, invited, eligible):
        shares[rho] = shares.get(rho, 0) + 1
    parts: list[Event] = []
    for rho, count in shares.items():
        if rho >= 1.0:
            parts.extend(p.repeat(count) for p in local.parts)
        else:
            parts.append(MixtureEvent(rho, local.parts, count))
    return Guarantee(local.adjacency, merge(parts))


def equivalent_rounds(rate: float, planned_rate: float) -> int:
    """How many planned rounds dominate one round that invited a share `rate` of the agents.

    A run whose rates depend on what happened before (who is there, who dropped out) is within its
    plan, whatever the dependence, as long as these numbers add up to at most the planned rounds: k
    planned rounds reach a given agent at least once with probability 1 - (1 - planned_rate)^k, and
    one round at a smaller rate is a function of whether they did and of the first answer.

    Args:
        rate: Invited over eligible agents of the round, in [0, 1].
        planned_rate: The same in the plan, in (0, 1].

    Returns:
        0 where nobody was invited, 1 up to the planned rate, and more above it.

    Raises:
        InvalidArgument: A rate is out of range, or is 1 where the plan's is not: no number of
            planned rounds reaches everybody.

    Example:
        >>> [equivalent_rounds(rate, 0.05) for rate in (0.0, 0.03, 0.05, 0.06, 0.2)]
        [0, 1, 1, 2, 5]
    """
    planned = real("planned_rate", planned_rate, above=0.0, at_most=1.0)
    rate = real("rate", rate, at_least=0.0, at_most=1.0)
    if rate <= planned:
        return int(rate > 0.0)
    if rate == 1.0:
        raise invalid("rate", rate, f"a plan at rate {planned:g} never reaches every agent")
    return math.ceil(math.log1p(-rate) / math.log1p(-planned) * (1 - 1e-12))


def _invitation_rates(
    agents: int | None,
    sampled: int | None,
    rounds: int | None,
    invited: int | Iterable[int] | None,
    eligible: int | Iterable[int] | None,
) -> list[float]:
    if (invited is None) != (eligible is None):
        raise InvalidArgument(
            "arguments `invited` and `eligible` go together: give one count, or one count a round,"
            " for each"
        )
    if invited is None:
        for name, value in (("agents", agents), ("sampled", sampled), ("rounds", rounds)):
            if value is None:
                raise invalid(
                    name, value, "give agents, sampled and rounds, or else invited and eligible"
                )
        total = integer("agents", agents)
        return [integer("sampled", sampled, at_most=total) / total] * integer("rounds", rounds)
    if agents is not None or sampled is not None:
        raise InvalidArgument(
            "arguments `agents`, `sampled` describe the plan and `invited`, `eligible` what"
            " happened: give one pair"
        )
    length = rounds if rounds is None else integer("rounds", rounds)
    lists = [_as_list(value) for value in (invited, eligible)]
    if length is None:
        length = max(map(len, lists))
    for name, column in zip(("invited", "eligible"), lists, strict=True):
        if len(column) == 1:
            column *= length
        if len(column) != length:
            raise InvalidArgument(
                f"argument `{name}` has {len(column)} entries; give one count, or one for each of"
                f" {length} rounds"
            )
    rates = []
    for few, many in zip(*lists, strict=True):
        total = integer("eligible", many)
        taken = integer("invited", few, at_least=0, at_most=total)
        if taken:
            rates.append(taken / total)
    return rates


def _as_list(value: int | Iterable[int] | None) -> list[int | None]:
    return list(value) if isinstance(value, Iterable) else [value]


@functools.singledispatch
def as_guarantee(value: object) -> Guarantee:
    """Accept a Guarantee where one is expected, and name the mistake otherwise."""
    raise invalid(
        "guarantee",
        value,
        "give a Guarantee (riemdp.privacy.pure, gaussian, subsampled_gaussian, ...)",
    )


@as_guarantee.register
def _(value: Guarantee) -> Guarantee:
    return value

"""`AbstractMechanism`: the one place that admits a value, charges the ledger and draws noise."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, final

from .._isolation import isolation
from ..privacy import Budget, Guarantee, Ledger, charge
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..privacy._guarantee import PERSON, RECORD
from ..privacy._ledger import refuse_sent
from ..privacy._noise import Noise
from ..privacy._permit import Permit
from ..randomness import NoiseSource, noise_source
from ._drawn import Drawn, told
from ._lattice import Purse, check_drawable, has_laplace_grid
from ._release import Release

Value = TypeVar("Value")


EITHER = "Gaussian or Laplace noise"  # Laplace for delta = 0, Gaussian for others
_NOISES = {False: "Laplace noise", True: "Gaussian noise"}
_SHRUNK = "; the noisy vector is then shrunk towards the public centre (James-Stein)"


class AbstractMechanism(abc.ABC, Generic[Value]):
    """One release: a private value goes in, a noisy one comes out, under `guarantee`.

    Subclasses give the guarantee, `_admit` and `_draw`. `release` is final: it admits a value,
    charges the ledger and draws noise, in this order. A release of several parts admits the values
    of all of them (`_ready`), charges the whole once, and hands its `Permit` to each (`within`).
    (The blocks of a run of an optimiser are charged and drawn by `PrivateDraws.take`.)
    """

    name: ClassVar[str]
    words: ClassVar[str] = ""
    """What the mechanism does, in a report; for `EITHER` a release says the distribution drawn."""

    @property
    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """What one release costs: a function of public facts."""

    @property
    def quoted_budget(self) -> Budget | None:
        """The budget at whose delta a release quotes its epsilon; None for the usual 1e-5."""
        return None

    @property
    def arithmetic(self) -> str:
        """Whether the guarantee holds for the numbers as computed ("lattice": integer noise on a
        public grid, and rounding of the value bounded within the sensitivity) or for real numbers
        ("idealised"). A function of public facts.
        """
        return IDEALISED

    @property
    def _called(self) -> tuple[str, str]:
        """Name and words that a release carries."""
        words = self.words + _SHRUNK if self.shrinks else self.words
        if EITHER not in words or self.quoted_budget is None:
            return self.name, words
        return self.name, words.replace(EITHER, _NOISES[self.quoted_budget.delta > 0.0])

    @property
    def shrinks(self) -> bool:
        """Whether the noisy vector is shrunk towards a public centre, which is post-processing: a
        function of public numbers.
        """
        return False

    @abc.abstractmethod
    def _admit(self, value: Any) -> Value:
        """The value, checked and moved into its public domain. Raises before anything is spent;
        no message shows the value.
        """

    def _check_noise(self) -> None:
        """Raise, from public numbers alone, where the noise of the budget cannot be drawn."""
        return

    @abc.abstractmethod
    def _draw(self, value: Value, source: NoiseSource) -> Drawn:
        """The noisy value. What follows the noise looks at released numbers only."""

    def _draw_parts(self, value: Value, source: NoiseSource, permit: Permit) -> Drawn:
        """`_draw`, of a mechanism whose parts need the permit of the whole themselves."""
        return self._draw(value, source)

    @final
    def _ready(self, value: Any, unit: str = RECORD) -> Ready:
        """The value, admitted: nothing is left that can be refused, but for the ledger.

        Args:
            value: The private value.
            unit: What neighbours differ in, as whoever made the value of records states it: PERSON
                where each person's records were folded into one, each person's by themselves, and
                the mechanism was made for n = the number of people (docs/proofs/people.md, Lemma
                1). No public function takes it.
        """
        guarantee = self.guarantee.for_people() if unit == PERSON else self.guarantee
        # Where NumPy is told to raise, one record that underflows would decide about an error.
        with isolation():
            admitted = self._admit(value)
        self._check_noise()
        return Ready(guarantee, self.name, self, admitted)

    @final
    def release(
        self, value: Any, rng: int | NoiseSource | None = None, *, ledger: Ledger | None = None
    ) -> Release:
        """Admit the value, charge the ledger, draw the noise.

        Args:
            value: The private value.
            rng: None (operating system), a seed (reproducible, not private) or a `NoiseSource`.
            ledger: The `Ledger` to charge; None charges the innermost `with Ledger(...)`, if any.

        Returns:
            The `Release`.

        Raises:
            InvalidArgument: The value cannot be admitted. Nothing was spent.
            BudgetExceeded: The ledger refuses. Nothing was spent.
            PrecisionError: JAX's 64 bits are switched off. Nothing was spent.
        """
        refuse_sent(self.quoted_budget, ledger)
        with isolation():  # one context for all of it, whatever another thread sets
            return self._ready(value).release(rng, ledger)


class BudgetedMechanism(AbstractMechanism[Value]):
    """A mechanism that answers one or several questions with the noise of one budget.

    Guarantee:
        Replace-one. delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0:
        (epsilon, 0). The shares of all answers add up to at most 1 (`Purse`).

    Source:
        docs/proofs/private-ball.md.
    """

    def __init__(self, budget: Budget | Noise):
        self.noise = Noise.of(budget)

    @property
    def guarantee(self) -> Guarantee:
        """Of one release."""
        return self.noise.guarantee

    @property
    def arithmetic(self) -> str:
        """Whether all noise is on public grids: "lattice" where delta > 0, or where no vector with
        noise has more than ten coordinates.
        """
        widest = self._widest
        known = widest is not None and has_laplace_grid(widest)
        return LATTICE if known or not self.noise.is_pure else IDEALISED

    @property
    def _widest(self) -> int | None:
        """The most coordinates that get noise together: a public number. None where it is not
        stated.
        """
        return None

    @property
    def _coordinates(self) -> int:
        """How many coordinates get noise together: what `arithmetic` knows, unless stated."""
        return self._widest or 1

    def _purse(self, source: NoiseSource) -> Purse:
        """The noise of one release."""
        return Purse(self.noise, source)

    def _check_noise(self) -> None:
        check_drawable(self.noise, self._coordinates)

    @property
    def quoted_budget(self) -> Budget | None:
        """The budget, or what a share of one keeps within."""
        return self.noise.budget


Made = TypeVar("Made")


class AbstractReady(abc.ABC, Generic[Made]):
    """A release that was admitted, by itself or as a part of another: charge, then draw, is all
    that is left. Subclasses draw; `release` is final and the only place that charges.

    Attributes:
        guarantee: What the release costs.
        name: What it is called in a ledger.
    """

    guarantee: Guarantee
    name: str

    @final
    def release(self, rng: int | NoiseSource | None = None, ledger: Ledger | None = None) -> Made:
        """A release by itself: charge the ledger, draw the noise."""
        source = noise_source(rng)
        with charge(self.guarantee, ledger, what=self.name) as permit:
            return self.within(source, permit)

    @abc.abstractmethod
    def within(self, source: NoiseSource, permit: Permit) -> Made:
        """A release, or a part of one, that was charged: take the guarantee from its permit, draw
        the noise.
        """


def _unchanged(release: Release) -> Release:
    return release


@dataclasses.dataclass(frozen=True)
class Ready(AbstractReady[Release]):
    """A mechanism with a value that it has admitted.

    Attributes:
        guarantee: What the release costs; its unit is that of the value.
        name: What it is called in a ledger.
        mechanism: The mechanism.
        value: What its `_admit` gave.
        finish: Makes what users see of its release: post-processing and public facts.
    """

    guarantee: Guarantee
    name: str
    mechanism: AbstractMechanism[Any]
    value: Any = dataclasses.field(repr=False)
    finish: Callable[[Release], Release] = _unchanged

    def then(self, finish: Callable[[Release], Release]) -> Ready:
        """The same with this post-processing after what is done already."""
        before = self.finish
        return dataclasses.replace(self, finish=lambda release: finish(before(release)))

    def within(self, source: NoiseSource, permit: Permit) -> Release:
        """See `AbstractReady`."""
        with isolation():
            own = permit.take(self.guarantee)
            drawn = self.mechanism._draw_parts(self.value, source, own)
        release = told(
            self.mechanism,
            drawn,
            self.guarantee,
            reproducible=source.reproducible,
            receipt=permit.receipt,
        )
        return self.finish(release)

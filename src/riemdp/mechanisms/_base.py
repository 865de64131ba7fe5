"""`AbstractMechanism`: the one function that admits a value, charges the ledger and draws noise."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, final

from ..privacy import Guarantee, Ledger, charge
from ..randomness import NoiseSource, noise_source
from ._error_law import ErrorLaw
from ._release import Release

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A noisy value, and the public facts of the draw that made it.

    Attributes:
        value: What may be published.
        scale: sigma of a Gaussian, s of a Laplace or K-norm law.
        sensitivity: The sensitivity that the scale was made from.
        error_law: Law of the distance between the noisy and the admitted value, or None.
        details: Further public facts.
    """

    value: Any
    scale: float
    sensitivity: float | None = None
    error_law: ErrorLaw | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class AbstractMechanism(abc.ABC, Generic[Value]):
    """One release: a private value goes in, a noisy one comes out, under `guarantee`.

    Subclasses give the guarantee, `_admit` and `_draw`. `release` is final: it is the only function
    that admits a value, charges the ledger and draws noise, in this order.
    """

    name: ClassVar[str]

    @property
    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """What one release costs: a function of public facts."""

    @abc.abstractmethod
    def _admit(self, value: Any) -> Value:
        """The value, checked and moved into its public domain. Raises before anything is spent;
        no message shows the value.
        """

    @abc.abstractmethod
    def _draw(self, value: Value, source: NoiseSource) -> Drawn:
        """The noisy value. What follows the noise looks at released numbers only."""

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
        """
        source = noise_source(rng)
        admitted = self._admit(value)
        guarantee = self.guarantee
        charge(guarantee, ledger)
        drawn = self._draw(admitted, source)
        return Release(
            value=drawn.value,
            guarantee=guarantee,
            scale=drawn.scale,
            mechanism=self.name,
            reproducible=source.reproducible,
            sensitivity=drawn.sensitivity,
            error_law=drawn.error_law,
            details=drawn.details,
        )

"""`OfPeople`: a mechanism whose records were made of one person each."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from ..inference._counts import told_of_people
from ..privacy import Guarantee
from ..randomness import NoiseSource
from ._base import AbstractMechanism, Drawn, Value


class OfPeople(AbstractMechanism[Value]):
    """The same release, charged and stated for one person instead of one record.

    Args:
        inner: A mechanism made for n = the number of people. Its value has to be made of one point
            a person (`statistics._people.people`), each of that person's records alone.

    Guarantee:
        That of `inner`, for neighbours that differ in everything of one person.

    Source:
        docs/proofs/people.md.
    """

    name: ClassVar[str] = "of-people"

    def __init__(self, inner: AbstractMechanism[Value]):
        self.inner = inner

    @property
    def guarantee(self) -> Guarantee:
        """Of one person."""
        return self.inner.guarantee.for_people()

    @property
    def quoted_budget(self) -> Any:
        """That of `inner`."""
        return self.inner.quoted_budget

    @property
    def arithmetic(self) -> str:
        """That of `inner`."""
        return self.inner.arithmetic

    @property
    def _called(self) -> tuple[str, str]:
        return self.inner._called

    def _admit(self, value: Any) -> Value:
        return self.inner._admit(value)

    def _check_noise(self) -> None:
        self.inner._check_noise()

    def _draw(self, value: Value, source: NoiseSource) -> Drawn:
        drawn = self.inner._draw(value, source)
        return dataclasses.replace(drawn, details=told_of_people(drawn.details))

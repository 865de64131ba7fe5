"""`Terms`: what rounds of PriRFed and a search over sites have in common in their public settings,
which every party makes itself, and their fingerprint.
"""

from __future__ import annotations

import hashlib
import re
from typing import ClassVar

import numpy as np

from .._trees import leaves
from ..manifolds._base import Point
from ..privacy import Guarantee
from ..privacy._guarantee import PERSON

NOISES = ("local", "shared")
ONE_SITE = "all records of one person are at one site"


class Terms:
    """The public settings of a federated run.

    Attributes:
        numbered: What a message is about, "round" or "question".
        unit: What neighbours differ in, one "record" or everything of one "person".
        document: The fingerprint of the `Agreement` that these were read from, if any.
        keys: (name, long-term public key) of each site, 64 hexadecimal digits, where noise is
            shared.
    """

    numbered: ClassVar[str]
    unit: str
    document: str | None
    keys: tuple[tuple[str, str], ...]

    @property
    def place(self) -> Point:
        """A point of the structure that every question's point has."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...] | None:
        """The sites that may take part; None: whoever the engine lets in."""
        raise NotImplementedError

    @property
    def shares_noise(self) -> bool:
        """Whether the sites share the noise of every answer, under masks."""
        raise NotImplementedError

    @property
    def numbers(self) -> int:
        """The numbers of rounds, or questions, are below this one."""
        raise NotImplementedError

    @property
    def answers(self) -> int:
        """The largest number of answers that the plan needs from one site."""
        raise NotImplementedError

    def added_noise(self, records: int) -> float | None:
        """What a site with this many records, or people, says of its noise. None: it adds none."""
        raise NotImplementedError

    def _lines(self) -> dict[str, object]:
        """The settings by name."""
        raise NotImplementedError

    @property
    def of_people(self) -> bool:
        """Whether everything of one person is protected."""
        return self.unit == PERSON

    @property
    def counted(self) -> str:
        """What the sizes of sites count, in words."""
        return "people" if self.of_people else "records"

    @property
    def public_keys(self) -> dict[str, bytes]:
        """The long-term public keys by name."""
        return {name: bytes.fromhex(key) for name, key in self.keys}

    @property
    def text(self) -> str:
        """The settings as text, one a line: what the parties agree on.

        Functions appear by name: which code they stand for is a matter of the installed code.
        """
        lines = self._lines() | {f"key of {name}": key for name, key in sorted(self.keys)}
        return "".join(f"{name}: {in_words(value)}\n" for name, value in lines.items())

    @property
    def fingerprint(self) -> str:
        """That of the `Agreement` that the settings were read from, or else of `text` (SHA-256): 64
        hexadecimal digits.
        """
        if self.document is not None:
            return self.document
        return hashlib.sha256(self.text.encode()).hexdigest()


def of_person(guarantee: Guarantee) -> Guarantee:
    """A guarantee of one site's people, for all sites: each person is at one of them."""
    return guarantee.for_people().assuming(ONE_SITE)


def digest_of(point: Point) -> str:
    """A short fingerprint of a public point."""
    content = hashlib.sha256()
    for leaf in leaves(point):
        array = np.ascontiguousarray(leaf, dtype=np.float64)
        content.update(f"{array.shape}".encode() + array.tobytes())
    return content.hexdigest()[:32]


def in_words(value: object) -> str:
    """A setting in words that are the same in every process: without addresses in memory."""
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return " ".join(re.sub(r" at 0x[0-9a-f]+", "", repr(value)).split())

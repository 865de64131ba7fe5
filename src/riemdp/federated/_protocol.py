"""`Protocol`: what a site does in one kind of federated run. There are three: rounds of PriRFed
with local noise and with shared noise (`_rounds`), and a search for a ball (`_search`).

A server sends a *question*: a point and public numbers. The door (`_door`) admits it, states its
cost, holds that to the site's limits, counts the answer and pays for it; then the protocol draws.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid
from .._isolation import isolated
from .._trees import leaves, map_leaves
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..privacy import Guarantee
from ..randomness import NoiseSource
from ._site import Part, declined

if TYPE_CHECKING:  # a search over sites imports no optimiser
    from ..optimizers._account import Account

_PROBES = 8  # numbers of a frame that are compared
OF_PEOPLE = "this site's records are those of people, and the agreement protects single records"


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one answer costs a record, or a person, from public numbers.

    Attributes:
        multiplier: The standard deviation of its noise, divided by what one record can change.
        guarantee: Of this answer by itself.
        sigma: The standard deviation of its noise; None: there is none.
        part: What it is of a search, which is charged as a whole.
    """

    multiplier: float
    guarantee: Guarantee
    sigma: float | None
    part: Part | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Admitted:
    """A question that has been admitted.

    Attributes:
        question: Its point and numbers, as they may be used.
        context: A digest of it as it was sent, which enters the masks: answers to other questions
            have no sum.
    """

    question: Any
    context: bytes


class Protocol(abc.ABC):
    """What a site does in one kind of federated run, by the settings as this site has them."""

    least: int  # the fewest sites in a sum under masks

    @abc.abstractmethod
    def asked(self, question: object) -> Admitted:
        """The question that a server sent. Nothing of it has been checked.

        Raises:
            Refused: It is none of the agreed run.
        """

    @abc.abstractmethod
    def rows(self, records: Any) -> int:
        """How many records there are.

        Raises:
            InvalidArgument: Their form is wrong. Nothing that a record holds decides this.
        """

    @abc.abstractmethod
    def size(self, name: str, records: Any, groups: object) -> int:
        """The public number of the records of the site `name`, or of its people where they are
        protected: `groups` is then one label of a person for each record.

        Raises:
            Refused: People are protected and there are no labels, or records, and there are labels;
                or another number was agreed.
            InvalidArgument: The form of the records or of the labels is wrong, as in `rows`.
        """

    @abc.abstractmethod
    def cost(self, question: Any, n: int, sigma: float | None) -> Cost:
        """What an answer of n records, or people, costs to an admitted question; None: what is
        known before there is one. `sigma`: the noise that the settings give to n, if it is known.

        Raises:
            Refused: There is no noise for this question.
        """

    @abc.abstractmethod
    def whole(self, n: int) -> Guarantee:
        """What all answers of a site of n records, or people, cost, where it gives as many as the
        plan needs of a site at most.
        """

    @abc.abstractmethod
    def own(self, records: Any, groups: object, source: NoiseSource) -> Any:
        """A site's own data as `reply` takes them: one entry a person where people are protected.

        Which unit that is, the site's own settings say; whose a record is, its own labels.
        """

    @abc.abstractmethod
    def reply(
        self, question: Any, own: Any, cost: Cost, account: Account, source: NoiseSource
    ) -> Any:
        """The noisy answer, paid from `account` before its noise is drawn; integers that must not
        leave the site but under a mask, where noise is shared.
        """


def check_labels(of_people: bool, groups: object) -> None:
    """Refuse where people are protected and a site has no labels, or records and it has labels."""
    if of_people and groups is None:
        raise declined(
            "the agreement protects people, and this site does not say whose its records are"
        )
    if not of_people and groups is not None:
        raise declined(OF_PEOPLE)


@contextlib.contextmanager
def named(argument: str, of: str, i: int) -> Iterator[None]:
    """Says of which agent, or site, an argument is wrong."""
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument(f"argument `{argument}`, {of} {i}: {error}") from error


def check_lists_of_labels(groups: Any, count: int, of: str) -> None:
    """Refuse `groups` that are not one list of labels for each of `count` agents or sites."""
    if isinstance(groups, str | bytes) or not hasattr(groups, "__len__") or len(groups) != count:
        raise invalid("groups", "given", f"give one list of labels for each {of}")


@isolated
def context_of(manifold: AbstractManifold, point: Point, *numbers: object) -> bytes:
    """A digest of a point as it was sent, of the frame that this party has there, and of the
    numbers of a question.

    It enters the masks, so that only answers to one question at the same point and in the same
    frame have a sum. The frame is compared by a few of its numbers, to four digits: another machine
    may round the last bits otherwise, and a frame that is really another one differs in all of
    them.
    """
    content = hashlib.sha256()
    for number in numbers:
        said = float(number).hex() if isinstance(number, float) else str(number)
        content.update(said.encode() + b" ")
    for leaf in leaves(point):
        array = np.ascontiguousarray(leaf, dtype="<f8")
        content.update(f"{array.shape}".encode() + array.tobytes())
    content.update(np.rint(1e4 * _probes(manifold, point)).astype("<i8").tobytes())
    return content.digest()


def _probes(manifold: AbstractManifold, point: Point) -> NDArray[np.float64]:
    """Coordinates of a fixed direction, of length 1, in eight fixed combinations."""
    at = map_leaves(np.asarray, point)
    fixed = map_leaves(lambda x: np.cos(1.0 + np.arange(x.size)).reshape(x.shape), at)
    y = np.asarray(manifold._to_coordinates(at, manifold._to_tangent(at, fixed)))
    y = y / max(float(np.linalg.norm(y)), 1e-300)
    signs = np.cos(np.outer(1.0 + np.arange(_PROBES), 1.0 + np.arange(y.size)))
    return np.nan_to_num(signs @ y)

"""Sums of which nobody sees the terms: pairwise masks that cancel in the sum, and only there.

Party i sends u_i = x_i + sum_{j > i} m_ij - sum_{j < i} m_ji modulo 2^64. Every pair (i, j) shares
one mask m_ij, the ChaCha20 keystream of a key that only the two of them can compute:

    key = HKDF-SHA256(X25519(long-term i, long-term j) | X25519(fresh i, fresh j)
                      | X25519(long-term i, fresh j) | X25519(fresh i, long-term j),
                      salt = fingerprint of the agreement,
                      info = round, number of coordinates, roster, context, names of the pair).

- The *long-term* public keys stand in the agreement that every party signed, so whoever carries the
  messages cannot put its own in their place.
- The *fresh* keys are made for one answer each and relayed by the server. They add that a site
  whose files are stolen later opens no past sum: its fresh key was deleted when the answer was
  made, and the one that it has now has masked nothing yet. A server that exchanges them learns
  nothing: it lacks the long-term keys. The masks do not cancel then. If it steals the site's
  long-term key afterwards it still lacks the product of the site's fresh key, which is gone, and
  the other's long-term key.
- Parties that were told another roster, round, agreement or context (the point of the round) derive
  other masks, so there is no sum of answers to different questions.
- A mask is used once: a party answers a round number of an agreement once, and writes that down
  before it sends (`Site.count_answer`). So this file must be used behind `answer` of `_door`.

A party that does not answer leaves its masks in the sum, which is then of no use to anyone: the
round fails, and a new one has a new number and so new masks. Nothing is ever revealed to remove
them. See docs/proofs/secure-sums.md for the reason, and for what all of this assumes.

A site writes its long-term key once (`new_key_file`), says the fresh one of `Keys.read` with its
answer to HELLO, checks the members that the server names with `Roster.of`, and sends `masked(...)`
after `forget`, with the next fresh key.

The server adds what came from *all* members of the roster with `total`. Whether masks are left in
it is seen by the size of the numbers (`SharedSum.value`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf import hkdf
from numpy.typing import NDArray

from .._errors import InvalidArgument, RiemdpError, invalid
from .._locks import locked
from ._journal import UNREADABLE, facts_in, text_of

Words = NDArray[np.uint64]

_LABEL = b"riemdp secure sum 3"  # another unit of the sums, another label: theirs have no sum
_NUMBERS = 1 << 63  # the number of a question is below this one
_RUN_KEY = "riemdp-run-key"
_HEX = re.compile(r"[0-9a-f]{64}")


# ------------------------------------------------------------------------------------------ keys
class Keys:
    """The private keys of one party in one run. They are in no representation, copy or pickle.

    Attributes:
        name: The party's name in the agreement.
        long_term: Its long-term public key, 32 bytes.
        fresh: The public key that it made for its next answer, 32 bytes.
    """

    __slots__ = ("_fresh", "_long_term", "_shared", "fresh", "long_term", "name")

    def __init__(self, name: str, long_term: bytes, fresh: bytes):
        """From two private keys of 32 bytes each."""
        self.name = name
        self._long_term, self._fresh = _private(long_term), _private(fresh)
        self.long_term, self.fresh = _public(self._long_term), _public(self._fresh)
        self._shared: dict[tuple[bytes, bytes], bytes] = {}  # kept for a run in one process

    @staticmethod
    def new(name: str) -> Keys:
        """New keys, for a run in one process."""
        return Keys(name, _new_private(), _new_private())

    @staticmethod
    def read(name: str, path: str | Path, run_file: str | Path, agreement: str) -> Keys:
        """The keys of a site: the long-term one of its file, and the fresh one of its next answer,
        which is made and written down when it is needed first.

        Args:
            name: The site's name in the agreement.
            path: The file that `new_key_file` wrote.
            run_file: Where the fresh key is kept until the answer.
            agreement: The fingerprint of the agreement.

        Raises:
            RiemdpError: A file holds something else, or the fresh key of another agreement.
        """
        target = Path(run_file).expanduser().resolve()
        with locked(target) as file:
            if not target.exists():
                file.write_text(text_of(_RUN_KEY, agreement, {"private": _new_private().hex()}))
            fresh = _run_key(target, agreement)
        return Keys(name, _long_term(path), fresh)

    def meet(self, roster: Roster) -> None:
        """Compute what is shared with every other member.

        Raises:
            InvalidArgument: A public key is unusable.
        """
        for other in roster.members:
            if other.name != self.name:
                self.shared_with(other)

    def shared_with(self, other: Member) -> bytes:
        """The 128 bytes that only the two parties can compute."""
        pair = (other.long_term, other.fresh)
        if pair not in self._shared:
            try:
                long_term, fresh = _as_public(other.long_term), _as_public(other.fresh)
                alike = self._long_term.exchange(long_term) + self._fresh.exchange(fresh)
                crossed = self._long_term.exchange(fresh), self._fresh.exchange(long_term)
                # both parties begin with the long-term key of the first in the order of names
                first, second = crossed if self.name < other.name else reversed(crossed)
                self._shared[pair] = alike + first + second
            except ValueError as error:  # a point of small order: the result would be known to all
                raise InvalidArgument(
                    f"argument `roster` holds an unusable public key for {other.name[:80]!r}"
                ) from error
        return self._shared[pair]

    def __repr__(self) -> str:
        return f"Keys({self.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("private keys are not pickled or copied")

    __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = __reduce__  # type: ignore[assignment]


def new_key_file(path: str | Path) -> str:
    """Write a new long-term private key, 64 hexadecimal digits, readable by its owner only.

    Args:
        path: A file that does not exist yet.

    Returns:
        The public key, 64 hexadecimal digits, for the agreement.

    Raises:
        RiemdpError: The file exists. A key is never overwritten.
    """
    target, private = Path(path).expanduser().resolve(), _new_private()
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise RiemdpError(
            f"{target} exists; a key is not overwritten. Give another file"
        ) from error
    with os.fdopen(handle, "w") as file:
        file.write(private.hex() + "\n")
    return _public(_private(private)).hex()


def public_key(path: str | Path) -> str:
    """The public key, 64 hexadecimal digits, of a file that `new_key_file` wrote."""
    return _public(_private(_long_term(path))).hex()


def _long_term(path: str | Path) -> bytes:
    target = Path(path).expanduser().resolve()
    try:
        text = target.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise RiemdpError(f"{target} holds no private key of a site") from error
    if not _HEX.fullmatch(text):
        raise RiemdpError(f"{target} holds no private key of a site")
    return bytes.fromhex(text)


def forget(run_file: str | Path) -> None:
    """Delete the fresh key of an answer that was made. From then on nobody can compute its masks
    again, whatever other keys are known.
    """
    target = Path(run_file).expanduser().resolve()
    with locked(target):
        target.unlink(missing_ok=True)


def _run_key(target: Path, agreement: str) -> bytes:
    try:
        signed, told = facts_in(_RUN_KEY, target.read_text(encoding="utf-8"))
        private = str(told["private"])
        if not _HEX.fullmatch(private):
            raise ValueError("private")
    except (OSError, *UNREADABLE) as error:
        raise RiemdpError(f"{target} holds no {_RUN_KEY}") from error
    if signed != agreement:
        raise RiemdpError(
            f"{target} holds the key of another run; finish that run first, or give this one a"
            " file of its own"
        )
    return bytes.fromhex(private)


# -------------------------------------------------------------------------------------- the roster
@dataclass(frozen=True)
class Member:
    """One party of a sum: its name, and its two public keys (32 bytes each)."""

    name: str
    long_term: bytes
    fresh: bytes


@dataclass(frozen=True)
class Roster:
    """The parties of one sum, in the order of their names."""

    members: tuple[Member, ...]

    @staticmethod
    def of(
        keys: Keys | None,
        agreed: Mapping[str, bytes],
        fresh: Mapping[str, bytes],
        *,
        least: int,
    ) -> Roster:
        """The roster that a server has sent, checked by one party.

        Args:
            keys: The party's own; None for the server, which only counts.
            agreed: Long-term public keys by name, from the agreement: never from the server.
            fresh: The fresh public keys of the members by name, as the server sent them.
            least: The fewest members that the agreement allows, J - q.

        Raises:
            InvalidArgument: A stranger is among them, the party itself is not, or not with the key
                that it made, there are too few of them, or a key is none.
        """
        if not isinstance(fresh, Mapping) or not all(isinstance(name, str) for name in fresh):
            raise InvalidArgument("argument `roster` is no list of members with their keys")
        strangers = [name for name in fresh if name not in agreed]
        if strangers:
            raise InvalidArgument(
                f"argument `roster` names {strangers[0][:80]!r}, which is not in the agreement"
            )
        if len(fresh) < least:
            raise InvalidArgument(
                f"argument `roster` has {len(fresh)} members, and the noise needs {least}"
            )
        for key in fresh.values():
            if not isinstance(key, bytes) or len(key) != 32:
                raise InvalidArgument("argument `roster` holds a key that is not 32 bytes long")
        if keys is not None and (
            fresh.get(keys.name) != keys.fresh or agreed.get(keys.name) != keys.long_term
        ):
            raise InvalidArgument("argument `roster` lacks this party, or has another key for it")
        return Roster(tuple(Member(n, agreed[n], fresh[n]) for n in sorted(fresh)))

    @property
    def digest(self) -> bytes:
        """SHA-256 of all names and keys."""
        content = hashlib.sha256(_LABEL + b" roster")
        for member in self.members:
            name = member.name.encode()
            content.update(len(name).to_bytes(4, "big") + name + member.long_term + member.fresh)
        return content.digest()


# ------------------------------------------------------------------------------------------- masks
@dataclass(frozen=True)
class Question:
    """Which sum an answer belongs to. Answers to different questions have no sum.

    Attributes:
        agreement: The fingerprint of the agreement, 64 hexadecimal digits.
        number: The number of the round, which the party has not answered before.
        roster: The members, checked with `Roster.of`.
        context: What is asked: a digest of the point of the round.
    """

    agreement: str
    number: int
    roster: Roster
    context: bytes

    def __post_init__(self) -> None:
        if not _HEX.fullmatch(self.agreement):
            raise invalid("agreement", self.agreement, "give its 64 hexadecimal digits")
        if not 0 <= self.number < _NUMBERS:
            raise invalid("number", self.number, "give a whole number >= 0")


def masked(values: NDArray[np.int64], keys: Keys, question: Question) -> Words:
    """What one party sends: its integers under the masks of all its pairs, modulo 2^64.

    To whoever lacks the keys of some members, the words of these members say no more about their
    integers than the sum over them does, and nothing at all where one of them did not answer.

    Args:
        values: The party's integers, one vector.
        keys: The party's own keys.
        question: What is answered.
    """
    words = np.array(values, dtype=np.int64).view(np.uint64)
    if words.ndim != 1:
        raise invalid("values", words.shape, "give one vector")
    common = _common(question, words.size)
    for other in question.roster.members:
        if other.name != keys.name:
            first, second = sorted((keys.name, other.name))
            mask = _mask(_key(keys.shared_with(other), common, first, second), words.size)
            words = words + mask if keys.name == first else words - mask
    return words


def total(sent: Iterable[Words]) -> NDArray[np.int64]:
    """The sum of what all members of a roster sent, as signed integers."""
    whole, *others = (np.asarray(words, dtype=np.uint64) for words in sent)
    for words in others:
        whole = whole + words
    return np.array(whole).view(np.int64)


def is_words(reply: object, count: int) -> bool:
    """Whether a reply is one vector of so many words. Never raises on what a party sent."""
    return isinstance(reply, np.ndarray) and reply.dtype == np.uint64 and reply.shape == (count,)


def _common(question: Question, count: int) -> tuple[bytes, bytes]:
    """Salt, and the part of the derivation that is the same for all pairs of a sum."""
    what = hashlib.sha256(question.context).digest()
    numbers = question.number.to_bytes(8, "big") + count.to_bytes(8, "big")
    info = _LABEL + b"\0" + numbers + question.roster.digest + what
    return bytes.fromhex(question.agreement), info


def _key(secret: bytes, common: tuple[bytes, bytes], first: str, second: str) -> bytes:
    """The key of the mask of one pair in one sum, 256 bits."""
    salt, info = common
    names = b"".join(len(n.encode()).to_bytes(4, "big") + n.encode() for n in (first, second))
    return hkdf.HKDF(hashes.SHA256(), length=32, salt=salt, info=info + names).derive(secret)


def _mask(key: bytes, count: int) -> Words:
    """ChaCha20's keystream as numbers; the key is used for nothing else."""
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


# ----------------------------------------------------------------------- private and public keys
def _new_private() -> bytes:
    return x25519.X25519PrivateKey.generate().private_bytes_raw()


def _private(content: bytes) -> Any:
    return x25519.X25519PrivateKey.from_private_bytes(content)


def _public(private: Any) -> bytes:
    return private.public_key().public_bytes_raw()


def _as_public(content: bytes) -> Any:
    return x25519.X25519PublicKey.from_public_bytes(content)

"""The server of a search over any transport: it asks, waits, and never for ever; and it goes on
where one before it was killed.

What is asked, and what is done with the answers, is `_search` and `_ball`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from .._errors import InvalidArgument, RiemdpError, invalid
from .._files import staged, write_text
from ..domains import Ball
from ..manifolds._base import Point
from ..mechanisms import Release
from ..mechanisms._search_sites import SCALE, SQUARES, TANGENTS, VALID, WITHIN, Ask
from ._ball import BallOverSites, MeanOverSites, OverSites, VarianceOverSites
from ._drive import Clock, Pause, Timing, log
from ._search import Asked, Said, SumsOverSites, context_of_ask
from ._search_agreement import SearchAgreement
from ._search_terms import Terms
from ._shared import context_of
from ._told import read_written

_FORMAT = "riemdp-search"
_WORDS = {
    VALID: "how many {} are points of the space",
    SCALE: "how many {} have a scale below a number",
    WITHIN: "how many {} are within a radius",
    TANGENTS: "the sum of all directions from the centre",
    SQUARES: "the sum of all squared distances",
}


class QuestionTransport(Protocol):
    """What a messaging engine must offer to a search. Sites are known by names that the engine has
    authenticated, or that are local.
    """

    def agents(self) -> Mapping[str, int]:
        """Sites that can be reached now, with their (public) numbers of records, or people."""
        ...

    def keys(self) -> Mapping[str, bytes]:
        """The fresh public keys of their next answers, where noise is shared."""
        ...

    def send_question(self, names: tuple[str, ...], ask: Ask, number: int) -> None:
        """Send a question, with the fingerprint and, where noise is shared, the keys of `names`."""
        ...

    def replies(self) -> list[tuple[str, object, float | None]]:
        """New replies since the last call: (site, reply or None for an error, claimed number of
        records).
        """
        ...


class TransportedSites:
    """`Sites` over a transport.

    A question ends when all that were asked have answered or declined, or after `timing.timeout`.
    Where each site adds all of its own noise it also ends `timing.grace` seconds after half of them
    have answered. Before the first question the server waits `timing.patience` seconds for all
    sites, and before each later one as long for as many as the noise needs.

    Args:
        agreed: What all parties signed. A site with another number of records is not asked.
        transport: Carries the messages.
        timing: How long to wait.
        clock: Seconds, for tests.
        pause: Waits, for tests.
    """

    def __init__(
        self,
        agreed: SearchAgreement,
        transport: QuestionTransport,
        timing: Timing,
        clock: Clock = time.monotonic,
        pause: Pause = time.sleep,
    ):
        self.terms, self.transport, self.timing = agreed.terms, transport, timing
        self.clock, self.pause = clock, pause
        self._wanted, self.most = len(agreed.sites), agreed.answers

    def there(self) -> Iterable[str]:
        end = self.clock() + self.timing.patience
        said = ""
        while True:
            sizes = self.terms.sizes
            here = [a for a, n in self.transport.agents().items() if sizes.get(a) == n]
            missing = _few([a for a in sizes if a not in here])
            if len(here) >= self._wanted or self.clock() >= end:
                if len(here) < self._wanted:
                    log.warning("nothing was heard of %s in time", missing)
                self._wanted = self.terms.noise_of_sites.least
                return here
            if missing != said:
                log.info("waiting for %s", missing)
                said = missing
            self.pause(self.timing.poll)

    def fresh(self) -> Mapping[str, bytes]:
        return self.transport.keys()

    def ask(
        self, ask: Ask, number: int, fingerprint: str, members: Mapping[str, bytes]
    ) -> Mapping[str, object]:
        """What came in time. A reply of a site that was not asked, or a second one, is dropped.

        Raises:
            RiemdpError: The plan has no question of this number, and every site would decline it.
        """
        if number >= self.most:
            raise RiemdpError(
                f"{number} questions are all that this search can have, and too many had no answer:"
                " a site does not answer, or its settings or keys are not those of the others. The"
                " whole budget is charged; find that site, and start a run without it"
            )
        self.transport.send_question(tuple(members), ask, number)
        begin, heard = self.clock(), dict[str, object]()
        enough: float | None = None
        while True:
            for name, reply, claimed in self.transport.replies():
                if name in members and name not in heard:
                    sane = claimed is None or claimed == self.terms.sizes[name]
                    heard[name] = reply if sane else None
            now = self.clock()
            if len(heard) == len(members) or now - begin >= self.timing.timeout:
                return heard
            answered = sum(reply is not None for reply in heard.values())
            if self.terms.noise == "local" and 2 * answered >= len(members):
                enough = now if enough is None else enough
                if now - enough >= self.timing.grace:
                    return heard
            self.pause(self.timing.poll)


# --------------------------------------------------------------------------- a server that restarts
class Transcript:
    """`Journal` of a server: released numbers and names of sites; no record, noise or key.

    A question that was sent when the server died has no answer: its share is lost, as for one that
    no site answers.

    Args:
        terms: The settings of the search.
        path: A file that follows every question, and is gone on from if it exists. None: in memory.
        questions: What came of questions before this server, where it stands in no file.

    Raises:
        InvalidArgument: The file is none, or of another search.
    """

    def __init__(
        self,
        terms: Terms,
        path: str | Path | None = None,
        questions: Sequence[dict[str, Any]] = (),
    ):
        self.terms, self.path = terms, None if path is None else Path(path)
        self.questions = [dict(question) for question in questions]
        if self.path is not None and self.path.exists():
            self.questions = self._read(self.path)
        self.before = len(self.questions)  # asked by servers before this one

    def said(self, ask: Ask, number: int) -> Said | None:
        if number >= self.before:
            return None
        told = self.questions[number]
        # Another processor may round the point of a question otherwise. A server must not go on
        # there, for sites would mask another question; for the result that is computed anew its
        # value is what counts.
        if self.path is not None and told["question"] != self._digest(ask):
            raise invalid(
                "state",
                str(self.path),
                "another question stands in it: it was written by another version of riemdp or on"
                " another machine. Go on where it was written",
            )
        values = told["values"]
        return Said(
            tuple(told["asked"]),
            tuple(told["answered"]),
            None if values is None else tuple(values),
        )

    def begin(self, ask: Ask, number: int, names: tuple[str, ...]) -> None:
        told = {"question": self._digest(ask), "asked": list(names), "answered": [], "values": None}
        self.questions.append(told)
        self._write()

    def end(self, said: Said) -> None:
        self.questions[-1] |= {
            "answered": list(said.answered),
            "values": None if said.values is None else list(said.values),
        }
        self._write()

    def _digest(self, ask: Ask) -> str:
        return context_of_ask(ask, context_of(self.terms.manifold, ask.center)).hex()

    def _write(self) -> None:
        if self.path is None:
            return
        text: dict[str, Any] = {"format": _FORMAT, "version": 1}
        text |= {"agreement": self.terms.fingerprint, "questions": self.questions}
        write_text(self.path, json.dumps(text, indent=1) + "\n", 0o600)

    def _read(self, path: Path) -> list[dict[str, Any]]:
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            if told["format"] != _FORMAT or told["version"] != 1:
                raise KeyError("format")
            questions = checked_questions(told["questions"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise invalid(
                "state", str(path), "it holds no state of a search; give another file"
            ) from error
        if told["agreement"] != self.terms.fingerprint:
            raise invalid(
                "state",
                str(path),
                "it is the state of a run under another agreement; give another file, or move this"
                " one away",
            )
        return questions


def checked_questions(told: Any) -> list[dict[str, Any]]:
    """The questions of a file; ValueError, KeyError or TypeError for anything else."""
    for question in told:
        if set(question) != {"question", "asked", "answered", "values"}:
            raise KeyError("questions")
        if question["values"] is not None and not np.all(np.isfinite(question["values"])):
            raise ValueError("values")
    return list(told)


# --------------------------------------------------------------------------------- the whole search
def mechanism_of(agreed: SearchAgreement) -> OverSites:
    """What an agreement releases."""
    if agreed.release == "ball":
        return BallOverSites(agreed.terms)
    if agreed.release == "mean":
        return MeanOverSites(agreed.terms, agreed.variance)
    return VarianceOverSites(agreed.terms)


def drive_search(
    agreed: SearchAgreement,
    transport: QuestionTransport,
    *,
    timing: Timing | None = None,
    transcript: Transcript | None = None,
    reproducible: bool = False,
    clock: Clock = time.monotonic,
    pause: Pause = time.sleep,
) -> Release:
    """Ask until the agreed ball, mean or variance is found.

    A site that does not answer is left out of the next question where the others are enough. Where
    noise is shared, a question that not all answered has no sum: its share of the budget is lost,
    and it is asked again.

    Args:
        agreed: What all parties signed.
        transport: Carries the messages.
        timing: How long to wait.
        transcript: Where what came of each question is written down, and gone on from. None: in
            memory.
        reproducible: Whether the sites draw from a seed, in a simulation.
        clock: Seconds, for tests.
        pause: Waits, for tests.

    Returns:
        The `Release`, as `private_ball`, `private_frechet_mean` or `private_frechet_variance` give.

    Guarantee:
        That of `agreed.terms`, which every site keeps by itself.

    Raises:
        RiemdpError: Too few sites are there, or too many questions had no answer. What the sites
            have charged is charged.
        InvalidArgument: The transcript is of another run.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """
    terms = agreed.terms
    sites = TransportedSites(agreed, transport, timing or Timing(), clock, pause)
    journal = transcript or Transcript(terms)
    if journal.before:
        log.info("goes on after %d questions", journal.before)
    say = _Progress(terms.counted, journal.before)
    server = SumsOverSites(terms.domain, terms, sites, journal, say)
    return mechanism_of(agreed).finished(server, reproducible=reproducible)


class _Progress:
    """Each new question in one line, for the person who watches the run."""

    def __init__(self, counted: str, before: int):
        self.counted, self.before, self.used = counted, before, 0.0

    def __call__(self, number: int, asked: Asked) -> None:
        used = self.used = self.used + asked.share
        if number < self.before:
            return
        words = _WORDS[asked.kind].format(self.counted)
        log.info(
            "question %d (%s): %d of %d sites answered%s; %.1f%% of the budget is used",
            number,
            words,
            asked.answered,
            asked.asked,
            "" if asked.heard else ": no sum, so it is asked again",
            100.0 * used,
        )


def _few(names: Sequence[str]) -> str:
    """The names of sites, in a line that is read at a glance."""
    more = len(names) - 5
    return ", ".join(names[:5]) + (f" and {more} others" if more > 0 else "")


def write_release(
    path: str, release: Release, agreed: SearchAgreement, transcript: Transcript
) -> None:
    """The value, with the ball that was found (npz), and its guarantee and what came of every
    question (json), both whole or both absent.
    """
    target, details, guarantee = Path(path), release.details, release.guarantee
    delta = agreed.terms.budget.delta
    names = ("sums", "failed_sums", "sizes", "rounds", "need", "share_of_search", "variance")
    facts = {
        "agreement": agreed.fingerprint,
        "release": agreed.release,
        "guarantee": str(guarantee),
        "epsilon": guarantee.epsilon(delta),
        "delta": delta,
        "adjacency": guarantee.adjacency,
        "unit": guarantee.unit,
        "assumes": guarantee.assumes,
        "private": guarantee.is_private and not release.reproducible,
        "scale": float(release.scale),
        **{name: details[name] for name in names if name in details},
        **{name: details[name].to_dict() for name in ("valid", "outside") if name in details},
        "questions": transcript.questions,
    }
    if release.observation is not None:
        facts["confidence_region"] = str(release.confidence_region())
    with staged(target, target.with_suffix(".json")) as (points, words):
        with points.open("wb") as file:
            np.savez(file, **_arrays(release))  # type: ignore[arg-type]
        words.write_text(json.dumps(facts, indent=2), encoding="utf-8")


def told_release(agreed: SearchAgreement, path: str | os.PathLike[str]) -> tuple[Release, str]:
    """The release that a server has written, computed anew from the agreement and the noisy sums,
    and the SHA-256 of the file with its value.

    Args:
        agreed: What the parties signed.
        path: The .npz file; the .json lies beside it.

    Raises:
        InvalidArgument: A file cannot be read, is of another agreement, or holds another value than
            its sums lead to.
    """

    def parsed(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Any, ...]:
        return arrays, checked_questions(facts["questions"]), facts["private"] is True

    found, digest = read_written(path, agreed.fingerprint, "a search", parsed)
    arrays, questions, private = found
    terms = agreed.terms
    server = SumsOverSites(terms.domain, terms, _Nobody(), Transcript(terms, None, questions))
    try:
        release = mechanism_of(agreed).finished(server, reproducible=not private)
        right = _arrays(release)
        same = set(right) == set(arrays) and all(
            right[name].shape == arrays[name].shape
            and np.allclose(right[name], arrays[name], rtol=1e-9, atol=1e-12)
            for name in right
        )
        if not same:
            raise ValueError("the value is another one")
    except (RiemdpError, ValueError, LookupError) as error:
        raise InvalidArgument(
            f"argument `path` = {str(path)!r} holds another value than the sums beside it lead"
            f" to: it was changed, or written by another version of riemdp ({error})"
        ) from error
    return release, digest


class _Nobody:
    """No site: everything that was asked has its answer."""

    def there(self) -> Iterable[str]:
        return ()

    def fresh(self) -> Mapping[str, bytes]:
        return {}

    def ask(
        self, ask: Ask, number: int, fingerprint: str, members: Mapping[str, bytes]
    ) -> Mapping[str, object]:
        return {}


def _arrays(release: Release) -> dict[str, np.ndarray]:
    value, ball = release.value, release.details.get("ball")
    if isinstance(value, Ball):
        arrays, ball = dict[str, np.ndarray](), value
    else:
        arrays = _leaves("value", value)
    if isinstance(ball, Ball):
        arrays |= _leaves("center", ball.center) | {"radius": np.array(float(ball.radius))}
    return arrays


def _leaves(name: str, point: Point) -> dict[str, np.ndarray]:
    return {f"{name}_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(point))}


__all__ = ["Transcript", "drive_search", "told_release", "write_release"]

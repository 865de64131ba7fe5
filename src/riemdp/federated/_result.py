"""The files of a finished run or search: what its server writes, and the result that anybody makes
anew from them, for a report.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import InvalidArgument, RiemdpError
from .._files import staged
from .._trees import leaves as leaves_of
from ..domains import Ball
from ..manifolds._base import Point
from ..mechanisms import Release
from ..privacy import Guarantee
from ..privacy._participation import coarser
from ..randomness import noise_source
from ._coordinator import Coordinator, RoundRecord
from ._drive import make_coordinator
from ._in_process import FederatedResult, Parties, result_of
from ._journal import Transcript, checked_questions
from ._over_sites import mechanism_of
from ._search import SumsOverSites
from ._terms import SearchTerms, Setup


def leaves_named(name: str, point: Point) -> dict[str, np.ndarray]:
    """The arrays of a point, numbered."""
    return {f"{name}_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves_of(point))}


# ---------------------------------------------------------------------------------- rounds
def write_result(path: str, server: Coordinator, *, reproducible: bool) -> None:
    """The published point of a run and its guarantee, as `_written`."""
    guarantee, local = server.guarantee(), server.plan.local
    facts = _stated(server.agreement, guarantee, server.plan.delta, reproducible) | {
        "rounds": [vars(r) for r in server.records],
        "sizes": server.sizes,
        "invitations": server.invitations,
        # what each agent can state for its own records, because it knows how often it took part
        "participation_epsilon": {
            a: _finite(coarser(local[server.sizes[a]]).repeat(k).epsilon(server.plan.delta))
            for a, k in server.invitations.items()
        },
    }
    _written(path, leaves_named("point", server.result_value()), facts)


def _written(path: str, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
    """Arrays (npz) and facts (json), both whole or both absent."""
    target = Path(path)
    with staged(target, target.with_suffix(".json")) as (points, words):
        with points.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        words.write_text(json.dumps(facts, indent=2), encoding="utf-8")


def _stated(
    agreement: str, guarantee: Guarantee, delta: float, reproducible: bool
) -> dict[str, Any]:
    """What every result says of its privacy."""
    return {
        "agreement": agreement,
        "guarantee": str(guarantee),
        "epsilon": _finite(guarantee.epsilon(delta)),
        "delta": delta,
        "adjacency": guarantee.adjacency,
        "unit": guarantee.unit,
        "assumes": guarantee.assumes,
        "private": guarantee.is_private and not reproducible,
    }


def _finite(x: float) -> float | None:
    return x if np.isfinite(x) else None


def told_result(terms: Setup, path: str | os.PathLike[str]) -> tuple[FederatedResult, str]:
    """The result of a run that a server has ended, and the SHA-256 of the file with its point.

    The guarantee is computed from the agreement, the numbers of records (or people) and the rounds.

    Args:
        terms: What the parties agreed on.
        path: The .npz file; the .json is next to it.

    Raises:
        InvalidArgument: A file cannot be read, is of another agreement, or states another cost than
            the rounds in it have.
    """

    def parsed(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Any, ...]:
        return (
            [arrays[f"point_{i}"] for i in range(len(arrays))],
            {str(name): int(n) for name, n in facts["sizes"].items()},
            [RoundRecord(**r) for r in facts["rounds"]],
            {str(name): int(k) for name, k in facts["invitations"].items()},
            facts["epsilon"],
            facts["private"] is True,
        )

    found, digest = read_written(path, terms.fingerprint, "a run", parsed)
    leaves, sizes, rounds, invitations, stated, private = found
    server = make_coordinator(terms, sizes, noise_source(None))
    server.ended(rounds, invitations, leaves)
    _check_cost(server.guarantee(), server.plan.delta, stated, Path(path))
    done = result_of(
        server,
        server.plan,
        reproducible=not private,
        status="completed" if server.finished else "interrupted",
        places=terms.records_per_person if terms.of_people else None,
    )
    return done, digest


def read_written(
    path: str | os.PathLike[str],
    agreement: str,
    of: str,
    parsed: Callable[[dict[str, Any], dict[str, np.ndarray]], tuple[Any, ...]],
) -> tuple[tuple[Any, ...], str]:
    """What a server wrote at the end `of` a run or a search.

    Args:
        path: The .npz file; the .json is next to it.
        agreement: The fingerprint of what the parties signed.
        of: "a run" or "a search".
        parsed: What is wanted of the .json and of the arrays; it may fail as parsing does.

    Returns:
        What `parsed` gives, and the SHA-256 of the .npz file.

    Raises:
        InvalidArgument: A file cannot be read, or is of another agreement.
    """
    target = Path(path)
    try:
        content = target.read_bytes()
        facts = json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))
        with np.load(target, allow_pickle=False) as saved:
            arrays = {name: np.asarray(saved[name]) for name in saved.files}
        found = parsed(facts, arrays)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            f"argument `path` = {str(target)!r} and its .json are not what a server wrote"
            f" at the end of {of}"
        ) from error
    if facts.get("agreement") != agreement:
        raise InvalidArgument(
            f"argument `path` = {str(target)!r} is the result of another agreement; give the file"
            " that its run was started with"
        )
    return found, hashlib.sha256(content).hexdigest()


def _check_cost(guarantee: Guarantee, delta: float, stated: Any, path: Path) -> None:
    found = guarantee.epsilon(delta)
    told = math.inf if stated is None else float(stated)
    if not (found == told or math.isclose(found, told, rel_tol=1e-6)):
        raise InvalidArgument(
            f"argument `path` = {str(path)!r} states epsilon {told:.6g}, and its rounds cost"
            f" {found:.6g}: it was changed, or written by another version of riemdp"
        )


# ---------------------------------------------------------------------------------- searches
def write_release(path: str, release: Release, terms: SearchTerms, transcript: Transcript) -> None:
    """The value of a search, with the ball that was found, its guarantee, and what came of every
    question, as `_written`.
    """
    details, guarantee = release.details, release.guarantee
    names = ("sums", "failed_sums", "sizes", "rounds", "need", "share_of_search", "variance")
    facts = _stated(terms.fingerprint, guarantee, terms.budget.delta, release.reproducible) | {
        "release": terms.release,
        "scale": float(release.scale),
        **{name: details[name] for name in names if name in details},
        **{name: details[name].to_dict() for name in ("valid", "outside") if name in details},
        "questions": transcript.questions,
    }
    if release.observation is not None:
        facts["confidence_region"] = str(release.confidence_region())
    _written(path, _arrays(release), facts)


def told_release(terms: SearchTerms, path: str | os.PathLike[str]) -> tuple[Release, str]:
    """The release that a server has written, computed anew from the agreement and the noisy sums,
    and the SHA-256 of the file with its value.

    Args:
        terms: What the parties agreed on.
        path: The .npz file; the .json is next to it.

    Raises:
        InvalidArgument: A file cannot be read, is of another agreement, or holds another value than
            its sums lead to.
    """

    def parsed(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Any, ...]:
        return arrays, checked_questions(facts["questions"]), facts["private"] is True

    found, digest = read_written(path, terms.fingerprint, "a search", parsed)
    arrays, questions, private = found
    journal = Transcript(terms, None, questions)
    server = SumsOverSites(terms, Parties({}, _nobody, _nobody, None), journal)
    try:
        release = mechanism_of(terms).finished(server, reproducible=not private)
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
            f"argument `path` = {str(path)!r} holds another value than its sums lead"
            f" to: it was changed, or written by another version of riemdp ({error})"
        ) from error
    return release, digest


def _nobody(*_: Any) -> Any:
    """No site is asked: everything that was asked has its answer."""
    raise LookupError("a question without an answer")


def _arrays(release: Release) -> dict[str, np.ndarray]:
    value, ball = release.value, release.details.get("ball")
    if isinstance(value, Ball):
        arrays, ball = dict[str, np.ndarray](), value
    else:
        arrays = leaves_named("value", value)
    if isinstance(ball, Ball):
        arrays |= leaves_named("center", ball.center) | {"radius": np.array(float(ball.radius))}
    return arrays

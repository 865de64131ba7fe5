"""The files of a finished run or search: what its server writes, and the result that anybody makes
anew from them, for a report.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
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
from ._coordinator import Coordinator
from ._drive import resumed
from ._in_process import FederatedResult, Parties, result_of
from ._journal import UNREADABLE, Journal
from ._over_sites import mechanism_of
from ._search import SumsOverSites
from ._terms import SearchTerms, Setup


def write_result(path: str, server: Coordinator, *, reproducible: bool) -> None:
    """The published point of a run with its guarantee and the server's state, as `_written`."""
    local, delta = server.plan.local, server.plan.delta
    facts = _stated(server.agreement, server.guarantee(), delta, reproducible) | server.state()
    # what each agent can state for its own records, because it knows how often it took part
    facts["participation_epsilon"] = {
        a: _finite(coarser(local[server.sizes[a]]).repeat(k).epsilon(delta))
        for a, k in server.invitations.items()
    }
    _written(path, _leaves("point", server.value), facts)


def write_release(path: str, release: Release, terms: SearchTerms, journal: Journal) -> None:
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
        **journal.facts,
    }
    if release.observation is not None:
        facts["confidence_region"] = str(release.confidence_region())
    _written(path, _arrays(release), facts)


def told_result(terms: Setup, path: str | os.PathLike[str]) -> tuple[FederatedResult, str]:
    """The result of a run that a server has ended, and the SHA-256 of the file with its point.

    The guarantee is computed from the agreement, the numbers of records (or people) and the rounds.

    Args:
        terms: What the parties agreed on.
        path: The .npz file; the .json is next to it.

    Raises:
        InvalidArgument: A file cannot be read, is of another agreement, or states another point or
            another cost than the rounds in it have.
    """
    facts, arrays, digest = _read(path, terms.fingerprint)
    with _as_written(path):
        server = resumed(terms, facts, noise_source(None))
        found = server.guarantee().epsilon(server.plan.delta)
        told = math.inf if facts["epsilon"] is None else float(facts["epsilon"])
        if not (found == told or math.isclose(found, told, rel_tol=1e-6)):
            raise ValueError(f"it states epsilon {told:.6g}, and its rounds cost {found:.6g}")
        _check_same(_leaves("point", server.value), arrays, "the rounds end at")
    done = result_of(
        server,
        reproducible=facts["private"] is not True,
        status="completed" if server.finished else "interrupted",
    )
    return done, digest


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
    facts, arrays, digest = _read(path, terms.fingerprint)
    with _as_written(path):
        journal = Journal(terms.fingerprint, facts={"questions": facts["questions"]})
        server = SumsOverSites(terms, Parties({}, _nobody, _nobody, None), journal)
        release = mechanism_of(terms).finished(server, reproducible=facts["private"] is not True)
        _check_same(_arrays(release), arrays, "its sums lead to")
    return release, digest


def _nobody(*_: Any) -> Any:
    """No site is asked: everything that was asked has its answer."""
    raise LookupError("a question without an answer")


# ------------------------------------------------------------------------------------- the files
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


def _leaves(name: str, point: Point) -> dict[str, np.ndarray]:
    """The arrays of a point, numbered."""
    return {f"{name}_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves_of(point))}


def _arrays(release: Release) -> dict[str, np.ndarray]:
    value, ball = release.value, release.details.get("ball")
    if isinstance(value, Ball):
        arrays, ball = dict[str, np.ndarray](), value
    else:
        arrays = _leaves("value", value)
    if isinstance(ball, Ball):
        arrays |= _leaves("center", ball.center) | {"radius": np.array(float(ball.radius))}
    return arrays


def _read(
    path: str | os.PathLike[str], agreement: str
) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The facts and arrays that a server wrote at its end, and the SHA-256 of the arrays' file."""
    target = Path(path)
    with _as_written(path):
        content = target.read_bytes()
        facts = dict(json.loads(target.with_suffix(".json").read_text(encoding="utf-8")))
        with np.load(target, allow_pickle=False) as saved:
            arrays = {name: np.asarray(saved[name]) for name in saved.files}
    if facts.get("agreement") != agreement:
        raise InvalidArgument(
            f"argument `path` = {str(target)!r} is the result of another agreement; give the file"
            " that its run was started with"
        )
    return facts, arrays, hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def _as_written(path: str | os.PathLike[str]) -> Iterator[None]:
    """Says of files that are not what a server writes why they are not."""
    try:
        yield
    except (OSError, RiemdpError, LookupError, *UNREADABLE) as error:
        raise InvalidArgument(
            f"argument `path` = {str(path)!r} and its .json are not what a server wrote"
            f" at the end of such a run ({error}): they were changed, or written by another version"
            " of riemdp"
        ) from error


def _check_same(
    right: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray], what: str
) -> None:
    same = set(right) == set(arrays) and all(
        right[name].shape == arrays[name].shape
        and np.allclose(right[name], arrays[name], rtol=1e-9, atol=1e-12)
        for name in right
    )
    if not same:
        raise ValueError(f"it holds another value than {what}")

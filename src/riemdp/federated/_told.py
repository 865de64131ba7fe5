"""The files of a finished run: what its server writes, and the result that anybody makes anew from
them, for a report.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._errors import InvalidArgument
from .._files import staged
from ..privacy import Guarantee
from ..randomness import noise_source
from ._agreement import Agreement
from ._coordinator import Coordinator, RoundRecord
from ._drive import make_coordinator
from ._in_process import FederatedResult, result_of


def write_result(
    path: str, server: Coordinator, *, reproducible: bool, agreement: str = ""
) -> None:
    """The published point (npz) and its guarantee (json), both whole or both absent."""
    target = Path(path)
    guarantee = server.guarantee()
    facts = {
        "agreement": agreement,
        "guarantee": str(guarantee),
        "epsilon": _finite(guarantee.epsilon(server.plan.delta)),
        "delta": server.plan.delta,
        "adjacency": guarantee.adjacency,
        "unit": server.plan.guarantee.unit,
        "assumes": guarantee.assumes,
        "private": guarantee.is_private and not reproducible,
        "rounds": [vars(r) for r in server.records],
        "sizes": server.sizes,
        "invitations": server.invitations,
        # what each agent can state for its own records, because it knows how often it took part
        "participation_epsilon": {
            a: _finite(server.plan.local[server.sizes[a]].repeat(k).epsilon(server.plan.delta))
            for a, k in server.invitations.items()
        },
    }
    arrays = {
        f"point_{i}": np.asarray(leaf)
        for i, leaf in enumerate(jax.tree.leaves(server.result_value()))
    }
    with staged(target, target.with_suffix(".json")) as (points, words):
        with points.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        words.write_text(json.dumps(facts, indent=2), encoding="utf-8")


def _finite(x: float) -> float | None:
    return x if np.isfinite(x) else None


def told_result(agreed: Agreement, path: str | os.PathLike[str]) -> tuple[FederatedResult, str]:
    """The result of a run that a server has ended, and the SHA-256 of the file with its point.

    The guarantee is computed from the agreement, the numbers of records (or people) and the rounds.

    Args:
        agreed: What the parties signed.
        path: The .npz file; the .json lies beside it.

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

    found, digest = read_written(path, agreed.fingerprint, "a run", parsed)
    leaves, sizes, rounds, invitations, stated, private = found
    server = make_coordinator(agreed.setup, sizes, noise_source(None))
    server.records, server.invitations = rounds, invitations
    server.value = jax.tree.unflatten(jax.tree.structure(server.value), leaves)
    server._kept = None
    _check_cost(server.guarantee(), server.plan.delta, stated, Path(path))
    done = result_of(
        server,
        server.plan,
        reproducible=not private,
        status="completed" if server.finished else "interrupted",
        places=agreed.setup.records_per_person if agreed.setup.of_people else None,
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
        path: The .npz file; the .json lies beside it.
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
            f"argument `path` = {str(target)!r} and the .json beside it are not what a server wrote"
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

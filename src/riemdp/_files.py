"""Whole files or nothing: files are written under temporary names and put in place together."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from ._locks import naming, synced


@contextlib.contextmanager
def staged(*targets: str | os.PathLike[str]) -> Iterator[tuple[Path, ...]]:
    """Yield one temporary path per target, in the target's own folder; on success they replace the
    targets.

    Entering fails with `OSError` where a folder is missing or not writable, so entering before any
    work is a check that the output can be written. When the body raises (also on an interrupt)
    nothing is left behind, at the latest when the exception is dropped, and no target has changed;
    after a crash or a power cut a reader finds the old file or the new one, never half of one. A
    target that exists keeps its permissions, a new one gets those that the process's umask leaves.
    A target that is a symbolic link stays one: the file that it points to is replaced.
    """
    made: list[tuple[Path, Path]] = []
    named: dict[str, Path] = {}
    with naming(named), _removed(made):
        for given in targets:
            # A link is followed: os.replace would put a file in place of the link and leave the
            # file that it stands for as it was.
            target = Path(given).resolve()
            if target.is_dir():
                raise IsADirectoryError(f"{target} is a folder, not a file")
            if target.exists() and not os.access(target, os.W_OK):
                raise PermissionError(f"{target} exists and may not be overwritten")
            # The suffix stays at the end, for writers (NumPy's, matplotlib's) that go by it.
            part = target.with_name(f".{target.stem}.part-{uuid.uuid4().hex}{target.suffix}")
            named[str(part)] = target
            made.append((part, target))  # first: an interrupt may come when it has been created
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield tuple(part for part, _ in made)
        for part, target in made:
            with part.open("rb+") as stream:
                os.fsync(stream.fileno())
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
        for part, target in made:
            os.replace(part, target)
        for folder in {target.parent for _, target in made}:
            synced(folder)


@contextlib.contextmanager
def _removed(made: list[tuple[Path, Path]]) -> Iterator[None]:
    """Leave no temporary file behind."""
    try:
        yield
    finally:
        for part, _ in made:
            part.unlink(missing_ok=True)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Replace a file by one that holds `text`, whole or not at all."""
    with staged(target) as (part,):
        part.write_text(text, encoding="utf-8")

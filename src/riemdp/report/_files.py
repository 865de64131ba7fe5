"""Whole files or nothing: several files are written under temporary names and put in place together."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def staged(*targets: Path | str) -> Iterator[tuple[Path, ...]]:
    """Yield one temporary path per target, in the target's own folder; on success they replace the targets.

    Entering fails with `OSError` where a folder is missing or not writable, so entering before any work is a check
    that the output can be written. When the body raises (also on an interrupt) nothing is left behind and no target
    has changed.
    """
    made: list[tuple[Path, Path]] = []
    try:
        for target in map(Path, targets):
            if target.is_dir():
                raise IsADirectoryError(f"{target} is a folder, not a file")
            if target.exists() and not os.access(target, os.W_OK):
                raise PermissionError(f"{target} exists and may not be overwritten")
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
            os.close(handle)
            made.append((Path(name), target))
        yield tuple(part for part, _ in made)
        for part, _ in made:
            with part.open("rb+") as stream:
                os.fsync(stream.fileno())
            os.chmod(part, 0o666 & ~_umask())
        for part, target in made:
            os.replace(part, target)
    finally:
        for part, _ in made:
            part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

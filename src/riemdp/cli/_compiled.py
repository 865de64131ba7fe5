"""Compiled code that is kept in the user's cache folder: most of the time of a command is the
compiler's.

A program is kept under a hash of all that it consists of. Records, noise and keys are arguments of
programs and never part of one, so the folder holds none of them; it tells the shape of the data,
and as the time of a release does which steps a computation took. It is the user's alone.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import stat
import sys
from pathlib import Path

from .._version import __version__

SWITCH = "RIEMDP_CACHE"
_MOST_BYTES = 1 << 28
_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def keep_compiled() -> None:
    """Have JAX keep compiled code in a folder of this version and this processor.

    For a process that runs one command, before JAX is imported. Nothing happens with
    `RIEMDP_CACHE=off`, where the user has told JAX a folder, and where there is no folder that
    nobody else can write to.
    """
    if os.environ.get(SWITCH, "").lower() == "off" or _FOLDER in os.environ:
        return
    try:
        folder = _cache_home() / "riemdp" / f"compiled-{_built_for()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours_alone(folder) or not os.access(folder, os.W_OK):
            return
        _bound(folder)
    except (OSError, RuntimeError, KeyError):  # no home, no room, no right: compile as without it
        return
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ[_FOLDER] = str(folder)


def _cache_home() -> Path:
    """Where programs of this user keep what can be made again."""
    told = os.environ.get("XDG_CACHE_HOME", "")
    if Path(told).is_absolute():
        return Path(told)
    if sys.platform == "win32":
        return Path(os.environ["LOCALAPPDATA"])
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def _built_for() -> str:
    """What compiled code is good for: this version, its compiler, and what the processor can do."""
    about = [__version__, importlib.metadata.version("jaxlib"), platform.platform()]
    processor = Path("/proc/cpuinfo")
    if processor.exists():
        lines = processor.read_text(errors="replace").splitlines()
        kinds = ("flags", "Features", "model name", "CPU part")
        about += sorted({line for line in lines if line.startswith(kinds)})
    else:
        about.append(platform.processor())
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]


def _is_ours_alone(folder: Path) -> bool:
    """Whether nobody else can put code there that this process would run."""
    if sys.platform == "win32":
        return True  # the folder of local data is the user's
    found = folder.lstat()
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return mine and not found.st_mode & 0o077


def _bound(folder: Path) -> None:
    """Forget the programs that were not used for longest, once there are too many."""
    entries = [(path, path.stat()) for path in folder.iterdir() if path.is_file()]
    if sum(found.st_size for _, found in entries) <= _MOST_BYTES:
        return
    kept = 0
    for path, found in sorted(entries, key=lambda entry: -entry[1].st_mtime):
        kept += found.st_size
        if kept > _MOST_BYTES // 2:
            path.unlink(missing_ok=True)

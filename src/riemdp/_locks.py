"""Files that processes share, each under a lock of its own: a ledger, what a site has answered, and
the sign that a process has a ledger open.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ._errors import RiemdpError

# The files whose locks this process holds or waits for, and (thread, device, file) of those that a
# thread does; one that an interrupt left behind is closed with its last reference.
_held: weakref.WeakKeyDictionary[IO[bytes], tuple[int, int, int] | None] = (
    weakref.WeakKeyDictionary()
)
_opening = threading.RLock()  # no fork comes between the opening of such a file and its entry
_REPLACES_OPEN_FILES = sys.platform != "win32"

if sys.platform == "win32":
    import msvcrt

    _BEYOND = 2**40  # a byte that no file has: others may read what is locked

    def _lock(handle: IO[bytes], *, at_once: bool = False, shared: bool = False) -> None:
        handle.seek(_BEYOND)
        msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK if at_once else msvcrt.LK_LOCK, 1)

    def _unlock(handle: IO[bytes]) -> None:
        pass  # with the file's end
else:
    import fcntl

    def _lock(handle: IO[bytes], *, at_once: bool = False, shared: bool = False) -> None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(handle, kind | (fcntl.LOCK_NB if at_once else 0))

    def _unlock(handle: IO[bytes]) -> None:
        # Not with the file's end: a child that was forked meanwhile has it open too. In such a
        # child it is closed already, and the lock is its parent's.
        if not handle.closed:
            fcntl.flock(handle, fcntl.LOCK_UN)

    def _closed_in_child() -> None:
        """A child holds no lock of its parent: it would outlast one that is killed."""
        for handle in _open_files():
            handle.close()
        _opening.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_opening.acquire,
            after_in_parent=_opening.release,
            after_in_child=_closed_in_child,
        )


def _open_files() -> list[IO[bytes]]:
    """Those of `_held`; other threads open and close files meanwhile."""
    return [handle for of in _held.keyrefs() if (handle := of()) is not None]


NO_ROOM = "make room there and try again"
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextlib.contextmanager
def naming(targets: dict[str, Path]) -> Iterator[None]:
    """Let an error of the operating system name the file that a user knows, not the one beside it
    that is written in its place: the keys of `targets`. A full disk gets the remedy, too.
    """
    try:
        yield
    except OSError as error:
        of = targets.get(str(error.filename))
        full = error.errno in _FULL and error.filename is None  # writing names no file
        if full and targets:
            of = next(iter(targets.values()))
        if of is None:
            raise
        remedy = f"; {NO_ROOM}" if error.errno in _FULL else ""
        raise OSError(error.errno, f"{error.strerror}{remedy}", str(of)) from error


# ------------------------------------------------------------------ files that processes share
class Lock:
    """One file, open and locked: what reads and writes it meanwhile.

    While there is no file, the lock is that of `.name.new` beside it. A new version is written
    there, and gets the file's name when it is whole; its lock goes on with it.

    Args:
        path: The file.
        stack: What lets go of every lock at the end.
    """

    def __init__(self, path: Path, stack: contextlib.ExitStack):
        self.path, self._new, self._stack = path, _new_version_of(path), stack
        self._file: IO[bytes] | None = None
        self._part: IO[bytes] | None = None
        while self._file is None and self._part is None:
            self._take()

    def _take(self) -> None:
        if self.path.exists():
            with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                mode = "r+b" if os.access(self.path, os.W_OK) else "rb"
                self._file = _taken(self.path, mode, self._stack)
            return
        self._part = self._taken_part()
        if self.path.exists():  # made meanwhile
            self.close()
            _let_go_of(self._part)
            self._part = None

    def _taken_part(self) -> IO[bytes]:
        check_is_file(self._new)
        part = _taken(self._new, "a+b", self._stack)
        _check_our_own(part, self._new)
        return part

    @property
    def names(self) -> int:
        """How many names the file has in its file system; 0 where there is none."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_nlink

    def read(self) -> bytes:
        """What the file holds; nothing where there is none."""
        if self._file is None:
            return b""
        self._file.seek(0)
        return self._file.read()

    def append(self, line: bytes) -> None:
        """Add to the file's end, on the disk when this returns. Where it raises, nothing is added.

        Raises:
            OSError: The disk is full, the file may not be written, or it was deleted or replaced
                meanwhile.
        """
        file = self._file
        if file is None:
            raise self._lost()
        if not file.writable():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        size = file.seek(0, os.SEEK_END)
        try:
            with naming({str(self._new): self.path}):
                _write(file, line)
                os.fsync(file.fileno())
            if not is_same(file, self.path):
                raise self._lost()
        except BaseException:  # an interrupt, too: whoever is refused has spent nothing
            os.ftruncate(file.fileno(), size)
            raise

    def write_text(self, text: str) -> None:
        """Replace the file by one that holds `text`, whole or not at all; a new one is its owner's
        alone.

        Raises:
            OSError: The file was deleted, replaced or made by somebody who had no lock. Nothing has
                changed then.
        """
        if self._part is None:
            self._part = self._taken_part()
        part, file = self._part, self._file
        with naming({str(self._new): self.path}):
            os.ftruncate(part.fileno(), 0)
            _write(part, text.encode())
            if file is not None and hasattr(os, "fchmod"):
                os.fchmod(part.fileno(), os.fstat(file.fileno()).st_mode & 0o777)
            os.fsync(part.fileno())
        if self.path.exists() if file is None else not is_same(file, self.path):
            raise self._lost()
        if _REPLACES_OPEN_FILES:
            os.replace(self._new, self.path)
        else:
            for handle in (part, file):
                if handle is not None:
                    handle.close()
            os.replace(self._new, self.path)
            part = _taken(self.path, "r+b", self._stack)
        self._file, self._part = part, None
        synced(self.path.parent)

    def close(self) -> None:
        """Delete a new version that was not put in place, while it is locked; where an open file
        cannot be deleted, it stays, and whoever comes next takes it.
        """
        if _REPLACES_OPEN_FILES and self._part is not None and is_same(self._part, self._new):
            self._new.unlink(missing_ok=True)

    def _lost(self) -> OSError:
        return OSError(
            errno.ENOLCK,
            "the lock of this file was lost, because it was deleted, replaced or made by somebody"
            " else while it was held; nothing was written. Leave it alone while a program works"
            " with it, and try again",
            str(self.path),
        )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[Lock]:
    """Hold the lock of a file, which other processes respect. The operating system drops it when
    its holder ends.

    It is the lock of the file that has this name: it is taken again until that is so.

    Raises:
        RiemdpError: It would wait for this very thread; or a file is none.
        OSError: A file cannot be opened, or is a link.
    """
    check_is_file(path)
    stack = contextlib.ExitStack()
    try:
        with naming({str(_new_version_of(path)): path}):
            lock = Lock(path, stack)
        stack.callback(lock.close)
        yield lock
    finally:
        try:
            stack.close()
        finally:
            stack.close()  # an interrupt may come in the place of the first


def _new_version_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _write(file: IO[bytes], content: bytes) -> None:
    """All of it, where the system writes less at a time."""
    while content:
        content = content[file.write(content) :]


def check_is_file(path: Path) -> None:
    """Raise where a folder, or a pipe that would be waited for, has this name."""
    mode = stat.S_IFREG
    with contextlib.suppress(OSError):  # one look: another process may put it in place meanwhile
        mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise RiemdpError(f"{path} is a folder, a pipe or a device; remove or rename it")


def _opened(path: Path, mode: str) -> IO[bytes]:
    """A file that is no link, entered in `_held`. It is not buffered: the lock of a buffer could be
    another thread's when a child closes it.
    """
    with _opening:
        handle = open(path, mode, buffering=0, opener=_no_link)  # noqa: SIM115 - in `_held`
        _held[handle] = None
    return handle


def _taken(path: Path, mode: str, stack: contextlib.ExitStack) -> IO[bytes]:
    """The file that has this name while it is locked, until the end of `stack`."""
    while True:
        handle = _opened(path, mode)
        told = os.fstat(handle.fileno())
        mine = (threading.get_ident(), told.st_dev, told.st_ino)
        if any(_held.get(other) == mine and not other.closed for other in _open_files()):
            handle.close()
            raise RiemdpError(
                f"{path} is being read or written in this very thread, which would wait for itself:"
                " a signal handler or a hook came in between. Nothing was released or charged"
            )
        # Called in the order from below. Closed twice: an interrupt may come in the place of one.
        stack.enter_context(handle)
        stack.callback(handle.close)
        stack.callback(_unlock, handle)
        _held[handle] = mine
        _lock(handle)
        if is_same(handle, path):
            return handle
        _let_go_of(handle)  # it had lost its name by then


def _let_go_of(handle: IO[bytes]) -> None:
    with handle:
        _unlock(handle)


def is_same(handle: IO[bytes], path: Path) -> bool:
    """Whether the open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except (OSError, ValueError):
        return False


# ------------------------------------------------------------------ locks that tell of a process
def hold(path: Path) -> IO[bytes]:
    """Make a file and lock it, for as long as what is returned is not closed and the process lives.

    Raises:
        OSError: The file cannot be made, is somebody else's, or another process holds it.
    """
    handle = _opened(path, "a+b")
    _check_our_own(handle, path)
    for left in range(50, -1, -1):
        try:
            _lock(handle, at_once=True)
            return handle
        except OSError:
            if left == 0:
                handle.close()
                raise
            time.sleep(1e-3)  # somebody looks whether it is held
    raise AssertionError


def let_go(handle: IO[bytes], path: Path) -> None:
    """What `hold` began ends."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    _let_go_of(handle)


def is_held(path: Path) -> bool:
    """Whether a process holds a file, see `hold`. What is in its place and cannot be looked at, or
    is somebody else's, counts as held.
    """
    try:
        handle = _opened(path, "rb")
    except FileNotFoundError:
        return False
    except OSError:
        return True
    with handle:
        try:
            _lock(handle, at_once=True, shared=True)  # several may look at a time
        except OSError:
            return True
        _unlock(handle)
        return not _is_our_own(handle)


def _no_link(path: str, flags: int) -> int:
    """Opens a file that is nobody else's name for another one; a new one for its owner only."""
    safe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would be waited for
    return os.open(path, flags | safe, 0o600)


def _is_our_own(handle: IO[bytes]) -> bool:
    """Whether what is open is a file, belongs to this user and has one name."""
    told = os.fstat(handle.fileno())
    if not stat.S_ISREG(told.st_mode):
        return False
    return told.st_nlink < 2 and (sys.platform == "win32" or told.st_uid == os.geteuid())


def _check_our_own(handle: IO[bytes], path: Path) -> None:
    if not _is_our_own(handle):
        _let_go_of(handle)
        what = "this file is somebody else's, or has two names"
        raise PermissionError(errno.EPERM, what, str(path))


def synced(folder: Path) -> None:
    """The new name, too, must survive a power cut."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

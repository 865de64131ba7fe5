"""Whole files or nothing: files are written under temporary names and put in place together."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from ._errors import RiemdpError

# The files whose locks this process holds or waits for; one that an interrupt left behind is closed
# with its last reference.
_held: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()
_opening = threading.RLock()  # no fork comes between the opening of such a file and its entry
_mine: set[tuple[int, int, int]] = set()  # (thread, device, file) of what it holds or waits for
_REPLACES_OPEN_FILES = sys.platform != "win32"

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: IO[bytes]) -> None:
        handle.seek(0)
        msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)

    def _unlock(handle: IO[bytes]) -> None:
        pass  # with the file's end

    def _lock_at_once(handle: IO[bytes], *, shared: bool = False) -> None:
        handle.seek(0)
        msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: IO[bytes]) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _unlock(handle: IO[bytes]) -> None:
        # Not with the file's end: a child that was forked meanwhile has it open too. In such a
        # child it is closed already, and the lock is its parent's.
        if not handle.closed:
            fcntl.flock(handle, fcntl.LOCK_UN)

    def _lock_at_once(handle: IO[bytes], *, shared: bool = False) -> None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(handle, kind | fcntl.LOCK_NB)

    def _closed_in_child() -> None:
        """A child holds no lock of its parent: it would outlast one that is killed."""
        for handle in list(_held):
            handle.close()
        _mine.clear()
        _opening.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_opening.acquire,
            after_in_parent=_opening.release,
            after_in_child=_closed_in_child,
        )


NO_ROOM = "make room there and try again"
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextlib.contextmanager
def _named(targets: dict[str, Path]) -> Iterator[None]:
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


class Lock:
    """The lock of one file, held: what writes the file under it.

    Args:
        path: The file.
        beside: The file whose lock other processes wait for first.
        handle: That file as it was locked.
        stack: What lets go of every lock at the end.
    """

    def __init__(self, path: Path, beside: Path, handle: IO[bytes], stack: contextlib.ExitStack):
        self.path, self._beside, self._handle, self._stack = path, beside, handle, stack
        self._own: IO[bytes] | None = None
        if is_same(handle, path):  # it would wait for itself
            raise RiemdpError(f"{beside} is another name of {path} (a hard link); delete {beside}")
        while _REPLACES_OPEN_FILES and path.exists():
            try:
                own = _taken(path, "r+b" if os.access(path, os.W_OK) else "rb", stack)
            except FileNotFoundError:
                continue
            if is_same(own, path):
                self._own = own
                _remove_left(path, own)
                break

    def write_text(self, text: str, mode: int = 0o666) -> None:
        """Replace the file by one that holds `text`, whole or not at all.

        Raises:
            OSError: The lock is no longer this one's, because the file it is on was deleted, or the
                file was replaced by somebody who had no lock. Nothing has changed then.
        """
        with staged(self.path, mode=mode, put=self._put) as (part,):
            part.write_text(text, encoding="utf-8")

    def _put(self, part: Path, target: Path) -> None:
        if not _REPLACES_OPEN_FILES:  # nor does it delete them: the file beside it still stands
            os.replace(part, target)
            return
        # The new file is locked before it has its name, so this lock goes on with it.
        new = _taken(part, "r+b", self._stack)
        if not is_same(self._handle, self._beside):
            raise self._lost()
        if self._own is None:
            _put_new(part, target, self._lost())
        elif is_same(self._own, target):
            os.replace(part, target)
        else:
            raise self._lost()
        self._own = new

    def _lost(self) -> OSError:
        return OSError(
            errno.ENOLCK,
            f"the lock of this file was lost, because {self._beside.name} or the file itself was"
            " deleted or replaced while it was held; nothing was written. Delete neither while a"
            " program works with them, and try again",
            str(self.path),
        )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[Lock]:
    """Hold the lock of a file, which other processes respect. The operating system drops it when
    its holder ends.

    Two locks are held: that of a file beside `path`, which stays when `path` is replaced or does
    not exist yet, and that of `path` itself, which keeps others out if the file beside it is
    deleted. Each is taken again until the file that was locked is the one that has the name.

    Raises:
        RiemdpError: It would wait for this very thread; or a file is none, or a link.
        OSError: A file cannot be opened.
    """
    beside = path.with_name(path.name + ".lock")
    check_is_file(path)
    with contextlib.ExitStack() as stack:
        with _named({str(beside): path}):
            if beside.is_symlink():  # it may lead to any file, `path` itself among them
                raise RiemdpError(f"{beside} is a symbolic link, which locks nothing; delete it")
            check_is_file(beside)
            handle = _taken(beside, "a+b", stack)
            while not is_same(handle, beside):
                handle = _taken(beside, "a+b", stack)
            lock = Lock(path, beside, handle, stack)
        yield lock


def check_is_file(path: Path) -> None:
    """Raise where a folder, or a pipe that would be waited for, has this name."""
    if path.exists() and not path.is_file():
        raise RiemdpError(f"{path} is a folder, a pipe or a device; remove or rename it")


def read_text(path: str | os.PathLike[str]) -> str:
    """What a file holds."""
    check_is_file(Path(path))
    return Path(path).read_text(encoding="utf-8")


def _taken(path: Path, mode: str, stack: contextlib.ExitStack) -> IO[bytes]:
    """A file, opened and locked until the end of `stack`; no link."""
    # not buffered: the lock of a buffer could be another thread's when a child closes it
    with _opening:
        opened = open(path, mode, buffering=0, opener=partial(_no_link, mode=0o666))  # noqa: SIM115
        handle = stack.enter_context(opened)
        _held.add(handle)
    told = os.fstat(handle.fileno())
    mine = (threading.get_ident(), told.st_dev, told.st_ino)
    if mine in _mine:
        raise RiemdpError(
            f"{path} is being read or written in this very thread, which would wait for itself: a"
            " signal handler or a hook came in between. Nothing was released or charged"
        )
    # Called in the order from below, when it is unlocked; before the rest, for an interrupt.
    stack.callback(_mine.discard, mine)
    stack.callback(_unlock, handle)
    _mine.add(mine)
    _lock(handle)
    return handle


def _remove_left(path: Path, own: IO[bytes]) -> None:
    """Remove the name under which a locked file was written, which a process leaves that is killed
    in `_put_new`. Whoever holds the lock is the only one who writes, so nobody needs that name.
    """
    if os.fstat(own.fileno()).st_nlink < 2:
        return
    name = re.compile(f"{re.escape(f'.{path.stem}.part-')}[0-9a-f]{{32}}{re.escape(path.suffix)}")
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:  # then it is refused
        for entry in entries:
            if name.fullmatch(entry.name) and is_same(own, Path(entry.path)):
                os.unlink(entry.path)


def _put_new(part: Path, target: Path, taken: OSError) -> None:
    """Give a file a name that no file has, else raise `taken`."""
    if target.exists():
        raise taken
    try:
        os.link(part, target)  # unlike a renaming, never over a file that came meanwhile
    except FileExistsError as error:
        raise taken from error
    except OSError:  # a file system without links
        os.replace(part, target)
    part.unlink(missing_ok=True)


def is_same(handle: IO[bytes], path: Path) -> bool:
    """Whether the open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except OSError:
        return False


def hold(path: Path) -> IO[bytes]:
    """Make a file and lock it, for as long as what is returned is not closed and the process lives.

    Raises:
        OSError: The file cannot be made, is somebody else's, or another process holds it.
    """
    with _opening:
        handle = open(path, "a+b", buffering=0, opener=_no_link)  # noqa: SIM115 - held
        _held.add(handle)
    if not _is_our_own(handle):
        handle.close()
        raise PermissionError(errno.EPERM, "this file is somebody else's, or has two names", path)
    for left in range(50, -1, -1):
        try:
            _lock_at_once(handle)
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
    _unlock(handle)
    handle.close()


def is_held(path: Path) -> bool:
    """Whether a process holds a file, see `hold`. What is in its place and cannot be looked at, or
    is somebody else's, counts as held.
    """
    try:
        with _opening:
            handle = open(path, "rb", buffering=0, opener=_no_link)  # noqa: SIM115 - below
            _held.add(handle)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    with handle:
        try:
            _lock_at_once(handle, shared=True)  # several may look at a time
        except OSError:
            return True
        _unlock(handle)
        return not _is_our_own(handle)


def _no_link(path: str, flags: int, mode: int = 0o600) -> int:
    """Opens a file that is nobody else's name for another one; a new one for its owner only."""
    safe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would be waited for
    return os.open(path, flags | safe, mode)


def _is_our_own(handle: IO[bytes]) -> bool:
    """Whether what is open is a file, belongs to this user and has one name."""
    told = os.fstat(handle.fileno())
    if not stat.S_ISREG(told.st_mode):
        return False
    return told.st_nlink < 2 and (sys.platform == "win32" or told.st_uid == os.geteuid())


@contextlib.contextmanager
def staged(
    *targets: str | os.PathLike[str],
    mode: int = 0o666,
    put: Callable[[Path, Path], None] = os.replace,
) -> Iterator[tuple[Path, ...]]:
    """Yield one temporary path per target, in the target's own folder; on success they replace the
    targets.

    Entering fails with `OSError` where a folder is missing or not writable, so entering before any
    work is a check that the output can be written. When the body raises (also on an interrupt)
    nothing is left behind, at the latest when the exception is dropped, and no target has changed;
    after a crash or a power cut a reader finds the old file or the new one, never half of one. A
    target that exists keeps its permissions, a new one gets `mode` as far as the process's umask
    allows. A target that is a symbolic link stays one: the file that it points to is replaced.
    `put` gives the new file its name.
    """
    made: list[tuple[Path, Path]] = []
    named: dict[str, Path] = {}
    with _named(named), _removed(made):
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
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield tuple(part for part, _ in made)
        for part, target in made:
            with part.open("rb+") as stream:
                os.fsync(stream.fileno())
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
        for part, target in made:
            put(part, target)
        for folder in {target.parent for _, target in made}:
            _sync(folder)


@contextlib.contextmanager
def _removed(made: list[tuple[Path, Path]]) -> Iterator[None]:
    """Leave no temporary file behind."""
    try:
        yield
    finally:
        for part, _ in made:
            part.unlink(missing_ok=True)


def write_text(target: str | os.PathLike[str], text: str, mode: int = 0o666) -> None:
    """Replace a file by one that holds `text`, whole or not at all."""
    with staged(target, mode=mode) as (part,):
        part.write_text(text, encoding="utf-8")


def write_new_text(target: Path, text: str, mode: int = 0o666) -> None:
    """Make a file that holds `text`, whole or not at all.

    Raises:
        FileExistsError: There is one of this name.
    """
    taken = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    with staged(target, mode=mode, put=partial(_put_new, taken=taken)) as (part,):
        part.write_text(text, encoding="utf-8")


def _sync(folder: Path) -> None:
    """The new name, too, must survive a power cut."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

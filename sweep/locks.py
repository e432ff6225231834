"""Locks on single bytes of a file: they go with the process, however it ends, and children do not inherit them."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys

#: (pid, lock file) -> its descriptor and the offsets this process has locked. One descriptor per file and process:
#: closing a second one would drop the locks of the first.
_held: dict[tuple[int, str], tuple[int, set[int]]] = {}


def acquire(path: str, offset: int) -> int | None:
    """Locks one byte of the file; None, or the pid of who has it."""
    key = (os.getpid(), path)
    descriptor, offsets = _held.get(key) or (os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), set())
    if offset in offsets:
        return os.getpid()
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
    except OSError as error:
        pid = _ask(descriptor, offset)
        if not offsets:
            os.close(descriptor)
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        return pid or 0
    offsets.add(offset)
    _held[key] = descriptor, offsets
    return None


def release(path: str, offset: int) -> None:
    key = (os.getpid(), path)
    if key not in _held:  # a child made by fork leaves its parent's context
        return
    descriptor, offsets = _held[key]
    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, offset)
    offsets.discard(offset)
    if not offsets:
        os.close(descriptor)
        del _held[key]


def holder(path: str, offset: int) -> int | None:
    """The pid of who has locked that byte, else None."""
    descriptor, offsets = _held.get((os.getpid(), path), (None, set()))
    if offset in offsets:
        return os.getpid()
    if descriptor is not None:
        return _ask(descriptor, offset)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _ask(descriptor, offset)
    finally:
        os.close(descriptor)


def _ask(descriptor: int, offset: int) -> int | None:
    """fcntl's F_GETLK, which Python leaves to us: the layout of struct flock differs between Linux and macOS."""
    if sys.platform == "darwin":
        asked = struct.pack("qqihh", offset, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
        _, _, pid, kind, _ = struct.unpack("qqihh", fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    else:
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
        kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else pid

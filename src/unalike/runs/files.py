"""Files that are either there as a whole or not at all, whenever the process or the machine stops.

What is made in a folder that only its owner can enter is its owner's alone, too, whatever the umask says: one
folder is made private (``private_folder``), and everything that is ever written there is.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from unalike.errors import TryLater, UserError, shown

if TYPE_CHECKING:
    from filelock import FileLock

# EFBIG is what a limit on the size of files (ulimit -f) answers. Windows has no EDQUOT.
_NO_SPACE = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_NO_PERMISSION = {errno.EACCES, errno.EPERM, errno.EROFS}
# What a platform or a file system answers that cannot flush a folder.
_NO_FOLDER_SYNC = {errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EPERM}

_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{16}\.unalike-tmp")
_WINDOWS_ATTEMPTS = 10
_OTHERS = 0o077


def atomic_write(path: Path, data: bytes | bytearray, *, private: bool = False) -> None:
    """Write ``data`` to ``path`` so that a reader, also after a power cut, finds the old or the new content.

    The content is on the disk when this returns. A failure leaves no temporary file. What is no file, such as
    /dev/null or a named pipe, is written to and not replaced. ``private``: for its owner alone wherever it lies,
    as secrets are.
    """
    if _takes_no_place(path):
        return _write_straight(path, data)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.unalike-tmp")
    try:
        # Not tempfile: it makes files that only their owner can read, wherever they are.
        with open_file(temporary, "xb", private=private) as file:
            write_all(file, data)
            os.fsync(file.fileno())
        _replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        with suppress(OSError):  # after success it is gone already
            temporary.unlink()


def open_file(path: Path, mode: Literal["ab", "wb", "xb"], *, private: bool = False) -> FileIO:
    """Open a file to write to, without a buffer; one that is to be private is so from its first moment."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600 if private or is_private(path.parent) else 0o666)

    return open(path, mode, buffering=0, opener=opener)


def _takes_no_place(path: Path) -> bool:
    """Whether it is a device or a pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _write_straight(path: Path, data: bytes | bytearray) -> None:
    try:
        with path.open("wb", buffering=0) as file:
            write_all(file, data)
    except OSError as error:
        raise storage_error(path, error) from error


def write_all(file: FileIO, data: bytes | bytearray) -> None:
    """Write all of ``data`` to an unbuffered file, which may take fewer bytes than it is given."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` survive a power cut, where the platform can (Windows cannot, nor needs to)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Create ``folder`` and its parents, all of which survive a power cut; ``private``: for its owner alone."""
    try:
        missing = [level for level in (folder, *folder.parents) if not level.exists()]
        folder.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)
        for level in missing:
            sync_folder(level.parent)
    except OSError as error:
        raise storage_error(folder, error) from error


def named_folder(name: Path | str, flag: str) -> Path:
    """The folder of that name. An empty one would be the current folder, which nobody means by it."""
    if not isinstance(name, str | Path) or name == "":
        raise UserError(f"{flag} must name a folder, got {shown(name)}. Write . for the current folder.")
    return Path(name)


def private_folder(folder: Path) -> None:
    """Create ``folder`` for its owner alone; one that is there is narrowed, with all of the owner's in it.

    The folder first: from then on nobody else can put anything into it. Where its name is a link, as to a larger
    disk, it is the folder there; links in it are left alone.
    """
    make_folder(folder, private=True)
    if os.name == "nt":  # which has no such modes
        return
    try:
        folder = folder.resolve(strict=True)
        _narrow(folder)
        for level, folders, files in os.walk(folder):
            for name in (*folders, *files):
                with suppress(FileNotFoundError):  # somebody's temporary file
                    _narrow(Path(level) / name, os.geteuid())
    except OSError as error:
        raise storage_error(folder, error, "keep others out of") from error


def _narrow(path: Path, owner: int | None = None) -> None:
    """Take away what others may do with it, unless it belongs to another than ``owner``."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or owner not in (None, found.st_uid):
        return
    if found.st_mode & _OTHERS:
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)


def is_private(folder: Path) -> bool:
    """Whether only its owner can enter the folder."""
    return not folder.stat().st_mode & _OTHERS


def clean_leftovers(folder: Path) -> int:
    """Remove the temporary files of writers that were killed, and say how many.

    Only for a folder that no other process writes to: the temporary file of a living writer looks the same.
    """
    removed = 0
    for path in list_folder(folder):
        if _LEFTOVER.fullmatch(path.name) and path.is_file():
            with suppress(OSError):
                path.unlink()
                removed += 1
    return removed


def file_lock(path: Path, timeout: float = 0.0) -> FileLock:
    """A lock that ends with the process that holds it, however that ends; its file is as all files are."""
    from filelock import FileLock

    private = path.parent.exists() and is_private(path.parent)
    return FileLock(path, timeout, mode=0o600 if private else 0o644, thread_local=False)


def is_held(lock: Path) -> bool:
    """Whether a process holds the lock."""
    from filelock import Timeout

    if not lock.exists():
        return False
    try:
        with file_lock(lock):
            return False
    except Timeout:
        return True


def list_folder(folder: Path) -> list[Path]:
    """What is in ``folder``; nothing where there is no such folder."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(folder, error, "read") from error


def read_bytes(path: Path, start: int = 0) -> bytes | None:
    """What a file holds, from a place on; None where there is none. A device or a pipe has no end: refused."""
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
            raise UserError(f"{path} is a device or a pipe, not a file. Replace it by the file.")
        with path.open("rb") as file:
            file.seek(start)
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(path, error, "read") from error


def storage_error(path: Path, error: OSError, action: str = "write") -> UserError:
    """The one line for a disk that refuses: what, where, and the remedy."""
    if error.errno in _NO_SPACE:
        return TryLater(
            f"No space left for {path}: free some and run the same command again; nothing that was saved is lost."
        )
    if error.errno in _NO_PERMISSION:
        return UserError(
            f"No permission to {action} {path}: allow it, or choose another folder, and run the same command "
            "again; nothing that was saved is lost."
        )
    return UserError(
        f"Cannot {action} {path} ({error.strerror or error}): mend that and run the same command again; "
        "nothing that was saved is lost."
    )


def _replace(source: Path, target: Path) -> None:
    """Rename, with patience on Windows, where that fails while a virus scanner has the target open."""
    for attempt in range(_WINDOWS_ATTEMPTS):
        try:
            source.replace(target)
            return
        except PermissionError:
            if os.name != "nt" or attempt == _WINDOWS_ATTEMPTS - 1:
                raise
            time.sleep(0.02 * (attempt + 1))

"""Public files, fetched into the data folder: one has its name only when its checksum is right.

What was fetched before a stop stays beside it and is gone on with; the checksum of the whole file decides.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import socket
import ssl
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from unalike.data.folder import data_folder
from unalike.data.sources import BY_HAND, SOURCES, RemoteFile
from unalike.data.whole_file import cannot_write, new_folder
from unalike.errors import TryLater, UserError

MIRROR = "UNALIKE_MIRROR"
"""The environment variable with the address of a folder that is asked instead of the public ones."""
SILENCE = 20.0
"""Seconds without an answer or a byte after which a host is given up."""
MOST = 2**30  # bytes: more than any file here has
_BLOCK = 2**16
_SCHEMES = ("http://", "https://", "file://")

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, how many bytes of it are here, and how many it has, where the host says so."""


class _Broken(ValueError):
    """An answer that is not the whole file."""


_REFUSED = (
    urllib.error.URLError,
    http.client.HTTPException,
    TimeoutError,
    ConnectionError,
    ssl.SSLError,
    ValueError,
)


def get(name: str, address: str | None, progress: Progress) -> list[Path]:
    """Fetch the files of a data set that are not in the data folder yet; where they are."""
    if name in BY_HAND:
        raise UserError(
            f"The checksums of {name}'s files are not known here, so get them by hand. {BY_HAND[name]}"
        )
    if name not in SOURCES:
        raise UserError(f"{name} has no files to get: use it as it is. With files are {', '.join(SOURCES)}.")
    given = address or os.environ.get(MIRROR, "")
    mirrors = (_checked(given),) if given else SOURCES[name].mirrors
    folder = data_folder()
    new_folder(folder)
    with _alone(folder):
        return [_get(file, folder, mirrors, progress) for file in SOURCES[name].files]


def _checked(address: str) -> str:
    if not address.startswith(_SCHEMES):
        raise UserError(
            f"--from must be an address such as https://host/folder/ or file:///folder, got {address!r}."
        )
    return address.rstrip("/") + "/"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two programs that append to the same file would make neither's."""
    lock = FileLock(folder / ".get.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise TryLater(f"Another program is getting files into {folder}. Wait for it.") from None
    except OSError as error:
        raise cannot_write(folder, error) from None
    try:
        yield
    finally:
        lock.release()


def _get(file: RemoteFile, folder: Path, mirrors: Sequence[str], progress: Progress) -> Path:
    target = folder / file.place
    place = folder / (file.unpacks_to or file.place)
    if place.exists():
        if not file.unpacks_to and _digest(place, file.digest) != file.digest:
            raise UserError(f"{place} is another file than the public one. Remove it, or name another --data-dir.")
        return place
    new_folder(target.parent)
    partial = target.with_name(f".{target.name}.part")
    try:
        _fetch_from(file, mirrors, partial, progress)
        if file.unpacks_to:
            _unpack(partial, place)
            partial.unlink()
        else:
            partial.replace(target)
    except OSError as error:
        raise cannot_write(place, error) from None
    return place


def _fetch_from(file: RemoteFile, mirrors: Sequence[str], partial: Path, progress: Progress) -> None:
    """The whole file with the right checksum, from the first address that has it."""
    problems = []
    for mirror in mirrors:
        url = mirror + file.name
        try:
            found = _whole(url, partial, file.digest, progress)
            if found == file.digest:
                return
            problems.append(f"{url} has the checksum {found}, not {file.digest}")
        except _REFUSED as error:
            problems.append(_problem(url, error))
    have = partial.stat().st_size if partial.exists() else 0
    kept = f" The {have:,} bytes that are here are gone on with next time." if have else ""
    by_hand = f"put it there as {partial.parent / Path(file.place).name}, or name another place with --from."
    raise UserError(f"Cannot get {file.name}: {'; '.join(problems)}.{kept} Try again, {by_hand}")


def _whole(url: str, partial: Path, digest: str, progress: Progress) -> str:
    """Fetch what is missing; the checksum of the whole. A file with a wrong one is thrown away."""
    begun = partial.exists()
    _fetch(url, partial, progress)
    found = _digest(partial, digest)
    if found != digest:
        partial.unlink()
        if begun:  # perhaps its beginning was wrong
            return _whole(url, partial, digest, progress)
    return found


def _problem(url: str, error: Exception) -> str:
    """What went wrong, for a line of text."""
    host, reason = url.split("/")[2] or url, getattr(error, "reason", error)
    if isinstance(error, urllib.error.HTTPError):
        return f"{host} answers {error.code} ({reason})"
    if isinstance(reason, TimeoutError):
        return f"{host} sent nothing for {SILENCE:g} seconds"
    if isinstance(error, _Broken | http.client.IncompleteRead):
        return f"{host} {error if isinstance(error, _Broken) else 'broke off'}"
    what = " ".join(str(reason).split())[:120]
    unknown = isinstance(reason, socket.gaierror)
    return f"no network, or no host {host} ({what})" if unknown else f"{host} cannot be reached ({what})"


def _fetch(url: str, partial: Path, progress: Progress) -> None:
    """The file, or the rest of it, where a part is here and the host can go on from there."""
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "unalike", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=SILENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:  # not 416: there is no more, so the whole file may be here
            raise
        return
    with answer:
        goes_on = bool(have) and str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-")
        have = have if goes_on else 0
        length = str(answer.headers.get("Content-Length", ""))
        total = have + int(length) if length.isdigit() else None
        _check_room(partial, url, (total or 0) - have)
        with partial.open("ab" if goes_on else "wb") as file:
            for block in _blocks(answer):
                file.write(block)
                have += len(block)
                if have > MOST:
                    raise _Broken(f"sends more than {MOST:,} bytes")
                progress(partial.name.strip(".").removesuffix(".part"), have, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and have < total:
        raise _Broken(f"broke off after {have:,} of {total:,} bytes")


def _blocks(answer: Any) -> Iterator[bytes]:
    while block := answer.read(_BLOCK):
        yield block


def _check_room(path: Path, url: str, needed: int) -> None:
    """Refuse what the disk has no room for, before it is full."""
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise UserError(
            f"{url} has {needed / 1e6:,.0f} MB, and {path.parent} has room for {free / 1e6:,.0f} MB. Make room, "
            "or name another --data-dir."
        )


def _digest(path: Path, like: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5" if len(like) == 32 else "sha256").hexdigest()


def _unpack(archive: Path, place: Path) -> None:
    """The folder that is in the archive; it has its name when it is whole."""
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=place.parent) as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        Path(folder, place.name).replace(place)

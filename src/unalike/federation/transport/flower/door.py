"""How a message gets from Flower's process at a site to the process that owns the data: a Unix socket.

A message is eight bytes of length, big-endian, and its bytes. An answer begins with one more byte: 0 for an
answer, 1 for the one line that says why there is none. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from unalike.errors import UserError

MESSAGE_LIMIT = 1 << 30
"""The longest message or answer, in bytes."""
_LENGTH = struct.Struct(">Q")
_ANSWER, _REFUSAL = b"\0", b"\1"
_PATIENCE = 60.0
"""Seconds in which the other side must send or take the next piece; thinking about an answer may take longer."""


class DoorError(Exception):
    """No answer came through the door; the text says why."""


class SiteDoor:
    """Listens at ``path``, in a folder that only this user can enter, and gives each message to ``answer``.

    One message after the other. What ``answer`` raises goes back as a refusal: the kind of error and, for a
    ``UserError``, its text. No other text leaves: a traceback may quote data.
    """

    def __init__(self, answer: Callable[[bytes], bytes], limit: int = MESSAGE_LIMIT) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise UserError("Sites run on Linux or macOS; Windows is not supported (WSL is).")
        self._answer, self._limit = answer, limit
        self._folder: Path | None = None
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def path(self) -> str:
        """Where the door is, for ``Node``."""
        if self._folder is None:
            raise RuntimeError("the door is closed")
        return str(self._folder / "door")

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="unalike-", dir=_short_folder()))  # 0700
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve, name="site-door", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
            self._listener.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = self._listener = None

    def _serve(self) -> None:
        listener = self._listener
        while listener is not None:
            try:
                visitor, _ = listener.accept()
            except OSError:
                return
            with visitor, suppress(OSError):  # a visitor that goes away takes nobody with it
                visitor.settimeout(_PATIENCE)
                self._attend(visitor)

    def _attend(self, visitor: socket.socket) -> None:
        try:
            message = _receive(visitor, self._limit)
            reply = self._answer(message)
            if len(reply) >= self._limit:
                raise DoorError(f"the answer has {len(reply)} bytes, more than {self._limit}")
            mark = _ANSWER
        except OSError:
            raise
        except (DoorError, UserError) as error:
            mark, reply = _REFUSAL, str(error).encode()
        except Exception as error:
            mark, reply = _REFUSAL, f"the site failed ({type(error).__name__}); its own log says more".encode()
        _send(visitor, mark + reply)


def ask(path: str, message: bytes, limit: int = MESSAGE_LIMIT) -> bytes:
    """Pass a message through the door at ``path`` and wait for the answer; ``DoorError`` where there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.settimeout(_PATIENCE)
            visitor.connect(path)
            _send(visitor, message)
            visitor.settimeout(None)  # an answer may be hours of training away; a site that dies closes the socket
            reply = _receive(visitor, limit + 1)
    except OSError as error:
        raise DoorError(f"the site's process is not there ({error.strerror or error})") from error
    if reply[:1] != _ANSWER:
        raise DoorError(reply[1:].decode(errors="replace") or "the site gave no reason")
    return reply[1:]


def _send(peer: socket.socket, data: bytes) -> None:
    peer.sendall(_LENGTH.pack(len(data)))
    if data:  # sending nothing to someone who has everything, and has answered and gone, would be an error
        peer.sendall(data)


def _receive(peer: socket.socket, limit: int) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(peer, _LENGTH.size))
    if length > limit:
        # Read and thrown away, so that the other side, which is still sending, gets to read why.
        _exactly(peer, min(length, 4 * limit), keep=False)
        raise DoorError(f"a message of {length} bytes is longer than {limit}")
    return _exactly(peer, length)


def _exactly(peer: socket.socket, length: int, keep: bool = True) -> bytes:
    """``length`` bytes; memory grows with what arrives, not with what is promised."""
    parts, missing = [], length
    while missing:
        part = peer.recv(min(missing, 1 << 20))
        if not part:
            raise ConnectionError(None, "the connection ended in the middle of a message")
        if keep:
            parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _short_folder() -> str | None:
    """The usual temporary folder, or /tmp where that one's name is too long for a Unix socket (108 bytes)."""
    return None if len(os.fsencode(tempfile.gettempdir())) < 70 else "/tmp"

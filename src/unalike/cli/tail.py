"""Lines as others append them to a file."""

from __future__ import annotations

from pathlib import Path


class Tail:
    """What is appended to a file from now on; ``whole`` begins at its first line."""

    def __init__(self, path: Path, *, whole: bool = False) -> None:
        self._path, self._rest = path, b""
        self._at = 0 if whole else self._size()

    def lines(self) -> list[str]:
        """The lines that are new and whole."""
        size = self._size()
        if size < self._at:  # begun anew
            self._at, self._rest = 0, b""
        if size == self._at:
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        self._at += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

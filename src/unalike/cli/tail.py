"""Lines as others append them to a file."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path


class Tail:
    """What is appended to a file from now on; ``whole`` begins at its first line.

    The file may be put aside and begun anew: its last lines are read first.
    """

    def __init__(self, path: Path, *, whole: bool = False) -> None:
        self._path, self._rest = path, b""
        self._file = self._opened()
        if self._file is not None and not whole:
            self._file.seek(0, os.SEEK_END)

    def lines(self) -> list[str]:
        """The lines that are new and whole."""
        data = self._read()
        while (there := self._opened()) is not None:
            if self._file is not None and os.path.sameopenfile(there.fileno(), self._file.fileno()):
                there.close()
                break
            data += self._read()  # what came since, before it was put aside
            if self._file is not None:
                self._file.close()
            self._file = there
            data += self._read()
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def _read(self) -> bytes:
        if self._file is None:
            return b""
        if os.fstat(self._file.fileno()).st_size < self._file.tell():  # begun anew
            self._file.seek(0)
            self._rest = b""
        return self._file.readall()

    def _opened(self) -> FileIO | None:
        try:
            return self._path.open("rb", buffering=0)
        except OSError:
            return None

"""Pre-trained word vectors from a text file in GloVe's format: a word and its numbers in each line."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unalike.data.folder import NotFound, data_folder
from unalike.data.text import SPECIAL
from unalike.errors import UserError


def find_vectors(name: str) -> Path:
    """The file of that name: as it is, or in the data folder."""
    path = Path(name).expanduser()
    for place in (path, data_folder() / path):
        if place.is_file():
            return place
    raise NotFound(
        f"There is no file of word vectors {name!r}, here or in {data_folder()}. "
        "Download GloVe's (nlp.stanford.edu/projects/glove), or leave vectors out."
    )


def fingerprint_vectors(name: str) -> str:
    """The SHA-256 of the file's content."""
    path = find_vectors(name)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}. Check the file.") from None


def read_vectors(name: str, words: Sequence[str], width: int) -> NDArray[np.float32]:
    """A row for every word. Words that the file does not have get the mean of those that it has, padding zeros.

    The first line may be word2vec's and fastText's: the number of words and the width. A word that the file has
    twice keeps its first vector.
    """
    path = find_vectors(name)
    wanted = {word: number for number, word in enumerate(words) if word not in SPECIAL}
    found: dict[int, NDArray[np.float32]] = {}
    try:
        with path.open(encoding="utf-8", newline="\n") as file:  # words may hold other signs that end a line
            for line, text in enumerate(file, 1):
                word, *numbers = text.rstrip().split(" ")
                if line == 1 and len(numbers) == 1:
                    continue
                place = wanted.get(word)
                if place is not None and place not in found:
                    found[place] = _vector(path, line, numbers, width)
                elif line <= 2 and len(numbers) != width:
                    raise _wrong_width(path, line, len(numbers), width)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read the word vectors {path}: {error}. Is it GloVe's text format?") from None
    if not found:
        raise UserError(f"{path} has a vector for none of the {len(words)} words. Is it of another language?")
    table = np.tile(np.mean(list(found.values()), axis=0), (len(words), 1)).astype(np.float32)
    table[list(found)] = list(found.values())
    table[[number for number, word in enumerate(words) if word == SPECIAL[0]]] = 0
    return table


def _vector(path: Path, line: int, numbers: list[str], width: int) -> NDArray[np.float32]:
    if len(numbers) != width:
        raise _wrong_width(path, line, len(numbers), width)
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError:
        vector = np.array([np.nan], dtype=np.float32)
    if not np.isfinite(vector).all():
        raise UserError(f"{path}, line {line} has a value that is not a number. Download it again.")
    return vector


def _wrong_width(path: Path, line: int, found: int, width: int) -> UserError:
    return UserError(f"{path}, line {line} has {found} number(s), but width is {width}. Set width to the file's.")

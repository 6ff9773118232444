"""A folder of pictures, ``images:FOLDER``: CLASS/file, or PARTY/CLASS/file where the parties differ."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from unalike.data.dataset import Dataset, register_dataset
from unalike.data.files import check_file
from unalike.data.folder import NotFound, hashed_files
from unalike.data.pixels import ENDINGS, Color, check_picture, read_picture
from unalike.data.roles import check_test, natural_parties, some_test_rows
from unalike.errors import UserError

_TRAIN, _TEST = "train", "test"
_EXAMPLE = "CLASS/file.png, or PARTY/CLASS/file.png"


class _Picture(NamedTuple):
    """One file, and what its folders say about it."""

    path: Path
    label: str
    party: str
    test: bool


@register_dataset("images")
class ImageFolder:
    """Your own pictures, images:FOLDER(size=32): in folders CLASS/file, or PARTY/CLASS/file.

    How deep the folders are says which of the two it is; ``by=class`` means CLASS/PARTY/file instead. Folders
    ``train`` and ``test`` on top of them say which pictures are the test set; else it is the fraction ``test`` of
    them: fixed, stratified by label, spread over the parties. The parties are natural ones.

    Every picture is turned upright as its camera noted, scaled so that its shorter side has ``size`` pixels, cut
    to a square in the middle, and made colour (``color=rgb``) or grey (``color=gray``). Files that do not end as
    pictures do, and hidden ones, are left out; a picture that cannot be read is named. Other Pillow versions may
    scale a little differently: a run notices when it is gone on with.
    """

    path: str
    size: int = 32
    color: Color = "rgb"
    test: float = 0.2
    by: Literal["party", "class"] = "party"
    model: ClassVar[str] = "simple-cnn"

    def __post_init__(self) -> None:
        check_test("images", self.test)
        check_picture("images", self.size)

    @property
    def _folder(self) -> Path:
        return Path(self.path).expanduser()

    def fingerprint(self) -> str:
        """The SHA-256 of the names of all pictures and of their content."""
        return hashed_files(self._folder, _files(self._folder))

    def load(self) -> Dataset:
        """Read all pictures of the folder."""
        folder = self._folder
        found = _pictures(folder, self.by)
        x = np.stack([read_picture(one.path, str(one.path), self.size, self.color) for one in found])
        classes, y = np.unique([one.label for one in found], return_inverse=True)
        names, party = np.unique([one.party for one in found], return_inverse=True)
        test = np.array([one.test for one in found])
        if not test.any():
            test = some_test_rows(folder.name, y, party, self.test)
        has_parties = any(one.party for one in found)
        return Dataset(
            name=folder.resolve().name,
            x=x[~test],
            y=y[~test],
            x_test=x[test],
            y_test=y[test],
            classes=tuple(map(str, classes)),
            scale=np.full((), 255, np.float32),
            **(natural_parties(names, party, test) if has_parties else {}),
        )


def _files(folder: Path) -> list[Path]:
    """All pictures below the folder, sorted by their names."""
    if not folder.is_dir():
        raise NotFound(f"There is no folder {folder}. Check the path; it starts at the working directory.")
    found = []
    for level, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        found += [Path(level, name) for name in files if name.lower().endswith(ENDINGS) and name[0] != "."]
    if not found:
        raise NotFound(f"There are no pictures in {folder}. It needs {_EXAMPLE}.")
    for path in found:
        check_file(path)
    return sorted(found, key=lambda path: path.relative_to(folder).parts)


def _pictures(folder: Path, by: Literal["party", "class"]) -> list[_Picture]:
    """Every picture of the folder, and what its folders say; a UserError where they do not say the same."""
    files = _files(folder)
    places = [path.relative_to(folder).parts[:-1] for path in files]
    tops = {place[0] for place in places if place}
    apart = tops == {_TRAIN, _TEST}
    if not apart and tops & {_TRAIN, _TEST}:
        has, lacks = sorted(tops & {_TRAIN, _TEST}), sorted({_TRAIN, _TEST} - tops)
        rest = f"no {lacks[0]}" if lacks else f"other folders such as {min(tops - {_TRAIN, _TEST})}"
        raise UserError(f"{folder} has {has[0]} and {rest}. Keep {_TRAIN} and {_TEST} alone, or rename them.")
    own = [place[apart:] for place in places]
    _check_depths(folder, files, own)
    if len(own[0]) == 1:
        named = [(place[0], "") for place in own]
    else:
        named = [(place[1], place[0]) if by == "party" else (place[0], place[1]) for place in own]
    tests = [apart and place[0] == _TEST for place in places]
    return [_Picture(*one) for one in zip(files, *zip(*named, strict=True), tests, strict=True)]


def _check_depths(folder: Path, files: Sequence[Path], places: Sequence[tuple[str, ...]]) -> None:
    """Refuse pictures that lie in no class folder, too deep, or some deeper than others."""
    first = len(places[0])
    for path, place in zip(files, places, strict=True):
        shown = path.relative_to(folder)
        if len(place) != first:
            raise UserError(
                f"{files[0].relative_to(folder)} and {shown} in {folder} are not as deep. Use {_EXAMPLE}."
            )
        if not 1 <= len(place) <= 2:
            raise UserError(f"{shown} in {folder} does not lie in folders as it should. Use {_EXAMPLE}.")

"""Local data of Hugging Face, ``hf:PATH``: Parquet files, what ``save_to_disk`` wrote, folders of pictures.

The library looks up foreign hosts even where all data are local, so it is told that there is no network before it
is imported. A name at the hub is only asked for with ``download=true``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Dataset, register_dataset
from unalike.data.folder import hashed_files
from unalike.data.image_folder import ImageFolder
from unalike.data.making import dataset
from unalike.data.pixels import Color, check_picture, read_picture
from unalike.data.roles import Missing, check_test
from unalike.errors import UserError, unknown
from unalike.tallies import Kind

_OFFLINE = "HF_HUB_OFFLINE"
_SAVED = ("dataset_dict.json", "state.json")


@register_dataset("hf")
class HuggingFace:
    """Local data of Hugging Face, hf:PATH(x=image, y=label): Parquet, save_to_disk or a folder of pictures.

    ``x`` is the column of pictures or of rows of numbers; where none is named, the column of pictures if there is
    one, else all columns but ``y`` and ``party``, coded as those of ``csv``. ``y`` is the label, ``party`` the
    column of natural parties. A split called test is the test set; else it is the fraction ``test`` of the split
    called train. Pictures become ``size`` pixels wide and high, as those of ``images``.

    Nothing is asked of any network. ``download=true`` lets PATH be a name at the hub, which is then asked for.
    Needs the package datasets: pip install 'unalike[hf]'.
    """

    path: str
    x: str = ""
    y: str = "label"
    party: str = ""
    size: int = 32
    color: Color = "rgb"
    test: float = 0.2
    missing: Missing = "error"
    task: Kind = "classification"
    download: bool = False

    def __post_init__(self) -> None:
        check_test("hf", self.test)
        check_picture("hf", self.size)

    @property
    def _place(self) -> Path:
        return Path(self.path).expanduser()

    def fingerprint(self) -> str:
        """The SHA-256 of all files; nothing for a name at the hub, whose files are not here yet."""
        if self.download and not self._place.exists():
            return ""
        self._check_place()
        files = [path for path in sorted(self._place.rglob("*")) if path.is_file()] or [self._place]
        return hashed_files(self._place.parent, files)

    def load(self) -> Dataset:
        """Read the splits train and test, or train alone."""
        place = self._place
        if not self.download:
            self._check_place()
        if place.is_dir() and not _tables(place) and not _is_saved(place) and not list(place.rglob("metadata.*")):
            return ImageFolder(self.path, self.size, self.color, self.test).load()
        with _library(self.download) as library, tempfile.TemporaryDirectory() as cache:
            splits = _splits(library, place, self.path, cache)
            if "train" not in splits:
                raise UserError(
                    f"{self.path} has no split called train, but {', '.join(splits) or 'none'}. Name it so."
                )
            name = place.resolve().stem or self.path
            return self._of(splits["train"], splits.get("test"), library, name)

    def _check_place(self) -> None:
        if not self._place.exists():
            raise UserError(
                f"There is no file or folder {self.path}. Check the path; download=true asks a hub for that name."
            )

    def _of(self, train: Any, test: Any, library: Any, name: str) -> Dataset:
        for column in filter(None, (self.x, self.y, self.party)):
            if column not in train.features:
                raise unknown("column", column, train.features)
        pictures = [key for key, kind in train.features.items() if isinstance(kind, library.Image)]
        x = self.x or (pictures[0] if pictures else "")
        options: dict[str, Any] = {"name": name, "task": self.task, "test": self.test}
        if not x:
            options |= {"label": self.y, "parties": self.party or None, "missing": self.missing}
            options |= {} if test is None else {"test": _table(test, library)}
            return dataset(_table(train, library), **options)
        parts = [self._arrays(part, x, x in pictures, library) for part in (train, test) if part is not None]
        options |= {} if test is None else {"test": parts[1]}
        return dataset(parts[0][0], parts[0][1], parties=parts[0][2], **options)

    def _arrays(self, part: Any, x: str, is_picture: bool, library: Any) -> tuple[Any, Any, Any]:
        """Rows, labels and parties of a split."""
        party = _values(part, self.party, library) if self.party else None
        if not is_picture:
            return np.asarray(part.with_format("numpy")[x]), _values(part, self.y, library), party
        stored = part.cast_column(x, library.Image(decode=False))[x]
        rows = [self._pixels(one, f"row {number} of {self.path}") for number, one in enumerate(stored)]
        return np.stack(rows), _values(part, self.y, library), party

    def _pixels(self, stored: Any, what: str) -> Any:
        """A picture that is stored in the data, or in a file beside them: never one of elsewhere."""
        if stored and stored.get("bytes"):
            return read_picture(stored["bytes"], what, self.size, self.color)
        path = Path(str((stored or {}).get("path"))).resolve()
        if not path.is_relative_to(self._place.resolve()) or not path.is_file():
            raise UserError(f"{what} has no picture in these data, but names {path.name}. Store it with them.")
        return read_picture(path, str(path), self.size, self.color)


@contextmanager
def _library(online: bool) -> Iterator[Any]:
    """The library, which asks no network unless ``online``; its progress bars are off for the while."""
    before = os.environ.get(_OFFLINE)
    os.environ[_OFFLINE] = "0" if online else "1"
    try:
        import datasets
        from huggingface_hub import constants
    except ImportError:
        raise UserError("hf: needs the package datasets. Install it: pip install 'unalike[hf]'.") from None
    finally:
        os.environ.pop(_OFFLINE) if before is None else os.environ.update({_OFFLINE: before})
    places: list[Any] = [datasets.config, constants]
    known = [(place, place.HF_HUB_OFFLINE) for place in places]
    bars = datasets.utils.are_progress_bars_disabled()
    try:
        for place, _ in known:  # somebody may have imported it before, as it comes
            place.HF_HUB_OFFLINE = not online
        datasets.disable_progress_bars()
        yield datasets
    except UserError:
        raise
    except Exception as error:  # its readers raise errors of many kinds
        raise UserError(f"Hugging Face's library cannot read these data: {_brief(error)}.") from None
    finally:
        for place, value in known:
            place.HF_HUB_OFFLINE = value
        if not bars:
            datasets.enable_progress_bars()


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200].rstrip('.')}"


def _is_saved(place: Path) -> bool:
    return any((place / name).is_file() for name in _SAVED)


def _tables(place: Path) -> list[Path]:
    return sorted(place.rglob("*.parquet")) if place.is_dir() else [place]


def _splits(library: Any, place: Path, name: str, cache: str) -> dict[str, Any]:
    """The splits of what is there, by name; a table is of the split that its name starts with, or of train."""
    if not place.exists():
        found = library.load_dataset(name)
    elif _is_saved(place):
        found = library.load_from_disk(str(place))
    elif files := _tables(place):
        by_split: dict[str, list[str]] = {}
        for file in files:
            split = next((one for one in ("test", "validation") if file.name.startswith(one)), "train")
            by_split.setdefault(split, []).append(str(file))
        kind = "arrow" if place.suffix == ".arrow" else "parquet"
        found = library.load_dataset(kind, data_files=by_split, cache_dir=cache, keep_in_memory=True)
    else:
        found = library.load_dataset("imagefolder", data_dir=str(place), cache_dir=cache, keep_in_memory=True)
    return dict(found) if isinstance(found, dict) else {"train": found}


def _values(part: Any, column: str, library: Any) -> list[Any]:
    """The values of a column; those of a class as its name."""
    kind, values = part.features[column], list(part[column])
    if isinstance(kind, library.ClassLabel):
        return [None if value is None or value < 0 else kind.int2str(value) for value in values]
    return values


def _table(part: Any, library: Any) -> Any:
    """All columns as a table of Arrow."""
    import pyarrow

    return pyarrow.table({name: _values(part, name, library) for name in part.features})

"""FEMNIST: handwritten characters by writer, from the JSON files that LEAF makes."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.folder import find
from unalike.errors import UserError

FOLDERS = ("data/femnist/data", "femnist/data", "femnist")  # of LEAF's repository, of its folder data, of ours
HOW = "Make it with LEAF's preprocessing script for femnist and put its folders train and test in femnist."
CLASSES = (*string.digits, *string.ascii_uppercase, *string.ascii_lowercase)  # LEAF's order
_PIXELS = 784
_AGAIN = "Make it again with LEAF."


@register_dataset("femnist", paper="Caldas et al. 2018, arXiv:1812.01097; Cohen et al. 2017, arXiv:1702.05373")
class Femnist:
    """Handwritten digits and letters of up to 3,550 writers, 28x28 pixels, 62 classes; natural parties: writers.

    How many writers and images there are is decided when LEAF makes the files (its options ``--sf`` and ``-k``),
    so no count is checked but those in the files. Pixels are whole numbers (uint8), 255 times those of LEAF.
    """

    model: ClassVar[str] = "simple-cnn"

    def load(self) -> Dataset:
        """Read all files of the folders ``train`` and ``test``, one at a time."""
        folder = find("FEMNIST", [f"{name}/train" for name in FOLDERS], HOW).parent
        train, test = _files(folder)
        x, y, group, writers = _read(train)
        x_test, y_test, test_group, test_writers = _read(test)
        number = {writer: k for k, writer in enumerate(writers)}
        lookup = np.array([number.get(writer, -1) for writer in test_writers], np.int64)
        return Dataset(
            name="femnist",
            x=x,
            y=y,
            x_test=x_test,
            y_test=y_test,
            classes=CLASSES,
            group=group,
            group_names=tuple(writers),
            group_test=lookup[test_group],
            scale=np.full((), 255, np.float32),
        )


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The training and the test files. LEAF makes them in pairs: a file without its other half is an error."""
    train, test = (sorted((folder / part).glob("*.json")) for part in ("train", "test"))
    for part, paths in (("train", train), ("test", test)):
        if not paths:
            raise UserError(f"FEMNIST is not complete: {folder / part} has no JSON file. {HOW}")
    for paths, others, part, other in ((train, test, "train", "test"), (test, train, "test", "train")):
        names = {path.name for path in others}
        for path in paths:
            pair = path.name.replace(f"_{part}_", f"_{other}_")
            if pair != path.name and pair not in names:
                raise UserError(f"FEMNIST is not complete: {folder / other} has no {pair}. {HOW}")
    return train, test


def _read(paths: list[Path]) -> tuple[Array, Array, Array, list[str]]:
    """Images, labels, the number of each image's writer, and the writers, in the order of the files."""
    images: list[Array] = []
    labels: list[Array] = []
    writers: dict[str, Path] = {}
    for path in paths:
        for writer, x, y in _writers(path):
            if writer in writers:
                raise UserError(f"{path} has the writer {writer!r}, who is in {writers[writer]} too. {_AGAIN}")
            writers[writer] = path
            images.append(x)
            labels.append(y)
    if not images:
        raise UserError(f"{paths[0]} has no writers. {_AGAIN}")
    group = np.repeat(np.arange(len(labels)), [len(y) for y in labels])
    return np.concatenate(images), np.concatenate(labels), group, list(writers)


class _Shared(dict[str, float]):
    """Numbers by their text: the pixels of a file have at most 256 values, so each is kept once, not per pixel."""

    def __missing__(self, text: str) -> float:
        self[text] = number = float(text)
        return number


def _writers(path: Path) -> list[tuple[str, Array, Array]]:
    """Each writer of a file with the images [n, 1, 28, 28] and the labels."""
    try:
        content = json.loads(path.read_bytes(), parse_float=_Shared().__getitem__)
        users, counts, data = content["users"], content["num_samples"], content["user_data"]
        if len(users) != len(counts) or len(users) != len(data) or set(users) != set(data):
            raise UserError(f"{path} names {len(users)} writers, but has data of {len(data)}. {_AGAIN}")
        return [
            (str(user), *_images(path, user, data.pop(user), count))
            for user, count in zip(users, counts, strict=True)
        ]
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. {_AGAIN}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise UserError(f"{path} is cut short or not a JSON file of LEAF's FEMNIST. {_AGAIN}") from None


def _images(path: Path, user: str, data: dict[str, Any], count: int) -> tuple[Array, Array]:
    x, y = np.array(data["x"]), np.array(data["y"])
    if count == 0:
        raise UserError(
            f"{path}: {user!r} has no images. Make it again with LEAF, whose option -k leaves such out."
        )
    if len(x) != count or len(y) != count:
        raise UserError(f"{path}: {user!r} has {len(x)} images and {len(y)} labels, not {count}. {_AGAIN}")
    if x.shape[1:] != (_PIXELS,) or x.dtype.kind not in "iuf" or not (x.min() >= 0 and x.max() <= 1):  # NaN: not
        raise UserError(f"{path}: an image of {user!r} is not {_PIXELS} numbers from 0 to 1. {_AGAIN}")
    if y.dtype.kind not in "iu" or y.ndim != 1 or y.min() < 0 or y.max() >= len(CLASSES):
        raise UserError(f"{path}: a label of {user!r} is not a whole number from 0 to 61. {_AGAIN}")
    return np.rint(x * 255).astype(np.uint8).reshape(-1, 1, 28, 28), y.astype(np.int64)

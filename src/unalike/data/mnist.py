"""MNIST and Fashion-MNIST: four idx files each, of the same names and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.folder import data_folder, find, or_get
from unalike.data.idx import read_idx
from unalike.errors import UserError

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


@dataclass(frozen=True)
class MnistFiles:
    """Where the four files of a data set are, and what must be in them.

    ``digests`` are the MD5 checksums of the unpacked files. They matter: MNIST, Fashion-MNIST and others have
    files of the same names and shapes, so a file in the wrong folder would otherwise pass for the right one.
    """

    name: str
    title: str
    folders: tuple[str, ...]
    how: str
    classes: tuple[str, ...]
    digests: Mapping[str, str] = field(default_factory=dict)
    elsewhere: tuple[Path, ...] = ()
    train_rows: int = 60_000
    test_rows: int = 10_000


MNIST = MnistFiles(
    name="mnist",
    title="MNIST",
    folders=("MNIST/raw", "mnist", "."),
    how=or_get("mnist", "Get the four files from Yann LeCun's page or any mirror and put them in MNIST/raw."),
    classes=tuple("0123456789"),
    digests={
        TRAIN_IMAGES: "6bbc9ace898e44ae57da46a324031adb",
        TRAIN_LABELS: "a25bea736e30d166cdddb491f175f624",
        TEST_IMAGES: "2646ac647ad5339dbf082846283269ea",
        TEST_LABELS: "27ae3e4e09519cfbb04c329615203637",
    },
)
FASHION = MnistFiles(
    name="fmnist",
    title="Fashion-MNIST",
    folders=("FashionMNIST/raw", "fashion-mnist", "."),
    how=or_get(
        "fmnist",
        "Install Debian's package dataset-fashion-mnist, or get the four files from Zalando Research's repository "
        "fashion-mnist or any mirror and put them in FashionMNIST/raw.",
    ),
    classes=(
        *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    digests={
        TRAIN_IMAGES: "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        TRAIN_LABELS: "9018921c3c673c538a1fc5bad174d6f9",
        TEST_IMAGES: "8181f5470baa50b63fa0f6fddb340f0a",
        TEST_LABELS: "15d484375f8d13e6eb1aabb0c3f46965",
    },
    # Where the Debian package puts them. Not below sys.prefix, which is a virtual environment's.
    elsewhere=tuple(Path(share, "datasets", "fashion-mnist") for share in ("/usr/share", "/usr/local/share")),
)


@register_dataset("mnist", paper="LeCun et al. 1998, doi:10.1109/5.726791")
class Mnist:
    """70,000 images of handwritten digits, 28x28 pixels, 10 classes; 10,000 are the test set.

    The four files may be packed by gzip or not; their unpacked content must have the public files' checksums.
    ``pixels``: fractions of white, or standardised by MNIST's mean and deviation, (x - 0.1307) / 0.3081.
    """

    model: ClassVar[str] = "simple-cnn"
    pixels: Literal["fractions", "standardised"] = "fractions"

    def load(self) -> Dataset:
        """Read the four files of images and labels, and check that they are the public ones."""
        data = load_four_files(MNIST)
        if self.pixels == "fractions":
            return data
        shift, scale = (np.full((), 255 * share, np.float32) for share in (0.1307, 0.3081))
        return replace(data, shift=shift, scale=scale)


@register_dataset("fmnist", paper="Xiao et al. 2017, arXiv:1708.07747")
class FashionMnist:
    """70,000 images of clothes and shoes, 28x28 pixels, 10 classes; 10,000 are the test set.

    The four files may be packed by gzip or not; their unpacked content must have the public files' checksums.
    """

    model: ClassVar[str] = "simple-cnn"

    def load(self) -> Dataset:
        """Read the four files, from the data folder or else from Debian's package."""
        return load_four_files(FASHION)


def load_four_files(source: MnistFiles) -> Dataset:
    """Read the data set that ``source`` describes."""
    folder = _folder(source)
    return Dataset(
        name=source.name,
        x=_images(source, folder, TRAIN_IMAGES, source.train_rows),
        y=_labels(source, folder, TRAIN_LABELS, source.train_rows),
        x_test=_images(source, folder, TEST_IMAGES, source.test_rows),
        y_test=_labels(source, folder, TEST_LABELS, source.test_rows),
        classes=source.classes,
        scale=np.full((), 255, np.float32),
    )


def _folder(source: MnistFiles) -> Path:
    """The first folder that has the training images: all four files are read from the same one."""
    for folder in (*(data_folder() / name for name in source.folders), *source.elsewhere):
        if _file(folder, TRAIN_IMAGES) is not None:
            return folder
    wanted = [str(Path(folder, f"{TRAIN_IMAGES}.gz")) for folder in source.folders]
    return find(source.title, wanted, source.how).parent  # says what is missing


def _file(folder: Path, name: str) -> Path | None:
    """The file of that name, packed or not; some tools unpack it to ``train-images.idx3-ubyte``."""
    for variant in (name, f"{name}.gz", name.replace("-idx", ".idx")):
        if (folder / variant).is_file():
            return folder / variant
    return None


def _images(source: MnistFiles, folder: Path, name: str, rows: int) -> Array:
    path = _present(source, folder, name)
    return read_idx(path, (rows, 28, 28), source.digests.get(name, "")).reshape(rows, 1, 28, 28)


def _labels(source: MnistFiles, folder: Path, name: str, rows: int) -> Array:
    path = _present(source, folder, name)
    labels = read_idx(path, (rows,), source.digests.get(name, ""))
    if labels.max() >= len(source.classes):
        raise UserError(f"{path} has the label {labels.max()}; labels are 0 to 9. Download it again.")
    return labels.astype(np.int64)


def _present(source: MnistFiles, folder: Path, name: str) -> Path:
    path = _file(folder, name)
    if path is None:
        raise UserError(f"{source.title} is not complete: {folder} has no {name}.gz. {source.how}")
    return path

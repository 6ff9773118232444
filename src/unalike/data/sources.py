"""Where the files of public data sets are, with checksums that two places or more agree on.

A file whose checksum is not known is not fetched: nobody could tell whether it is the right one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from unalike.data import femnist, rcv1, sent140, shakespeare


class RemoteFile(NamedTuple):
    """One public file, its SHA-256 or MD5 (told by its length), and where it goes in the data folder."""

    name: str
    digest: str
    place: str
    unpacks_to: str = ""
    """the folder that is in it, if it is an archive: that is kept, and not the archive"""


@dataclass(frozen=True)
class PublicFiles:
    """The files of a data set, and addresses of folders that have all of them, to be tried in that order."""

    mirrors: tuple[str, ...]
    files: tuple[RemoteFile, ...]


def _idx(folder: str, digests: tuple[str, str, str, str]) -> tuple[RemoteFile, ...]:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    names = [f"{part}-ubyte.gz" for part in parts]
    return tuple(RemoteFile(name, digest, f"{folder}/{name}") for name, digest in zip(names, digests, strict=True))


def _plain(**digests: str) -> tuple[RemoteFile, ...]:
    return tuple(RemoteFile(name, digest, name) for name, digest in digests.items())


_TORONTO = ("https://www.cs.toronto.edu/~kriz/",)

SOURCES = {
    "mnist": PublicFiles(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        _idx(
            "MNIST/raw",
            (
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    "fmnist": PublicFiles(
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        _idx(
            "FashionMNIST/raw",
            (
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
    ),
    "cifar10": PublicFiles(
        _TORONTO,
        (
            RemoteFile(
                "cifar-10-python.tar.gz",
                "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                "cifar-10-python.tar.gz",
                "cifar-10-batches-py",
            ),
        ),
    ),
    "cifar100": PublicFiles(
        _TORONTO,
        (
            RemoteFile(
                "cifar-100-python.tar.gz",
                "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                "cifar-100-python.tar.gz",
                "cifar-100-python",
            ),
        ),
    ),
    "svhn": PublicFiles(
        ("http://ufldl.stanford.edu/housenumbers/",),
        _plain(
            **{
                "train_32x32.mat": "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                "test_32x32.mat": "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            }
        ),
    ),
    "adult": PublicFiles(
        ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/",),
        _plain(
            **{
                "a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
                "a9a.t": "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
            }
        ),
    ),
    "covtype": PublicFiles(
        ("https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/",),
        _plain(**{"covtype.data.gz": "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771"}),
    ),
}

BY_HAND = {
    "rcv1": rcv1.HOW.format("rcv1_train.binary.bz2 and rcv1_test.binary.bz2"),
    "femnist": femnist.HOW,
    "sent140": sent140.HOW,
    "shakespeare": shakespeare.HOW,
}
"""Data sets whose files have no checksum that is known here, and what to do instead."""

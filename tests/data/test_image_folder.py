"""Folders of pictures: what their places say, how pictures are read, and what is refused."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import unalike
from unalike.data.image_folder import ImageFolder
from unalike.data.pixels import read_picture
from unalike.errors import UserError

RNG = np.random.default_rng(0)


def picture(path: Path, shape: tuple[int, ...] = (9, 12, 3), **more: Any) -> np.ndarray:
    values = RNG.integers(0, 256, shape).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path, **more)
    return values


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three parties' pictures of two classes."""
    for party in ("north", "south", "west"):
        for number in range(10):
            picture(tmp_path / party / ("cat", "dog")[number % 2] / f"{number}.png")
    return tmp_path


def load(folder: Path, **more: Any) -> unalike.Dataset:
    return ImageFolder(str(folder), **more).load()


def test_two_levels_are_parties_and_classes(folder: Path) -> None:
    data = load(folder)
    assert (data.classes, data.group_names) == (("cat", "dog"), ("north", "south", "west"))
    assert (data.size, len(data.y_test), data.shape, data.scale) == (24, 6, (3, 32, 32), 255)
    assert np.bincount(data.group).tolist() == [8, 8, 8]
    assert np.bincount(data.y_test).tolist() == [3, 3]
    other = load(folder, by="class", color="gray", size=16)
    assert (other.classes, other.group_names) == (("north", "south", "west"), ("cat", "dog"))
    assert other.shape == (1, 16, 16)
    assert load(folder / "north").group is None
    result = unalike.run(dataset=f"images:{folder}(size=16)", partition="natural", rounds=1)
    assert result.spec.model == "simple-cnn"


def test_train_and_test_on_top(tmp_path: Path) -> None:
    for place in ("train/a/1.png", "train/b/2.jpg", "test/a/3.PNG", "train/b/notes.txt", "train/.hidden/4.png"):
        if place.endswith("txt"):
            (tmp_path / place).write_text("not a picture")
        else:
            picture(tmp_path / place)
    data = load(tmp_path)
    assert (data.classes, data.y.tolist(), data.y_test.tolist()) == (("a", "b"), [0, 1], [0])


def test_pixels_are_those_of_the_file(tmp_path: Path) -> None:
    colour, grey = picture(tmp_path / "c.png", (8, 8, 3)), picture(tmp_path / "g.png", (8, 8))
    np.testing.assert_array_equal(read_picture(tmp_path / "c.png", "c", 8, "rgb"), colour.transpose(2, 0, 1))
    np.testing.assert_array_equal(read_picture(tmp_path / "g.png", "g", 8, "gray"), grey[None])
    np.testing.assert_array_equal(read_picture(tmp_path / "g.png", "g", 8, "rgb"), np.stack([grey] * 3))
    wide = picture(tmp_path / "w.png", (8, 14, 3))
    np.testing.assert_array_equal(
        read_picture((tmp_path / "w.png").read_bytes(), "w", 8, "rgb"), wide[:, 3:11].transpose(2, 0, 1)
    )


def test_pictures_are_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn by 90 degrees
    values = picture(tmp_path / "turned.png", (8, 8, 3), exif=exif)
    found = read_picture(tmp_path / "turned.png", "it", 8, "rgb")
    np.testing.assert_array_equal(found, np.rot90(values, -1).transpose(2, 0, 1))


def test_the_fingerprint_is_of_names_and_content(folder: Path) -> None:
    own = ImageFolder(str(folder))
    first = own.fingerprint()
    assert ImageFolder(str(folder)).fingerprint() == first
    (folder / "north" / "readme.txt").write_text("left out")
    assert own.fingerprint() == first
    path = folder / "south" / "dog" / "3.png"
    os.utime(path, (1, 1))
    assert own.fingerprint() == first
    path.rename(path.with_name("33.png"))
    renamed = own.fingerprint()
    picture(path.with_name("33.png"))
    assert len({first, renamed, own.fingerprint()}) == 3


def claims(width: int, height: int) -> bytes:
    """The start of a PNG file that says to have so many pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    data = b"IDAT" + zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + body + struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    )


def sixteen() -> bytes:
    target = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(target, "PNG")
    return target.getvalue()


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(x) print\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"Cannot read .*x\.png: no picture of a known format\. Mend or remove it"),
        (b"GIF89a", r"Cannot read .*x\.png"),
        (EPS, "no picture of a known format"),
        (claims(8000, 8001), "has 8000 x 8001 pixels, too many"),
        (claims(100_000, 100_000), r"Cannot read .*x\.png.*pixels"),
        (claims(20, 20), r"Cannot read .*x\.png"),
        (sixteen(), "has more than 8 bits a colour"),
    ],
)
def test_a_broken_picture_is_named(folder: Path, content: bytes, message: str) -> None:
    (folder / "north" / "cat" / "x.png").write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 3))
def test_any_bytes_are_a_picture_or_one_line(content: bytes, start: int) -> None:
    starts = (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"II*\0")
    with pytest.raises(UserError, match=r"^Cannot read it: "):
        read_picture(starts[start] + content, "it", 8, "rgb")


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([], "There are no pictures in"),
        (["1.png"], r"1\.png in .* does not lie in folders as it should. Use CLASS/file"),
        (["a/b/c/1.png"], "does not lie in folders as it should"),
        (["a/1.png", "b/c/2.png"], r"a/1\.png and b/c/2\.png in .* are not as deep"),
        (["a/1.png", "2.png"], r"^2\.png in .* does not lie in folders"),
        (["train/a/1.png", "b/a/1.png"], "has train and no test. Keep train and test alone"),
        (["train/a/1.png", "test/a/2.png", "val/a/1.png"], "has test and other folders such as val"),
        (["train/a/1.png", "test/a/b/2.png"], "are not as deep"),
        (["a/1.png", "b/2.png"], "too few rows for a test set"),
    ],
)
def test_folders_that_say_nothing_are_refused(tmp_path: Path, places: list[str], message: str) -> None:
    for place in places:
        picture(tmp_path / place)
    with pytest.raises(UserError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("images:nowhere", "There is no folder nowhere"),
        ("images:nowhere(size=2)", "size must be from 4 to 1024 pixels, got 2"),
        ("images:nowhere(color=blue)", "color"),
        ("images:nowhere(test=0.9)", "test must be above 0"),
    ],
)
def test_bad_options_are_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        unalike.RunSpec(dataset=text)


def test_what_has_no_end_is_no_picture(folder: Path) -> None:
    first = min(folder.rglob("*.png"))
    os.mkfifo(first.with_name("pipe.png"))
    with pytest.raises(UserError, match=r"pipe.png is a device or a pipe"):
        ImageFolder(str(folder)).fingerprint()

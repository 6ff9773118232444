"""Data sets in folders: the same again, or refused."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import unalike
from unalike.data.dataset import Units
from unalike.data.saved import HEADER, Saved, seal
from unalike.errors import UserError

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


def plain() -> unalike.Dataset:
    return unalike.dataset(X, Y, parties=Y * 2, standardise=True, name="größe")


def frame() -> unalike.Dataset:
    polars = pytest.importorskip("polars")
    return unalike.dataset(polars.DataFrame({"a": X[:, 0], "b": ["x", "y"] * 20, "y": Y}), label="y")


KINDS: dict[str, Any] = {
    "plain": plain,
    "untested": lambda: unalike.dataset(X, Y, test=None),
    "sparse": lambda: unalike.dataset(sparse.csr_matrix(np.where(X > 0, X, 0)), Y),
    "images": lambda: unalike.dataset(np.zeros((40, 1, 4, 4), np.uint8), Y),
    "regression": lambda: unalike.dataset(X, X[:, 1], task="regression"),
    "units": lambda: replace(plain(), units=Units(np.arange(3.0), np.ones(3)), public=(X[:2], Y[:2])),
    "frame": frame,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_is_the_same_again(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind]()
    data.save(tmp_path / "new" / "folder")
    again = unalike.load_dataset(f"saved:{tmp_path}/new/folder")
    assert (again.digest, again.name, again.schema) == (data.digest, data.name, data.schema)
    np.testing.assert_array_equal(again.units.shift, data.units.shift)
    assert (again.public is None) == (data.public is None)
    data.save(tmp_path / "new" / "folder")  # the same once more is no mistake
    spec = unalike.RunSpec(dataset=f"saved:{tmp_path}/new/folder")
    assert spec.code == unalike.RunSpec(dataset=f"saved:{tmp_path}/new/folder").code


def test_it_trains_as_what_was_given_does(tmp_path: Path) -> None:
    data = plain()
    data.save(tmp_path / "data")
    first = unalike.run(dataset=data, partition="natural", rounds=2)
    second = unalike.run(dataset=f"saved:{tmp_path}/data", partition="natural", rounds=2)
    assert first.figures["weights_sha256"] == second.figures["weights_sha256"]


def test_another_data_set_is_not_overwritten(tmp_path: Path) -> None:
    plain().save(tmp_path)
    before = sorted(path.read_bytes() for path in tmp_path.iterdir())
    with pytest.raises(UserError, match="holds another data set, and nothing is overwritten"):
        KINDS["untested"]().save(tmp_path)
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == before


def test_other_content_is_another_run(tmp_path: Path) -> None:
    plain().save(tmp_path / "a")
    replace(plain(), classes=("b", "a")).save(tmp_path / "b")
    prints = [Saved(str(tmp_path / name)).fingerprint() for name in "ab"]
    assert prints[0] != prints[1]


def test_a_full_disk_leaves_no_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UserError, match=r"Cannot write .*rows-[0-9a-f]+.npz: No space left"):
        plain().save(tmp_path)
    assert not list(tmp_path.iterdir())


def changed(folder: Path, change: Any) -> None:
    """Change the header as somebody would who forges its checksum, too."""
    header = json.loads((folder / HEADER).read_text())
    del header["sha256"]
    change(header)
    header["sha256"] = seal(header)
    (folder / HEADER).write_text(json.dumps(header))


def forged(folder: Path, content: bytes) -> None:
    """Other rows with a checksum that fits."""
    sha = hashlib.sha256(content).hexdigest()
    (folder / f"rows-{sha[:16]}.npz").write_bytes(content)
    changed(folder, lambda header: header.update(rows=f"rows-{sha[:16]}.npz", rows_sha256=sha))


def packed(folder: Path) -> None:
    """The same rows, packed: these could unpack to more than memory has."""
    target = io.BytesIO()
    with zipfile.ZipFile(next(folder.glob("rows*"))) as file, zipfile.ZipFile(target, "w", 8) as other:
        for name in file.namelist():
            other.writestr(name, file.read(name))
    forged(folder, target.getvalue())


def pickled(folder: Path) -> None:
    """Rows that would run code when they are read by pickle."""
    target = io.BytesIO()
    np.savez(target, x=np.array([{}], object))
    forged(folder, target.getvalue())
    changed(folder, lambda header: header.update(arrays={"x": ["|O", [1]]}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / HEADER).unlink(), r"There is no .*dataset\.json\. Save a data set there"),
        (lambda folder: (folder / HEADER).write_text("{"), "does not hold a saved data set"),
        (lambda folder: (folder / HEADER).write_text("[]"), "does not hold a saved data set"),
        (lambda folder: (folder / HEADER).write_bytes(b"\xff"), "does not hold a saved data set"),
        (
            lambda folder: changed(folder, lambda h: h.update(format="unalike data set 99")),
            "does not hold a saved",
        ),
        (lambda folder: changed(folder, lambda h: h.update(rows="../../etc/passwd")), "does not hold a saved"),
        (lambda folder: changed(folder, lambda h: h.update(classes=["b", "a"])), "another digest"),
        (lambda folder: changed(folder, lambda h: h.update(classes=3)), "classes must be names"),
        (lambda folder: changed(folder, lambda h: h.update(name=None)), "does not hold"),
        (lambda folder: changed(folder, lambda h: h.pop("kind")), "does not hold a saved"),
        (
            lambda folder: changed(folder, lambda h: h["arrays"].update(x=["<f4", [10**12, 3]])),
            "does not hold a saved",
        ),
        (lambda folder: changed(folder, lambda h: h.update(digest=7)), "does not hold a saved"),
        (
            lambda folder: (folder / HEADER).write_text((folder / HEADER).read_text().replace("größe", "x")),
            "its checksum",
        ),
        (lambda folder: next(folder.glob("rows*")).unlink(), r"Cannot read .*rows-.*Save it again"),
        (lambda folder: next(folder.glob("rows*")).write_bytes(b""), "was changed or damaged"),
        (packed, "does not hold a saved"),
        (pickled, "does not hold a saved"),
    ],
)
def test_what_is_not_as_it_was_saved_is_refused(damage: Any, message: str, tmp_path: Path) -> None:
    plain().save(tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        unalike.load_dataset(f"saved:{tmp_path}")
    assert "\n" not in str(caught.value)


@settings(max_examples=30)
@given(place=st.integers(0, 10**6), value=st.integers(0, 255), which=st.booleans())
def test_no_changed_byte_is_read_as_other_data(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int, which: bool
) -> None:
    folder, data = tmp_path_factory.mktemp("saved"), plain()
    data.save(folder)
    path = folder / HEADER if which else next(folder.glob("rows*"))
    content = bytearray(path.read_bytes())
    content[place % len(content)] = value
    path.write_bytes(content)
    with suppress(UserError):
        assert unalike.load_dataset(f"saved:{folder}").digest == data.digest

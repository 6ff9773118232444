"""Covtype: whole numbers parsed fast and right, areas as parties, the papers' task and sizes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory import peak_bytes
from unalike.data import Dataset, covtype, load_dataset
from unalike.data.covtype import AREAS, CONTINUOUS, COVERS, read_covtype
from unalike.errors import UserError


def line(numbers: list[int], area: int = 0, soil: int = 0, cover: int = 1) -> str:
    binary = [int(k == area) for k in range(4)] + [int(k == soil) for k in range(40)]
    return ",".join(map(str, [*numbers, *binary, cover]))


TEN = [2596, 51, 3, 258, -10, 510, 221, 232, 148, 6279]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    monkeypatch.setattr(covtype, "ROWS", 112)
    rows = [line([n, *TEN[1:]], n % 4, n % 40, n % 7 + 1) for n in range(112)]
    (tmp_path / "covtype.data.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    return tmp_path


def test_binary_task_and_areas(folder: Path) -> None:
    data = load_dataset("covtype")
    assert (data.x.shape, data.x_test.shape, data.x.dtype) == ((84, 54), (28, 54), np.int16)
    for x, y, group in ((data.x, data.y, data.group), (data.x_test, data.y_test, data.group_test)):
        np.testing.assert_array_equal(y, x[:, 0] % 7 == 1)
        np.testing.assert_array_equal(group, x[:, 0] % 4)
        assert (x[:, 4] == -10).all()
    assert sorted([*data.x[:, 0], *data.x_test[:, 0]]) == list(range(112))
    assert (data.classes, data.group_names) == (("other", "lodgepole pine"), AREAS)
    assert len(data.features) == 54


def test_cover_task_has_the_same_rows(folder: Path) -> None:
    data, binary = load_dataset("covtype(task=cover)"), load_dataset("covtype")
    assert data.classes == COVERS
    np.testing.assert_array_equal(data.x_test, binary.x_test)
    np.testing.assert_array_equal(data.y, data.x[:, 0] % 7)
    assert np.bincount(data.y_test).tolist() == [4] * 7  # a quarter of each


def test_standardised_when_a_batch_is_made(folder: Path) -> None:
    data = load_dataset("covtype")
    batch = (data.x - data.shift) / data.scale
    np.testing.assert_allclose(batch[:, 4], (-10 - 46.4) / 58.3, rtol=1e-6)
    np.testing.assert_array_equal(batch[:, 10:], data.x[:, 10:])


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(-9999, 9999), min_size=10, max_size=10), min_size=1, max_size=5))
def test_any_numbers_are_read_back(rows: list[list[int]]) -> None:
    content = "".join(line(row, cover=7) + "\n" for row in rows).encode()
    parsed = covtype._parse(content)
    assert parsed is not None
    np.testing.assert_array_equal(parsed[0][:, :10], rows)
    assert parsed[1].tolist() == [6] * len(rows)


GOOD = line(TEN)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (GOOD.replace("2596", "25x6"), "is not 55 whole numbers: '25x6,"),
        (GOOD.replace("2596", ""), "is not 55 whole numbers"),
        (GOOD.replace("2596", "-"), "is not 55 whole numbers"),
        (GOOD.replace("2596", "--6"), "is not 55 whole numbers"),
        (GOOD.replace("2596", "2-6"), "is not 55 whole numbers"),
        (GOOD.replace("2596", "2.6"), "is not 55 whole numbers"),
        (GOOD.replace("2596", "99999"), "is not 55 whole numbers"),
        (GOOD.replace("2596", "259666"), "is not 55 whole numbers"),
        (GOOD[:-1] + "8", "is not 55 whole numbers"),
        (GOOD[:-1] + "0", "is not 55 whole numbers"),
        (GOOD[:-3] + "2,1", "is not 55 whole numbers"),
        (line(TEN, area=9), "is not 55 whole numbers"),
        (GOOD[:-2] + ";1", "has 54 values, not 55"),
        (GOOD[:-2], "has 54 values, not 55"),
        (GOOD + ",1", "has 56 values, not 55"),
        ("", "has 1 values, not 55"),
        ("é" * 200, "has 1 values, not 55"),
    ],
)
def test_mistakes_are_named_by_line(tmp_path: Path, bad: str, said: str) -> None:
    path = tmp_path / "covtype.data"
    path.write_text("\n".join([GOOD, GOOD, bad, GOOD]), encoding="utf-8")
    with pytest.raises(UserError, match=f"covtype.data, line 3 {said}") as caught:
        read_covtype(path)
    assert "\n" not in str(caught.value)


def test_nine_and_eleven_numbers_do_not_make_ten(tmp_path: Path) -> None:
    path = tmp_path / "covtype.data"
    path.write_text("\n".join([GOOD, line([*TEN, 5]), line(TEN[1:])]))
    with pytest.raises(UserError, match="line 2 has 56 values"):
        read_covtype(path)


def test_line_ends_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "covtype.data"
    path.write_bytes(f"{GOOD}\r\n{GOOD}\r\n".encode())
    assert len(read_covtype(path)[0]) == 2
    path.write_bytes(b"\n")
    with pytest.raises(UserError, match="is empty"):
        read_covtype(path)
    packed = tmp_path / "covtype.data.gz"
    for content, said in (
        (gzip.compress(GOOD.encode())[:-12], "Cannot read"),
        (b"not packed", "line 1 has 1 val"),
    ):
        packed.write_bytes(content)
        with pytest.raises(UserError, match=said):
            read_covtype(packed)


@pytest.mark.parametrize("piece", [bytes(1000), b"\n" * 1000, f"{GOOD}\n".encode() * 8])
def test_a_bomb_is_refused_at_the_size_of_the_public_file(folder: Path, piece: bytes) -> None:
    """A third of a megabyte that unpacks to 300 megabytes."""
    (folder / "covtype.data.gz").write_bytes(gzip.compress(piece * 10_000) * 30)

    def read() -> None:
        with pytest.raises(UserError, match=r"covtype.data.gz holds more than 16,912 bytes .*Download it again"):
            load_dataset("covtype")

    assert peak_bytes(read) < 10_000_000


def test_more_lines_than_the_public_file_has(folder: Path) -> None:
    (folder / "covtype.data").write_bytes(b"\n" * 113)
    with pytest.raises(UserError, match="is empty"):
        load_dataset("covtype")
    (folder / "covtype.data").write_bytes(b"\n" * 113 + b"1\n")
    with pytest.raises(UserError, match="has 114 rows, the public file 112"):
        load_dataset("covtype")


def test_short_or_absent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covtype, "ROWS", 581_012)
    with pytest.raises(UserError, match="has 112 rows, the public file 581,012"):
        load_dataset("covtype")
    (folder / "covtype.data.gz").unlink()
    with pytest.raises(UserError, match=r"covtype is not in .*UCI repository"):
        load_dataset("covtype")


REAL = Path(os.environ.get("UNALIKE_DATA", ""), "covtype.data.gz")


@pytest.fixture(scope="module")
def real() -> Dataset:
    if not REAL.is_file():
        pytest.skip("covtype is not there")
    return load_dataset("covtype")


def test_the_real_file(real: Dataset) -> None:
    assert (real.x.shape, real.x_test.shape) == ((435_759, 54), (145_253, 54))
    assert real.group is not None
    assert real.group_test is not None
    # covtype.info: 283,301 of lodgepole pine; rows of the four areas
    assert real.y.sum() + real.y_test.sum() == 283_301
    assert (np.bincount(real.group) + np.bincount(real.group_test)).tolist() == [260_796, 29_884, 253_364, 36_968]


def test_the_constants_are_those_of_the_real_file(real: Dataset) -> None:
    everything = np.concatenate([real.x, real.x_test])[:, : len(CONTINUOUS)].astype(np.float64)
    mean, deviation = np.array(list(CONTINUOUS.values())).T
    np.testing.assert_allclose(everything.mean(axis=0), mean, atol=0.02 * deviation.max(), rtol=0.005)
    np.testing.assert_allclose(everything.std(axis=0), deviation, rtol=0.005)

"""Plays: windows of a role's speeches, split in time without overlap; LEAF's own files too."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.data import Dataset, load_dataset
from unalike.data.shakespeare import CHARACTERS, Shakespeare, encode
from unalike.errors import UserError

SPEECHES = [f"Speech number {n}, good  my lord." for n in range(40)]
ROLES = {"play|HERO": SPEECHES, "play|MOUTH": ["What?"], "other|KING": SPEECHES[5:]}


def text_of(row: np.ndarray) -> str:
    return "".join(CHARACTERS[number] for number in row)


def rows_of(data: Dataset, party: int) -> tuple[list[str], list[str]]:
    train = [text_of([*x, y]) for x, y, g in zip(data.x, data.y, data.group, strict=True) if g == party]
    test = [
        text_of([*x, y]) for x, y, g in zip(data.x_test, data.y_test, data.group_test, strict=True) if g == party
    ]
    return train, test


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    (tmp_path / "shakespeare_by_role.json").write_text(json.dumps(ROLES))
    return tmp_path


def test_the_vocabulary_is_leafs() -> None:
    assert len(CHARACTERS) == len(set(CHARACTERS)) == 80
    assert text_of(encode("Hé{}\t\N{PERFORMING ARTS}~")) == "H  }   "


@given(st.text(max_size=50))
def test_any_text_has_one_number_for_each_character(text: str) -> None:
    expected = "".join(character if character in CHARACTERS else " " for character in text)
    assert text_of(encode(text)) == expected


@pytest.mark.parametrize(("length", "stride"), [(80, 10), (80, 1), (7, 3), (5, 20)])
def test_windows(folder: Path, length: int, stride: int) -> None:
    data = load_dataset(f"shakespeare(length={length}, stride={stride}, minimum=2)")
    assert data.group_names == ("play|HERO", "other|KING")  # the role of one word has no window
    assert (data.shape, data.x.dtype, data.kind) == ((length,), np.uint8, "tokens")
    assert data.classes == data.features == tuple(CHARACTERS)
    text = " ".join(SPEECHES).replace("  ", " ")
    windows = [text[i : i + length + 1] for i in range(0, len(text) - length, stride)]
    train, test = rows_of(data, 0)
    cut = int(0.8 * len(windows))
    assert train == windows[:cut]
    last = stride * (cut - 1)  # the last training window's beginning; its label is at last + length
    assert test == [text[i : i + length + 1] for i in range(0, len(text) - length, stride) if i >= last + length]
    assert test


def test_roles_with_few_rows_are_left_out(folder: Path) -> None:
    assert len(load_dataset("shakespeare(stride=1, minimum=1090)").group_names) == 1
    with pytest.raises(UserError, match=r"no role with 99999 rows. Lower minimum or stride"):
        load_dataset("shakespeare(minimum=99999)")


def leaf(folder: Path, part: str, users: dict[str, str], length: int = 20) -> None:
    folder = folder / "shakespeare" / "data" / part
    folder.mkdir(parents=True)
    data = {
        user: {
            "x": [text[i : i + length] for i in range(len(text) - length)],
            "y": [text[i + length] for i in range(len(text) - length)],
        }
        for user, text in users.items()
    }
    (folder / f"{part}_0.json").write_text(
        json.dumps({"users": list(users), "num_samples": [], "user_data": data})
    )


def test_leafs_own_files(folder: Path) -> None:
    (folder / "shakespeare_by_role.json").unlink()
    text = " ".join(SPEECHES)
    leaf(folder, "all_data", {"HERO": text, "KING": text[50:]})
    data = load_dataset("shakespeare(length=20, stride=1)")
    train, test = rows_of(data, 0)
    windows = [text[i : i + 21] for i in range(len(text) - 20)]
    cut = int(0.8 * len(windows))
    assert train == windows[:cut]
    assert test == windows[cut + 19 :]  # LEAF leaves length - 1 rows out between the two
    assert data.group_names == ("HERO", "KING")
    first = Shakespeare().fingerprint()

    leaf(folder, "train", {"HERO": text, "KING": text})
    with pytest.raises(UserError, match=r"test has no .json file"):
        load_dataset("shakespeare(length=20)")
    leaf(folder, "test", {"KING": text[:60]})
    data = load_dataset("shakespeare(length=20, stride=2)")
    assert rows_of(data, 0) == (windows[::2], [])
    assert rows_of(data, 1) == (windows[::2], windows[:40:2])
    assert Shakespeare().fingerprint() != first
    with pytest.raises(UserError, match=r"a row of 'HERO' is not 80 characters. Set length to that of the file"):
        load_dataset("shakespeare")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Cannot read"),
        ("[1]", "must be an object of roles"),
        ("{}", "must be an object of roles"),
        ('{"a": "text"}', "the role 'a' is not a list of speeches"),
        ('{"a": [1]}', "the role 'a' is not a list of speeches"),
        ("[" * 100_000, "Cannot read"),
    ],
)
def test_mistakes(folder: Path, content: str, said: str) -> None:
    (folder / "shakespeare_by_role.json").write_text(content)
    with pytest.raises(UserError, match=said) as caught:
        load_dataset("shakespeare")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "has no user_data"),
        ('{"user_data": {"a": 1}}', "'a' does not have as many x as y"),
        ('{"user_data": {"a": {"x": ["abc"], "y": []}}}', "'a' does not have as many x as y"),
        ('{"user_data": {"a": {"x": ["abc"], "y": ["d"]}}}', "a row of 'a' is not 80 characters"),
        (json.dumps({"user_data": {"a": {"x": ["a" * 80], "y": ["dd"]}}}), "a label of 'a' is not one character"),
    ],
)
def test_mistakes_in_leafs_files(folder: Path, content: str, said: str) -> None:
    (folder / "shakespeare_by_role.json").unlink()
    place = folder / "shakespeare" / "all_data"
    place.mkdir(parents=True)
    (place / "a.json").write_text(content)
    with pytest.raises(UserError, match=said):
        load_dataset("shakespeare")


def test_absent_file_and_parameters(folder: Path) -> None:
    (folder / "shakespeare_by_role.json").unlink()
    with pytest.raises(UserError, match=r"shakespeare is not in .*LEAF"):
        load_dataset("shakespeare")
    for parameter, least in (("length", 1), ("stride", 1), ("minimum", 2)):
        with pytest.raises(UserError, match=f"shakespeare's {parameter} must be >= {least}, got 0"):
            load_dataset(f"shakespeare({parameter}=0)")


@settings(max_examples=50)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(13, 300))
def test_test_inputs_never_hold_a_training_character(length: int, stride: int, size: int) -> None:
    """Every character is told apart here, so that an overlap would be seen."""
    loader = Shakespeare(length=length, stride=stride)
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(size), length + 1)[::stride]
    (x, y), (x_test, y_test) = loader._split(windows[:, :-1], windows[:, -1])
    assert len(y) == int(0.8 * len(windows))
    assert len(x_test) == len(y_test)
    if len(y) and len(y_test):
        assert x_test.min() > x.max()
        assert y_test.min() > y.max()


@pytest.mark.skipif(
    not Path(os.environ.get("UNALIKE_DATA", ""), "shakespeare_by_role.json").is_file(),
    reason="the plays are not there",
)
def test_the_real_file() -> None:
    data = load_dataset("shakespeare")
    assert (data.x.shape, data.x_test.shape) == ((306_197, 80), (70_795, 80))
    assert len(data.group_names) == 925
    assert "hamlet|HOR" in data.group_names

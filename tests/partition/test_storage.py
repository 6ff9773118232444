"""Saved partitions: all comes back, bytes are the same, damage is noticed, files are small."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.memory import peak_bytes
from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import Partition, load_partition, make_partition, save_partition
from unalike.partition import storage as storage_module

Make = Callable[..., Dataset]


def same(first: Partition, second: Partition) -> bool:
    parts = [(first.rows, second.rows), (first.seasons or (), second.seasons or ())]
    parts.append((first.columns or (), second.columns or ()))
    arrays = all(len(a) == len(b) and all(map(np.array_equal, a, b)) for a, b in parts)
    flags = ("recipe", "names", "rounds_per_season", "label_holder", "shares_rows", "leaves_rows")
    return arrays and all(getattr(first, flag) == getattr(second, flag) for flag in flags)


@pytest.mark.parametrize(
    "rule", ["label-dirichlet(0.3)", "natural(minimum=150)", "temporal(drift, by=age)", "iid+feature-noise(0.1)"]
)
def test_all_comes_back(tmp_path: Path, rule: str) -> None:
    heart = load_dataset("heart")
    partition = make_partition(rule, heart, 3, 4)
    digest = save_partition(tmp_path / "p.npz", partition, heart, 4)
    saved = load_partition(tmp_path / "p.npz")
    assert same(saved.partition, replace(partition, distortions=()))
    assert (saved.seed, saved.dataset, saved.size, saved.sha256) == (4, "heart", heart.size, digest)
    assert (saved.classes, saved.parties) == (heart.classes, 3)
    np.testing.assert_array_equal(saved.label_counts, partition.label_counts(heart))
    again = make_partition(saved.recipe, heart, saved.parties, saved.seed)  # with its distortions
    assert same(again, partition)
    assert len(again.distortions) == len(partition.distortions)
    if not partition.distortions:
        used = make_partition(f"file:{tmp_path / 'p.npz'}", heart, None, 99)
        assert same(replace(used, recipe=partition.recipe), partition)


def test_columns_and_odd_names(tmp_path: Path, made: Make) -> None:
    dataset = made(np.zeros(4, int), 1)
    everything = np.arange(4)
    partition = Partition(
        "vertical",
        (everything, everything),
        ("Spital Zürich", "b\n'c'"),
        columns=(np.array([0, 2]), np.array([1])),
        label_holder=1,
        shares_rows=True,
    )
    save_partition(tmp_path / "p.npz", partition, dataset, 0)
    assert same(load_partition(tmp_path / "p.npz").partition, partition)


def test_same_bytes_and_no_leftovers(tmp_path: Path) -> None:
    heart = load_dataset("heart")
    paths = [tmp_path / name for name in ("a.npz", "b.npz")]
    for path in paths:
        save_partition(path, make_partition("shards", heart, 5, 1), heart, 1)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with zipfile.ZipFile(paths[0]) as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert sorted(tmp_path.iterdir()) == paths
    save_partition(paths[0], make_partition("shards", heart, 5, 2), heart, 2)
    assert paths[0].read_bytes() != paths[1].read_bytes()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heart = load_dataset("heart")
    path = tmp_path / "p.npz"
    save_partition(path, make_partition("iid", heart, 2, 0), heart, 0)
    before = path.read_bytes()

    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match=r"^Cannot write .*p\.npz: No space left on device\. Name another path\.$"):
        save_partition(path, make_partition("iid", heart, 2, 1), heart, 1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_any_changed_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    heart = load_dataset("heart")
    path = tmp_path / "p.npz"
    partition = make_partition("natural", heart, None, 0)
    save_partition(path, partition, heart, 0)
    content = path.read_bytes()
    noticed = 0
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            saved = load_partition(path)
        except UserError:
            noticed += 1
        else:  # bytes of the container that carry nothing, such as dates
            assert same(saved.partition, partition)
    assert noticed > len(content) // 3 * 0.7
    for end in (0, 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(UserError, match="is not a saved partition"):
            load_partition(path)


def test_a_changed_header_in_a_sound_container(tmp_path: Path) -> None:
    heart = load_dataset("heart")
    path = tmp_path / "p.npz"
    save_partition(path, make_partition("natural", heart, None, 0), heart, 0)
    header, arrays = storage_module._unpack(path.read_bytes(), path)
    path.write_bytes(storage_module._pack(header | {"seed": 1}, arrays))
    with pytest.raises(UserError, match=r"was changed or damaged: its checksum does not fit\. Save it again\.$"):
        load_partition(path)
    arrays["rows"][5] += 1
    path.write_bytes(storage_module._pack(header, arrays))
    with pytest.raises(UserError, match="was changed or damaged"):
        load_partition(path)


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["only one"]}, {"size": 10}, {"recipe": None, "names": None}, {"format": "another"},
        {"lengths": {"rows": 10**18}}, {"lengths": []}, {"lengths": {"../rows": 1}}, {"size": "9" * 9},
        {"size": 10**18, "lengths": {"rows": 10**18}},
    ],
)  # fmt: skip
def test_forged_headers(tmp_path: Path, change: dict[str, object]) -> None:
    heart = load_dataset("heart")
    path = tmp_path / "p.npz"
    save_partition(path, make_partition("natural", heart, None, 0), heart, 0)
    header, arrays = storage_module._unpack(path.read_bytes(), path)
    del header["sha256"]
    header |= change
    digest = storage_module._digest(header, arrays)  # a forger can compute it, too
    path.write_bytes(storage_module._pack(header | {"sha256": digest}, arrays))
    with pytest.raises(UserError, match=r"is not a saved partition|was changed or damaged|says to hold"):
        load_partition(path)


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize("rule", ["file", "like"])
def test_a_bomb_is_not_unpacked(tmp_path: Path, rule: str, claimed: bool) -> None:
    """134 MB of zeros as the rows of heart's patients, whether or not the header says how many there are."""
    heart = load_dataset("heart")
    path, count = tmp_path / "p.npz", 2**24
    save_partition(path, make_partition("natural", heart, None, 0), heart, 0)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    if claimed:
        header = json.loads(members["header.json"])
        header["lengths"]["rows"] = count
        members["header.json"] = json.dumps(header).encode()
    members["rows.npy"] = storage_module._planes(np.zeros(count, np.int64))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    del members

    def read() -> None:
        with pytest.raises(UserError, match=r"p\.npz.* (says to hold 16,777,216 rows|holds more than 6,904)"):
            make_partition(f"{rule}:{path}", heart, None, 0)

    assert peak_bytes(read) < 10_000_000


def test_rows_must_ascend_and_paths_must_exist(tmp_path: Path, made: Make) -> None:
    dataset = made(np.zeros(3, int), 1)
    wrong = Partition("x", (np.array([1, 0]), np.array([2])), ("a", "b"))
    with pytest.raises(UserError, match="must be ascending"):
        save_partition(tmp_path / "p.npz", wrong, dataset, 0)
    with pytest.raises(UserError, match=r"^Cannot write .*: No such file or directory\."):
        save_partition(tmp_path / "no" / "p.npz", make_partition("iid", dataset, 2, 0), dataset, 0)
    with pytest.raises(UserError, match=r"^Cannot read .*p\.npz: No such file or directory\. Check the path\.$"):
        load_partition(tmp_path / "p.npz")
    (tmp_path / "q.npz").write_text(json.dumps({}))
    with pytest.raises(UserError, match=r"q\.npz is not a saved partition \(BadZipFile\)\. Save it again\.$"):
        load_partition(tmp_path / "q.npz")


def test_files_are_small(tmp_path: Path, made: Make) -> None:
    dataset = made(np.arange(200_000) % 10, 10)
    for parties, most in ((10, 0.8), (2000, 2.2)):  # bytes a row; a random owner of 2000 is 11 bits
        save_partition(tmp_path / "p.npz", make_partition("iid", dataset, parties, 0), dataset, 0)
        assert (tmp_path / "p.npz").stat().st_size / dataset.size < most

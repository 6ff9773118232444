from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings

from unalike.errors import UserError
from unalike.runs.checkpoint import Checkpoint, load_latest, save_checkpoint, tensor_bytes

DTYPES = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.float16, torch.bfloat16]


def checkpoint(number: int) -> Checkpoint:
    return Checkpoint(number, {"w": torch.full((3,), float(number)), "n": torch.tensor(number)}, {"round": number})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def assert_same(one: Checkpoint, two: Checkpoint) -> None:
    assert (one.round, list(one.tensors), one.meta) == (two.round, list(two.tensors), two.meta)
    for name, tensor in one.tensors.items():
        other = two.tensors[name]
        assert (tensor.dtype, tensor.shape, bits(tensor)) == (other.dtype, other.shape, bits(other)), name


def never(line: str) -> None:
    raise AssertionError(line)


def load(folder: Path) -> Checkpoint:
    found = load_latest(folder, never)
    assert found is not None
    return found


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    size = math.prod(shape) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))  # any bits: NaN payloads, negative zeros, subnormals
    if dtype is torch.bool:
        data = bytes(byte & 1 for byte in data)
    if not size:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape).clone()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.text().filter(lambda name: name != "__metadata__"), tensors(), max_size=5),
    st.dictionaries(st.text(), JSON_VALUES, max_size=4),
    st.integers(0, 2_000_000),
)
def test_round_trip(content: dict[str, torch.Tensor], meta: dict[str, object], number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        saved = Checkpoint(number, content, meta)
        save_checkpoint(Path(folder), saved)
        assert_same(load(Path(folder)), saved)


def test_not_a_number_in_meta_comes_back(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, Checkpoint(1, {}, {"best": math.nan, "bound": -math.inf}))
    meta = load(tmp_path).meta
    assert math.isnan(meta["best"])
    assert meta["bound"] == -math.inf


def test_views_of_one_vector_and_other_layouts(tmp_path: Path) -> None:
    flat = torch.arange(24.0)
    content = {
        "a": flat[:6].view(2, 3),
        "b": flat[6:],
        "all": flat,
        "transposed": flat.view(4, 6).t(),
        "strided": flat[::5],
        "expanded": flat[3].expand(2, 2),
        "channels": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "grad": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(3)),
    }
    save_checkpoint(tmp_path, Checkpoint(1, content))
    found = load(tmp_path)
    for name, tensor in content.items():
        assert torch.equal(found.tensors[name], tensor.detach()), name
        assert found.tensors[name].is_contiguous()
    found.tensors["a"].zero_()
    assert torch.equal(found.tensors["all"], flat)


def test_many_names_keep_their_order(tmp_path: Path) -> None:
    order = [f"layer{(7 * i) % 50}" for i in range(50)]
    save_checkpoint(tmp_path, Checkpoint(1, {name: torch.ones(2) for name in order}))
    assert list(load(tmp_path).tensors) == order


def test_tensors_lie_where_torch_would_put_them(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, Checkpoint(1, {str(i): torch.ones(100 + i) for i in range(20)}))
    assert {tensor.data_ptr() % 64 for tensor in load(tmp_path).tensors.values()} == {0}


def test_any_reader_of_safetensors_can_open_it(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, checkpoint(3))
    assert path.name == "checkpoint-000003.safetensors"
    assert torch.equal(safetensors.torch.load_file(path)["w"], torch.full((3,), 3.0))


def test_text_that_looks_like_the_checksum_is_harmless(tmp_path: Path) -> None:
    trap = '"unalike.sha256":"' + "0" * 64 + '"'
    raw = torch.frombuffer(bytearray(trap.encode()), dtype=torch.uint8)
    saved = Checkpoint(1, {trap: raw, "unalike.sha256": raw.clone()}, {trap: trap, "unalike.sha256": "0" * 64})
    save_checkpoint(tmp_path, saved)
    assert_same(load(tmp_path), saved)


def test_keeps_the_last_ones(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-notes.txt").write_text("mine")
    for number in (9, 99, 999_999, 1_000_000, 1_000_001):
        save_checkpoint(tmp_path, checkpoint(number))
    assert names(tmp_path) == [
        "checkpoint-1000000.safetensors",
        "checkpoint-1000001.safetensors",
        "checkpoint-notes.txt",
    ]
    assert load(tmp_path).round == 1_000_001
    save_checkpoint(tmp_path, checkpoint(1_000_002), keep=1)
    assert load(tmp_path).round == 1_000_002
    assert len(names(tmp_path)) == 2


def test_an_earlier_round_is_never_removed_in_favour_of_later_ones(tmp_path: Path) -> None:
    for number in (10, 20, 30):
        save_checkpoint(tmp_path, checkpoint(number), keep=3)
    path = save_checkpoint(tmp_path, checkpoint(12), keep=1)
    assert path.exists()
    assert names(tmp_path) == [f"checkpoint-0000{number}.safetensors" for number in (12, 20, 30)]


def test_no_checkpoint(tmp_path: Path) -> None:
    assert load_latest(tmp_path, never) is None
    assert load_latest(tmp_path / "absent", never) is None


def test_every_flipped_bit_and_every_truncation_is_detected(tmp_path: Path) -> None:
    good = save_checkpoint(tmp_path, checkpoint(11)).read_bytes()
    path = tmp_path / "checkpoint-000012.safetensors"
    whole = bytearray(save_checkpoint(tmp_path, checkpoint(12)).read_bytes())
    damaged = [whole[:size] for size in range(len(whole))]
    for index in range(len(whole)):
        for bit in (0, 5, 7):  # bit 5 turns a hexadecimal digit from small to capital
            copy = bytearray(whole)
            copy[index] ^= 1 << bit
            damaged.append(copy)
    damaged += [bytearray(len(whole)), whole + b"\0", whole + whole, bytearray(1) + whole, bytearray(good)]
    for data in damaged:
        path.write_bytes(data)
        said: list[str] = []
        found = load_latest(tmp_path, said.append)
        assert found is not None
        assert found.round == 11, "a damaged file was taken for a whole one"
        assert len(said) == 1
        assert said[0].startswith("checkpoint-000012 is damaged (")
        assert said[0].endswith("); going on from checkpoint-000011")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damaged_block_is_detected(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_checkpoint(folder, checkpoint(1))
        path = save_checkpoint(folder, Checkpoint(2, {"w": torch.rand(2000)}))
        whole = path.read_bytes()
        start = data.draw(st.integers(0, len(whole) - 1))
        block = data.draw(st.one_of(st.binary(max_size=64), st.just(bytes(512))))
        removed = data.draw(st.integers(0, 600))
        changed = whole[:start] + block + whole[start + removed :]
        path.write_bytes(changed)
        found = load_latest(folder, lambda line: None)
        assert found is not None
        assert found.round == (2 if changed == whole else 1)


def test_each_damaged_one_is_named_and_set_aside(tmp_path: Path) -> None:
    for number in range(10, 14):
        save_checkpoint(tmp_path, checkpoint(number), keep=9)
    (tmp_path / "checkpoint-000013.safetensors").write_bytes(b"")
    (tmp_path / "checkpoint-000012.safetensors").write_bytes(bytes(300))
    said: list[str] = []
    found = load_latest(tmp_path, said.append)
    assert found is not None
    assert found.round == 11
    assert said == [
        "checkpoint-000013 is damaged (empty); going on from checkpoint-000011",
        "checkpoint-000012 is damaged (no checksum); going on from checkpoint-000011",
    ]
    # Set aside, they do not take the place of a whole one among the two that are kept.
    save_checkpoint(tmp_path, checkpoint(14))
    assert names(tmp_path) == [
        "checkpoint-000011.safetensors",
        "checkpoint-000012.safetensors.damaged",
        "checkpoint-000013.safetensors.damaged",
        "checkpoint-000014.safetensors",
    ]
    assert load(tmp_path).round == 14


def test_none_is_whole(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, checkpoint(2))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    said: list[str] = []
    assert load_latest(tmp_path, said.append) is None
    assert said == ["checkpoint-000002 is damaged (checksum); starting over"]


def test_a_renamed_checkpoint_is_not_believed(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint(2)).rename(tmp_path / "checkpoint-000007.safetensors")
    said: list[str] = []
    assert load_latest(tmp_path, said.append) is None
    assert said == ["checkpoint-000007 is damaged (it is of round 2); starting over"]


def test_another_format_is_refused_not_started_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unalike.runs.checkpoint._FORMAT", 2)
    save_checkpoint(tmp_path, checkpoint(1))
    monkeypatch.undo()
    with pytest.raises(UserError, match="has format 2, this version of unalike reads 1"):
        load_latest(tmp_path, never)


def test_a_checkpoint_that_may_not_be_read_is_no_reason_to_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, checkpoint(1))
    number = errno.EACCES

    def refuse(path: Path) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UserError, match="No permission to read"):
        load_latest(tmp_path, never)
    number = errno.EIO
    said: list[str] = []
    assert load_latest(tmp_path, said.append) is None
    assert said == ["checkpoint-000001 is damaged (the disk cannot read it); starting over"]


def test_a_checkpoint_removed_meanwhile_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        save_checkpoint(tmp_path, checkpoint(number))
    read = Path.read_bytes

    def remove_first(path: Path) -> bytes:
        if path.name == "checkpoint-000002.safetensors":
            path.unlink()
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", remove_first)
    assert load(tmp_path).round == 1


def test_full_disk_keeps_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        save_checkpoint(tmp_path, checkpoint(number))
    before = names(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"No space left for .*checkpoint-000003"):
        save_checkpoint(tmp_path, checkpoint(3))
    assert names(tmp_path) == before
    assert load(tmp_path).round == 2


def test_values_that_could_not_be_read_back_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="__metadata__"):
        tensor_bytes({"__metadata__": torch.ones(1)}, {})
    with pytest.raises(ValueError, match="keep must be >= 1, got 0"):
        save_checkpoint(tmp_path, checkpoint(1), keep=0)
    with pytest.raises(ValueError, match="round must be >= 0, got -1"):
        save_checkpoint(tmp_path, checkpoint(-1))
    with pytest.raises(TypeError):
        save_checkpoint(tmp_path, Checkpoint(1, {}, {"x": object()}))
    monkeypatch.setattr("unalike.runs.checkpoint._HEADER_LIMIT", 1000)
    with pytest.raises(ValueError, match="must be under 1000 bytes"):
        save_checkpoint(tmp_path, Checkpoint(1, {}, {"x": "y" * 2000}))
    assert names(tmp_path) == []


SAVES = r"""
import hashlib, sys, torch
from unalike.runs.checkpoint import Checkpoint, encode_checkpoint, tensor_bytes
tensors = {"b": torch.arange(6.0), "a": torch.ones(2, 3, dtype=torch.float64), "n": torch.tensor(3)}
metadata = {f"name {number} \u00e4\n": str(number) for number in range(9)}
files = [tensor_bytes(tensors, metadata), encode_checkpoint(Checkpoint(2, tensors, metadata))]
print([hashlib.sha256(data).hexdigest() for data in files])
"""


def test_the_same_content_has_the_same_bytes(tmp_path: Path) -> None:
    made = {
        subprocess.run([sys.executable, "-c", SAVES], capture_output=True, text=True, check=True).stdout
        for _ in range(3)
    }
    assert len(made) == 1
    tensors = {"b": torch.arange(6.0), "a": torch.ones(2, 3, dtype=torch.float64)}
    metadata = {f"name {number} ä\n": str(number) for number in range(9)}
    backwards = dict(reversed(metadata.items()))
    files = {tensor_bytes(tensors, each) for each in (metadata, backwards) for _ in range(20)}
    assert len(files) == 1
    path = tmp_path / "file.safetensors"
    path.write_bytes(files.pop())
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == metadata
    loaded = safetensors.torch.load_file(path)
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


def test_no_tensors_and_no_metadata() -> None:
    assert safetensors.torch.load(tensor_bytes({}, {})) == {}

"""The reader of pickles: it reads what Python reads of plain data, and runs nothing of the rest."""

from __future__ import annotations

import contextlib
import copyreg
import os
import pickle
import struct
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.images import one_line, python2_array, python2_pickle, python2_string
from unalike.data import unpickle
from unalike.data.unpickle import read_pickle
from unalike.errors import UserError

ARRAY = np.arange(12, dtype=np.uint8).reshape(3, 4)
SAMPLE = python2_pickle({b"data": ARRAY}, {b"labels": [1, 2, 3], b"names": [b"a", b"b"]})


@pytest.fixture
def refused(tmp_path):
    """Reads content that must be refused in one line, quickly, with little memory."""

    def read(content: bytes) -> str:
        path = tmp_path / "batch"
        path.write_bytes(content)
        start = time.perf_counter()
        tracemalloc.start()
        with pytest.raises(UserError) as caught:
            read_pickle(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 5_000_000 + 300 * len(content)
        assert time.perf_counter() - start < 20
        text = one_line(caught.value)
        assert str(path) in text
        assert "Nothing in it was run" in text
        return text

    return read


def plain(value):
    """Arrays as lists, keys as text, for comparison."""
    if isinstance(value, dict):
        return {k.decode() if isinstance(k, bytes) else k: plain(v) for k, v in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_what_numpy_writes_today_is_read(tmp_path, protocol, order):
    array = ARRAY.repeat(2, axis=1)[:, ::2] if order == "strided" else np.array(ARRAY, order=order)
    content = {b"data": array, "again": array, "l": [1, -2, 300, 2**40], "t": (b"x", "ü", None, True), "d": {}}
    content["many"] = list(range(3000))
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    assert plain(read_pickle(path)) == plain(content)


def test_what_python_2_wrote_is_read(tmp_path):
    path = tmp_path / "batch"
    pixels = np.arange(256, dtype=np.uint8).repeat(8).reshape(32, 64)
    lists = {b"labels": [1, 2, 255], b"filenames": [b"a.png", b"b.png"]}
    path.write_bytes(python2_pickle({b"data": pixels}, lists))
    found = read_pickle(path)
    # Python's own unpickler says that the sample is right.
    expected = pickle.loads(path.read_bytes(), encoding="bytes")
    np.testing.assert_array_equal(found["data"], pixels)
    np.testing.assert_array_equal(expected[b"data"], pixels)
    assert found["labels"] == expected[b"labels"] == [1, 2, 255]
    assert found["filenames"] == ["a.png", "b.png"]


def test_arrays_in_fortran_order(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}U\x01a" + python2_array(ARRAY, fortran=True) + b"s.")
    np.testing.assert_array_equal(read_pickle(path)["a"], ARRAY)


class Call:
    """Pickles to a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def text(value) -> bytes:
    return b"X" + struct.pack("<I", len(str(value))) + str(value).encode()


def live_attacks(target):
    """Pickles that make a folder when Python reads them."""
    code = f"__import__('os').mkdir({str(target)!r})"
    path = text(target)
    call = b"cos\nmkdir\n" + path + b"\x85R"
    for protocol in range(6):
        yield f"os.mkdir, protocol {protocol}", pickle.dumps({"data": Call(os.mkdir, str(target))}, protocol)
    yield "eval", pickle.dumps(Call(eval, code))
    yield "nested exec", pickle.dumps([{"a": (Call(exec, code),)}])
    yield "getattr", b"\x80\x02cbuiltins\ngetattr\ncos\nmkdir\nX\x08\x00\x00\x00__call__\x86R" + path + b"\x85R."
    yield "key", b"\x80\x02}" + call + b"K\x01s."
    yield "shape", b"\x80\x02" + python2_array(ARRAY).replace(b"\x86cnumpy", b"\x86" + call + b"0cnumpy") + b"."
    yield "INST", b"(" + path + b"ios\nmkdir\n."
    yield "OBJ", b"(cos\nmkdir\n" + path + b"o."
    yield "STACK_GLOBAL", b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93" + path + b"\x85R."
    yield "method", b"\x80\x04\x8c\x07pathlib\x8c\x0aPath.mkdir\x93cpathlib\nPath\n" + path + b"\x85R\x85R."
    yield "dotted name", b"\x80\x04\x8c\x06shutil\x8c\x08os.mkdir\x93" + path + b"\x85R."
    yield "after valid data", SAMPLE[:-2] + b"U\x01z" + call + b"u."
    yield "extension", b"\x80\x02\x82\xf0" + path + b"\x85R."


def test_live_attacks_run_nothing(tmp_path, refused):
    target = tmp_path / "made"
    copyreg.add_extension("os", "mkdir", 0xF0)
    try:
        attacks = dict(live_attacks(target))
        assert len(attacks) == 18
        for name, content in attacks.items():
            with contextlib.suppress(TypeError):  # of what comes after the call
                pickle.loads(content)
            assert target.exists(), f"{name} is not live: Python's own unpickler is not taken in"
            target.rmdir()
            said = refused(content)
            assert not target.exists(), name
            assert "not plain data" in said, name
    finally:
        copyreg.remove_extension("os", "mkdir", 0xF0)


DTYPE = b"cnumpy\ndtype\n"
NDARRAY = b"cnumpy\nndarray\n"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
BLANK = RECONSTRUCT + NDARRAY + b"K\x00\x85U\x01b\x87R"
UINT8 = DTYPE + b"U\x02u1K\x00K\x01\x87R"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x80\x02Pid\n.", "PERSID"),
        (b"\x80\x02K\x01Q.", "BINPERSID"),
        (b"\x80\x02\x83\x01\x00.", "EXT2"),
        (b"\x80\x02\x84\x01\x00\x00\x00.", "EXT4"),
        (b"\x80\x02" + NDARRAY + b"K\x04\x85\x81.", "NEWOBJ"),
        (b"\x80\x04" + NDARRAY + b"K\x04\x85}\x92.", "NEWOBJ_EX"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
        (b"\x80\x02cos\nsystem\n.", "asks for 'os.system'"),
        (b"\x80\x04\x8c\x05numpy\x8c\x07loadtxt\x93.", "asks for 'numpy.loadtxt'"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0ddtype.__new__\x93.", "asks for 'numpy.dtype.__new__'"),
        (b"\x80\x04\x8c\x00\x8c\x05uint8\x93.", "asks for '.uint8'"),
        (b"\x80\x04\x8c\x03o\ns\x8c\x06sys\ntm\x93.", r"asks for 'o\ns.sys\ntm'"),
        (b"\x80\x04\x8c\x02os" + b"X" + struct.pack("<I", 10**5) + b"a" * 10**5 + b"\x93.", "asks for 'os.aaa"),
        # Names of arrays, called as arrays are not.
        (b"\x80\x02" + NDARRAY + b"(J\xff\xff\xff\x7fJ\xff\xff\xff\x7ft\x85R.", "calls numpy.ndarray"),
        (b"\x80\x02" + DTYPE + b"U\x02O8K\x00K\x01\x87R.", "calls numpy.dtype"),
        (b"\x80\x02" + RECONSTRUCT + DTYPE + b"K\x00\x85U\x01b\x87R.", "calls numpy.core.multiarray._reconstruct"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R.", "calls _codecs.encode"),
        (b"\x80\x02K\x01K\x02\x85R.", "no function"),
        # BUILD on what has no state to be set.
        (b"\x80\x02" + DTYPE + b"}U\x01aK\x01sb.", "sets the state"),
        (b"\x80\x02" + NDARRAY + b"}U\x0c__setstate__K\x01sb.", "sets the state"),
        (b"\x80\x02" + RECONSTRUCT + b"N}U\x0c__defaults__K\x01s\x86b.", "sets the state"),
        (b"\x80\x02}}U\x09__class__K\x01sb.", "sets the state"),
        (b"\x80\x02" + python2_array(ARRAY) + b"}U\x01aK\x01sb.", "sets the state"),
        # Arrays that are not made of the file's own bytes, or not uint8.
        (b"\x80\x02}U\x01a" + BLANK + b"(K\x01J\xff\xff\xff\x7f\x85" + UINT8 + b"\x89U\x01xtbs.", "damaged"),
        (b"\x80\x02}U\x01a" + BLANK + b"(K\x01J\xff\xff\xff\xff\x85" + UINT8 + b"\x89U\x01xtbs.", "damaged"),
        (b"\x80\x02}U\x01a" + BLANK + b"(K\x01K\x01\x85" + DTYPE + b"\x89U\x01xtbs.", "not uint8"),
        (b"\x80\x02}U\x01a" + BLANK + b"s.", "damaged"),
        # Nonsense.
        (b"", "damaged"),
        (b"\x80\x02.", "damaged"),
        (b"\x80\x02K\x01.", "damaged"),
        (b"\x80\x02N.", "damaged"),
        (b"\x80\x02}K\x01K\x02K\x03\x87K\x01s.", "damaged"),
        (b"\x80\x02}h\x05.", "damaged"),
        (b"\x80\x02}}K\x01s.", "damaged"),
        (b"\x80\x02K\x01K\x02\x93.", "damaged"),
        (b"\x80\x02}(K\x01K\x02\x87u.", "damaged"),  # a tuple of three, of two
        (b"\x80\x05}U\x01a\x96" + struct.pack("<Q", 1) + b"x(K\x01es.", "damaged"),  # a list's items, to bytes
        (b"<!DOCTYPE html>", "damaged"),
    ],
)
def test_what_plain_data_do_not_need_is_refused(refused, content, said):
    assert said in refused(content)


def test_real_pickles_of_other_things_are_refused(refused):
    objects = [np.array([Call(os.getcwd)], object), np.float64(1), np.arange(3), np.zeros(2, "u1,u1"), {1, 2}]
    for value in (*objects, np.memmap, np.dtype("u1,O"), ValueError("x"), 1.5, Call(os.getcwd)):
        refused(pickle.dumps({"data": value}))


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b"x.",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**63 + 1) + b"x.",
        b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x.",
        b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"x.",
        b"\x80\x02T" + struct.pack("<I", 2**31 - 1) + b"x.",
        b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x.",
        b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",
        b"\x80\x02Nr" + struct.pack("<I", 2**32 - 1) + b".",
        b"\x80\x02" + b"(" * 10**5 + b".",
        b"\x80\x02N" + b"\x85" * 10**5 + b".",
        b"\x80\x02]q\x00h\x00a.",
        b"\x80\x02I" + b"9" * 10**6 + b"\n.",
    ],
)
def test_little_memory_is_used_for_what_is_not_there(refused, content):
    refused(content)


def test_tuples_within_tuples_are_never_expanded(refused, tmp_path):
    bomb = b"N" + b"q\x00h\x00\x86" * 60  # 2**60 leaves, 60 tuples
    refused(b"\x80\x02}" + bomb + b"K\x01s.")  # as a key: hashed
    refused(b"\x80\x04" + bomb + b"\x8c\x01a\x93.")  # as a name: written out
    refused(b"\x80\x02" + DTYPE + bomb + b"K\x00K\x01\x87R.")
    refused(b"\x80\x02}U\x01a" + BLANK + b"(K\x01" + bomb + UINT8 + b"\x89U\x01xtbs.")
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}U\x01a" + bomb + b"s.")
    assert list(read_pickle(path)) == ["a"]


def test_too_many_instructions_and_too_large_files(refused, monkeypatch):
    monkeypatch.setattr(unpickle, "MOST_STEPS", 20)
    assert "more than 20 instructions" in refused(SAMPLE)
    monkeypatch.setattr(unpickle, "LARGEST_FILE", 100)
    assert "more than 100 bytes" in refused(SAMPLE)


def test_every_truncation_is_refused(refused):
    for length in range(len(SAMPLE)):
        refused(SAMPLE[:length])


def test_a_folder_in_the_place_of_a_file(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_pickle(tmp_path)


def try_to_read(content: bytes, tmp_path_factory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_bytes(content)
    try:
        assert isinstance(read_pickle(path), dict)
    except UserError as error:
        one_line(error)


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, len(SAMPLE) - 1), change=st.binary(max_size=3), dropped=st.integers(0, 3))
def test_changed_files_give_data_or_one_line(tmp_path_factory, place, change, dropped):
    try_to_read(SAMPLE[:place] + change + SAMPLE[place + dropped :], tmp_path_factory)


PIECES = [
    *(bytes([code]) for code in b"().0N]}tbuesaR\x85\x86\x87\x88\x89\x93\x94\x81"),
    *(DTYPE, NDARRAY, RECONSTRUCT, BLANK, UINT8, b"q\x01", b"h\x01", b"K\x01", b"cos\ngetcwd\n"),
    *(python2_string(b"u1"), python2_string(b"\xff" * 300), b"c_codecs\nencode\n", b"X\x06\x00\x00\x00latin1"),
    b"\x8c\x16numpy._core.multiarray\x8c\x0c_reconstruct\x93",
]


@settings(max_examples=500, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_instructions_give_data_or_one_line(tmp_path_factory, pieces):
    try_to_read(b"\x80\x04" + b"".join(pieces) + b".", tmp_path_factory)
    try_to_read(b"\x80\x04}U\x01a" + b"".join(pieces) + b"s.", tmp_path_factory)

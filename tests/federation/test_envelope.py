"""Messages: what is written is read, and nothing else is."""

import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.federation.envelope import ANYBODY, SERVER, Envelope, Refused, pack, peek, read, shown, unpack, write
from unalike.secure.crypto.primitives import new_secret, sign, signing_public

SECRET, OTHER = new_secret(), new_secret()
PUBLICS = {"ward": signing_public(SECRET), "clinic": signing_public(OTHER)}


def message(**header):
    return Envelope({"kind": "answer", "sender": "ward", "receiver": SERVER, "number": [1, 2], **header}, b"body")


def sealed(header, body=b"", secret=SECRET, magic=b"UNF2"):
    """Signed bytes with a header as it is given, which write() would not write."""
    raw = magic + struct.pack(">I", len(header)) + header + body
    return raw + sign(secret, raw)


def refused(raw, why, receiver=SERVER, **more):
    with pytest.raises(Refused, match=why):
        read(raw, PUBLICS, receiver, **more)


def test_what_is_written_is_read():
    found = read(write(message(more={"ä": [1, None]}), SECRET), PUBLICS, SERVER)
    assert found.header == message(more={"ä": [1, None]}).header
    assert (found.kind, found.sender, found.body) == ("answer", "ward", b"body")


def test_every_flipped_bit_and_every_cut_is_refused():
    raw = write(message(), SECRET)
    for place in range(len(raw)):
        for bit in (1, 128):
            wrong = bytearray(raw)
            wrong[place] ^= bit
            refused(bytes(wrong), "")
        refused(raw[:place], "")
    refused(raw + b"\0", "signature")


def test_who_signed_it_and_for_whom():
    refused(write(message(), OTHER), "the signature is not that of ward")
    refused(write(message(sender="clinic"), SECRET), "the signature is not that of clinic")
    refused(write(message(sender="nobody"), SECRET), "nobody here is called 'nobody'")
    refused(write(message(), SECRET), "it is for 'server', not for clinic", receiver="clinic")
    refused(write(message(receiver=None), SECRET), "it is for 'None'")
    # To anybody is a hello and nothing else: a recorded one cannot be passed on as another message.
    refused(write(message(receiver=ANYBODY), SECRET), "it is for 'anybody'")
    refused(write(message(kind="hello"), SECRET), "it is for 'server'")
    assert read(write(message(kind="hello", receiver=ANYBODY), SECRET), PUBLICS, "clinic").kind == "hello"


def test_sizes():
    raw = write(message(), SECRET)
    refused(raw, "bytes; 100 are allowed", most=100)
    with pytest.raises(Refused, match="too large"):
        write(message(much="x" * 2**22), SECRET)
    refused(sealed(b'{"kind": "' + b"x" * 2**22 + b'", "sender": "ward"}'), "cut short")
    refused(b"UNF2" + b"\xff" * 200, "cut short")
    refused(b"", "not a message")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"null",
        b"{}",
        b'"kind"',
        b"\xff\xfe",
        b"[" * 10**6,
        b'{"a":' * 10**5,
        b'{"kind": 1, "sender": "ward"}',
        b'{"kind": "hello", "sender": ["ward"]}',
        b'{"kind": "hello", "sender": "ward", "number": ' + b"9" * 10**5 + b"}",
    ],
)
def test_header_bombs(header):
    refused(sealed(header), "its header")


names = st.text(max_size=8)
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(
    st.dictionaries(
        names, st.tuples(shapes, st.sampled_from(["float32", "float64", "int64"]), st.integers(0, 99)), max_size=4
    )
)
@settings(max_examples=100, deadline=None)
def test_arrays_survive(described):
    vectors = {}
    for name, (shape, kind, seed) in described.items():
        values = np.random.default_rng(seed).normal(size=shape) * 1e3
        vectors[name] = torch.from_numpy(np.asarray(values).astype(kind))
    listed, body = pack(vectors)
    found = unpack(json.loads(json.dumps(listed)), body)
    assert found.keys() == vectors.keys()
    for name, value in vectors.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        assert torch.equal(found[name], value)


@pytest.mark.parametrize("value", [torch.tensor([1.0, float("nan")]), torch.tensor(float("inf"))])
def test_what_is_not_finite_neither_leaves_nor_enters(value):
    with pytest.raises(Refused, match="w is not finite"):
        pack({"w": value})
    listed, _ = pack({"w": torch.zeros_like(value)})
    with pytest.raises(Refused, match="'w' is not finite"):
        unpack(listed, value.numpy().tobytes())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_figures_that_are_not_finite_are_one_line(value):
    with pytest.raises(Refused, match="its figures are not finite"):
        write(message(sums={"test": [1.0, value, 0.0]}), SECRET)


def test_only_three_types_travel():
    for kind in (torch.bool, torch.int32, torch.complex64, torch.float16):
        with pytest.raises(Refused, match="only float32, float64, int64 travel"):
            pack({"w": torch.zeros(2, dtype=kind)})


@pytest.mark.parametrize(
    "listed",
    [
        None,
        5,
        "abc",
        {},
        [None],
        [[]],
        [["w", "float32"]],
        [["w", "float32", [1], 1]],
        [["w", "object", [1]]],
        [["w", "O", [1]]],
        [["w", ["float32"], [1]]],
        [["w", "float32", 1]],
        [["w", "float32", [1.0]]],
        [["w", "float32", [True]]],
        [["w", "float32", ["1"]]],
        [["w", "float32", [-1]]],
        [["w", "float32", [-1, -1]]],
        [["w", "float32", [2]]],
        [["w", "float32", [0]]],
        [["w", "float32", [2**28, 2**28, 2**28]]],
        [["w", "float32", [2**62]]],
        [["w", "float32", [0, *[2**28] * 7]], ["v", "float32", [1]]],
        [["w", "float32", [1] * 9]],
        [["w", "float32", [0]], ["w", "float32", [1]]],
        [["w", "float32", [1]], ["v", "float32", [1]]],
        [[5, "float32", [1]]],
        [["w", "float64", [1]]],
    ],
)
def test_lists_of_arrays_that_lie(listed):
    with pytest.raises(Refused):
        unpack(listed, b"\0" * 4)


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_garbage_is_refused(raw):
    refused(raw, "")
    refused(b"UNF2" + struct.pack(">I", 2) + b"{}" + raw, "")


def test_a_message_is_as_it_says_until_it_is_proven():
    assert peek(write(message(sender="server"), OTHER)).sender == "server"


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "a\nb\r\n c", "a\ud800b", "x" * 1000, "größe 青"])
def test_what_is_shown_is_one_harmless_line(text):
    line = shown(text)
    assert line.isprintable()
    assert len(line) <= 300
    line.encode()
    assert ("青" in line) == ("青" in text)

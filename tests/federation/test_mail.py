"""Mail of a protocol as bytes: one form for each mail, and whatever else comes is refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from unalike.algorithms.protocol import SERVER, TYPES
from unalike.federation.envelope import Refused
from unalike.federation.mail import MOST_ARRAYS, after, mail_digest, pack_mail, unpack_first, unpack_mail

ROLES = (SERVER, 0, 1, 2)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
ARRAYS = st.sampled_from(TYPES).flatmap(
    lambda kind: arrays_of.arrays(
        kind,
        arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
MAIL = st.dictionaries(st.sampled_from(ROLES), st.dictionaries(NAMES, ARRAYS, max_size=4), max_size=4)


def same(one, other):
    return {
        (role, name, array.dtype.name, array.shape, array.tobytes())
        for role, own in one.items()
        for name, array in own.items()
    } == {
        (role, name, array.dtype.name, array.shape, array.tobytes())
        for role, own in other.items()
        for name, array in own.items()
    } and one.keys() == other.keys()


@given(MAIL)
@settings(max_examples=100, deadline=None)
def test_there_and_back(mail):
    listed, body = pack_mail(mail)
    found = unpack_mail(json.loads(json.dumps(listed)), body, ROLES)
    assert same(found, mail)
    assert pack_mail(found) == (listed, body)
    assert all(array.flags.writeable for own in found.values() for array in own.values())
    assert unpack_first(listed, body + b"more", ROLES)[1] == b"more"


@given(MAIL, st.data())
@settings(max_examples=100, deadline=None)
def test_there_is_one_form_for_each_mail(mail, data):
    """What is read at all is what would be written: a hash of the bytes is a hash of the mail."""
    listed, body = pack_mail(mail)
    bent = json.loads(json.dumps(listed))
    junk = st.recursive(
        st.none() | st.integers() | st.text(max_size=3) | st.just("int64"), lambda more: st.lists(more, max_size=3)
    )
    how = data.draw(st.sampled_from(["role", "name", "kind", "shape", "swap", "again", "body", "junk"]))
    if how == "junk" or not bent:
        bent = data.draw(junk)
    elif how == "swap":
        bent.reverse()
    elif how == "again":
        bent.append(bent[0])
    elif how == "body":
        body = data.draw(st.binary(max_size=len(body) + 8))
    elif how == "role":
        bent[0][0] = data.draw(junk)
    elif bent[0][1]:
        bent[0][1][0][["name", "kind", "shape"].index(how)] = data.draw(junk)
    try:
        found = unpack_mail(bent, body, ROLES)
    except Refused:
        return
    assert pack_mail(found) == (bent, body)


@pytest.mark.parametrize(
    ("listed", "body"),
    [
        (None, b""),
        ({}, b""),
        ("", b""),
        ([[0, ""]], b""),
        ([[0, {}]], b""),
        ([(0, [])], b""),
        ([[0, [["a", "int64", [2]]]]], bytes(15)),
        ([[0, [["a", "int64", [1]]]]], bytes(16)),
        ([[0, [["a", "int64", [2**40]]]]], b""),
        ([[0, [["a", "int64", [2**20] * 4]]]], b""),
        ([[0, [["a", "int64", [-1]]]]], b""),
        ([[0, [["a", "int64", [True]]]]], bytes(8)),
        ([[0, [["a", "int64", [1.0]]]]], bytes(8)),
        ([[0, [["a", "int64", [0] * 5]]]], b""),
        ([[0, [["a", "object", [1]]]]], bytes(8)),
        ([[0, [["a", "complex128", [1]]]]], bytes(16)),
        ([[0, [["__class__", "int64", [0]]]]], b""),
        ([[0, [["a" * 41, "int64", [0]]]]], b""),
        ([[0, [["b", "int64", [0]], ["a", "int64", [0]]]]], b""),
        ([[0, [["a", "int64", [0]], ["a", "int64", [0]]]]], b""),
        ([[3, []]], b""),
        ([[-2, []]], b""),
        ([[True, []]], b""),
        ([[1, []], [0, []]], b""),
        ([[0, []], [0, []]], b""),
        ([[0, [[f"a{n:04d}", "uint8", [0]] for n in range(MOST_ARRAYS + 1)]]], b""),
    ],
)
def test_what_is_no_mail(listed, body):
    with pytest.raises(Refused):
        unpack_mail(listed, body, ROLES)


@pytest.mark.parametrize("array", [np.zeros(1, bool), np.zeros(1, complex), np.array(["a"])])
def test_what_cannot_be_mailed(array):
    with pytest.raises(Refused, match="'a'"):
        pack_mail({0: {"a": array}})


def test_a_hash_of_mail_has_round_turn_names_and_numbers_in_it():
    listed, body = pack_mail({0: {"a": np.arange(3)}})
    other = pack_mail({0: {"b": np.arange(3)}})[0]
    found = {
        mail_digest(1, 2, listed, body),
        mail_digest(2, 1, listed, body),
        mail_digest(1, 2, other, body),
        mail_digest(1, 2, listed, body[::-1]),
        mail_digest(1, 2, [], b""),
    }
    assert len(found) == 5
    one, two = sorted(found)[:2]
    assert after(after(bytes(32), one), two) != after(after(bytes(32), two), one)

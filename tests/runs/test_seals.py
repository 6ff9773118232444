"""Sealed JSON: every byte counts, in its place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.runs.seals import FIRST, Broken, read_chain, seal, unseal

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text(max_size=8).filter(lambda name: name != "seal"), VALUES, max_size=4)


@given(st.lists(OBJECTS, max_size=5), st.sampled_from([None, 2]))
def test_what_was_sealed_comes_back(objects, indent):
    last, data = FIRST, b""
    for each in objects:
        line, last = seal(each, last)
        data += line
        assert json.loads(line)["seal"] == last
        assert unseal(seal(each, indent=indent)[0])[0] == each
    found = read_chain(data)
    assert found.rows == objects
    assert found.damage is None
    assert found.ends[-1] == (len(data), last)


@given(OBJECTS, st.sampled_from([None, 2]), st.data())
def test_a_changed_byte_breaks_the_seal(fields, indent, data):
    written = bytearray(seal(fields, indent=indent)[0])
    written[data.draw(st.integers(0, len(written) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Broken):
        unseal(bytes(written))


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (lambda lines: lines[1:], 1),
        (lambda lines: lines[:2] + lines[3:], 3),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 2),
        (lambda lines: [*lines[:3], lines[3].replace(b"3", b"4", 1)], 4),
        (lambda lines: [*lines, b'{"number": 5}\n'], 5),
        (lambda lines: [*lines, b"[" * 10**5 + b"\n"], 5),
    ],
)
def test_lines_that_are_missing_new_moved_or_changed_show(changed, line):
    last, lines = FIRST, []
    for number in range(4):
        made, last = seal({"number": number}, last)
        lines.append(made)
    found = read_chain(b"".join(changed(lines)))
    assert [row["number"] for row in found.rows] == list(range(line - 1))
    assert found.damage.startswith(f"line {line} ")
    assert "\n" not in found.damage


def test_numbers_that_json_lacks_are_not_written():
    with pytest.raises(ValueError, match="JSON"):
        seal({"loss": float("nan")})


@pytest.mark.parametrize("text", ["5", "[]", '"x"', "null"])
def test_what_is_sealed_but_no_object(text):
    import hashlib

    whole = f'{text} "seal": ""\n'.encode()
    place = whole.rindex(b'"\n')
    digest = hashlib.sha256(FIRST.encode() + whole).hexdigest().encode()
    with pytest.raises(Broken, match="not a JSON object"):
        unseal(whole[:place] + digest + whole[place:])

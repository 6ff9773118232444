"""TOML files are read with one line for every mistake, and what is written is read again as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.runs.spec import RunSpec
from unalike.toml import read_toml, write_toml

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXT, inside, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_what_is_written_is_read_again(values):
    assert read_toml(write_toml(values), "it") == values


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "a = 1\na = 2",
        "a = " + "[" * 100_000,
        "a = " + "{a = " * 100_000,
        "a = " + "9" * 5000,
        "\x00",
        "a = 0x" + "f" * 5000,
        f"a = [{{b = [1, {2**63}]}}]",
    ],
    ids=["cut off", "twice", "deep lists", "deep tables", "5,000 digits", "zero byte", "digits of 16", "65 bits"],
)
def test_what_is_no_toml_is_one_line(tmp_path, text):
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with pytest.raises(UserError, match="is not a TOML file") as caught:
        RunSpec.from_toml(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_spec_with_any_letter_in_a_path_is_read_again(tmp_path):
    odd = tmp_path / "odd\x7f\u2028 'name'.csv"
    odd.write_text("a,y\n" + "1,no\n2,yes\n3,no\n4,yes\n5,no\n6,yes\n7,no\n8,yes\n9,no\n10,yes\n")
    spec = RunSpec(dataset=f"csv({str(odd)!r}, label=y)")
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml())
    assert RunSpec.from_toml(path) == spec

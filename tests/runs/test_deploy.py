"""Arrays of new rows in files: read as they are, and never more than the file holds."""

import numpy as np
import pytest

from unalike.errors import UserError
from unalike.runs.deploy import class_labels, read_array


def claims(path, header):
    """A file whose header says what is not in it."""
    text = header.encode().ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    return path


def test_an_array_comes_back_as_it_was_saved(tmp_path):
    for rows in (np.arange(6.0).reshape(2, 3), np.zeros((2, 3, 4, 4), np.uint8), np.asfortranarray(np.eye(3))):
        np.save(tmp_path / "rows.npy", rows)
        found = read_array(tmp_path / "rows.npy")
        assert found.dtype == rows.dtype
        assert np.array_equal(found, rows)


@pytest.mark.parametrize("descr", ["'<f8'", "'|O'"])
def test_a_header_that_claims_what_no_memory_holds_is_one_line(tmp_path, descr):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1000000000000, 32), }}"
    with pytest.raises(UserError, match="Cannot read the array") as caught:
        read_array(claims(tmp_path / "rows.npy", header))
    assert "\n" not in str(caught.value)


def test_objects_are_not_read(tmp_path):
    np.save(tmp_path / "rows.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(UserError, match="Cannot read the array"):
        read_array(tmp_path / "rows.npy")


def test_classes_are_numbers_only_where_no_sign_of_their_names_is_lost():
    assert class_labels(("0", "10", "-2")).tolist() == [0, 10, -2]
    assert class_labels(("01", "1")).tolist() == ["01", "1"]
    assert class_labels(("1", "x")).tolist() == ["1", "x"]
    assert class_labels(("False", "True")).tolist() == [False, True]

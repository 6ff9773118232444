"""CSV files are cut into texts by pyarrow or by Python's csv: the same columns, mistakes and lines."""

import csv
import io
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unalike.data import csv_file
from unalike.data.csv_file import CSVFile, by_csv, by_pyarrow
from unalike.errors import UserError

pytest.importorskip("pyarrow")

BOM = b"\xef\xbb\xbf"
PLAIN = [
    b"a,b\n1,x\n2,y\n1,x\n",
    b"a,b\r\n1,x\r\n,y\r\n",
    b"a,b\r1,x\r2,y",
    b"\n\na,b\n\n1,x\n\n\n2,\n",
    BOM + b"a,b\n1,x\n",
    BOM + b'"a","b"\n"1","x"\n',
    b'a,b\n"1","x,\n""y"""\n"",""\n',
    b'a,b\n"1\r\n2",x\n',
    b"a\n1\n\n2\n",
    b'a\n""\n1\n',
    b" a , b\n 1,  \n",
    "größe,б\n青,é\n".encode(),
    b"a,b\n1\x00,\x0b\n",
    b"a,b\nNA,null\nnan,\n",
]
"""Files that pyarrow may read."""
ODD = [
    b'a,b\n1,x"y\n',
    b'a,b\n1, "x"\n',
    b'a,b\n1,"x"y\n',
    b'a,b\n1,"x\n',
    b"a,b\n1\n",
    b"a,b\n1,2,3\n",
    b"a,b\n1,\xff\n",
    b"a,b\n",
    b"a,a\n1,2\n",
    b"a,\n1,2\n",
    b"1,2\n3,4\n",
    b"",
    b"\n\n",
    b"a,b\n1," + b"x" * 140_000 + b"\n",
]
"""Files that Python's csv must read, or say what is wrong."""


def read(content, path, delimiter=",", without=()):
    """The columns, or what is said instead."""
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        for name in without:
            patch.setitem(sys.modules, name, None)
        try:
            found = CSVFile(path, delimiter).columns()
            return [(one.name, one.codes.tolist(), one.texts, list(one.places)) for one in found]
        except UserError as error:
            return str(error)


def same(content, path, delimiter=","):
    one = read(content, path, delimiter)
    assert one == read(content, path, delimiter, without=["pyarrow", "pyarrow.csv"])
    return one


@pytest.mark.parametrize("content", PLAIN)
def test_pyarrow_reads_plain_files_as_csv_does(tmp_path, content):
    found = same(content, tmp_path / "t.csv")
    assert not isinstance(found, str)
    assert by_pyarrow(CSVFile(tmp_path / "t.csv")) is not None
    rows = list(filter(None, csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))))
    for place, (name, codes, texts, _) in enumerate(found):
        assert name == rows[0][place].strip()
        assert [texts[code] for code in codes] == [row[place] for row in rows[1:]]
        assert list(dict.fromkeys(codes)) == list(range(len(texts)))  # in the order of their first rows


@pytest.mark.parametrize("content", ODD)
def test_what_is_odd_is_left_to_csv(tmp_path, content):
    same(content, tmp_path / "t.csv")
    assert by_pyarrow(CSVFile(tmp_path / "t.csv")) is None


CELL = st.sampled_from(["", "1", "a", "é", "NA", " ", '"', '""', "x,y", ";", "\n", "\r", "\r\n", "\x00", "﻿"])
ROWS = st.lists(st.lists(CELL, min_size=1, max_size=3), max_size=8)


def written(rows, **options):
    text = io.StringIO()
    csv.writer(text, **options).writerows([["a", "b"], *rows])
    return text.getvalue().encode()


@settings(max_examples=400, deadline=None)
@given(
    ROWS.map(written)
    | ROWS.map(lambda rows: written(rows, lineterminator="\n", quoting=csv.QUOTE_ALL))
    | st.binary(max_size=40).map(b"a,b\n1,2\n".__add__)
    | st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"a", b"1", b"\xc3\xa9", b"\xff", BOM, b" "])).map(
        b"".join
    ),
    st.sampled_from(",;\t| "),
)
@example(b'a,b\n"1"\r\n,"2"', ",")
def test_both_ways_are_equal_on_any_file(tmp_path_factory, content, delimiter):
    same(content, tmp_path_factory.mktemp("any") / "t.csv", delimiter)


def test_a_file_of_many_blocks(tmp_path, monkeypatch):
    """pyarrow cuts a file into pieces of some megabytes, each with texts of its own."""
    monkeypatch.setattr(csv_file, "_BLOCK", 2**14)
    rows = [[n % 7, f"name {n % 2000}", 'x"y' if n % 500 == 3 else "z"] for n in range(5_000)]
    content = written(rows).replace(b"a,b", b"a,b,c", 1)
    assert len(content) > 3 * 2**14
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    one, other = by_pyarrow(CSVFile(path)), by_csv(CSVFile(path))
    assert one is not None
    assert one[0] == other[0]
    for (codes, texts), (same_codes, same_texts) in zip(one[1], other[1], strict=True):
        assert texts == same_texts
        assert np.array_equal(codes, same_codes)


def test_the_line_of_a_row_is_looked_for_when_asked(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b\n\n1,x\n"2\n\n",y\n3,z\n')
    calls = []
    true = csv_file.CSVFile.content
    monkeypatch.setattr(csv_file.CSVFile, "content", lambda file: calls.append(1) or true(file))
    columns = CSVFile(path).columns()
    assert len(calls) == 1
    assert [columns[0].places[row] for row in range(3)] == [3, 6, 7]
    assert [columns[1].places[row] for row in range(3)] == [3, 6, 7]
    assert len(calls) == 2  # once for all columns
    some = columns[1].where(np.array([True, False, True]))
    assert some.texts == ("x", "z")
    assert str(some.mistake("z", "it", "is wrong")) == "column b: it in line 7 is wrong"


def test_texts_that_many_rows_share_are_in_memory_once(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + (b"x" * 5_000 + b",1\n" + b"y" * 5_000 + b",2\n") * 1_000)
    tracemalloc.start()
    columns = CSVFile(path).columns()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert columns[0].rows == 2_000
    assert kept < 200_000

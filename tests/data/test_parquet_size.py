"""What a Parquet file claims to hold, compared with what pyarrow's metadata tell."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from unalike.data.parquet_size import claimed_size
from unalike.errors import UserError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("packing", ["none", "snappy", "gzip", "zstd"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_headers_of_pages_tell_what_the_metadata_tells(
    tmp_path: Path, version: str, packing: str, dictionary: bool
) -> None:
    rng = np.random.default_rng(0)
    made = pyarrow.table(
        {
            "x": rng.normal(size=5000),
            "t": [None if k % 7 == 0 else f"text {k % 90}" for k in range(5000)],
            "b": rng.random(5000) > 0.5,
        }
    )
    options = {"data_page_version": version, "data_page_size": 4000, "row_group_size": 2000}
    parquet.write_table(made, tmp_path / "t", compression=packing, use_dictionary=dictionary, **options)
    metadata = parquet.ParquetFile(tmp_path / "t").metadata
    for number, name in enumerate("xtb"):
        chunks = [metadata.row_group(k).column(number) for k in range(metadata.num_row_groups)]
        with_headers = sum(chunk.total_uncompressed_size for chunk in chunks)
        values, unpacked = claimed_size(tmp_path / "t", {name})
        assert values == 5000
        assert 0.6 * with_headers < unpacked < with_headers
    assert claimed_size(tmp_path / "t", {"other"}) == (0, 0)


def test_a_page_may_claim_more_than_the_description_tells(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"x": [1.5], "y": [2.5]}), path, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    place = parquet.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    assert content[place : place + 3] == bytes((0x15, 0, 0x15))  # two fields: a data page, and its size
    before = claimed_size(path, {"x"})[1]
    content[place + 3] = 0x7E  # 63 bytes, with a sign
    path.write_bytes(content)
    assert claimed_size(path, {"x"})[1] == 63 != before


@pytest.mark.parametrize(
    "end",
    [
        b"",
        bytes(8),
        struct.pack("<I", 2**32 - 1) + b"PAR1",
        b"\x1c" * 100 + struct.pack("<I", 100) + b"PAR1",  # structures within structures
        b"\x49\xfc\xff\xff\xff\xff\x0f" + bytes(9) + struct.pack("<I", 16) + b"PAR1",  # a very long list
        b"\x45\x02\x00" + struct.pack("<I", 3) + b"PAR1",  # a number where the groups should be
    ],
)
def test_a_damaged_description_is_one_line(tmp_path: Path, end: bytes) -> None:
    (tmp_path / "t").write_bytes(b"PAR1" + bytes(20) + end)
    with pytest.raises(UserError, match=r"Cannot read .*t: its description is damaged\. Write it again\.$"):
        claimed_size(tmp_path / "t", {"x"})


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_texts_that_hide_their_size_are_refused(tmp_path, version):
    """Of texts that share their beginnings each takes a few bytes, whatever it unpacks to."""
    texts = pyarrow.table({"x": ["a" * 10_000 + str(number) for number in range(300)]})
    encoding = {"x": "DELTA_BYTE_ARRAY"}
    path = tmp_path / "t"
    parquet.write_table(texts, path, use_dictionary=False, column_encoding=encoding, data_page_version=version)
    with pytest.raises(UserError, match="DELTA_BYTE_ARRAY"):
        claimed_size(path, {"x"})
    assert claimed_size(path, {"y"}) == (0, 0)

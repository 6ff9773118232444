"""Parquet tables: the same types as in CSV, and small files that hold huge tables."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory import peak_bytes
from unalike.data import load_dataset
from unalike.data.columns import Inferred
from unalike.data.parquet import read_parquet
from unalike.data.table import infer
from unalike.errors import UserError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 60
LABELS = ["a", "b"] * (ROWS // 2)


def write(path: Path, **columns: object) -> str:
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def test_a_column_of_any_type_can_be_ignored(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.parquet",
        x=np.arange(ROWS),
        many=[[1, 2]] * ROWS,
        raw=[b"\xff"] * ROWS,
        name=[f"n{k}" for k in range(ROWS)],
        y=LABELS,
    )
    for missing in ("many", "raw", "name"):
        others = tuple({"many", "raw", "name"} - {missing})
        with pytest.raises(UserError, match=rf"column {missing}: .*[Ss]et ignore={missing}\.$"):
            load_dataset(f"parquet:{path}(ignore={others})")
    data = load_dataset(f"parquet:{path}(ignore=('many', 'raw', 'name'))")
    assert data.features == ("x",)
    assert data.size == 48
    assert [column.type for column in infer(path)] == ["number", "unusable", "unusable", "identifier", "category"]
    with pytest.raises(UserError, match="Did you mean 'many'"):
        load_dataset(f"parquet:{path}(ignore=manny)")
    with pytest.raises(UserError, match=r"column many: list<.*> cannot be used"):
        load_dataset(f"parquet:{path}(label=many, ignore=('raw', 'name'))")


def test_dates_are_those_of_a_csv_file(tmp_path: Path) -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=k) for k in range(ROWS)]
    moments = [datetime.datetime(2020, 1, 1, 1) + datetime.timedelta(hours=k) for k in range(ROWS)]
    columns = {
        "day": days,
        "zoned": pyarrow.array(moments, pyarrow.timestamp("ns", "+05:00")),
        "moment": pyarrow.array(moments, pyarrow.timestamp("s")),
    }
    path = write(tmp_path / "t.parquet", **columns, y=LABELS)
    lines = ["day,zoned,moment,y"]
    lines += [f"{d},{m}+00:00,{m.isoformat()},{y}" for d, m, y in zip(days, moments, LABELS, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert infer(path)[0] == Inferred("day", "date", 0, ROWS)
    data, same = load_dataset(f"parquet:{path}"), load_dataset(f"csv:{tmp_path / 't.csv'}")
    assert data.features == same.features == ("day", "zoned", "moment")
    np.testing.assert_array_equal(data.x, same.x)


def test_a_huge_table_in_a_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 300_000
    path = write(tmp_path / "t.parquet", x=np.zeros(count, np.int8), y=np.arange(count) % 2)
    assert Path(path).stat().st_size < 50_000
    monkeypatch.setenv("UNALIKE_TABLE_GB", "0.01")

    def read() -> None:
        with pytest.raises(UserError, match=r"600,000 values that need 0\.06 GB of memory, more than 0\.01 GB"):
            load_dataset(f"parquet:{path}")

    assert peak_bytes(read) < 5_000_000
    monkeypatch.setenv("UNALIKE_TABLE_GB", "0.1")
    assert len(read_parquet(Path(path))) == 2
    for wrong in ("much", "0", "-1", "nan", "inf"):
        monkeypatch.setenv("UNALIKE_TABLE_GB", wrong)
        with pytest.raises(UserError, match="UNALIKE_TABLE_GB must be a number of gigabytes"):
            read_parquet(Path(path))


def test_a_page_that_unpacks_to_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    table = pyarrow.table({"x": ["a" * 30_000_000, "b"] * 2, "y": ["a", "b"] * 2})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 50_000
    monkeypatch.setenv("UNALIKE_TABLE_GB", "0.01")
    before = pyarrow.total_allocated_bytes()
    with pytest.raises(UserError, match=r"need 0\.06 GB"):
        read_parquet(path)
    assert pyarrow.total_allocated_bytes() - before < 1_000_000


def test_a_long_text_that_many_rows_share_is_kept_once(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", x=["a" * 200_000, "b" * 200_000] * 300, y=["a", "b"] * 300)
    found = []
    assert peak_bytes(lambda: found.append(read_parquet(Path(path)))) < 5_000_000
    assert [len(cell) for cell in found[0][0].cells] == [200_000] * 600


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_is_one_line(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("damaged") / "t.parquet"
    write(path, x=np.arange(ROWS), t=["é", "b"] * (ROWS // 2), y=LABELS)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    said = ""
    try:
        read_parquet(path)
    except UserError as error:
        said = str(error)
    assert "\n" not in said

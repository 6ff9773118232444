"""Missing values that stay NaN: only where they are asked for, and refused or understood by all who read rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import unalike
from unalike.data import Dataset, load_dataset
from unalike.data.export import party_tables
from unalike.data.gaps import indicated, refuse_gaps
from unalike.data.new_rows import read_new_rows
from unalike.data.saved import Saved
from unalike.data.sites import Sites
from unalike.data.table import CSV, read_table
from unalike.errors import UserError
from unalike.measure.extract import dimension_names, party_features
from unalike.measure.situation import simulated_situation
from unalike.partition import make_partition

TABLE = """age,city,smokes,unit,hospital,outcome
20,Rome,yes,mm,a,ill
,Oslo,no,mm,b,well
40,,yes,mm,a,ill
50,Oslo,,,b,well
60,Rome,no,mm,a,ill
70,Oslo,yes,mm,b,well
80,,no,mm,a,ill
90,Rome,no,,b,well
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "patients.csv"
    path.write_text(TABLE)
    return path


def kept(path: Path) -> Dataset:
    return load_dataset(f"csv:{path}(party=hospital,missing=keep,test=0.25)")


def gapped(rows: int = 60) -> Dataset:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    x[::4, 1] = np.nan
    return unalike.dataset(x, np.arange(rows) % 2, missing="keep")


def test_a_gap_is_nan_in_all_columns_of_its_value_and_nowhere_else(table: Path) -> None:
    data, told = kept(table), load_dataset(f"csv:{table}(party=hospital,missing=indicate,test=0.25)")
    x, y = np.concatenate([data.x, data.x_test]), np.concatenate([told.x, told.x_test])
    assert data.gaps
    assert not told.gaps
    # A column that is the same wherever it is known tells by its gaps alone.
    assert data.features == ("age", "city_Oslo", "city_Rome", "smokes", "unit_missing")
    for place, name in enumerate(data.features[:-1]):
        gone = y[:, told.features.index(f"{name.split('_')[0]}_missing")] == 1
        assert np.isnan(x[:, place]).tolist() == gone.tolist()
        np.testing.assert_array_equal(x[~gone, place], y[~gone, told.features.index(name)])


@pytest.mark.parametrize("column", ["outcome", "hospital"])
def test_a_label_or_a_party_cannot_be_kept_missing(table: Path, column: str) -> None:
    table.write_text(TABLE.replace("a,ill", ",ill" if column == "hospital" else "a,", 1))
    with pytest.raises(UserError, match=rf"(?s)column {column}.*missing=drop"):
        kept(table)


def test_an_array_may_have_nan_where_that_is_said_and_never_infinities() -> None:
    x = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, 1.0], [0.0, 1.0], [1.0, 1.0]])
    y = np.array([0, 1, 0, 1, 0])
    data = unalike.dataset(x, y, test=None, missing="keep", standardise=True)
    np.testing.assert_array_equal(data.x, x)
    np.testing.assert_allclose(data.shift, [1.0, 1.5])
    with pytest.raises(UserError, match=r"hold NaN or infinite values in 2 row\(s\)"):
        unalike.dataset(x, y, test=None)
    with pytest.raises(UserError, match=r"hold infinite values in 1 row\(s\)"):
        unalike.dataset(np.where(x == 3, np.inf, x), y, test=None, missing="keep")
    with pytest.raises(UserError, match="of arrays, missing may be 'keep'"):
        unalike.dataset(x, y, test=None, missing="drop")


@pytest.mark.parametrize("shape", [(4, 2, 8, 8), (4, 3)])
def test_images_and_whole_numbers_have_no_gaps_to_keep(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32 if len(shape) == 4 else np.int64)
    with pytest.raises(UserError, match="no dense table of float numbers, so no NaN can be kept"):
        unalike.dataset(x, [0, 1, 0, 1], test=None, missing="keep")


def test_a_data_set_without_gaps_still_refuses_nan() -> None:
    x = np.full((2, 2), np.nan)
    with pytest.raises(UserError, match="hold NaN or infinite values"):
        Dataset("mine", x, np.array([0, 1]), x, np.array([0, 1]), ("a", "b"))


def test_a_net_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"a net cannot read\. Use missing=indicate, or .*--model trees"):
        unalike.run(dataset="heart(missing=keep)", partition="natural", rounds=1)
    refuse_gaps(load_dataset("heart"))


def test_new_rows_may_lack_any_value(table: Path, tmp_path: Path) -> None:
    schema = kept(table).schema
    assert schema is not None
    assert schema.missing == "keep"
    new = tmp_path / "new.csv"
    new.write_text("age,city,smokes,unit\n,Rome,,mm\n30,,yes,\n")
    rows = read_new_rows(schema, read_table(str(new)), schema.missing)
    x = rows.code(np.arange(2))
    assert np.isnan(x).tolist() == [[True, False, False, True, False], [False, True, True, False, False]]
    assert x[:, 4].tolist() == [0.0, 1.0]
    new.write_text("age,city,smokes,unit\n30,Roma,yes,mm\n40,Rome,no,mm\n")
    with pytest.raises(UserError, match="'Roma' in line 2 is a category that training did not have"):
        read_new_rows(schema, read_table(str(new)), schema.missing)


def test_saved_and_read_again_they_are_the_same(table: Path, tmp_path: Path) -> None:
    data = kept(table)
    data.save(tmp_path / "saved")
    again = Saved(str(tmp_path / "saved")).load()
    assert again.gaps
    assert again.digest == data.digest
    np.testing.assert_array_equal(again.x, data.x)


def test_a_saved_set_that_hides_its_gaps_is_refused(tmp_path: Path) -> None:
    import json

    from unalike.data.saved import HEADER, seal

    gapped().save(tmp_path / "saved")
    path = tmp_path / "saved" / HEADER
    header = json.loads(path.read_text())
    del header["gaps"], header["sha256"]
    path.write_text(json.dumps(header | {"sha256": seal(header)}))
    with pytest.raises(UserError, match="hold NaN or infinite values"):
        Saved(str(tmp_path / "saved")).load()


def test_sites_keep_gaps_and_do_not_tell_of_them(tmp_path: Path) -> None:
    for name, lines in (("oslo", slice(1, 5)), ("rome", slice(5, 9))):
        rows = [TABLE.splitlines()[0], *TABLE.splitlines()[lines] * 3]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
    data = Sites(str(tmp_path), "outcome", ("hospital",), "keep").load()
    assert data.gaps
    assert np.isnan(data.x).any()
    assert not [name for name in data.features if name.endswith("_missing")]
    assert data.schema is not None
    assert data.schema.missing == "keep"


def test_exported_tables_have_empty_cells_that_read_back_as_gaps(tmp_path: Path) -> None:
    data = unalike.dataset(
        np.array([[1.5, np.nan], [2.5, 1.0], [np.nan, 2.0], [0.5, 0.0]]),
        [0, 1, 0, 1],
        parties=["a", "a", "a", "a"],
        test=None,
        missing="keep",
    )
    (one,) = party_tables(object(), data, "mine")
    assert [row[:2] for row in one.rows] == [["1.5", ""], ["2.5", "1.0"], ["", "2.0"], ["0.5", "0.0"]]


def test_parties_cannot_go_by_a_column_with_gaps(table: Path) -> None:
    data = kept(table)
    for rule in ("by(age)", "by(city)", "temporal(by=age)"):
        with pytest.raises(UserError, match=r"is missing in \d row\(s\), so parties cannot go by it"):
            make_partition(rule, data, 2, 0)
    for rule in ("iid + feature-noise(0.1)", "iid + feature-shift(scale, 0.3)"):
        with pytest.raises(UserError, match="changes features, which missing values"):
            make_partition(rule, data, 2, 0)
    assert make_partition("natural", data, None, 0).parties == 2


def test_measured_as_columns_of_their_own(table: Path) -> None:
    data = gapped()
    whole = indicated(data)
    assert whole.features == ("column 0", "column 1", "column 2", "column 1_missing")
    assert np.isfinite(whole.x).all()
    assert np.isfinite(whole.x_test).all()
    np.testing.assert_array_equal(whole.x[:, 3] == 1, np.isnan(data.x[:, 1]))
    split = make_partition("iid", data, 3, 0)
    assert dimension_names(data) == whole.features
    assert all(found.shape[1] == 4 and np.isfinite(found).all() for found in party_features(data, split).values())
    assert simulated_situation(data, split).kind == "alike"
    assert indicated(whole) is whole
    told = indicated(load_dataset("heart(missing=keep)")).features[22:]
    assert {"chol_missing", "thal_missing", "slope_missing"} <= set(told)
    assert set(told) <= set(load_dataset("heart").features)  # as missing=indicate names them


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["", "?", "1", "2.5", "-3"]), min_size=3, max_size=3), min_size=6, max_size=30
    )
)
def test_any_table_of_numbers_with_gaps_is_coded(rows: list[list[str]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        lines = [",".join([*row, "yn"[number % 2]]) for number, row in enumerate(rows)]
        path.write_text("\n".join(["a,b,c,label", *lines]) + "\n")
        varied = any(len({row[place] for row in rows}) > 1 for place in range(3))
        assume(varied)
        data = CSV(str(path), missing="keep").load()
        assert not np.isinf(data.x).any()
        for place, name in enumerate(data.features):
            if not name.endswith("_missing"):
                cells = [row["abc".index(name[0])] for row in rows]
                found = np.concatenate([data.x, data.x_test])[:, place]
                assert np.isnan(found).sum() == sum(cell in ("", "?") for cell in cells)


def test_trees_learn_from_gaps_and_grow_alike_whoever_has_them(tmp_path: Path) -> None:
    terms = {"model": "trees(depth=3)", "algorithm": "histogram", "rounds": 3, "validation": 0.0, "held_out": 0.0}
    made = [
        unalike.run(dataset="heart(missing=keep)", partition=split, runs=tmp_path, **terms)
        for split in ("natural", "iid", "label-dirichlet(0.1)")
    ]
    data = load_dataset("heart(missing=keep)")
    first, *others = (one.predict_proba(data.x_test) for one in made)
    for other in others:
        np.testing.assert_array_equal(first, other)
    unknown = made[0].predict_proba(np.full((1, len(data.features)), np.nan, np.float32))
    assert unknown.sum() == pytest.approx(1)
    assert made[0].accuracy is not None
    assert made[0].accuracy > 0.7


@pytest.mark.parametrize("parties", [2, 20])
def test_a_partition_of_rows_with_gaps_is_drawn(parties: int) -> None:
    from matplotlib.figure import Figure

    from unalike.report.feature_panels import feature_panels

    x = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    x[::3, 1], x[:, 2], x[:40, 3] = np.nan, np.nan, np.nan  # some gaps, nothing but gaps, all gaps at one party
    data = unalike.dataset(x, np.arange(80) % 2, test=None, missing="keep")
    figure = Figure()
    feature_panels(
        figure, figure.add_gridspec(1, 1)[0, 0], data, make_partition("temporal(kind=party)", data, parties, 0)
    )
    titles = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert len(titles) == 4

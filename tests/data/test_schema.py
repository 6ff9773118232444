"""The coding that a table's data set carries: all that it takes to code new rows as the training rows were."""

import csv
import json

import numpy as np
import pytest

from unalike.data import load_dataset
from unalike.data.new_rows import read_new_rows
from unalike.data.schema import Schema
from unalike.data.table import read_table

HEAD = ["age", "city", "smoker", "seen", "unit", "ward", "outcome"]
CITIES, GAPS = ("Rome", "Oslo", "Lima", ""), ("", "NA")


def patients(path, gaps=True):
    rows = []
    for n in range(80):
        age, unit = (GAPS[n % 2], "") if gaps and n % 9 == 4 else (20 + n / 3, "mm")
        city = CITIES[n % (4 if gaps else 3)]
        rows.append(
            [age, city, ("yes", "No")[n % 2], f"2024-01-{n % 28 + 1:02}", unit, f"w{n % 4}", "ab"[n % 5 > 1]]
        )
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEAD, *rows])
    return str(path)


@pytest.mark.parametrize("missing", ["error", "indicate", "drop"])
@pytest.mark.parametrize("label", ["outcome", "age, task=regression"])
def test_the_schema_codes_a_table_as_training_did(tmp_path, missing, label):
    path = patients(tmp_path / "t.csv", gaps=missing != "error" and "task" not in label)
    data = load_dataset(f"csv:{path}(label={label}, party=ward, missing={missing})")
    schema = Schema.from_dict(json.loads(json.dumps(data.schema.to_dict())))
    assert (schema, schema.digest) == (data.schema, data.schema.digest)
    assert schema.features == data.features
    assert (schema.classes == ()) == ("task" in label)
    new = read_new_rows(schema, read_table(path), schema.missing)
    coded = new.code(np.arange(int(new.usable.sum())))
    both = np.concatenate([data.x, data.x_test])
    order, same = np.lexsort(coded.T), np.lexsort(both.T)
    assert np.array_equal(coded[order], both[same])
    assert sorted(new.labels.tolist()) == sorted([*data.y.tolist(), *data.y_test.tolist()])
    x, y = schema.code(read_table(path), schema.missing)
    assert np.array_equal(x, coded)
    assert np.array_equal(y, new.labels)


def test_parquet_and_sites_have_one_too(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = patients(tmp_path / "a.csv")
    patients(tmp_path / "b.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").open(encoding="utf-8")))
    (tmp_path / "p").mkdir()
    columns = {name: [row[name] for row in rows] for name in HEAD}
    parquet.write_table(pyarrow.table(columns), tmp_path / "p" / "a.parquet")
    options = "label=outcome, missing=indicate"
    same = load_dataset(f"csv:{path}({options})").schema
    assert load_dataset(f"parquet:{tmp_path / 'p' / 'a.parquet'}({options})").schema == same
    sites = load_dataset(f"sites:{tmp_path}({options})")
    assert sites.schema.features == sites.features
    assert sites.schema.missing == "indicate"
    new = read_new_rows(sites.schema, read_table(path), "indicate")
    found = {row.tobytes() for row in new.code(np.arange(80))}
    assert found == {row.tobytes() for row in np.concatenate([sites.x, sites.x_test])}


def test_constants_are_exact_and_those_of_the_training_rows(tmp_path):
    path = tmp_path / "t.csv"
    values = np.random.default_rng(0).normal(1e6, 3, 50)
    path.write_text("x,y\n" + "".join(f"{float(v)!r},{n % 2}\n" for n, v in enumerate(values)))
    data = load_dataset(f"csv:{path}")
    (field,) = data.schema.fields
    own = data.x[:, 0].astype(float) * field.scale + field.shift
    train = values[[int(np.argmin(np.abs(values - one))) for one in own]]  # x is float32: the nearest is meant
    assert len(set(train)) == 40
    assert (field.shift, field.scale) == pytest.approx((train.mean(), train.std()), rel=1e-14)


def test_what_a_constant_column_with_gaps_becomes(tmp_path):
    data = load_dataset(f"csv:{patients(tmp_path / 't.csv')}(label=outcome, missing=indicate)")
    assert "unit_missing" in data.features
    assert not any(name.startswith("unit_mm") for name in data.features)
    new = tmp_path / "new.csv"
    new.write_text(",".join(HEAD[:-1]) + "\n30,Rome,yes,2024-01-03,inch,w1\n,Rome,yes,2024-01-03,,w1\n")
    found = read_new_rows(data.schema, read_table(str(new)), "indicate").code(np.arange(2))
    assert found[:, data.features.index("unit_missing")].tolist() == [0, 1]

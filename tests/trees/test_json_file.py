"""Trees as JSON: whoever follows the rule that stands in the file gets what we get."""

import json
import math

import numpy as np
import pytest

from tests.trees.grown_model import CLASSES, grown_arrays
from tests.trees.xgboost_arrays import NAMES, example
from unalike.data.schema import Field, Schema
from unalike.trees.columns import Columns
from unalike.trees.ensemble import Ensemble
from unalike.trees.json_file import json_bytes

TARGET = (100.0, 20.0)


def follow(model, row):
    """What docs/use.md shows, and no more."""
    margins = list(model["base"])
    for tree in model["trees"]:
        node = tree["nodes"][0]
        while "value" not in node:
            number = row[node["column"]]
            if number is None:
                node = tree["nodes"][node[node["missing"]]]
            else:
                node = tree["nodes"][node["left" if number < node["below"] else "right"]]
        margins[tree["output"]] += node["value"]
    return margins


def meaning(model, margins):
    if model["objective"] == "binary":
        p = 1 / (1 + math.exp(-margins[0]))
        return [1 - p, p]
    if model["objective"] == "softmax":
        raised = [math.exp(margin) for margin in margins]
        return [each / sum(raised) for each in raised]
    if model["objective"] == "squared-error":
        return [margins[0] * model["target"]["scale"] + model["target"]["shift"]]
    return [math.exp(margins[0])]


@pytest.mark.parametrize("objective", NAMES)
def test_whoever_follows_the_rule_predicts_the_same(objective):
    x, y = example(objective, rows=150)
    y = y.astype(np.int64) if objective in CLASSES else y
    arrays, settings, _ = grown_arrays(objective, x, y, target=TARGET)
    ensemble = Ensemble.of(arrays, settings, CLASSES.get(objective, 0), TARGET)
    classes = ("no", "yes", "perhaps")[: ensemble.classes]
    model = json.loads(json_bytes(ensemble, Columns.of((), 5), classes), parse_constant=pytest.fail)
    assert (model["format"], model["version"], model["classes"]) == ("unalike trees", 1, list(classes))
    wanted = ensemble.predict_proba(x) if classes else ensemble.predict(x)[:, None]
    for values, found in zip(x.tolist(), wanted, strict=True):
        row = {f"x{k}": None if math.isnan(value) else value for k, value in enumerate(values)}
        assert meaning(model, follow(model, row)) == pytest.approx(found.tolist(), abs=1e-9)


def test_thresholds_are_in_the_units_of_the_table_and_columns_say_how_they_are_made():
    rng = np.random.default_rng(0)
    ages, male = rng.integers(20, 90, 300), rng.integers(0, 2, 300)
    shift, scale = float(ages.mean()), float(ages.std())
    schema = Schema(
        "ill",
        ("no", "yes"),
        (Field("age", "number", shift, scale), Field("sex", "category", values=("female", "male"))),
    )
    x = np.stack([(ages - shift) / scale, 1 - male, male], axis=1).astype(np.float32)
    arrays, settings, _ = grown_arrays("binary", x, ((ages > 60) ^ (male > 0)).astype(np.int64))
    ensemble = Ensemble.of(arrays, settings, 2)
    columns = Columns.of(schema.features, 3, schema.units, schema, gaps=False)
    model = json.loads(json_bytes(ensemble, columns, schema.classes))
    assert model["columns"][0] == {"name": "age", "from": "age", "is": "number"}
    assert model["columns"][2] == {"name": "sex_male", "from": "sex", "is": "category", "one where": "male"}
    below = {node["below"] for tree in model["trees"] for node in tree["nodes"] if node.get("column") == "age"}
    assert below
    assert all(number == int(number) and 20 <= number < 90 for number in below)
    for age, man, row in zip(ages.tolist(), male.tolist(), x, strict=True):
        margin = follow(model, {"age": age, "sex_female": 1 - man, "sex_male": man})[0]
        assert margin == pytest.approx(ensemble.margins(row[None])[0, 0], abs=1e-12)


def test_every_kind_of_column_is_described():
    kinds = (
        Field("born", "date", 0.0, 1.0),
        Field("smokes", "binary", indicate=True),
        Field("stage", "ordinal", 1.0, 1.0, ("I", "II", "III")),
    )
    schema = Schema("ill", ("no", "yes"), kinds)
    x, y = example("binary", features=4)
    arrays, settings, _ = grown_arrays("binary", x, y.astype(np.int64))
    columns = Columns.of(schema.features, 4, schema.units, schema)
    made = json.loads(json_bytes(Ensemble.of(arrays, settings, 2), columns, schema.classes))["columns"]
    assert [one["name"] for one in made] == list(schema.features)
    assert made[0]["as"] == "days since 1970-01-01"
    assert made[2]["one where"] == "missing"
    assert made[3]["counted from 0"] == ["I", "II", "III"]

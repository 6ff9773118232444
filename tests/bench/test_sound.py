"""Whatever a hand or another program left in a run's files, there are figures or there are none."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.made_up import figures, write_run
from unalike.bench.results import Line, Record, read_record
from unalike.bench.sound import sound
from unalike.cli.study_show import personal, traffic
from unalike.report.page.numbers import curves, degrees, fairness

WHOLE = figures(
    rounds=3,
    cohort=2,
    parties={"count": 2, "mean": 0.5, "std": 0.1, "worst": 0.4, "worst_10_percent": 0.4, "each": [0.4, None, 0.6]},
    selected={"round": 2, "accuracy": 0.7, "parties": {"worst": 0.1}},
    traffic={"up": {"delta": 4}, "down": {"w": 4}},
    engine="sequential",
    own={"of a": ["plug-in"]},
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def test_what_the_engine_writes_stays():
    assert sound(WHOLE) == WHOLE
    assert sound({"accuracy": None}) == {"accuracy": None}


@pytest.mark.parametrize("wrong", ["x", True, [1], {"a": 1}, 2**63])
@pytest.mark.parametrize("name", ["accuracy", "bytes_up", "seconds", "cohort"])
def test_what_is_no_number_is_dropped(name, wrong):
    assert sound({**WHOLE, name: wrong}) == {key: value for key, value in WHOLE.items() if key != name}


def test_what_is_not_finite_is_none_as_the_engine_writes_it():
    assert sound({"accuracy": math.nan, "loss": math.inf}) == {"accuracy": None, "loss": None}


def test_tables_keep_their_numbers():
    made = sound(
        {
            "traffic": {"up": 3, "down": {"w": "x", "c": 4}},
            "parties": {"worst": "x", "each": ["x"]},
            "degrees": [1],
        }
    )
    assert made == {"traffic": {"down": {"c": 4}}, "parties": {}}


@given(st.sampled_from(sorted(WHOLE)), ANYTHING)
def test_the_figures_of_any_file_can_be_shown(name, value):
    row = {"round": 1, **sound({**WHOLE, name: value})}
    record = Record("0" * 16, {"seed": 0, "rounds": 1}, "finished", row, (row,))
    line = Line("fedavg", (record,))
    assert isinstance(traffic(line), str)
    assert personal(line, "worst") is None or personal(line, "worst").seeds == 1
    assert (
        set(degrees([line])) <= {"label", "label_expected", "quantity", "one_label", "feature"}
        or name == "degrees"
    )
    assert fairness(line) is None or fairness(line).worst.seeds == 1
    assert curves(line)["seeds"] == 1


def test_records_have_sound_figures(tmp_path):
    spec = write_run(tmp_path, dataset="digits", model="mlp(8)")
    folder = tmp_path / spec.folder
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "seconds": "long", "traffic": {"down": {"w": "x"}}}))
    rows = (folder / "rounds.jsonl").read_text().replace('"bytes_up": 1', '"bytes_up": [1]', 1)
    (folder / "rounds.jsonl").write_text(rows)
    found = read_record(folder)
    assert (found.state, found.figures["traffic"], "seconds" in found.figures) == ("finished", {"down": {}}, False)
    assert ["bytes_up" in row for row in found.rounds] == [False, True, True]


def test_a_number_of_parties_that_is_none_is_no_spec(tmp_path):
    spec = write_run(tmp_path, dataset="digits", model="mlp(8)", parties=4)
    file = tmp_path / spec.folder / "spec.toml"
    file.write_text(file.read_text().replace("parties = 4", "parties = nan"))
    assert read_record(tmp_path / spec.folder) is None

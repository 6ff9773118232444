"""Bytes on the wire, by what they carry: in every round's row and in the result."""

import json

import pytest

from tests.helpers import NormBody
from unalike.runs.outcome import outcome
from unalike.runs.run import run
from unalike.runs.small import small_simulation
from unalike.runs.spec import RunSpec


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8)])
def test_a_row_counts_vectors_times_parties(engine, dtype, size):
    simulation = small_simulation("scaffold", engine=engine, dtype=dtype)
    _, row = simulation.play_round()
    bytes_of_one = 4 * simulation.task.size * size
    assert row["cohort"] == 4
    assert row["traffic"] == {
        "down": {"w": bytes_of_one, "c": bytes_of_one},
        "up": {"delta": bytes_of_one, "dc": bytes_of_one},
    }


@pytest.mark.parametrize("text", ["fedavg", "scaffold", "fednova", "rfedavg", "rfedavg+", "qfedavg"])
def test_totals_are_the_sums_over_keys_and_over_rounds(text):
    simulation, rows = small_simulation(text), []
    for _ in range(3):
        simulation.state, row = simulation.play_round()
        rows.append(row)
        for way in ("up", "down"):
            assert row[f"bytes_{way}"] == sum(row["traffic"][way].values()) > 0
    figures = outcome(simulation, rows)
    for way in ("up", "down"):
        keys = {key for row in rows for key in row["traffic"][way]}
        assert figures["traffic"][way] == {key: sum(row["traffic"][way][key] for row in rows) for key in keys}
        assert figures[f"bytes_{way}"] == sum(figures["traffic"][way].values())


def test_rows_from_before_there_was_traffic_are_read():
    simulation = small_simulation("fedavg")
    simulation.state, row = simulation.play_round()
    old = {key: value for key, value in row.items() if key != "traffic"}
    assert outcome(simulation, [old])["traffic"] == {"up": {}, "down": {}}


def test_the_record_has_it(tmp_path):
    spec = RunSpec(dataset="heart", partition="natural", model="mlp(4)", algorithm="rfedavg", rounds=2, epochs=1)
    result = run(spec, runs=tmp_path)
    lines = [json.loads(line) for line in (result.run_dir / "rounds.jsonl").read_text().splitlines()]
    saved = json.loads((result.run_dir / "result.json").read_text())
    assert saved["traffic"]["down"]["deltas"] == sum(line["traffic"]["down"]["deltas"] for line in lines)
    assert saved["traffic"]["down"]["deltas"] == 2 * 4 * 4 * 4 * 4  # rounds, N, N, d, bytes of a float32


def test_running_statistics_have_a_name_of_their_own():
    assert NormBody
    simulation = small_simulation("rfedavg+", model="test-norm-body", batch_size=64)
    _, row = simulation.play_round()
    statistics = simulation.task.buffers.size * 4 * row["cohort"]
    assert statistics > 0
    assert row["traffic"]["down"]["running statistics"] == 2 * statistics  # to train, and to measure
    assert row["traffic"]["up"]["running statistics"] == statistics

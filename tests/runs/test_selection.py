"""The round that is selected on validation rows: the earliest of the best, and its own models and the parties'."""

import numpy as np
import pytest
import torch

import unalike
from unalike.rounds.state import State
from unalike.runs.run import run
from unalike.runs.selection import Selection, selected
from unalike.scores import named

ON_TEST = (0.4, 0.1, 0.2, 0.9)
ROWS = [
    {"round": number, "validation_accuracy": value, "accuracy": other}
    for number, (value, other) in enumerate(zip((0.5, 0.7, 0.7, 0.6), ON_TEST, strict=True), 1)
]


def test_of_equal_rounds_the_earliest_is_selected_both_while_it_trains_and_afterwards():
    assert selected(ROWS, named("accuracy"))["round"] == 2
    seen = Selection(named("accuracy"), whole=False)
    for row in ROWS:
        seen.see(State(row["round"], {}, torch.zeros(0), {}), row)
    assert seen.state.round == 2
    assert selected([{"round": 1, "accuracy": 0.9}], named("accuracy")) is None


@pytest.mark.parametrize("algorithm", ["ditto", "fedavg"])
def test_the_selected_models_are_those_of_a_run_that_ends_with_that_round(tmp_path, algorithm):
    fields = {"dataset": "heart", "partition": "natural", "algorithm": algorithm, "model": "mlp(4)"}
    fields |= {"validation": 0.2, "lr": 3.0, "seed": 1}
    whole = run(**fields, rounds=6, runs=tmp_path / "whole")
    number = whole.figures["selected"]["round"]
    assert number < 6, "these runs should differ: choose another seed"
    short = run(**fields, rounds=number, runs=tmp_path / "short")
    x = unalike.load_dataset("heart").x_test
    parties = range(4) if algorithm == "ditto" else [None]
    for party in parties:
        of_whole, of_short = (unalike.load(one.run_dir) for one in (whole, short))
        chosen = of_whole.predict_proba(x, which="selected", party=party)
        assert np.array_equal(chosen, of_short.predict_proba(x, party=party))
        assert not np.array_equal(chosen, of_whole.predict_proba(x, party=party))

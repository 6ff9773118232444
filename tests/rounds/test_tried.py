"""Of very many parties a fixed sample is tried: its figures are those of the same parties among all."""

from __future__ import annotations

import pytest

from unalike import RunSpec, run
from unalike.cli.show import sample_line
from unalike.errors import UserError
from unalike.rounds.evaluation import without_each
from unalike.rounds.tried import MOST_TRIED, settled
from unalike.runs import simulation
from unalike.runs.headline import headline
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_dataset, small_simulation


def test_it_is_said_only_where_it_decides():
    assert settled(None, MOST_TRIED) is None
    assert settled(None, MOST_TRIED + 1) == MOST_TRIED
    assert settled(5, 5) is None
    assert settled(6, 5) is None
    assert settled(4, 5) == 4
    assert settled(MOST_TRIED + 1, MOST_TRIED + 1) == MOST_TRIED + 1  # all of them, which is not the default


def test_the_key_has_a_sample_and_nothing_else():
    plain = RunSpec(parties=8)
    assert RunSpec(parties=8, evaluate_parties=8).key == plain.key == RunSpec(parties=8, evaluate_parties=99).key
    assert "evaluate_parties" not in plain.to_dict()
    assert RunSpec(parties=8, evaluate_parties=3).key != plain.key
    many = RunSpec(parties=10_001)
    assert many.to_dict()["evaluate_parties"] == MOST_TRIED
    assert (
        RunSpec(parties=10_001, evaluate_parties=10_001).key
        != many.key
        == RunSpec.from_mapping(many.to_dict()).key
    )
    assert RunSpec(partition="natural", dataset="heart").evaluate_parties is None
    with pytest.raises(UserError, match="evaluate_parties must be from 1"):
        RunSpec(evaluate_parties=0)


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("fedavg", {}),
        ("fedper", {"test_by": "labels"}),
        ("ditto", {"newcomers": 0.34, "test_by": "all"}),
        ("fedavg", {"fine_tune": 1}),
        ("ifca(clusters=2)", {}),
    ],
)
def test_figures_of_a_sample_are_those_of_its_parties(algorithm, more):
    whole = play(small_simulation(algorithm, validation=0.2, **more), 2)
    part = play(small_simulation(algorithm, validation=0.2, evaluate_parties=3, **more), 2)
    assert part.state.digest() == whole.state.digest()
    numbers = list(part.federation.tried)
    assert len(numbers) == 3
    assert numbers == sorted(set(numbers))
    everybody, sampled = whole.figures(whole.state), part.figures(part.state)
    assert sampled["sample"] == {"count": 3, "of": 6, "each": numbers}
    assert "sample" not in everybody
    assert without_each(sampled)["sample"] == {"count": 3, "of": 6}
    summaries = [name for name, value in everybody.items() if isinstance(value, dict) and "each" in value]
    assert summaries
    for name in summaries:
        assert sampled[name]["each"] == pytest.approx([everybody[name]["each"][number] for number in numbers])
    assert sampled["accuracy"] == everybody["accuracy"]


def test_the_sample_stays_the_same_and_goes_by_the_seed():
    one, same, other = (small_simulation("fedavg", evaluate_parties=3, seed=seed) for seed in (1, 1, 4))
    assert list(one.federation.tried) == list(same.federation.tried) != list(other.federation.tried)


def test_trees_are_tried_on_a_sample_too():
    settings = {"partition": "natural", "algorithm": "histogram", "model": "trees", "rounds": 2}
    whole, part = (run(**settings, **more, data=small_dataset()) for more in ({}, {"evaluate_parties": 2}))
    numbers = part.figures["sample"]["each"]
    assert part.figures["parties"]["each"] == [whole.figures["parties"]["each"][number] for number in numbers]
    assert part.figures["weights_sha256"] == whole.figures["weights_sha256"]
    assert any("worst party of a sample of 2" in words for words in headline(part.figures))
    assert sample_line(part.figures) == [
        "Parties and validation: of a sample of 2 of 6 parties, the same in every round (--evaluate-parties)."
    ]
    assert sample_line(whole.figures) == []


def test_who_waits_for_very_many_parties_is_told(monkeypatch):
    monkeypatch.setattr(simulation, "MANY", 5)
    said: list[str] = []
    for parties in (4, 5):
        Simulation(RunSpec(parties=parties, rounds=1), data=small_dataset(), say=said.append)
    assert said == ["Splitting the rows between 5 parties."]

"""FAug: what parties send, what they fill up, and what it comes to."""

import numpy as np
import pytest
import torch

from tests.algorithms.generated.helpers import labels_of, pictures, simulation_of
from tests.helpers import recorded, regression_data
from unalike.algorithms import ALGORITHMS
from unalike.algorithms.generated import gan
from unalike.algorithms.generated.gan import Gan, both
from unalike.errors import UserError
from unalike.rounds.rehearse import rehearse
from unalike.runs.small import play, small_dataset, small_simulation


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("base", ["fedavg", "scaffold", "fedprox(mu=0.3)"])
def test_where_nothing_lacks_it_is_the_base_to_the_bit(base, engine):
    fields = {"engine": engine, "sample": 0.67}
    ours, plain = (small_simulation(name, **fields) for name in (f"faug(base={base}, lack=0)", base))
    for _ in range(2):
        (ours.state, mine), (plain.state, theirs) = ours.play_round(), plain.play_round()
        assert mine["traffic"] == theirs["traffic"]
    same = torch.equal if engine == "sequential" else lambda one, other: torch.allclose(one, other, atol=1e-6)
    for name, value in plain.state.server.items():
        assert same(ours.state.server[name], value)
    for number, state in plain.state.parties.items():
        assert all(same(ours.state.parties[number][key], value) for key, value in state.items())


@pytest.mark.parametrize("lack", [1.0, 0.5])
def test_filled_up_labels_are_level(lack):
    simulation = play(simulation_of(f"faug(steps=1, lack={lack})", [1, 3, 4, 5]), 1)
    for counts, state in zip(labels_of(simulation), simulation.state.parties.values(), strict=True):
        wanted = np.maximum(counts, lack * counts.max())
        made = state["fill"].numpy()
        found = (1 - made.sum()) * counts / counts.sum() + made
        assert found == pytest.approx(wanted / wanted.sum(), abs=1e-12)
    assert any(state["fill"].sum() > 0.1 for state in simulation.state.parties.values())


@pytest.mark.parametrize(("seeds", "redundant"), [(2, 1), (1, 3), (40, 40)])
def test_seeds_are_rows_of_the_party_with_that_label_and_as_many_as_are_asked(seeds, redundant):
    simulation = simulation_of(f"faug(steps=1, seeds={seeds}, redundant={redundant})", [1, 3, 5])
    replies = recorded(simulation)
    simulation.play_round()
    for number, sent in replies[0].each.items():
        own = simulation.federation.parties[number].train
        x, y = simulation.federation.train.take(torch.from_numpy(own))
        counts = np.bincount(y.numpy(), minlength=3)
        expected = np.minimum(counts, np.where(counts < counts.max(), seeds, redundant))
        assert sent["there"].sum(dim=1).tolist() == expected.tolist()
        for label, count in enumerate(expected):
            rows, rest = sent["rows"][label, :count], sent["rows"][label, count:]
            places = [int((x == row).all(dim=1).nonzero()) for row in rows]
            assert len(set(places)) == count
            assert all(int(y[place]) == label for place in places)
            assert not rest.any()


def test_which_labels_are_lacking_does_not_show_where_as_many_of_all_are_sent():
    """What is sent depends on how many rows of a label there are only as far as there are fewer than that."""
    simulation = simulation_of("faug(steps=1, seeds=1, redundant=1)", [3, 4, 5])
    replies = recorded(simulation)
    simulation.play_round()
    for counts, sent in zip(labels_of(simulation), replies[0].each.values(), strict=True):
        assert sent["there"][:, 0].tolist() == (counts > 0).tolist()


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_labels_of_which_nobody_sends_a_row_stay_as_they_are(engine):
    """One party lacks label 0, of which it has some rows; the other has no rows of what it lacks."""
    data = small_dataset()
    data.y[data.group == 5] = 0
    data.y[data.group == 4] = np.arange((data.group == 4).sum()) < 30  # 30 of label 1, fewer of label 0
    state, _ = simulation_of("faug(steps=1, redundant=0)", [4, 5], data, engine=engine).play_round()
    first, second = (state.parties[number]["fill"].tolist() for number in range(2))
    n = int((data.group == 4).sum())
    assert first == pytest.approx([(60 - n) / 60, 0, 0])
    assert second == [0, 0, 0]


def test_the_generator_makes_rows_like_the_seeds_of_each_label():
    """Centres far apart: rows made for a label are nearest to its own, and not all the same."""
    simulation = simulation_of("faug(steps=400, noise=2)", [4, 5])
    task, nets = simulation.task, Gan.of(simulation.task, 2)
    stream = torch.Generator().manual_seed(0)
    centres = torch.tensor([[3.0, 0, 0, 0, 0], [0, 3.0, 0, 0, 0], [0, 0, 3.0, 0, 0]], dtype=torch.float64)
    rows = centres[:, None] + 0.3 * torch.randn(3, 20, 5, generator=stream, dtype=torch.float64)
    there = torch.ones(3, 20, dtype=torch.float64)
    there[0, 10:] = 0
    rows[0, 10:, 0] = -3  # places without a row: nobody is to learn them
    sent = {number: {"rows": rows[:, number::2], "there": there[:, number::2]} for number in range(2)}
    g, known = simulation.algorithm.generator_of(task, sent)
    assert known.tolist() == [1, 1, 1]
    y = torch.arange(300) % 3
    made = nets.made(g, torch.randn(300, 2, generator=stream, dtype=torch.float64), y)
    nearest = torch.cdist(made, centres).argmin(dim=1)
    assert float((nearest == y).double().mean()) > 0.95
    assert float(made[y == 0, 0].min()) > 0
    assert float(made[y == 1].std(dim=0).mean()) > 0.05
    again, _ = simulation.algorithm.generator_of(task, sent)
    assert torch.equal(again, g)


def test_rows_are_sent_once_and_the_generator_once():
    simulation = simulation_of("faug(steps=1, seeds=2, redundant=1)", [3, 4, 5])
    first, row = simulation.play_round()
    size = len(first.parties[0]["generator"])
    up, down = row["traffic"]["up"], row["traffic"]["down"]
    assert up["rows"] == 3 * (3 * 2 * 5) * 8
    assert up["there"] == 3 * (3 * 2) * 8
    assert down["generator"] == 3 * size * 8
    simulation.state = first
    _, row = simulation.play_round()
    assert row["traffic"]["up"].keys() == {"delta"}
    assert row["traffic"]["down"].keys() == {"w"}


def test_a_rehearsal_learns_one_step(monkeypatch):
    """A site works out what it will be asked; no generator need be trained for that."""
    simulation = simulation_of("faug(steps=999)", [3, 4, 5])
    steps = []
    monkeypatch.setattr(gan, "both", lambda *nets: steps.append(1) or both(*nets))
    script = rehearse(simulation.crew.worker(0), simulation.task, 3)
    assert len(steps) == 1
    assert [line.phase for line in script.prepare] == ["seeds", "fill"]
    assert [line.kind for line in script.round] == ["train"]
    assert not simulation.task.rehearsing


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("faug(seeds=0)", {}, r"FAug.seeds must be at least 1, got 0\. Use the base alone to send no rows"),
        ("faug(redundant=-1)", {}, "FAug.redundant"),
        ("faug(steps=0)", {}, "FAug.steps"),
        ("faug(noise=0)", {}, "FAug.noise"),
        ("faug(lack=2)", {}, "FAug.lack"),
        ("faug(lack=nan)", {}, "lack must be a number"),
        ("faug(lr=0)", {}, "FAug.lr"),
        ("faug(base=ditto)", {}, "FAug.base must train one model"),
        ("faug", {"channel": "masked", "sample": 1.0}, "needs to see single uploads"),
    ],
)
def test_what_means_nothing_is_refused(text, fields, message):
    with pytest.raises(UserError, match=message):
        small_simulation(text, **fields)


def test_a_task_of_numbers_is_refused():
    with pytest.raises(UserError, match="faug is for classes"):
        simulation_of("faug", [0, 1], regression_data())


def test_parties_that_have_no_row_of_what_they_lack_are_told_so():
    with pytest.raises(UserError, match=r"no party has rows of a label that it lacks\. Use redundant=10"):
        simulation_of("faug(redundant=0)", [0, 1], pictures(), model="logistic").play_round()


def test_what_leaves_a_party_is_said():
    assert ALGORITHMS.entry("faug").cls.sends == "rows"
    assert ALGORITHMS.entry("fedgan").cls.sends == "updates"

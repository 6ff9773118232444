"""FedMD: what parties whose nets differ agree on, and what they learn from it."""

from dataclasses import replace

import pytest
import torch

from tests.algorithms.knowledge.played import NETS, party_of, same_public_rows, simulation_of
from tests.helpers import EVERY_ENGINE, recorded, use_algorithm
from unalike.algorithms import FedMd
from unalike.algorithms.knowledge.scores import at_their_places
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.rounds.rows import batch_of
from unalike.runs.small import play, small_simulation


@EVERY_ENGINE
def test_parties_have_nets_of_their_own_and_send_scores_of_the_drawn_rows_alone(engine):
    simulation = small_simulation("fedmd(part=0.3)", model=NETS, engine=engine, sample=1.0)
    state, row = simulation.play_round()
    sizes = [len(state.parties[k]["w"]) for k in range(6)]
    assert sizes == [simulation.tasks[k % 3].size for k in range(6)]
    assert len(set(sizes)) == 3
    assert len(simulation.task.public.y) == 12  # of which 0.3 are 4
    assert row["traffic"] == {"up": {"logits": 6 * 4 * 3 * 4}, "down": {"consensus": 6 * 4 * 3 * 4}}
    assert row["personal"]["count"] > 0
    assert row["accuracy"] is None


@EVERY_ENGINE
def test_the_consensus_is_the_mean_of_the_parties_logits_on_the_rows_of_the_round(engine):
    simulation = small_simulation("fedmd", model=NETS, dtype="float64", engine=engine)
    first = play(simulation, 1).state
    after, _ = simulation.play_round()
    drawn = simulation.task.public_part(2, 0.5)
    logits = [
        simulation.task_of(k).logits(first.parties[k]["w"], simulation.task.public)[drawn]
        for k in simulation.cohort(2)
    ]
    assert torch.allclose(after.server["consensus"], torch.stack(logits).mean(dim=0), atol=1e-12)


def test_each_round_draws_other_rows_the_same_for_all_nets():
    simulation = small_simulation("fedmd", model=NETS)
    parts = [[task.public_part(number, 0.5).tolist() for number in (1, 2, 3)] for task in simulation.tasks]
    assert parts[0] == parts[1] == parts[2]
    assert len({tuple(part) for part in parts[0]}) == 3
    assert all(part == sorted(set(part)) and len(part) == 6 for part in parts[0])
    assert simulation.task.public_part(1, 1.0).tolist() == list(range(12))


def test_a_digest_goes_over_the_rows_of_its_round_and_no_others():
    simulation, seen = (
        simulation_of("fedmd(part=0.25, digest=2)", [4, 5], public=0.5, batch_size=3),
        {1: [], 2: []},
    )

    def loss(self, party, w, batch):
        if party.phase == "digest":
            seen[party.round] += batch.index.tolist()
        return FedMd.loss(self, party, w, batch)

    watched = type("Watched", (FedMd,), {"loss": loss})(part=0.25, digest=2)
    play(use_algorithm(simulation, watched), 2)
    for number, rows in seen.items():
        drawn = simulation.task.public_part(number, 0.25).tolist()
        assert sorted(rows) == sorted(4 * drawn)  # two parties, two epochs


def test_rows_of_the_consensus_are_found_by_their_number():
    """The table has a row for each that was drawn; a batch has them in any order."""
    simulation = simulation_of("fedmd(part=0.5)", [4], public=0.5)
    drawn = simulation.task.public_part(1, 0.5)
    table = torch.randn(len(drawn), 3, dtype=torch.float64)
    me = party_of(simulation, "digest", received={"consensus": table})
    places = torch.tensor([3, 0, 5])
    public = simulation.task.public
    batch = Batch(public.x[drawn[places]], public.y[drawn[places]], index=drawn[places])
    assert torch.equal(FedMd().consensus(me, batch), table[places])


@pytest.mark.parametrize("count", [2, 5])
def test_equal_parties_agree_already_so_it_is_training_alone(monkeypatch, count):
    """Same net, same start, same rows: the consensus is everybody's own, and its digest moves nobody."""
    same_public_rows(monkeypatch)
    many, alone = (
        play(simulation_of(name, [4] * count, public=0.1), 2)
        for name in ("fedmd(pretrain=0, distance=squared)", "local")
    )
    personal = [run.models(run.state).personal for run in (many, alone)]
    for number in range(count):
        assert torch.allclose(personal[0](number)[0], personal[1](number)[0], atol=1e-12)
    one = play(simulation_of("fedmd(pretrain=0, distance=squared)", [4], public=0.1), 2)
    assert torch.allclose(one.state.server["consensus"], many.state.server["consensus"], atol=1e-12)


def test_the_first_training_is_on_labelled_public_rows_then_on_own_ones():
    """A step of plain gradient descent on each, by hand, before the first consensus."""
    simulation = simulation_of("fedmd(part=1)", [4, 5], public=0.3, epochs=1)
    said = recorded(simulation)
    play(simulation, 1)
    expected = torch.stack([_pretrained(simulation, number) for number in (0, 1)]).mean(dim=0)
    assert torch.allclose(said[1].plain_mean["logits"], expected, atol=1e-12)


def _pretrained(simulation, number):
    """What a party says of the public rows after a step on these and one on its own rows."""
    task, w = simulation.task, simulation.initial
    own = torch.from_numpy(simulation.federation.parties[number].train)
    for rows in (task.public, batch_of(simulation.federation.train, own)):
        w = w - 0.05 * task.gradient(w, rows)
    return task.logits(w, task.public)


@pytest.mark.parametrize(("distance", "value"), [("absolute", 0.5), ("squared", 0.25)])
def test_a_digest_moves_nobody_who_agrees(distance, value):
    simulation = simulation_of("fedmd(part=1)", [4], public=0.1)
    algorithm = FedMd(part=1, distance=distance)
    own = simulation.task.logits(simulation.initial, simulation.task.public)
    me = party_of(simulation, "digest", received={"consensus": own})
    batch = replace(simulation.task.public, index=torch.arange(len(own)), training=True)
    w = simulation.initial.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(algorithm.loss(me, w, batch), w)
    assert torch.equal(gradient, torch.zeros_like(gradient))
    other = replace(me, received={"consensus": own + 0.5})
    assert float(algorithm.loss(other, w.detach(), batch)) == pytest.approx(value)


def test_the_order_of_nets_changes_nothing(monkeypatch):
    """Party a with net p and party b with net q, or b with q and a with p: the same models."""
    same_public_rows(monkeypatch)
    one = play(simulation_of("fedmd", [4, 5], model="mlp(6,4)|mlp(8)", public=0.1), 2).state
    other = play(simulation_of("fedmd", [5, 4], model="mlp(8)|mlp(6,4)", public=0.1), 2).state
    assert torch.allclose(one.parties[0]["w"], other.parties[1]["w"], atol=1e-10)
    assert torch.allclose(one.parties[1]["w"], other.parties[0]["w"], atol=1e-10)
    assert torch.allclose(one.server["consensus"], other.server["consensus"], atol=1e-10)


def test_what_a_party_says_comes_of_its_own_running_statistics():
    simulation = play(small_simulation("fedmd", model="test-norm-body", batch_norm="local", batch_size=64), 1)
    said, state = recorded(simulation), simulation.state
    simulation.play_round()
    drawn = simulation.task.public_part(2, 0.5)
    logits = [
        simulation.task.logits(
            state.parties[k]["w"] if k in state.parties else simulation.initial,
            replace(simulation.task.public, buffers=state.own_buffers.get(k, state.buffers)),
        )[drawn]
        for k in simulation.cohort(2)
    ]
    assert torch.allclose(said[0].plain_mean["logits"], torch.stack(logits).mean(dim=0), atol=1e-6)


def test_a_sum_is_enough():
    hidden, shown = (
        play(small_simulation("fedmd", sample=1.0, **more), 2) for more in ({"channel": "masked"}, {})
    )
    assert torch.allclose(hidden.state.server["consensus"], shown.state.server["consensus"], atol=1e-3)


def test_it_needs_public_rows():
    with pytest.raises(UserError, match=r"uses public rows, of which there are none. Give some: --public 0.1"):
        small_simulation("fedmd", public=0.0)


@pytest.mark.parametrize(
    "text", ["fedmd(pretrain=-1)", "fedmd(digest=0)", "fedmd(part=0)", "fedmd(part=1.5)", "fedmd(distance=far)"]
)
def test_values_that_mean_nothing_are_refused(text):
    with pytest.raises(UserError, match="must be"):
        small_simulation(text)


def test_a_table_of_all_rows_is_the_mean_of_the_tables_of_its_batches():
    """As a measuring pass averages: batches of unlike size, padding in one, rows in any order."""
    values = torch.randn(7, 2, dtype=torch.float64)
    order = torch.tensor([3, 6, 0, 5, 1, 2, 4])
    first = Batch(values[order[:4]], order[:4], index=order[:4])
    padded = torch.cat([order[4:], torch.tensor([0])])
    second = Batch(values[padded], padded, torch.tensor([1.0, 1, 1, 0]), index=padded)
    tables = [at_their_places(batch.x, batch, 7) for batch in (first, second)]
    assert torch.allclose((4 * tables[0] + 3 * tables[1]) / 7, values, atol=1e-12)

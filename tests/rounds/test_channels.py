"""Runs over private channels: every algorithm, every engine, exact resumption, bytes as they really are."""

import json
import math
import re

import numpy as np
import pytest
import torch

from tests.helpers import NEEDS, PROBE, NormBody, Watched, net_algorithms, probe
from unalike.algorithms import ALGORITHMS
from unalike.algorithms.contract import Algorithm, Ask
from unalike.channels import Participation
from unalike.channels.accountant import gauss_epsilon
from unalike.errors import UserError
from unalike.rounds.gather import replies_of
from unalike.rounds.ledger import Ledger
from unalike.rounds.state import State
from unalike.runs.rules import Diverged
from unalike.runs.run import run
from unalike.runs.small import play, small_simulation
from unalike.runs.spec import RunSpec

NAMES = [entry.name for entry in net_algorithms() if entry.cls.__module__.startswith("unalike.")]
NOISY = "clip(1.0)+gauss(0.5)"
WHOLE = {"rounds": 2, "epochs": 1, "sample": 1.0}


def weights(simulation):
    return simulation.state.server["w"]


def test_no_channel_is_not_written_into_a_spec():
    assert "channel" not in RunSpec().to_toml()
    assert RunSpec(channel="none") == RunSpec()
    assert RunSpec(channel="quantise").channel == "quantise(bits=8)"
    assert RunSpec(channel="quantise").key != RunSpec().key
    with pytest.raises(UserError, match="Did you mean 'quantise'"):
        RunSpec(channel="quantize")


ONCE = ["clip(1.0)", "quantise(8)", "topk(0.1)+ternary", "masked(range=64)", NOISY, "subsample(0.5)"]


@pytest.mark.parametrize("channel", ONCE)
@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_runs_or_is_refused_in_one_line(name, channel):
    algorithm, noisy, fields = ALGORITHMS.build(name), "gauss" in channel, NEEDS.get(name, {})
    hides, sampled = "masked" in channel or noisy, "sample" not in fields
    reasons = [
        (algorithm.needs_each and hides, "needs to see single uploads, which --channel"),
        (algorithm.needs_exact and noisy, "divides by sums that --channel"),
        (algorithm.needs_whole, "sends rows, labels or counts, which --channel"),
        (algorithm.overrides("prepare") and hides and sampled, "prepares with all parties, but this channel"),
    ]
    reason = next((why for so, why in reasons if so), None)
    if reason:
        with pytest.raises(UserError, match=rf"{re.escape(name)} {reason}") as refused:
            small_simulation(name, channel=channel, **fields)
        assert "\n" not in str(refused.value)
        return
    simulation = play(small_simulation(name, channel=channel, **fields), 2)
    assert all(torch.isfinite(value).all() for value in simulation.state.tensors().values())


@pytest.mark.parametrize("name", NAMES)
def test_a_clip_that_never_clips_changes_nothing(name):
    fields = {"engine": "sequential", **NEEDS.get(name, {})}
    if ALGORITHMS.build(name).needs_whole:
        pytest.skip("a channel that may shorten rows is refused, however little it does")
    free = play(small_simulation(name, **fields), 2)
    clipped = play(small_simulation(name, channel="clip(1e9)", **fields), 2)
    assert free.state.digest() == clipped.state.digest()


@pytest.mark.parametrize("channel", ["clip(1.0)", "quantise(8)", "topk(0.1)", "ternary", "masked", NOISY])
@pytest.mark.parametrize("text", ["naivemix", "fedmix", "hybrid-fl", "xormix", "faug", "astraea(gamma=2)"])
def test_no_channel_makes_other_rows_labels_or_counts_of_what_is_sent(text, channel):
    """Clipped to length 1 a label would be 0, and a count of rows the less the more there are."""
    with pytest.raises(UserError, match="--channel"):
        small_simulation(text, channel=channel, sample=1.0)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "rfedavg+"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fine_grids_change_next_to_nothing(name, dtype):
    free = play(small_simulation(name, dtype=dtype), 2)
    for channel in ("masked(64, range=64)", "encrypted(2, range=64)", "quantise(16)"):
        other = play(small_simulation(name, dtype=dtype, channel=channel), 2)
        assert torch.allclose(weights(free), weights(other), atol=1e-4), channel
    masked = play(small_simulation(name, dtype="float64", channel="masked(64, range=64)"), 2)
    free = play(small_simulation(name, dtype="float64"), 2)
    assert torch.allclose(weights(free), weights(masked), rtol=0, atol=1e-12)


@pytest.mark.parametrize("channel", ["clip(0.1)+masked", "topk(0.5)", "clip(0.1)+gauss(0.5)", "subsample(0.5)"])
def test_engines_agree(channel):
    made = [
        play(small_simulation("scaffold", channel=channel, engine=engine, dtype="float64"), 2)
        for engine in ("sequential", "vectorised")
    ]
    assert torch.allclose(weights(made[0]), weights(made[1]), atol=1e-6)


def test_the_compiled_engine_uses_the_channel():
    spec = RunSpec(rounds=1, epochs=1, parties=3, model="mlp(8)", engine="compiled", channel="quantise(4)")
    row = run(spec).rows[0]
    size = 64 * 8 + 8 + 8 * 10 + 10
    assert row["bytes_up"] == 3 * (16 + 2 * 4 + size // 2)


@pytest.mark.parametrize(
    ("channel", "of_one"),
    [
        ("clip(1.0)", lambda size: 16 + 4 * size),
        ("quantise(4)", lambda size: 16 + 4 + math.ceil(size / 2)),
        ("ternary", lambda size: 16 + 4 + math.ceil(size / 5)),
        ("topk(0.05)", lambda size: 16 + math.ceil(4 * 7 / 8) + 4 * 4),
        (NOISY, lambda size: 4 * size),
        ("subsample(0.1)", lambda size: 16 + 4 * 8),
        ("subsample(0.1)+quantise(8)", lambda size: 16 + 4 + 8),
        ("layers(2)", lambda size: 16 + 4 * (size - 4 * 3 - 3)),
    ],
)
@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_bytes_are_those_that_are_really_sent(channel, of_one, engine):
    simulation = small_simulation("fedavg", channel=channel, engine=engine)
    simulation.engine = watched = Watched(simulation.engine)
    _, row = simulation.play_round()
    sent = [len(reply.message.data) for reply in watched.replies]
    assert simulation.task.size == 79
    assert sent == [of_one(simulation.task.size)] * 4
    assert row["bytes_up"] == row["traffic"]["up"]["channel"] == sum(sent)


def test_topk_keeps_what_was_left_out_and_absent_parties_keep_theirs():
    simulation = play(small_simulation("rfedavg+", channel="topk(0.1)"), 1)
    first = simulation.state
    assert sorted(first.memories) == simulation.cohort(1)
    assert all(set(memory) == {"residual.0", "residual.1"} for memory in first.memories.values())
    play(simulation, 1)
    absent = set(first.memories) - set(simulation.cohort(2))
    assert absent
    for number in absent:
        assert simulation.state.memories[number] is first.memories[number]
    for number in set(first.memories) & set(simulation.cohort(2)):
        assert not torch.equal(
            simulation.state.memories[number]["residual.0"], first.memories[number]["residual.0"]
        )


@pytest.mark.parametrize("channel", ["subsample(1)", "subsample(1, keep=true)", "layers(1)"])
def test_what_leaves_nothing_out_is_no_channel(channel):
    free, other = (play(small_simulation("scaffold", channel=text), 2) for text in (None, channel))
    assert torch.equal(weights(free), weights(other))


def test_layers_that_are_not_sent_stay_as_the_server_has_them():
    simulation = small_simulation("fedavg", channel="layers(3)")
    before, head = weights(simulation), simulation.task.slices["head"]
    for number in range(1, 7):
        play(simulation, 1)
        after = weights(simulation)
        assert torch.equal(before[head], after[head]) == (number % 3 > 0)
        assert not torch.equal(before[: head.start], after[: head.start])
        before = after


@pytest.mark.parametrize(
    "channel", ["subsample(0.3, keep=true)", "layers(2, keep=true)", "layers(2, keep=true)+masked(64)"]
)
def test_what_arrived_and_what_was_kept_are_the_update(channel):
    """Each party's part is put where the party took it from."""
    fields = {"dtype": "float64", "engine": "sequential"}
    free, other = (play(small_simulation("fedavg", channel=text, **fields), 1) for text in (None, channel))
    kept = {number: memory["residual.0"] for number, memory in other.state.memories.items()}
    rows = {number: other.crew.worker(number).size(_orders(other, [number])[0]) for number in kept}
    left = sum(rows[number] * kept[number] for number in kept) / sum(rows.values())
    assert len(kept) == 4
    assert left.abs().max() > 1e-3
    assert torch.allclose(weights(other) + left, weights(free), rtol=0, atol=1e-9)


@pytest.mark.parametrize("keep", ["", ", keep=true"])
def test_the_same_part_can_be_added_under_masks(keep):
    """What the server has is what it would have seen, to the grid; and the sum has only those entries."""
    texts = [f"subsample(0.2, same=true{keep})", f"subsample(0.2, same=true{keep})+masked(64, range=64)"]
    plain, masked = (play(small_simulation("fedavg", dtype="float64", channel=text), 3) for text in texts)
    assert torch.allclose(weights(plain), weights(masked), rtol=0, atol=1e-10)
    _, all_sent = small_simulation("fedavg", channel="masked(64, range=64)").play_round()
    _, row = small_simulation("fedavg", channel=texts[1]).play_round()
    assert all_sent["bytes_up"] - row["bytes_up"] == 4 * 8 * (79 - 16)


def test_running_statistics_are_sent_whole_however_little_else_is():
    """Divided by a small part, a variance could fall below zero."""
    fields = {"model": "test-norm-body", "batch_size": 64, "rounds": 1}
    free, other = (
        play(small_simulation("fedavg", channel=text, **fields), 1) for text in (None, "subsample(0.1)")
    )
    assert torch.allclose(free.state.buffers, other.state.buffers, rtol=1e-4, atol=1e-6)


def test_nets_that_differ_have_no_deep_layers_in_common():
    with pytest.raises(UserError, match="nets that differ have no deep layers"):
        small_simulation("fd", model="mlp(6)|mlp(4)", channel="layers(2)")
    play(small_simulation("fd", model="mlp(6)|mlp(4)", channel="subsample(0.5)"), 1)


def test_what_prepares_leaves_nothing_for_the_rounds():
    """Its uploads are as long as those of round 1, and mean something else."""

    def prepare(self, task, server):
        yield Ask("measure", self.send(task, server))
        return server

    def measure(self, party, batch):
        return {"far": torch.full((party.task.size,), 100.0)}

    probe(prepare=prepare, measure=measure, fold=Algorithm.fold, upload=Algorithm.upload)
    fields = {"channel": "topk(0.3)", "sample": 1.0}
    prepared, plain = (play(small_simulation(text, **fields), 2) for text in (PROBE, "fedavg"))
    assert torch.equal(weights(prepared), weights(plain))


@pytest.mark.parametrize(
    "channel",
    [
        "topk(0.1)+quantise(4)",
        NOISY,
        "clip(1.0)+gauss(0.5, where=shared)+masked",
        "subsample(0.3, keep=true)",
        "layers(2, keep=true)+masked",
    ],
)
def test_resumption_is_exact(channel):
    whole = play(small_simulation("rfedavg+", channel=channel), 3)
    half = play(small_simulation("rfedavg+", channel=channel), 2)
    again = small_simulation("rfedavg+", channel=channel)
    again.state = State.of(2, half.state.tensors())
    again.state, row = again.play_round()
    assert again.state.digest() == whole.state.digest()
    assert again.participation(again.state) == whole.participation(whole.state)
    assert ("epsilon" in row) == ("gauss" in channel)


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    fields = {"rounds": 4, "epochs": 1, "parties": 4, "sample": 0.5, "channel": "topk(0.05)"}
    whole = run(**fields)
    from unalike.runs.simulation import Simulation

    play_round = Simulation.play_round

    def stops(simulation):
        if simulation.state.round == 2:
            raise KeyboardInterrupt
        return play_round(simulation)

    monkeypatch.setattr(Simulation, "play_round", stops)
    with pytest.raises(KeyboardInterrupt):
        run(runs=tmp_path, **fields)
    monkeypatch.undo()
    result = run(runs=tmp_path, **fields)
    assert result.figures["weights_sha256"] == whole.figures["weights_sha256"]
    assert result.figures["bytes_up"] == whole.figures["bytes_up"]


def test_epsilon_is_in_every_row_and_in_the_result(tmp_path):
    result = run(runs=tmp_path, parties=3, channel="clip(1.0)+gauss(2.0, delta=1e-6)", **WHOLE)
    wanted = [gauss_epsilon(2.0, rounds, 1e-6) for rounds in (1, 2)]
    assert [row["epsilon"] for row in result.rows] == wanted
    saved = json.loads((result.run_dir / "result.json").read_text())
    assert saved["privacy"] == {
        "epsilon": wanted[1],
        "delta": 1e-6,
        "neighbours": "one party more or less",
        "noise": "server",
    }
    assert [row["train_loss"] for row in result.rows] == [None, None]


def test_without_noise_there_is_no_epsilon():
    result = run(parties=3, channel="clip(1.0)", **WHOLE)
    assert "privacy" not in result.figures
    assert "epsilon" not in result.rows[0]


def test_every_exchange_and_every_cohort_is_counted():
    simulation = play(small_simulation("rfedavg+", channel=NOISY), 3)
    taken = [sum(k in simulation.cohort(number) for number in (1, 2, 3)) for k in range(6)]
    assert simulation.participation(simulation.state) == Participation({2: 3}, 2 * max(taken))
    assert simulation.accountant.neighbours == "one party replaced"


def test_a_round_that_asks_nobody_is_no_exchange():
    def play_round(self, task, server):
        if not server["rounds"] % 2:
            replies = yield Ask("train", self.send(task, server))
            server = self.fold(task, server, replies)
        return server | {"rounds": server["rounds"] + 1}

    probe(
        init_server=lambda self, task, w: {"w": w, "rounds": torch.zeros(())},
        round=play_round,
        fold=Algorithm.fold,
        upload=Algorithm.upload,
    )
    simulation, told = small_simulation(PROBE, channel=NOISY), []
    for _ in range(3):
        simulation.state, row = simulation.play_round()
        told.append(row["epsilon"])
    assert simulation.state.exchanges == {1: 2}
    assert 0 < told[0] <= told[1] <= told[2]


def test_under_noise_all_parties_weigh_the_same():
    """Without the weights, a run with next to no noise is the plain mean of the updates."""
    simulation = small_simulation("fedavg", channel="clip(1e3)+gauss(1e-12)", engine="sequential", dtype="float64")
    before = weights(simulation)
    play(simulation, 1)
    free = small_simulation("fedavg", engine="sequential", dtype="float64")
    replies = free.engine.answer(free.crew, _orders(free, free.cohort(1)))
    updates = [reply.message.vectors["delta"] / reply.message.weight for reply in replies]
    assert torch.allclose(weights(simulation) - before, torch.stack(updates).mean(dim=0), atol=1e-7)


def _orders(simulation, numbers):
    ask = Ask("train", simulation.algorithm.send(simulation.task, simulation.state.server))
    return [simulation.order(ask, k, 1, Ledger(simulation.state.buffers)) for k in numbers]


def test_running_statistics_go_through_the_channel_as_changes():
    assert NormBody
    fields = {"model": "test-norm-body", "batch_size": 64}
    free = play(small_simulation("fedavg", **fields), 2)
    for channel in ("clip(1e6)", "masked(64, range=4096)"):
        other = play(small_simulation("fedavg", channel=channel, **fields), 2)
        assert torch.allclose(free.state.buffers, other.state.buffers, rtol=1e-4, atol=1e-5), channel
    still = play(small_simulation("fedavg", channel="clip(1e-9)", **fields), 2)
    assert torch.allclose(still.state.buffers, still.task.initial_buffers(), atol=1e-6)
    local = play(small_simulation("fedavg", channel="quantise(8)", batch_norm="local", **fields), 1)
    assert local.state.own_buffers


def test_divergence_and_values_out_of_range_name_the_party():
    with pytest.raises(Diverged, match="round 1: Party 0's delta is not finite"):
        run(parties=3, lr=1e20, channel="quantise", engine="sequential", **WHOLE)
    with pytest.raises(UserError, match=r"Party 0's delta has the value .* Write range="):
        run(parties=3, lr=0.5, channel="masked(range=0.01)", **WHOLE)


def test_central_noise_moves_the_weights_as_much_as_it_should():
    still = {"lr": 1e-12, "parties": 5, "model": "mlp(64)", **WHOLE, "rounds": 1}
    simulation_noise = run(channel="clip(1.0)+gauss(2.0)", **still)
    assert simulation_noise.figures["privacy"]["epsilon"] > 0
    simulation = small_simulation("fedavg", channel="clip(1.0)+gauss(2.0)", lr=1e-12, model="mlp(64)")
    before = weights(simulation)
    play(simulation, 1)
    moved = (weights(simulation) - before).numpy()
    assert np.std(moved) == pytest.approx(2.0 / 4, rel=0.1)  # z C over the cohort


@pytest.mark.parametrize(("channel", "size"), [(NOISY, 4), ("quantise(8)", 3), ("masked", 3)])
def test_under_noise_nobody_learns_who_was_absent(channel, size):
    simulation = small_simulation("fedavg", channel=channel)
    there = simulation.cohort(1)[:3]
    orders = _orders(simulation, there)
    gathered = simulation.gather(orders)
    replies = replies_of(gathered, simulation.recipe, simulation.population, simulation.state.buffers)
    share = 4 / 6 if size == 4 else simulation.population.share(there)
    assert (replies.size, replies.share) == (size, share)
    weight = 4 if size == 4 else sum(simulation.crew.worker(order.party).size(order) for order in orders)
    assert replies.weight == pytest.approx(weight, rel=1e-6)

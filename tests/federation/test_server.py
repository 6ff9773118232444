"""The server and its sites, without a network: the same bits as in simulation, whoever is absent or restarts."""

import math
from collections import Counter

import pytest
import torch

from tests.federation import second_edition  # noqa: F401  registers a net
from tests.federation.inside import HOSPITALS, World
from tests.helpers import net_algorithms
from unalike.channels.accountant import gauss_epsilon
from unalike.data.table import read_table
from unalike.errors import UserError
from unalike.federation.envelope import Envelope, peek, write
from unalike.federation.terms import terms_of
from unalike.rounds.state import State
from unalike.runs.checkpoint import load_latest
from unalike.runs.record import read_rounds
from unalike.scores import scores_of

CHANNELS = ["clip(0.5)", "quantise(8)", "topk(0.1)+quantise(8)", "masked", "clip(1.0)+masked(64)", "encrypted"]
CHANNELS += ["subsample(0.3)", "subsample(0.3, same=true, keep=true)+masked", "layers(2)"]
SHIPPED = [entry for entry in net_algorithms() if entry.cls.__module__.startswith("unalike.")]
ELSEWHERE = {"dapper", "share", "xormix"} | {
    "fedmd",
    "cronus",
    "feddf",
    "feddf-nets",
    "ensemble",
    "fedkt",
    "f2a",
    "f2u",
}
"""They have public rows, or no model at a site: test_second_edition.py and test_data_methods.py have them."""
OURS = [entry.name for entry in SHIPPED if not entry.cls.pools and entry.name not in ELSEWHERE]
NEEDS = {"fedbn": {"model": "site-normed"}}


def server_state(world):
    saved = load_latest(world.folder.run, print)
    return State.of(saved.round, saved.tensors)


def assert_same(world, simulation):
    """The server's vectors, and what each site keeps, bit for bit."""
    ours = server_state(world)
    assert ours.server.keys() == simulation.state.server.keys()
    for key, value in simulation.state.server.items():
        assert torch.equal(ours.server[key], value), key
    accepted = load_latest(world.folder.run, print).meta["accepted"]
    for number, state in simulation.state.parties.items():
        kept = next(s for s in world.transport.sites.values() if s.number == number)._vault.load(
            accepted[str(number)]
        )
        for key, value in state.items():
            assert torch.equal(kept[f"state/{key}"], value), key


@pytest.mark.parametrize("algorithm", OURS)
def test_every_algorithm_has_the_bits_of_simulation(algorithm, tmp_path):
    world = World.make(tmp_path, train={"algorithm": algorithm, "rounds": 2, **NEEDS.get(algorithm, {})})
    figures = world.serve()
    simulation, rows = world.simulation()
    assert_same(world, simulation)
    assert figures["accuracy"] == pytest.approx(rows[-1]["accuracy"], abs=1e-9)
    assert figures["loss"] == pytest.approx(rows[-1]["loss"], abs=1e-6)
    told = rows[-1].keys() & {"parties", "personal"}
    assert told == figures.keys() & {"parties", "personal"} != set()
    for key in told:
        assert figures[key]["worst"] == pytest.approx(rows[-1][key]["worst"], abs=1e-9), key
    loss = rows[-1]["train_loss"]
    assert figures["train_loss"] == (None if math.isnan(loss) else loss)  # FedMeta's parties do not train


@pytest.mark.parametrize("score", ["auroc", "brier", "balanced-accuracy"])
def test_scores_of_tallies_are_those_of_all_rows(score, tmp_path):
    """Sites tell sums and histograms, never a row: pooled they give what a simulation computes from all rows."""
    world = World.make(tmp_path, train={"rounds": 2, "score": score})
    figures = world.serve()
    _, rows = world.simulation()
    first, last = read_rounds(world.folder.run)
    assert figures["score"] == score
    for each in scores_of("classification"):
        error = 0.02 if each.name == "auroc" else 1e-6  # histograms, not ranks
        assert figures[each.key] == pytest.approx(rows[-1][each.key], abs=error), each.name
    key = score.replace("-", "_")
    error = 0.03 if score == "auroc" else 1e-6
    assert last[f"validation_{key}"] == pytest.approx(rows[-1][f"validation_{key}"], abs=error)
    assert last["parties"]["worst"] == pytest.approx(rows[-1]["parties"]["worst"], abs=error)
    # Before the last round a site tells what the chosen score needs, and no more.
    assert {each.key for each in scores_of("classification")} & first.keys() == {key, "accuracy"}


def test_a_plan_goes_by_a_score_of_classes(tmp_path):
    with pytest.raises(UserError, match=r"rmse is a score of regression, but the task is classification\."):
        World.make(tmp_path, train={"score": "rmse"})


@pytest.mark.parametrize("algorithm", ["scaffold", "rfedavg+"])
@pytest.mark.parametrize("channel", CHANNELS)
def test_channels_have_the_bits_of_simulation(algorithm, channel, tmp_path):
    world = World.make(tmp_path, train={"algorithm": algorithm, "channel": channel})
    world.serve()
    assert_same(world, world.simulation()[0])


@pytest.mark.parametrize("where", ["server", "party", "shared"])
def test_noise_is_secret(where, tmp_path):
    train = {"channel": f"clip(0.5)+gauss(0.1, where={where})+masked", "rounds": 1}
    states = []
    for name in ("a", "b"):
        world = World.make(tmp_path / name, train=train)
        figures = world.serve()
        assert figures["privacy"]["epsilon"] > 0
        states.append(server_state(world).server["w"])
    simulated = world.simulation()[0].state.server["w"]
    assert not torch.equal(states[0], states[1])
    assert torch.allclose(states[0], simulated, atol=0.2)


def test_cohorts_are_known_to_all_sites_and_so_give_no_privacy(tmp_path):
    """They derive from the plan's seed: how often a site takes part counts, which it is told and holds to."""
    four = ("cleveland", "hungarian", "switzerland", "va")
    train = {"channel": "clip(0.5)+gauss(1.0)", "rounds": 6, "sample": 0.25, "evaluate_every": 6}
    world = World.make(tmp_path, four, train=train)
    figures = world.serve()
    answered = [row["answered"][0] for row in read_rounds(world.folder.run)]
    own = Counter(number for who in answered for number in who)
    assert 1 < max(own.values()) < 6
    assert figures["privacy"]["epsilon"] == gauss_epsilon(0.5, max(own.values()), 1e-5)
    for number, name in enumerate(four):
        columns = read_table(f"csv:{tmp_path / 'tables' / name}.csv")
        assert terms_of(world.plan, name, columns).epsilon == gauss_epsilon(0.5, own[number], 1e-5)
    # A server that asks another site than the one that was drawn.
    node, raw = next((node, raw) for node, raw, _ in world.transport.log if peek(raw).kind == "exchange")
    other = next(each for each in world.transport.sites if each != node)
    header = {**peek(raw).header, "receiver": world.transport.sites[other].name, "number": [9, 9], "base": ""}
    header |= {"version": f"{header['round']:06d}-0-9", "keep": []}
    answer = world.transport.sites[other].answer(write(Envelope(header, peek(raw).body), world.folder.signer()))
    assert "takes no part in round 1" in peek(answer).header["reason"]


def test_the_server_never_sees_an_upload_under_masks(tmp_path):
    world = World.make(tmp_path, train={"channel": "masked", "rounds": 1})
    world.serve()
    # A server that asks for the upload itself, under the same plan, is refused by every site.
    asked = [(node, raw) for node, raw, _ in world.transport.log if peek(raw).header.get("ask")]
    node, raw = asked[0]
    header = {**peek(raw).header, "kind": "exchange", "number": [9, 9]}
    forged = write(Envelope(header, peek(raw).body), world.folder.signer())
    answer = peek(world.transport.sites[node].answer(forged))
    assert answer.kind == "error"
    assert "sums only" in answer.header["reason"]


def test_the_server_never_holds_the_key_of_ciphertexts(tmp_path):
    world = World.make(tmp_path, train={"channel": "encrypted(limbs=2)", "rounds": 1})
    world.serve()
    keys = {(tmp_path / "sites" / name / "keys" / "sum.key").read_bytes() for name in HOSPITALS}
    assert len(keys) == 1  # all sites have the same one
    secret = keys.pop()
    seen = b"".join(answer for _, _, answer in world.transport.log)
    seen += b"".join(path.read_bytes() for path in (tmp_path / "server").rglob("*") if path.is_file())
    for start in range(0, len(secret) - 64, len(secret) // 50):
        piece = secret[start : start + 64]
        # The public part of the key is in both; what only the secret context has must not be seen.
        assert piece not in seen or piece in public_of(world)


def public_of(world):
    """The body of the dealer's answer up to the boxes: the public key."""
    dealt = next(peek(answer) for _, raw, answer in world.transport.log if peek(raw).kind == "deal")
    return dealt.body[: dealt.header["sizes"][0]]


def test_a_label_of_one_site_alone_is_said(tmp_path):
    """It may be a typing error, which would be one more class for everybody."""
    world = World.make(tmp_path, train={"rounds": 1})
    table = world.path / "tables" / "va.csv"
    table.write_text(table.read_text().replace("healthy", "helthy", 1))
    world.start(13, "va")
    world.serve()
    assert "The label 'helthy' occurs at va only: is that meant?" in world.said
    assert not any("'disease'" in line for line in world.said)

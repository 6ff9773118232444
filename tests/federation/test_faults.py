"""Sites that vanish, are late or come back, a server that restarts: as simulation with the same participation."""

import pytest
import torch

from tests.federation.inside import FOUR, HOSPITALS, World
from tests.federation.test_server import assert_same, server_state
from unalike.channels.accountant import gauss_epsilon
from unalike.errors import UserError
from unalike.federation import asking
from unalike.federation.envelope import Envelope, peek, write
from unalike.federation.speaker import Stopped
from unalike.runs.record import read_rounds, read_run
from unalike.secure.policy import Policy


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


def participation(world):
    """Who answered, by (round, turn), from the record."""
    rows = read_rounds(world.folder.run)
    return {(row["round"], turn): who for row in rows for turn, who in enumerate(row["answered"])}


class Crash(Exception):
    """The server's process ends here."""


def drop(world, name, *moments, late=False):
    """Lose the message to a site, or its answer (``late``: the site has moved on), at (round, turn)."""
    node = next(n for n, site in world.transport.sites.items() if site.name == name)
    moments = list(moments)

    def before(to, raw):
        header = peek(raw).header
        now = (header.get("round"), header.get("turn"))
        hit = to == node and now in moments and header["kind"] in ("exchange", "sum", "add")
        if hit and not late:
            return None
        world.lost = hit
        return raw

    def after(to, answer):
        return None if to == node and world.lost else answer

    world.transport.before, world.transport.after = before, after


@pytest.mark.parametrize("late", [False, True], ids=["vanished", "answers too late"])
@pytest.mark.parametrize("algorithm", ["scaffold", "rfedavg+", "fednova"])
def test_an_absent_party_is_simply_absent(algorithm, late, tmp_path):
    world = World.make(tmp_path, quorum=2, train={"algorithm": algorithm, "rounds": 4})
    drop(world, "hungarian", (2, 0), (3, 1), late=late)
    world.serve()
    played = participation(world)
    assert played[2, 0] == [0, 2]
    assert played[4, 0] == [0, 1, 2]
    assert_same(world, world.simulation(played)[0])
    # The breakage would show: with everybody in every round the bits differ.
    everybody = world.simulation()[0].state.server
    assert any(not torch.equal(server_state(world).server[key], value) for key, value in everybody.items())


def test_a_site_that_restarts_goes_on_from_its_folder(tmp_path):
    world = World.make(tmp_path, train={"algorithm": "scaffold", "rounds": 4})
    restarted = []

    def before(node, raw):
        header = peek(raw).header
        if header["kind"] == "exchange" and header["round"] == 3 and node == 12 and not restarted:
            restarted.append(world.start(node, "hungarian"))  # a new process: nothing in memory is left
        return raw

    world.transport.before = before
    world.serve()
    assert restarted
    assert_same(world, world.simulation()[0])


@pytest.mark.parametrize("moment", [("exchange", 2, 0), ("exchange", 2, 1), ("evaluate", 2, 0)])
@pytest.mark.parametrize("algorithm", ["scaffold", "rfedavg+"])
def test_a_server_that_restarts_goes_on_from_its_checkpoint(algorithm, moment, tmp_path):
    world = World.make(tmp_path, train={"algorithm": algorithm})
    if moment == ("exchange", 2, 1) and algorithm == "scaffold":
        pytest.skip("SCAFFOLD has one exchange in a round")
    crashes = []

    def after(node, answer):
        header = peek(world.transport.log[-1][1]).header
        now = (header["kind"], header.get("round"), header.get("turn"))
        if now == moment and node == 11 and len(crashes) < 2:  # the last of the three: all have moved on
            crashes.append(now)
            raise Crash
        return answer

    world.transport.after = after
    for _ in range(2):
        with pytest.raises(Crash):
            world.serve()
    world.serve()
    assert_same(world, world.simulation()[0])
    assert any("Going on after round 1" in line for line in world.said)


@pytest.mark.parametrize(("where", "releases"), [("server", 5), ("party", 3)])
def test_a_round_that_is_played_again_costs_privacy_again(where, releases, tmp_path):
    """The server draws its noise anew, and sites have seen the first; theirs is the same again."""
    world = World.make(tmp_path, train={"channel": f"clip(0.5)+gauss(2.0, where={where})"})
    crashes, seen = [], set()

    def before(node, raw):
        message = peek(raw)
        if message.kind == "evaluate":
            seen.add(message.body)
            if message.header["round"] == 2 and len(crashes) < 2:
                crashes.append(node)
                raise Crash
        return raw

    world.transport.before = before
    for _ in range(2):
        with pytest.raises(Crash):
            world.serve()
    figures = world.serve()
    assert len(seen) == releases
    assert figures["privacy"]["epsilon"] == gauss_epsilon(2.0 if where == "server" else 1.0, releases, 1e-5)


def test_another_version_does_not_begin_the_training_anew(tmp_path, monkeypatch):
    world = World.make(tmp_path)
    world.serve()
    files = {
        path.name: path.read_bytes() for path in world.folder.run.iterdir() if not path.name.startswith("lock")
    }
    monkeypatch.setattr("unalike.__version__", "0.0.0")
    with pytest.raises(UserError, match=r"another version \(.*, now 0\.0\.0\).*move .*run away"):
        world.serve()
    assert {name: (world.folder.run / name).read_bytes() for name in files} == files


@pytest.mark.parametrize("channel", ["none", "masked(64)"])
def test_a_restarted_server_goes_on_with_a_quorum(channel, tmp_path):
    """A site is gone when the server starts again, and comes back later."""
    world = World.make(
        tmp_path,
        ("cleveland", "hungarian", "switzerland", "va"),
        quorum=3,
        train={"algorithm": "scaffold", "rounds": 5, "channel": channel},
    )
    gone = []

    def before(node, raw):
        header = peek(raw).header
        if header["kind"] in ("exchange", "sum", "add") and header.get("round") == 3 and not gone:
            gone.append(world.transport.sites.pop(12))
            raise Crash
        if header["kind"] == "evaluate" and header["round"] == 4 and 12 not in world.transport.sites:
            world.start(12, "hungarian")
        return raw

    world.transport.before = before
    with pytest.raises(Crash):
        world.serve()
    world.serve(stopped=lambda: any("4 are needed" in line for line in world.said))  # else it would wait
    played = participation(world)
    all_four, three = [0, 1, 2, 3], [0, 2, 3]
    assert [played[each, 0] for each in range(1, 6)] == [all_four, all_four, three, three, all_four]
    assert_same(world, world.simulation(played)[0])


@pytest.mark.parametrize("kind", ["describe", "agree"])
def test_before_training_all_sites_must_agree(kind, tmp_path):
    """A quorum is not enough before all have agreed once, at whichever message a site is gone."""
    world = World.make(tmp_path, quorum=2)

    def before(node, raw):
        if peek(raw).header["kind"] == kind:
            world.transport.sites.pop(12, None)
        return raw

    world.transport.before = before
    with pytest.raises(Stopped):
        world.serve(stopped=lambda: any("3 are needed" in line for line in world.said))
    assert world.folder.rows() == {}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("result.json", '"loss": ', '"loss": 1'),
        ("rounds.jsonl", '"answered"', '"answers"'),
        ("weights.safetensors", '"algorithm":"fedavg', '"algorithm":"fedopt'),
    ],
)
def test_a_damaged_record_of_the_server_is_made_again(tmp_path, name, old, new):
    world = World.make(tmp_path)
    figures = world.serve()
    path = world.folder.run / name
    assert read_run(world.folder.run, weights=True).result is not None
    changed = path.read_bytes().replace(old.encode(), new.encode())
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    found = read_run(world.folder.run, weights=True)
    assert found.result is None
    assert name in found.damage
    again = world.serve()
    assert any(found.damage in line for line in world.said)
    exact = ("accuracy", "loss", "rounds", "server_sha256", "weights_file_sha256")
    assert {key: again[key] for key in exact} == {key: figures[key] for key in exact}
    assert read_run(world.folder.run, weights=True).damage is None
    assert_same(world, world.simulation()[0])


def test_other_parties_after_a_restart_are_recorded(tmp_path):
    """Round 2 was recorded with all, not saved, and is played again without one: the record says so."""
    world = World.make(tmp_path, quorum=2, train={"algorithm": "scaffold"})
    saves = []

    def crash_before_saving(self, checkpoint, keep=2):
        saves.append(checkpoint.round)
        if checkpoint.round == 2 and saves.count(2) == 1:
            raise Crash
        return real(self, checkpoint, keep)

    real = remote_save()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unalike.runs.folder.RunDirectory.save_checkpoint", crash_before_saving)
        with pytest.raises(Crash):
            world.serve()
        assert len(read_rounds(world.folder.run)) == 2
        drop(world, "va", (2, 0))
        world.serve()
    played = participation(world)
    assert played[2, 0] == [0, 1]
    assert_same(world, world.simulation(played)[0])


def remote_save():
    from unalike.runs.folder import RunDirectory

    return RunDirectory.save_checkpoint


def test_below_the_quorum_the_run_pauses_and_says_so(tmp_path):
    world = World.make(tmp_path, quorum=2)
    asked = []

    def before(node, raw):
        header = peek(raw).header
        if header["kind"] == "exchange" and header["round"] == 2 and node in (11, 12):
            asked.append(node)
            if len(asked) <= 4:  # two tries of two parties
                return None
        return raw

    world.transport.before = before
    world.serve()
    paused = [line for line in world.said if line.startswith("Paused")]
    assert len(asked) == 6
    assert len(paused) == 1  # twice, but a site may be away for weeks: what was just said is not said again
    assert sum(line.startswith("hungarian did not answer") for line in world.said) == 1
    assert "1 of 3 parties answered, 2 are needed" in paused[0]
    assert "cleveland, hungarian" in paused[0]
    # The one that had answered was not asked to do its work twice.
    trained = [peek(raw).header for node, raw, _ in world.transport.log if node == 13]
    assert sum(header["kind"] == "exchange" and header["round"] == 2 for header in trained) == 1
    assert_same(world, world.simulation()[0])


def test_a_paused_run_can_be_stopped(tmp_path):
    world = World.make(tmp_path)
    world.transport.before = lambda node, raw: None if peek(raw).kind == "exchange" else raw
    with pytest.raises(Stopped, match="goes on from the last whole round"):
        world.serve(stopped=lambda: any(line.startswith("Paused") for line in world.said))


def test_a_site_whose_state_was_lost_is_an_error_not_a_new_start(tmp_path):
    world = World.make(tmp_path, train={"algorithm": "scaffold"})

    def before(node, raw):
        header = peek(raw).header
        if header["kind"] == "exchange" and header["round"] == 3 and node == 12:
            for file in (tmp_path / "sites" / "hungarian" / "state").glob("*.state"):
                file.unlink()
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match=r"hungarian says: the state version 000002-0-1 is not here"):
        world.serve()


def test_only_versions_that_may_be_named_are_kept(tmp_path):
    world = World.make(tmp_path, train={"algorithm": "rfedavg+", "rounds": 5})
    world.serve()
    for name in HOSPITALS:
        assert len(list((tmp_path / "sites" / name / "state").glob("*.state"))) <= 3


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_party_that_leaves_a_secure_sum(step, tmp_path):
    """With a quorum of three of four: from the vector on it is in the sum, whatever becomes of it."""
    world = World.make(tmp_path, FOUR, quorum=3, train={"channel": "masked", "rounds": 2})
    lost = []

    def before(node, raw):
        header = peek(raw).header
        if header["kind"] == "sum" and header["step"] == step and node == 12 and len(lost) < 1:
            lost.append(node)
            return None
        return raw

    world.transport.before = before
    world.serve()
    assert lost
    played = participation(world)
    assert played == {(1, 0): [0, 2, 3] if step < 3 else [0, 1, 2, 3], (2, 0): [0, 1, 2, 3]}
    assert_same(world, world.simulation(played)[0])


def test_a_hidden_sum_says_how_many_it_needs(tmp_path):
    world = World.make(tmp_path, train={"channel": "masked", "rounds": 1})
    world.transport.before = lambda node, raw: None if node == 12 and peek(raw).kind == "add" else raw
    with pytest.raises(Stopped):
        world.serve(stopped=lambda: any(line.startswith("Paused") for line in world.said))
    assert any("2 of 3 parties answered, 3 are needed. Waiting for hungarian" in line for line in world.said)


def test_a_wrong_message_counts_as_such_and_an_absent_party_does_not(tmp_path):
    """Two sums fail because somebody is away, a third because of a wrong message: one failure, not three."""
    world = World.make(tmp_path, train={"channel": "encrypted", "rounds": 1})
    tries = []

    def before(node, raw):
        header = peek(raw).header
        if node != 12 or header["kind"] != "sum" or header["step"] != 1:
            return raw
        tries.append(node)
        return None if len(tries) < 3 else raw

    def after(node, answer):
        header = peek(world.transport.log[-1][1]).header
        if node != 12 or header["kind"] != "sum" or header["step"] != 1 or len(tries) != 3:
            return answer
        return write(Envelope(peek(answer).header, b"garbage"), world.transport.sites[12].signer)

    world.transport.before, world.transport.after = before, after
    world.serve()
    assert sum("The sum failed, because of hungarian" in line for line in world.said) == 1
    assert_same(world, world.simulation()[0])


@pytest.mark.parametrize("restart", [False, True], ids=["goes on", "restarts"])
def test_a_sum_that_began_to_be_unmasked_is_made_again_of_the_same_parties(restart, tmp_path):
    """One of four is absent, another leaves while the sum is unmasked; all are back when it is made again."""
    world = World.make(tmp_path, FOUR, quorum=3, train={"channel": "masked", "rounds": 2})
    lost = []

    def before(node, raw):
        header = peek(raw).header
        if header["kind"] == "sum" and len(lost) < 2 and (header["step"], node) in ((2, 14), (4, 12)):
            lost.append(node)
            return None
        return raw

    def give_up():
        if restart and len(lost) == 2 and not any(line == "again" for line in world.said):
            return any(line.startswith("Paused") for line in world.said)
        return False

    world.transport.before = before
    if restart:
        with pytest.raises(Stopped):
            world.serve(stopped=give_up)
        world.said.append("again")
    world.serve()
    assert lost == [14, 12]
    played = participation(world)
    assert played[1, 0] == [0, 1, 2]
    assert played[2, 0] == [0, 1, 2, 3]
    assert_same(world, world.simulation(played)[0])


@pytest.mark.parametrize("channel", ["masked", "encrypted"])
def test_a_later_exchange_of_those_who_are_left(channel, tmp_path):
    """Fewer are asked in it; the threshold stays that of all whom the plan asks in the round."""
    names = ("s0", "s1", "s2", "s3", "s4")
    train = {"channel": channel, "algorithm": "rfedavg+", "rounds": 1}
    world = World.make(tmp_path, names, quorum=4, train=train)
    drop(world, "s2", (1, 0))
    world.serve()
    sums = [peek(raw) for node, raw, _ in world.transport.log if node == 11 and peek(raw).kind == "sum"]
    terms = [Policy.from_bytes(message.body) for message in sums if message.header["step"] == 0]
    assert [(policy.parties, policy.threshold) for policy in terms] == [(5, 4), (4, 4)]
    played = participation(world)
    assert played == {(1, 0): [0, 1, 3, 4], (1, 1): [0, 1, 3, 4]}
    assert_same(world, world.simulation(played)[0])

"""A folder that is restored from a backup: the newest goes on, and an older one says what it is."""

import shutil

import pytest

from tests.federation.inside import World
from unalike.errors import UserError
from unalike.federation.audit import read_audit
from unalike.federation.envelope import peek
from unalike.federation.speaker import Stopped

OLD, NODE, NAME = "it is an old backup", 13, "va"


class Backups:
    """A federation that is stopped after chosen rounds, whose folders are copied and restored in between."""

    def __init__(self, path, **plan):
        self.world = World.make(path, **{"train": {"rounds": 4, "algorithm": "scaffold"}, **plan})
        self.path = path

    def until(self, round):
        """Train until that round is done, as if somebody had called stop then."""
        done = f"Round {round} of 4"
        with pytest.raises(Stopped):
            self.world.serve(lambda: any(line.startswith(done) for line in self.world.said))

    def folder(self, who):
        return self.path / "server" if who == "server" else self.path / "sites" / who

    def copy(self, who=NAME):
        shutil.copytree(self.folder(who), self.path / "backups" / who)

    def restore(self, who=NAME):
        shutil.rmtree(self.folder(who))
        shutil.copytree(self.path / "backups" / who, self.folder(who))
        if who != "server":
            self.world.start(NODE, who)


@pytest.fixture
def backups(tmp_path):
    return Backups(tmp_path)


def test_the_newest_backup_of_a_site_goes_on_to_the_bits_of_simulation(backups):
    backups.until(2)
    backups.copy()
    shutil.rmtree(backups.folder(NAME))  # the disk died, and the machine is a new one
    (backups.folder(NAME)).mkdir()
    backups.restore()
    figures = backups.world.serve()
    simulated, _ = backups.world.simulation()
    assert figures["server_sha256"] == simulated.state.server_digest()
    assert read_audit(backups.folder(NAME))


@pytest.mark.parametrize("train", [{}, {"algorithm": "fedavg"}, {"channel": "clip(1.0)+gauss(0.8, where=party)"}])
def test_an_old_backup_of_a_site_is_refused_in_one_line_on_both_sides(tmp_path, train):
    backups = Backups(tmp_path, train={"rounds": 4, "algorithm": "fedavg", **train})
    backups.until(1)
    backups.copy()
    backups.until(2)
    backups.restore()
    with pytest.raises(UserError, match=OLD):
        backups.world.serve()
    assert any(line.startswith("Refused a message") and OLD in line for line in backups.world.said)
    assert OLD in read_audit(backups.folder(NAME))[-1]["outcome"]


def test_with_a_quorum_the_others_go_on_without_the_old_backup(tmp_path):
    backups = Backups(tmp_path, quorum=2)
    backups.until(1)
    backups.copy()
    backups.until(2)
    backups.restore()
    backups.world.serve()
    simulated, _ = backups.world.simulation(participation=backups.world.played)
    assert backups.world.played[3, 0] == [0, 1]
    assert any(NAME in line and OLD in line for line in backups.world.said)
    assert simulated.state.round == 4


def test_an_old_backup_shows_although_nothing_is_kept_at_the_site(backups):
    """Measuring names no version of a state: what the server has heard shows it all the same."""
    backups.until(1)
    backups.copy()
    backups.until(2)
    backups.restore()
    backups.world.folder.set_job("measure")
    with pytest.raises(UserError, match=OLD):
        backups.world.serve()


def test_an_old_backup_shows_to_a_server_that_is_still_running(backups):
    """Restored between two messages of one round, as by a snapshot of the machine."""

    def before(node, raw):
        header = peek(raw).header
        if node == NODE and (header["kind"], header.get("round")) == ("exchange", 2):
            backups.copy()
        if node == NODE and (header["kind"], header.get("round")) == ("evaluate", 2):
            backups.restore()
        return raw

    backups.world.transport.before = before
    with pytest.raises(UserError, match=OLD):
        backups.world.serve()


def test_an_old_backup_shows_after_a_server_that_stopped_in_the_middle_of_a_round(backups):
    """What was heard since the last whole round counts as well."""
    seen = []

    def before(node, raw):
        header = peek(raw).header
        if header.get("round") == 2:
            seen.append(header["kind"])
            if (node, header["kind"]) == (NODE, "exchange"):
                backups.copy()
        return raw

    backups.world.transport.before = before
    with pytest.raises(Stopped):
        backups.world.serve(lambda: "evaluate" in seen)
    backups.world.transport.before = lambda node, raw: raw
    backups.restore()
    with pytest.raises(UserError, match=OLD):
        backups.world.serve()


def test_what_was_recorded_once_tells_nothing_new_when_it_is_played_to_an_old_backup(tmp_path):
    """An old folder has forgotten which numbers it saw, but noise derives from the question: no second draw."""
    backups = Backups(tmp_path, train={"rounds": 4, "channel": "clip(1.0)+gauss(0.8, where=party)"})
    backups.until(1)
    backups.copy()
    backups.until(2)
    recorded = [
        (raw, answer)
        for node, raw, answer in backups.world.transport.log
        if node == NODE and (peek(raw).kind, peek(raw).header.get("round")) == ("exchange", 2)
    ]
    backups.restore()
    for raw, answer in recorded:
        again = backups.world.transport.sites[NODE].answer(raw)
        assert peek(again).kind == "error" or peek(again).body == peek(answer).body


def test_an_old_backup_of_the_server_is_refused_by_the_sites(backups):
    backups.until(1)
    backups.copy("server")
    backups.until(2)
    backups.restore("server")
    with pytest.raises(UserError, match=r"was seen before|is not here"):
        backups.world.serve()


def test_a_site_with_a_new_key_is_not_taken_for_an_old_backup(backups):
    place, roster = backups.world.folder, backups.world.folder.roster(backups.world.plan)
    place.keep_heard({NAME: [3, 7], "cleveland": [3, 6]}, roster)
    assert place.heard(roster) == {NAME: [3, 7], "cleveland": [3, 6]}
    assert place.heard({**roster, NAME: b"1" * 32}) == {"cleveland": [3, 6]}


def test_the_newest_backup_of_the_server_goes_on(backups):
    backups.until(2)
    backups.copy("server")
    backups.restore("server")
    figures = backups.world.serve()
    assert figures["server_sha256"] == backups.world.simulation()[0].state.server_digest()

"""Leases: one process of one host works in a folder, also where locks do nothing. No test waits for time."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import pytest

from unalike.errors import UserError
from unalike.runs import claim as claims
from unalike.runs import lease as leases
from unalike.runs.claim import claim, claimed, died_in, is_busy
from unalike.runs.folder import RunDirectory
from unalike.runs.lease import RENEW_SECONDS, STALE_SECONDS, Holder, InUse, Lease, held_elsewhere


@pytest.fixture
def on(monkeypatch):
    """From now on this process is on that host; and locks do nothing between hosts."""
    monkeypatch.setattr(claims, "_lock", lambda path, stack: None)

    def move(host):
        monkeypatch.setattr(leases, "machine", lambda: host)

    move("a")
    return move


def take(folder, clock=lambda: 0.0):
    return Lease.take(folder, "rounds.jsonl", clock=clock)


def names(folder):
    return sorted(path.name for path in folder.glob("lease-*"))


def age(folder, seconds):
    """Its lease was last renewed so long ago."""
    (name,) = names(folder)
    written = (folder / name).stat().st_mtime - seconds
    os.utime(folder / name, (written, written))


def test_a_folder_has_one_holder_on_all_hosts(tmp_path, on):
    mine = take(tmp_path)
    about = json.loads((tmp_path / "lease-1").read_text())
    assert about["pid"] == os.getpid()
    assert about.keys() == vars(Holder()).keys()
    assert not held_elsewhere(tmp_path)
    on("b")
    assert held_elsewhere(tmp_path)
    with pytest.raises(InUse, match=rf"is in use on .+ \(pid {os.getpid()}\).*for 1\d\d seconds"):
        take(tmp_path)
    assert names(tmp_path) == ["lease-1"]  # nothing is left of the attempt
    mine.release()
    assert not held_elsewhere(tmp_path)
    take(tmp_path).release()
    assert names(tmp_path) == []


def test_on_the_same_host_the_lock_has_said_that_the_holder_is_dead(tmp_path, on):
    take(tmp_path)
    take(tmp_path)
    assert names(tmp_path) == ["lease-2"]


@pytest.mark.parametrize(("seconds", "free"), [(STALE_SECONDS - 20, False), (STALE_SECONDS + 20, True)])
def test_a_lease_that_is_not_renewed_is_taken_over(tmp_path, on, seconds, free):
    take(tmp_path)
    age(tmp_path, seconds)
    on("b")
    assert held_elsewhere(tmp_path) is not free
    if free:
        take(tmp_path)
        assert names(tmp_path) == ["lease-2"]
    else:
        with pytest.raises(InUse):
            take(tmp_path)


def test_the_age_is_told_by_the_file_system_not_by_the_hosts(tmp_path, on):
    """The clock of the host that looks may be wrong by hours."""
    take(tmp_path)
    on("b")
    with pytest.raises(InUse):
        take(tmp_path, clock=lambda: 1e12)


def test_a_holder_that_slept_learns_that_it_was_replaced(tmp_path, on):
    now = [0.0]
    mine = take(tmp_path, clock=lambda: now[0])
    mine.check()
    age(tmp_path, STALE_SECONDS + 20)
    on("b")
    other = take(tmp_path)
    mine.check()  # it has renewed the lease just now, as far as it knows
    now[0] = 3 * RENEW_SECONDS
    with pytest.raises(InUse, match="was taken over"):
        mine.check()
    with pytest.raises(InUse):  # for good
        mine.check()
    mine.release()
    assert names(tmp_path) == ["lease-2"]
    other.renew()
    other.check()


def test_renewing_makes_it_young_again(tmp_path, on):
    now = [0.0]
    mine = take(tmp_path, clock=lambda: now[0])
    age(tmp_path, STALE_SECONDS - 1)
    now[0] = 3 * RENEW_SECONDS
    mine.check()
    on("b")
    with pytest.raises(InUse, match=r"for 1\d\d seconds"):
        take(tmp_path)


def test_of_two_who_take_it_over_at_once_never_both_go_on(tmp_path, on, monkeypatch):
    """The other one comes between any two steps of the first: looking, making the file, looking again."""
    calls = [0]
    steps = leases._leases
    for step in (1, 2):
        folder = tmp_path / str(step)
        folder.mkdir()
        on("dead")
        take(folder)
        age(folder, STALE_SECONDS + 20)
        on("b")
        calls[0], won = 0, []

        def between(path, step=step, won=won):
            calls[0] += 1
            found = list(steps(path))
            if calls[0] == step:
                monkeypatch.setattr(leases, "_leases", steps)
                on("c")
                with suppress(InUse):
                    won.append(take(path))
                on("b")
            return iter(found)

        monkeypatch.setattr(leases, "_leases", between)
        with suppress(InUse):
            won.append(take(folder))
        assert len(won) <= 1
        assert len(names(folder)) == len(won) or not won


def test_a_lease_whose_writer_was_killed_at_once_counts_by_its_age(tmp_path, on):
    (tmp_path / "lease-7").write_bytes(b"")
    with pytest.raises(InUse, match="another host"):
        take(tmp_path)
    age(tmp_path, STALE_SECONDS + 20)
    take(tmp_path)
    assert names(tmp_path) == ["lease-8"]


@pytest.mark.parametrize("text", ["[]", '{"host": 3}', "{", '{"host": "b", "deaths": "x"}', "[" * 100_000])
def test_a_lease_that_is_no_lease_is_of_another_host(tmp_path, on, text):
    (tmp_path / "lease-1").write_text(text)
    assert held_elsewhere(tmp_path)
    with pytest.raises(InUse):
        take(tmp_path)


def test_deaths_are_counted_until_there_is_a_round_more(tmp_path, on):
    rounds = tmp_path / "rounds.jsonl"
    counts = []
    for count in (0, 0, 5, 4, 5):
        take(tmp_path)
        rounds.write_text("{}\n" * count)  # played before it is killed; what is after a checkpoint is played again
        counts.append(died_in(tmp_path))
    assert counts == [1, 2, 1, 2, 3]
    take(tmp_path).release()
    assert died_in(tmp_path) == 0


def test_a_run_keeps_a_lease_while_it_is_open(tmp_path, on):
    with RunDirectory.open(tmp_path / "run") as run:
        on("b")
        assert is_busy(tmp_path / "run")
        with pytest.raises(InUse), RunDirectory.open(tmp_path / "run"):
            pass
        on("a")
        run.append_round({"round": 1})
    assert names(tmp_path / "run") == []
    on("b")
    with RunDirectory.open(tmp_path / "run") as run:
        assert run.rounds() == [{"round": 1}]


def test_a_run_that_was_taken_over_writes_nothing_more(tmp_path, on):
    with RunDirectory.open(tmp_path) as run:
        run.append_round({"round": 1})
        (tmp_path / "lease-1").unlink()
        run._lease.renew()
        for write in (run.append_round, run.write_result):
            with pytest.raises(InUse, match="taken over"):
                write({"round": 2})
    with RunDirectory.open(tmp_path) as run:
        assert run.rounds() == [{"round": 1}]


def test_a_claim_is_lent_to_the_run_within(tmp_path):
    with claimed(tmp_path / "run") as lease:
        with RunDirectory.open(tmp_path / "run") as run:
            assert run._lease is lease
        assert is_busy(tmp_path / "run")  # the run has ended, the claim has not
    assert not is_busy(tmp_path / "run")
    with claim(tmp_path / "run"), pytest.raises(UserError, match="in use"), RunDirectory.open(tmp_path / "run"):
        pass

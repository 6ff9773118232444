"""``unalike federation status`` of a training whose sites are not all honest."""

import json
import signal
import time

import pytest

from tests.federation.inside import World
from tests.federation.test_remote import NAME, break_answers, poisoned
from unalike.cli.show import number, size
from unalike.federation.envelope import peek
from unalike.runs.record import read_rounds


def trained(tmp_path, **train):
    world = World.make(tmp_path, train={"rounds": 2, **train})
    (world.folder.path / "invitations").mkdir()
    break_answers(world, poisoned(1000.0), lambda header: header["kind"] == "exchange" and header["round"] == 1)
    world.serve()
    return str(world.folder.path)


def test_a_poisoned_update_shows_in_status(unalike, tmp_path):
    folder = trained(tmp_path)
    answer = unalike("federation", "status", folder)
    assert answer.code == 0, answer.err
    (line,) = [line for line in answer.out.splitlines() if line.startswith(f"{NAME}'s update")]
    assert "of round 1 was" in line
    assert "times as long as the median of the others': ask the site" in line
    told = {party["name"]: party for party in unalike("federation", "status", folder, "--json").json["parties"]}
    assert told[NAME]["update"]["times_the_others"] > 100
    assert told[NAME]["update"]["round"] == 1
    assert told[NAME]["rows"] == 58
    assert told["va"]["update"]["times_the_others"] < 10


@pytest.mark.parametrize("channel", ["masked"])
def test_where_nobody_sees_single_updates_status_says_nothing_of_them(unalike, tmp_path, channel):
    world = World.make(tmp_path, train={"rounds": 1, "channel": channel})
    (world.folder.path / "invitations").mkdir()
    world.serve()
    answer = unalike("federation", "status", str(world.folder.path))
    assert "the median of the others" not in answer.out
    assert " 58 " in answer.out


def test_status_shows_who_answered_how_fast_and_how_much(unalike, tmp_path):
    world = World.make(tmp_path, train={"rounds": 3}, quorum=2)
    (world.folder.path / "invitations").mkdir()
    slow = world.transport.sites[12]  # hungarian

    def before(node, raw):
        round = peek(raw).header.get("round")
        if node == 12 and round == 3:
            time.sleep(0.2)
        return None if node == 13 and round == 2 and peek(raw).kind == "exchange" else raw  # va is away

    world.transport.before = before
    world.serve()
    folder = str(world.folder.path)
    told = unalike("federation", "status", folder, "--json").json
    parties = {party["name"]: party for party in told["parties"]}
    assert parties["va"]["answered"] == [True, False, True]
    assert parties["cleveland"]["answered"] == [True] * 3
    assert 0.2 <= parties[slow.name]["seconds"] < 60
    rows = read_rounds(world.folder.run)
    for party in parties.values():
        for way in ("bytes_up", "bytes_down"):
            assert party[way] == sum(row["sites"][party["name"]][way] for row in rows)
    for row in rows:
        assert sum(each["bytes_up"] for each in row["sites"].values()) == row["bytes_up"]
        assert sum(each["bytes_down"] for each in row["sites"].values()) == row["bytes_down"]
    assert told["seconds_left"] == 0
    out = unalike("federation", "status", folder).out
    (line,) = [line for line in out.splitlines() if line.startswith("va ") and "+-+" in line]
    assert size(parties["va"]["bytes_up"]) in line


def test_a_site_that_does_not_answer_has_no_time_in_its_row(tmp_path):
    world = World.make(tmp_path, train={"rounds": 1}, quorum=2, figures="none")

    def after(node, raw):
        asked = peek(world.transport.log[-1][1]).kind
        return None if node == 13 and asked == "exchange" else raw

    world.transport.after = after
    world.serve()
    (row,) = read_rounds(world.folder.run)
    assert row["answered"] == [[0, 1]]
    assert row["sites"]["va"]["seconds"] is None
    assert row["sites"]["va"]["bytes_down"] > 0 == row["sites"]["va"]["bytes_up"]


def test_epsilon_so_far_is_shown(unalike, tmp_path):
    world = World.make(tmp_path, train={"rounds": 1, "channel": "clip(1.0)+gauss(0.8)"})
    (world.folder.path / "invitations").mkdir()
    figures = world.serve()
    out = unalike("federation", "status", str(world.folder.path)).out
    assert f"Privacy so far: epsilon {number(figures['privacy']['epsilon'])} at delta" in out
    told = unalike("federation", "status", str(world.folder.path), "--json").json
    assert told["privacy"] == figures["privacy"]


def test_watch_shows_it_again_and_again_until_ctrl_c(start, tmp_path):
    world = World.make(tmp_path, train={"rounds": 1})
    (world.folder.path / "invitations").mkdir()
    world.folder.tell("round 1 of 1", round=1)
    watch = start("federation", "status", str(world.folder.path), "--watch", "--json")
    assert json.loads(watch.stdout.readline())["state"] == "round 1 of 1"
    world.folder.waits(["va"])
    while json.loads(watch.stdout.readline())["waiting"] != ["va"]:
        pass
    watch.send_signal(signal.SIGINT)
    _, err = watch.communicate(timeout=60)
    assert (watch.returncode, err) == (0, "")


def test_watch_of_a_site_reads_its_head_and_not_all_of_its_log(start, tmp_path):
    world = World.make(tmp_path, train={"rounds": 1})
    world.serve()
    site = world.path / "sites" / "va"
    world.plan.write(site)
    (site / "party.txt").write_text("va\n")
    watch = start("federation", "status", str(site), "--watch")
    shown = [watch.stdout.readline() for _ in range(4)]
    assert shown[1].startswith("va in the federation heart")
    assert "Messages: " in shown[3]
    assert "whole" not in shown[3]  # that was not looked at
    watch.terminate()
    assert watch.wait(60) == 0


def test_watch_of_a_folder_that_is_none_is_one_line(unalike, tmp_path):
    answer = unalike("federation", "status", str(tmp_path), "--watch")
    assert (answer.code, answer.err.count("\n")) == (2, 1)

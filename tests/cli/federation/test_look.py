"""``unalike federation status`` of a training whose sites are not all honest."""

import pytest

from tests.federation.inside import World
from tests.federation.test_remote import NAME, break_answers, poisoned


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

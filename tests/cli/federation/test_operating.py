"""``--log-format`` and ``--monitor``: what programs see of a command that runs for long; its exit codes."""

import errno
import json
import os
import socket
from pathlib import Path

import pytest

from tests.federation.inside import HOSPITALS, write_tables
from unalike.cli.federation import site as federation_site
from unalike.federation.attempts import is_served
from unalike.federation.folders import ServerFolder
from unalike.federation.monitor import HOST
from unalike.runs import files

pytestmark = pytest.mark.skipif(os.name != "posix", reason="real sites need Linux or macOS")
PARTIES = [part for name in HOSPITALS for part in ("--party", name)]
USUAL = ["--address", "127.0.0.1:9443", "--label", "outcome", "--missing", "indicate", "--rounds", "2"]


@pytest.fixture
def made(unalike):
    write_tables(Path("tables"), 60)
    answer = unalike("federation", "init", "heart", *PARTIES, *USUAL)
    assert answer.code == 0, answer.err
    Path("heart/invitations/va").rename("va")
    return Path("heart")


def lines(answer):
    return [json.loads(line) for line in answer.err.splitlines()]


def test_every_line_of_join_is_an_object(unalike, made, monkeypatch):
    monkeypatch.setattr(federation_site, "_take_part", lambda *about: federation_site.say("Here.", round=3))
    answer = unalike("federation", "join", "va", "--data", "csv:tables/va.csv", "--yes", "--log-format", "json")
    assert answer.code == 0, answer.err
    found = lines(answer)
    assert {(line["federation"], line["party"], line["level"]) for line in found} == {("heart", "va", "info")}
    assert (found[-1]["message"], found[-1]["round"]) == ("Here.", 3)


def test_a_mistake_is_an_object_too_and_the_next_command_speaks_to_people_again(unalike, made):
    ServerFolder(made).tell("round 2 of 2", round=2)
    answer = unalike("federation", "run", "heart", "--log-format", "json")
    (line,) = lines(answer)
    assert answer.code == 2
    assert (line["level"], line["party"], line["round"]) == ("error", "server", 2)
    assert "is not admitted yet" in line["message"]
    assert unalike("federation", "run", "heart").err.startswith("Error: ")


def test_a_folder_that_is_none_has_a_line_as_well(unalike):
    answer = unalike("federation", "serve", "nowhere", "--log-format", "json")
    (line,) = lines(answer)
    assert (answer.code, line["level"]) == (2, "error")
    assert "federation" not in line


def test_another_format_is_one_line(unalike, made):
    answer = unalike("federation", "serve", "heart", "--log-format", "jsn")
    assert (answer.code, answer.err) == (2, "Error: Unknown --log-format 'jsn'. Did you mean 'json'?\n")


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", ""])
def test_a_port_that_is_none_is_one_line(unalike, made, port):
    answer = unalike("federation", "serve", "heart", "--monitor", port)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "--monitor" in answer.err


def test_a_port_that_is_taken_is_one_line_and_nothing_is_served(unalike, made):
    with socket.create_server((HOST, 0)) as taken:
        answer = unalike("federation", "serve", "heart", "--monitor", str(taken.getsockname()[1]))
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "Choose another port" in answer.err
    assert not is_served(made)


def test_a_full_disk_may_be_tried_again_later_and_a_mistake_may_not(unalike, made, monkeypatch):
    """By the exit code a supervisor knows: 75 is worth another try, 2 is for a person."""

    def full(path, data, **settings):
        raise files.storage_error(path, OSError(errno.ENOSPC, "No space left on device"))

    command = ["federation", "join", "va", "--data", "csv:tables/va.csv", "--yes"]
    monkeypatch.setattr(federation_site, "atomic_write", full)
    answer = unalike(*command)
    assert (answer.code, "No space left" in answer.err) == (75, True)
    monkeypatch.undo()
    assert unalike("federation", "join", "va", "--data", "csv:tables/none.csv", "--yes").code == 2

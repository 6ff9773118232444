"""Sums between sites: what a server that breaks the rules is told, and what it is not."""

import pytest
import torch

from tests.federation.inside import FOUR, World
from tests.federation.test_faults import participation
from unalike.errors import UserError
from unalike.federation.audit import read_audit
from unalike.federation.envelope import Envelope, pack, peek, write
from unalike.federation.summing import question


def bend(world, changed):
    """What the first site is asked is changed by the server itself, where there is something to compute."""

    def before(node, raw):
        message = peek(raw)
        if node != 11 or message.kind != "sum" or "ask" not in message.header:
            return raw
        return write(changed(message), world.folder.signer())

    world.transport.before = before


def other_model(message):
    size = message.header["protocol"]
    vectors = Envelope(message.header, message.body[size:]).vectors()
    arrays, body = pack({key: torch.zeros_like(value) for key, value in vectors.items()})
    return Envelope({**message.header, "arrays": arrays}, message.body[:size] + body)


def other_scale(message):
    return Envelope({**message.header, "most_rows": 2**31 - 1}, message.body)


@pytest.mark.parametrize("channel", ["masked", "encrypted"])
@pytest.mark.parametrize("changed", [other_model, other_scale])
def test_all_parties_of_a_sum_are_asked_the_same(channel, changed, tmp_path):
    """A server could make all vectors but one vanish: by another model, or by weights of nearly zero."""
    world = World.make(tmp_path, FOUR, quorum=3, train={"channel": channel, "rounds": 1})
    bend(world, changed)
    world.serve()
    assert participation(world) == {(1, 0): [1, 2, 3]}
    refused = [row.get("outcome", "") for row in read_audit(world.transport.sites[11].folder)]
    assert any("something else than the terms of the sum" in outcome for outcome in refused)


def test_what_is_one_partys_own_is_no_part_of_the_question():
    header = {
        "ask": "train",
        "phase": "",
        "round": 2,
        "turn": 0,
        "most_rows": 9,
        "arrays": [["w", "float32", [1]]],
    }
    first = question(header, b"abcd")
    assert question({**header, "base": "000001-0-1", "keep": [], "number": [3, 4]}, b"abcd") == first
    changes = {"ask": "report", "phase": "x", "round": 3, "turn": 1, "most_rows": 8, "arrays": [], "of": "labels"}
    others = {question({**header, key: value}, b"abcd") for key, value in changes.items()}
    assert len(others | {first, question(header, b"abce")}) == len(changes) + 2


def test_an_overflow_does_not_tell_the_server_a_value(tmp_path):
    world = World.make(tmp_path, train={"channel": "masked(range=0.001)", "rounds": 1})
    with pytest.raises(UserError, match="does not fit the channel") as caught:
        world.serve()
    heard = " ".join(str(peek(answer).header) for _, _, answer in world.transport.log)
    for text in (str(caught.value), heard):
        assert "has the value" not in text
    at_the_site = [line for line in world.said if "has the value" in line]
    assert at_the_site, "the person at the site must know what to change"
    for site in world.transport.sites.values():
        assert any("does not fit the channel" in row.get("outcome", "") for row in read_audit(site.folder))

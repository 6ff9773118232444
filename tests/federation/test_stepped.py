"""A protocol's hidden sums in five trips: the bits of one trip and of none, whoever vanishes; no second story."""

import json
from contextlib import suppress

import numpy as np
import pytest

from tests.federation.inside import FOUR, World
from tests.federation.liar import Liar, ready
from tests.runs.toy_protocol import ToyProtocol
from tests.secure.test_masks_alone import uniform
from unalike.data.table import read_table
from unalike.errors import UserError
from unalike.federation import asking
from unalike.federation.envelope import Envelope, peek, write
from unalike.federation.mail import pack_mail, unpack_mail
from unalike.federation.once import Once
from unalike.federation.speaker import Stopped
from unalike.federation.terms import terms_of
from unalike.runs.record import read_rounds
from unalike.secure.messages import Message

NODE, NAME = 12, "hungarian"
TREES = "trees(depth=2,bins=4)"
HELLO, SHARES, VECTOR, CONSENT, UNMASK, END = range(6)
"""What a trip brings a site: the first the terms of the sum, the others the server's answer to the step before."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


assert ToyProtocol  # its algorithms are known by its import


def make(path, channel="masked", quorum=3, model=TREES, rounds=1, algorithm="histogram", **plan):
    train = {"model": model, "algorithm": algorithm, "rounds": rounds} | ({"channel": channel} if channel else {})
    return World.make(path, FOUR, train=train, quorum=quorum, figures="none", **plan)


def server_digest(world):
    found = json.loads((world.folder.run / "result.json").read_text())
    return found["model_sha256"]


def assert_as_simulated(world, found):
    simulation, _ = world.simulation()
    assert found["server_sha256"] == simulation.state.server_digest()
    assert found["model_sha256"] == simulation.about_model()["model_sha256"]


def trips(world, step, node=NODE):
    """The messages that brought a site to a step, and its answers."""
    asked = [(number, peek(raw), peek(answer)) for number, raw, answer in world.transport.log]
    return [
        (message, answer)
        for number, message, answer in asked
        if (number, message.kind) == (node, "sum") and message.header["step"] == step
    ]


def test_five_trips_one_trip_and_no_masks_make_the_same_model(tmp_path):
    made = {}
    for name, channel, quorum in (("five", "masked", 3), ("one", "masked", 0), ("none", None, 0)):
        world = make(tmp_path / name, channel, quorum, rounds=2)
        assert_as_simulated(world, world.serve())
        made[name] = server_digest(world), bool(trips(world, UNMASK)), "greet" in kinds_of(world)
    assert {digest for digest, *_ in made.values()} == {made["none"][0]}
    assert [made[name][1:] for name in ("five", "one", "none")] == [(True, False), (False, True), (False, False)]
    simulation, _ = world.simulation(channel="masked", engine="sequential")
    assert simulation.about_model()["model_sha256"] == made["none"][0]


def kinds_of(world):
    return {peek(raw).kind for _, raw, _ in world.transport.log}


def test_a_protocol_of_ones_own_adds_in_five_trips_too(tmp_path):
    world = make(tmp_path, algorithm="toy-perceptron", model="toy-linear", rounds=2)
    assert_as_simulated(world, world.serve())
    assert trips(world, UNMASK)


def test_a_single_vector_is_noise_and_a_turn_says_only_how_long_it_is(tmp_path):
    world = make(tmp_path)
    world.serve()
    words = [np.frombuffer(Message.from_bytes(answer.body).parts[0], "<u8") for _, answer in trips(world, VECTOR)]
    assert sum(map(len, words)) > 1000
    assert uniform(np.concatenate(words))
    for _, raw, answer in world.transport.log:
        if peek(raw).kind == "turn" and "adds" in peek(answer).header:
            message = peek(answer)
            assert unpack_mail(message.header["mail"], message.body, (-1,)) in ({}, {-1: {}})


# Faults


@pytest.mark.parametrize("step", [CONSENT, UNMASK])
def test_a_site_that_vanishes_once_it_has_added_is_not_missed_in_the_sum(step, tmp_path):
    """Its vector is in the sum, which the three others open; it is back when the next turn begins."""
    world, lost = make(tmp_path), []

    def before(node, raw):
        message = peek(raw)
        if node == NODE and message.kind == "sum" and message.header["step"] == step and len(lost) < 3:
            lost.append(node)
            return None
        return raw

    world.transport.before = before
    assert_as_simulated(world, world.serve())
    assert len(lost) == 3
    assert not [line for line in world.said if "sum" in line or "Paused" in line]


@pytest.mark.parametrize("late", [False, True], ids=["vanished", "answers too late"])
@pytest.mark.parametrize("step", [HELLO, SHARES, VECTOR])
def test_a_site_that_vanishes_before_it_has_added_is_waited_for(step, late, tmp_path):
    world, lost = make(tmp_path), []

    def lose(node, raw):
        message = peek(raw if not late else world.transport.log[-1][1])
        if node == NODE and message.kind == "sum" and message.header["step"] == step and not lost:
            lost.append(message)
            return None
        return raw

    setattr(world.transport, "after" if late else "before", lose)
    assert_as_simulated(world, world.serve())
    assert lost
    assert any(line.startswith(f"A sum is made again: {NAME} did not answer in time") for line in world.said)


def test_a_site_that_restarts_within_a_sum_has_the_round_played_again(tmp_path):
    world, done = make(tmp_path), []

    def before(node, raw):
        message = peek(raw)
        if node == NODE and message.kind == "sum" and message.header.get("turn", 0) > 2 and not done:
            done.append(world.start(NODE, NAME))
        return raw

    world.transport.before = before
    assert_as_simulated(world, world.serve())
    assert any(f"{NAME} was started again within a round" in line for line in world.said)


class Crash(Exception):
    """The server's process ends."""


@pytest.mark.parametrize("step", [SHARES, VECTOR, CONSENT, UNMASK])
def test_a_server_that_dies_within_a_sum_goes_on_to_the_same_bits(step, tmp_path):
    world, heard = make(tmp_path), []

    def dying(node, raw):
        message = peek(raw)
        if message.kind == "sum" and message.header["step"] == step:
            heard.append(node)
            if len(heard) == 6:  # two of four in the second sum
                raise Crash
        return raw

    world.transport.before = dying
    with suppress(Crash):
        world.serve()
    assert len(heard) == 6
    world.transport.before = lambda node, raw: raw
    for node, name in enumerate(FOUR, 11):
        world.start(node, name)
    assert_as_simulated(world, world.serve())
    for name in FOUR:
        known = Once(tmp_path / "sites" / name / "once.json").known
        assert all(len(asked) == 1 for what, asked in known.items() if what.startswith(("turn", "sum", "session")))


# Who is wrong


@pytest.mark.parametrize(
    ("adds", "more", "why"),
    [
        ([["gradient", "int64", [1]]], b"", "adds .*, but cleveland adds"),
        ([["gradient", "float64", [1]]], b"", "it adds what is not int64"),
        ([["gradient", "int64", [0]]], b"", "no vector of 1 to"),
        ([["gradient", "int64", [-4]]], b"", "no vector of 1 to"),
        ([["gradient", "int64", [2.5]]], b"", "no vector of 1 to"),
        ([["gradient", "int64", [2**28, 2**28]]], b"", "no vector of 1 to"),
        ([["gradient", "int64", "ab"]], b"", "no vector of 1 to"),
        (5, b"", "no vector of 1 to"),
        (None, b"", f"{NAME} adds nothing"),
        ("as it is", bytes(8), "its mail does not fit its body"),
    ],
)
def test_a_site_that_says_that_it_adds_something_else_is_named(adds, more, why, tmp_path):
    world = make(tmp_path, algorithm="toy-perceptron", model="toy-linear")

    def after(node, answer):
        message, asked = peek(answer), peek(world.transport.log[-1][1])
        if node != NODE or asked.kind != "turn" or asked.header["round"] != 1 or "adds" not in message.header:
            return answer
        header = message.header if adds == "as it is" else {**message.header, "adds": adds}
        return write(Envelope(header, message.body + more), world.transport.sites[node].signer)

    world.transport.after = after
    with pytest.raises(UserError, match=why):
        world.serve()
    assert not read_rounds(world.folder.run)


def test_a_site_whose_part_of_a_sum_is_wrong_ends_the_run_with_its_name(tmp_path):
    world = make(tmp_path)

    def after(node, answer):
        asked = peek(world.transport.log[-1][1])
        if node != NODE or asked.kind != "sum" or asked.header["step"] != VECTOR:
            return answer
        message = peek(answer)
        return write(Envelope(message.header, message.body[:-1]), world.transport.sites[node].signer)

    world.transport.after = after
    with pytest.raises(UserError, match=f"^{NAME}: "):
        world.serve()
    assert len([line for line in world.said if line.startswith("A sum is made again")]) == 2


def test_a_site_that_was_told_something_else_adds_nothing(tmp_path):
    """The last of four is told other values of a tree, and asked for its part of the sum of all."""
    world = make(tmp_path, rounds=2)

    def before(node, raw):
        message = peek(raw)
        if node == NODE and message.kind == "turn" and message.header["round"] == 2 and message.header["mail"]:
            mail = unpack_mail(message.header["mail"], message.body, (-1,))[-1]
            if "value" in mail:
                listed, body = pack_mail({-1: {**mail, "value": mail["value"] + 50}})
                return write(Envelope({**message.header, "mail": listed}, body), world.folder.signer())
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match=f"{NAME} says: the others were told, or add, something else"):
        world.serve()
    assert [row["round"] for row in read_rounds(world.folder.run)] == [1]


@pytest.fixture
def liar(tmp_path):
    """A server that is about to ask for the vectors of a sum of round 1."""
    world = make(tmp_path)
    asked, usual = ready(world)
    return lambda **terms: Liar(world, asked, usual, **terms)


def test_no_sum_without_a_site_is_opened(liar):
    """With one fewer, the difference would be that one's histogram: a list of three is signed by nobody."""
    lie = liar().gather()
    without = tuple(name for name in FOUR if name != NAME)
    assert not lie.consents(without, without)
    assert all("the sum is of 3 parties, the plan needs 4" in lie.voice.problems[name] for name in without)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"parties": [name for name in FOUR if name != NAME], "threshold": 3}, "of 3 parties, the plan needs 4"),
        ({"threshold": 4}, "threshold is 4, by the plan it must be 3"),
        ({"bits": 32, "bound": 2**31 - 1}, "not as agreed"),
    ],
)
def test_a_sum_on_other_terms_is_refused(terms, why, liar):
    lie = liar(**terms)
    assert not lie.trip(HELLO, dict.fromkeys(lie.names, lie.policy.to_bytes()))
    assert why in lie.voice.problems["va"]


@pytest.mark.parametrize(
    ("bend", "why"),
    [
        (lambda header, body: ({**header, "turn": header["turn"] + 1}, body), "said nothing to be added"),
        (lambda header, body: ({**header, "round": 0}, body), "said nothing to be added"),
        (lambda header, body: ({**header, "turn": True}, body), "its turn is not a number"),
        (lambda header, body: (header, body[:-1]), "something else than this site"),
        (lambda header, body: ({**header, "schema": "x"}, body), "another schema"),
    ],
)
def test_a_sum_of_something_else_is_refused(bend, why, tmp_path):
    world = make(tmp_path)
    asked, usual = ready(world)
    bent = {name: bend(*question) for name, question in asked.items()}
    lie = Liar(world, bent, usual)
    with suppress(UserError):  # too few are left
        lie.gather()
    assert all(why in lie.voice.problems[name] for name in FOUR)


def test_a_sum_that_was_not_agreed_to_is_refused(tmp_path):
    """Without masks, or in one trip, sites take part in no sum of several trips."""
    world = make(tmp_path, quorum=0)
    seen = []

    def before(node, raw):
        message = peek(raw)
        if message.kind == "turn" and message.header["round"] == 1 and not seen:
            seen.append(message)
            header = {**message.header, "kind": "sum", "step": 0, "session": "00" * 16, "protocol": 0}
            return write(Envelope(header, b""), world.folder.signer())
        return raw

    world.transport.before = before
    with suppress(Stopped, UserError):
        world.serve(stopped=lambda: bool(seen) and len(world.transport.log) > 60)
    refused = [peek(answer).header.get("reason", "") for _, raw, answer in world.transport.log]
    assert any("in one trip" in reason for reason in refused)


# What sites agree to


def test_the_plan_decides_how_and_sites_are_told(tmp_path):
    five = make(tmp_path / "a").plan
    one = make(tmp_path / "b", quorum=0).plan
    table = read_table(f"csv:{tmp_path / 'a' / 'tables' / NAME}.csv")
    assert (five.several_trips, five.one_trip) == (True, None)
    assert (one.several_trips, make(tmp_path / "c", quorum=4).plan.several_trips) == (False, False)
    told = terms_of(five, NAME, table).hidden
    assert "all 4 sites, in five trips" in told
    assert "in one trip" in terms_of(one, NAME, table).hidden
    with pytest.raises(UserError, match=r"needs every site in every turn.*Leave the quorum of 3 out"):
        make(tmp_path / "d", channel=None)
    with pytest.raises(UserError, match=r"quorum of 2 is too small"):
        make(tmp_path / "e", quorum=2)

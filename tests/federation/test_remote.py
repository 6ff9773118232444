"""A site that is broken or means harm: named in a line, left out, and the others go on; or a clear end."""

import math
import struct
import tracemalloc

import pytest
import torch

from tests.federation.inside import HOSPITALS, Failure, World
from tests.federation.test_faults import participation
from tests.federation.test_server import assert_same
from unalike.data.sites.description import MOST_ROWS
from unalike.errors import UserError
from unalike.federation import asking, remote, speaker
from unalike.federation.envelope import Envelope, pack, peek, write
from unalike.federation.folders import read_key
from unalike.federation.lengths import longest, times_the_others
from unalike.federation.speaker import Speaker
from unalike.runs.record import read_rounds
from unalike.secure.crypto.primitives import new_secret

NODE, NAME = 12, "hungarian"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


def key(world, name=NAME):
    return read_key(world.path / "sites" / name / "keys" / "site.key")


def changed(world, message, signer=None, body=None, **header):
    return write(
        Envelope({**message.header, **header}, message.body if body is None else body), signer or key(world)
    )


def with_arrays(change):
    """An answer whose vectors were changed, signed by the site itself."""

    def made(world, message):
        vectors = message.vectors()
        change(vectors)
        arrays, body = pack(vectors)
        return changed(world, message, body=body, arrays=arrays)

    return made


def with_bytes(at, number):
    """An answer with a number that pack() would not let out."""

    def made(world, message):
        body = bytearray(message.body)
        body[at : at + 4] = struct.pack("<f", number)
        return changed(world, message, body=bytes(body))

    return made


BROKEN = {
    "garbage": (lambda world, message: b"garbage", "not a message of unalike"),
    "nothing": (lambda world, message: b"", "not a message of unalike"),
    "large": (lambda world, message: b"\0" * 2**21, "bytes; 1,048,576 are allowed"),
    "cut": (lambda world, message: changed(world, message)[:-1], "signature"),
    "somebody else's key": (
        lambda world, message: changed(world, message, key(world, "va"), sender="va"),
        "va signed an answer of hungarian",
    ),
    "an unknown key": (lambda world, message: changed(world, message, new_secret()), "signature is not that of"),
    "for another": (lambda world, message: changed(world, message, receiver="va"), "it is for 'va'"),
    "another message": (
        lambda world, message: changed(world, message, answers=[1, 1]),
        "it answers another message",
    ),
    "another layout": (with_arrays(lambda v: v.update({"message/delta": v["message/delta"][:-1]})), "it has {"),
    "another type": (with_arrays(lambda v: v.update({"message/delta": v["message/delta"].double()})), "it has {"),
    "less": (with_arrays(lambda v: v.pop("message/delta")), "it has {"),
    "more": (with_arrays(lambda v: v.update({"message/evil": torch.ones(1)})), "it has {"),
    "a negative weight": (with_arrays(lambda v: v["message/engine/weight"].neg_()), "weight is below zero"),
    "a weight beyond its rows": (
        with_arrays(lambda v: v["message/engine/weight"].mul_(1.5)),
        "the 58 training rows that it agreed with weigh 58",
    ),
    "NaN": (with_bytes(0, math.nan), "is not finite"),
    "infinity": (with_bytes(0, math.inf), "is not finite"),
    "no arrays": (lambda world, message: changed(world, message, arrays=None), "malformed"),
    "too short": (lambda world, message: changed(world, message, body=message.body[:-4]), "do not fit"),
    "a failed node": (lambda world, message: Failure("out\nof \x1b[2J memory"), "failed: out of ?[2J memory"),
    "an error": (
        lambda world, message: changed(world, message, kind="error", reason="a\n\x1b[2Jb" + "x" * 999),
        "says: a ?[2Jb",
    ),
}


def break_answers(world, how, when=lambda header: header["kind"] == "exchange"):
    """Let a site's answers to some messages be others."""

    def after(node, answer):
        asked = peek(world.transport.log[-1][1]).header
        return how(world, peek(answer)) if node == NODE and when(asked) else answer

    world.transport.after = after


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_site_is_named_and_left_out(kind, tmp_path):
    how, why = BROKEN[kind]
    world = World.make(tmp_path, quorum=2, train={"rounds": 2}, most_bytes=2**20)
    break_answers(world, how, lambda header: header["kind"] == "exchange" and header["round"] == 1)
    world.serve()
    named = [line for line in world.said if line.startswith(NAME) and why in line]
    assert named
    assert all(len(line) < 500 and line.isprintable() for line in world.said)
    played = participation(world)
    assert (played[1, 0], played[2, 0]) == ([0, 2], [0, 1, 2])
    if kind == "NaN":
        assert_same(world, world.simulation(played)[0])


@pytest.mark.parametrize("kind", ["garbage", "another layout", "an unknown key", "an error"])
def test_where_asking_again_cannot_help_the_run_ends(kind, tmp_path):
    how, why = BROKEN[kind]
    world = World.make(tmp_path, train={"rounds": 2}, most_bytes=2**20)
    break_answers(world, how)
    with pytest.raises(UserError, match=f"{NAME} s.*") as caught:
        world.serve()
    assert why in str(caught.value)
    assert sum(line.startswith("Paused") for line in world.said) < 3


def test_a_model_that_is_larger_than_the_plan_allows_is_told_at_once(tmp_path):
    world = World.make(tmp_path, most_bytes=2**16, train={"rounds": 2, "model": "mlp(512)"})
    with pytest.raises(UserError, match=r"has [0-9,]+ bytes, the plan's most_bytes are 65,536"):
        world.serve()
    assert not any("Paused" in line for line in world.said)


def test_one_wrong_answer_is_not_the_end(tmp_path):
    world = World.make(tmp_path, train={"rounds": 2})
    left = [1, 1]
    break_answers(
        world,
        lambda world, message: b"garbage",
        lambda header: header["kind"] == "exchange" and header["round"] == 1 and bool(left) and bool(left.pop()),
    )
    world.serve()
    assert_same(world, world.simulation()[0])


@pytest.mark.parametrize(
    "body", [b"", b"\0" * 7, b"\xff" * 16, struct.pack("<d", math.nan) * 40, struct.pack("<d", -1.0) * 400]
)
def test_what_a_channel_cannot_open_is_left_out(body, tmp_path):
    world = World.make(tmp_path, quorum=2, train={"rounds": 1, "channel": "quantise(8)"})
    break_answers(world, lambda world, message: changed(world, message, body=body))
    world.serve()
    assert participation(world)[1, 0] == [0, 2]
    assert any(line.startswith(f"{NAME} sent an answer that is not accepted") for line in world.said)


@pytest.mark.parametrize("body", [b"", b"garbage", b"\0" * 1000])
def test_who_breaks_a_secure_sum_is_named(body, tmp_path):
    world = World.make(tmp_path, train={"rounds": 1, "channel": "encrypted"})
    break_answers(
        world,
        lambda world, message: changed(world, message, body=body),
        lambda header: header["kind"] == "sum" and header["step"] == 1,
    )
    with pytest.raises(UserError, match=NAME):
        world.serve()
    assert sum(f"because of {NAME}" in line for line in world.said) == remote.MOST_FAILURES


def number(value):
    return torch.tensor(float(value), dtype=torch.float64)


WRONG_TALLIES = {
    "no rows": lambda told: told.pop("test/rows"),
    "a part too few": lambda told: told.pop("test/right"),
    "a part too many": lambda told: told.update({"test/rmse": number(1)}),
    "rows that nobody asked for": lambda told: told.update({"train/rows": number(1)}),
    "below zero": lambda told: told.update({"test/right": number(-1)}),
    "more right than rows": lambda told: told.update({"validation/right": told["validation/rows"] + 1}),
    "another shape": lambda told: told.update({"test/confusion": torch.ones(3, 3)}),
    "other rows": lambda told: told.update({"test/confusion": 2 * told["test/confusion"]}),
    "odds of other rows": lambda told: told.update({"test/odds": told["test/odds"] + 1}),
    "surer than sure": lambda told: told.update({"test/calibration": 2 * told["test/calibration"][[0, 0, 0]]}),
    "far from everything": lambda told: told.update({"test/distances": 3 * told["test/rows"]}),
    "more rows than there are": lambda told: told.update({"held_out/rows": number(1e12)}),
}


@pytest.mark.parametrize("how", WRONG_TALLIES)
def test_tallies_that_cannot_be_are_not_used(how, tmp_path):
    world = World.make(tmp_path, train={"rounds": 1})
    break_answers(world, with_arrays(WRONG_TALLIES[how]), lambda header: header["kind"] == "evaluate")
    figures = world.serve()
    assert sum(line.startswith(f"{NAME}'s figures are not used") for line in world.said) == 1
    assert 0 <= figures["accuracy"] <= 1
    assert_same(world, world.simulation()[0])


@pytest.mark.parametrize(
    "description",
    [None, 5, {}, {"columns": 5}, {"label": "outcome", "classes": [], "columns": [], "rows": 1},
     {"label": "outcome", "classes": ["a"], "rows": 1,
      "columns": [{"name": "age", "kind": "number", "mean": 10**400}]}],
)  # fmt: skip
def test_a_malformed_description_names_its_site(description, tmp_path):
    world = World.make(tmp_path)
    break_answers(
        world,
        lambda world, message: changed(world, message, description=description),
        lambda header: header["kind"] == "describe",
    )
    with pytest.raises(UserError, match=f"{NAME}.*description is malformed"):
        world.serve()


def test_values_that_overflow_are_a_clear_end(tmp_path):
    world = World.make(tmp_path)

    def huge(world, message):
        told = message.header["description"]
        told["columns"][0] |= {"mean": 1e300, "squares": 1e300}
        return changed(world, message, description=told)

    break_answers(world, huge, lambda header: header["kind"] == "describe")
    with pytest.raises(UserError, match="too large to standardise"):
        world.serve()


def claim_rows(world, rows):
    break_answers(
        world, lambda world, message: changed(world, message, rows=rows), lambda header: header["kind"] == "agree"
    )


@pytest.mark.parametrize("rows", [0, -1, True, 1.5, "5", 2**31, 2**52, 2**60, 10**400, None])
def test_impossible_numbers_of_rows(rows, tmp_path):
    world = World.make(tmp_path)
    claim_rows(world, rows)
    with pytest.raises(UserError, match=f"^{NAME}: it .*how many rows") as refused:
        world.serve()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200
    assert not any(peek(raw).kind == "exchange" for _, raw, _ in world.transport.log)


@pytest.mark.parametrize("rows", [0, 2**31, 2**52])
def test_a_description_of_impossibly_many_rows(rows, tmp_path):
    world = World.make(tmp_path)

    def more(world, message):
        return changed(world, message, description={**message.header["description"], "rows": rows})

    break_answers(world, more, lambda header: header["kind"] == "describe")
    with pytest.raises(UserError, match=f"{NAME}: its description is malformed: {rows} training rows; 1 to 2,147"):
        world.serve()


def test_the_most_rows_that_the_server_takes_the_sites_take_too(tmp_path):
    """A claim that only one of the two sides refuses would stop everybody's training."""
    world = World.make(tmp_path, train={"rounds": 1})
    claim_rows(world, MOST_ROWS)
    tracemalloc.start()
    world.serve()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert participation(world)[1, 0] == [0, 1, 2]
    assert most < 2**30, "a number for each of these rows would be 16 GB"


def test_other_numbers_of_rows_after_a_restart_are_said(tmp_path):
    world = World.make(tmp_path, train={"rounds": 1})
    world.serve()
    claim_rows(world, 5000)
    world.serve()
    assert f"{NAME} has 5,000 training rows now, 58 before: is that meant?" in world.said


# What one site's upload counts for, and how long it is


@pytest.mark.parametrize(
    ("train", "share"),
    [
        ({}, 1.01),
        ({"channel": "quantise(8)"}, 1.01),
        ({"algorithm": "scaffold(weights=uniform)"}, 1.01),  # all weigh 1, whatever their rows
        ({"algorithm": "fednova"}, 2**40),
        ({"algorithm": "qfedavg"}, 2.0),
    ],
)
def test_a_weight_beyond_the_agreed_rows_is_refused(train, share, tmp_path):
    def heavier(world, message):
        if "channel" in train:
            (weight,) = struct.unpack("<d", message.body[:8])
            return changed(world, message, body=struct.pack("<d", weight * share) + message.body[8:])
        return with_arrays(lambda v: v["message/engine/weight"].mul_(share))(world, message)

    world = World.make(tmp_path, quorum=2, train={"rounds": 1, **train})
    break_answers(world, heavier)
    world.serve()
    assert participation(world)[1, 0] == [0, 2]
    (line,) = [line for line in world.said if line.startswith(f"{NAME} sent an answer that is not accepted")]
    assert "its weight is" in line
    assert "training rows that it agreed with weigh" in line
    assert_same(world, world.simulation(participation(world))[0])


def test_a_smaller_weight_is_a_sites_own_matter(tmp_path):
    """Rows may go, where somebody takes a consent back."""
    world = World.make(tmp_path, train={"rounds": 1})
    break_answers(world, with_arrays(lambda v: [value.mul_(0.5) for value in v.values()]))
    world.serve()
    assert participation(world)[1, 0] == [0, 1, 2]


def poisoned(times):
    """An update that is so many times as long."""
    return with_arrays(lambda v: [value.mul_(times) for key, value in v.items() if "engine" not in key])


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fednova", "rfedavg", "rfedavg+"])
def test_a_poisoned_update_shows_in_the_record(algorithm, tmp_path):
    train = {"rounds": 2, "algorithm": algorithm}
    world = World.make(tmp_path / "honest", train=train)
    world.serve()
    rounds = read_rounds(world.folder.run)
    assert all(one.times < 10 for one in longest(rounds).values())
    honest = times_the_others(rounds[0]["norms"][0])
    assert sorted(honest) == sorted(HOSPITALS)
    assert not any("times as long" in line for line in world.said)
    world = World.make(tmp_path / "poisoned", train=train)
    break_answers(world, poisoned(1024.0), lambda header: header["kind"] == "exchange" and header["round"] == 1)
    world.serve()
    first = read_rounds(world.folder.run)[0]
    assert len(first["norms"]) == len(first["answered"])
    found = times_the_others(first["norms"][0])
    assert found[NAME] == pytest.approx(1024 * honest[NAME], rel=1e-4)
    assert all(found[name] < 10 for name in HOSPITALS if name != NAME)
    assert any(line.startswith(f"{NAME}'s update of round 1 was ") for line in world.said)


@pytest.mark.parametrize("train", [{"algorithm": "fednova"}, {"channel": "topk(0.5)"}])
def test_a_poisoned_update_that_ends_the_training_is_named(train, tmp_path):
    """So long that the sum is infinite: no round is recorded, and "lower --lr" alone would mislead."""

    def endless(world, message):
        if "channel" in train:
            return changed(world, message, body=message.body[:-4] + struct.pack("<f", 3e38))
        change = with_arrays(lambda v: [value.fill_(3e38) for key, value in v.items() if "engine" not in key])
        return change(world, message)

    world = World.make(tmp_path, train={"rounds": 1, **train})
    break_answers(world, endless)
    with pytest.raises(UserError, match="Training diverged in round 1"):
        world.serve()
    assert any(line.startswith(f"{NAME}'s update of round 1 was ") for line in world.said)


def test_norms_are_those_of_the_updates(tmp_path):
    world = World.make(tmp_path, train={"rounds": 1})
    world.serve()
    updates = {}
    for node, raw, answer in world.transport.log:
        if peek(raw).kind == "exchange":
            sent = peek(answer).vectors()
            updates[HOSPITALS[node - 11]] = sent["message/delta"] / sent["message/engine/weight"]
    (row,) = read_rounds(world.folder.run)
    (norms,) = row["norms"]
    assert norms == {name: pytest.approx(float(updates[name].norm()), rel=1e-5) for name in HOSPITALS}


@pytest.mark.parametrize(
    ("channel", "told"),
    [("quantise(8)", True), ("clip(0.5)+gauss(0.1, where=party)", True), ("clip(0.5)+gauss(0.1)", False),
     ("masked", False), ("clip(0.5)+gauss(0.1, where=shared)+masked", False), ("encrypted", False)],
)  # fmt: skip
def test_norms_are_kept_only_where_single_uploads_are_told(channel, told, tmp_path):
    """Under the server's own noise, a figure of an upload before it would not be covered by epsilon."""
    world = World.make(tmp_path, train={"rounds": 1, "channel": channel})
    world.serve()
    (row,) = read_rounds(world.folder.run)
    assert ("norms" in row) is told
    if told:
        assert list(row["norms"][0]) == list(HOSPITALS)


def test_what_is_shown_must_be_what_is_added(tmp_path):
    """rFedAvg looks at single uploads: a harmless one must not hide another in the sum."""
    world = World.make(tmp_path, quorum=2, train={"rounds": 1, "algorithm": "rfedavg"})
    break_answers(world, with_arrays(lambda v: v["message/delta"].mul_(1000)))
    world.serve()
    assert participation(world)[1, 0] == [0, 2]
    assert any("the delta that it shows is not the one that it adds" in line for line in world.said)


# Who is who


class Talkative:
    """A node that answers everything with the same."""

    def __init__(self, answer=b"hello"):
        self.reply, self.asked = answer, 0

    def answer(self, raw):
        self.asked += 1
        return self.reply(raw) if callable(self.reply) else self.reply


def test_strangers_change_nothing(tmp_path):
    world = World.make(tmp_path, train={"rounds": 2})
    secret = new_secret()

    def pretender(raw):
        number = peek(raw).header["number"]
        return write(Envelope({"kind": "answer", "sender": NAME, "receiver": "server", "answers": number}), secret)

    strangers = {1: Talkative(), 2: Talkative(pretender), 99: Talkative(Failure("no"))}
    world.transport.sites |= strangers
    world.serve()
    assert_same(world, world.simulation()[0])
    assert all(stranger.asked <= 1 for stranger in strangers.values())


def test_a_party_that_is_there_twice(tmp_path):
    world = World.make(tmp_path, train={"rounds": 2})
    copy = world.path / "copy"
    table = world.transport.sites[NODE].table
    twin = type(world.transport.sites[NODE])(copy, NAME, world.plan, table, key(world), world.said.append)
    world.transport.sites[90] = twin
    world.serve()
    assert_same(world, world.simulation()[0])


class Clock:
    """A transport on which nobody but the nodes in ``there`` answers, and time passes only by waiting."""

    def __init__(self, world, there, silent):
        self.inside, self.there, self.silent, self.now, self.hellos = world.transport, there, silent, 0.0, []

    def nodes(self):
        return sorted([*self.there, *self.silent])

    def send(self, messages, seconds, stop):
        if peek(next(iter(messages.values()))).kind == "hello":
            self.hellos.append(sorted(messages))
        for answer in self.inside.send({n: raw for n, raw in messages.items() if n in self.there}, seconds, stop):
            yield answer
            if stop():
                return
        if not stop() and any(node in self.silent for node in messages):
            self.now += seconds


def speak(world, clock):
    place = world.folder
    return Speaker(world.plan, clock, place.signer(), place.roster(world.plan), 1, world.said.append)


def test_silent_strangers_do_not_slow_every_exchange_down(tmp_path, monkeypatch):
    world = World.make(tmp_path)
    clock = Clock(world, there=[11, 13], silent=[70, 71])
    monkeypatch.setattr(speaker.time, "monotonic", lambda: clock.now)
    voice = speak(world, clock)
    message = dict.fromkeys(HOSPITALS, ({"kind": "describe"}, b""))
    for _ in range(20):  # one party is missing all the time, so there is reason to look
        assert {party for party, _ in voice.ask(message, 10.0)} == {"cleveland", "va"}
        clock.now += 1.0
    assert voice.problems == {NAME: "is not connected"}
    assert len(clock.hellos) == 1
    assert clock.now <= 60 + 20
    for _ in range(200):
        list(voice.ask(message, 10.0))
        clock.now += 60.0
    assert len(clock.hellos) < 40  # ever more rarely, but not never: it may be the one that is missing
    clock.there.append(NODE)  # a new node is asked at once
    assert {party for party, _ in voice.ask(message, 10.0)} == set(HOSPITALS)


def test_nobody_waits_for_strangers_when_all_are_found(tmp_path, monkeypatch):
    world = World.make(tmp_path)
    clock = Clock(world, there=[11, 12, 13], silent=[70])
    monkeypatch.setattr(speaker.time, "monotonic", lambda: clock.now)
    voice = speak(world, clock)
    asked = {"kind": "describe"}, b""
    assert len(list(voice.ask({"va": asked}, 10.0))) == 1
    # Who had no time to say who it is is asked again as soon as it is wanted.
    assert len(list(voice.ask(dict.fromkeys(HOSPITALS, asked), 10.0))) == 3
    assert clock.now == 0
    assert len(clock.hellos) == 2


def test_why_a_site_refuses_the_server_is_told(tmp_path):
    """It follows another plan: that, and not that it is absent, is what a person must know."""
    world = World.make(tmp_path)
    other = type(world.plan).from_mapping({**world.plan.to_dict(), "label": "age"})
    site = world.transport.sites[NODE]
    world.transport.sites[NODE] = type(site)(
        tmp_path / "other", NAME, other, site.table, site.signer, world.said.append
    )
    with pytest.raises(UserError, match=f"{NAME} says: the server follows another plan"):
        world.serve()


def test_a_second_answer_to_one_message_is_not_used(tmp_path):
    world = World.make(tmp_path)
    real = world.transport.send

    def twice(messages, seconds, stop):
        for node, answer in real(messages, seconds, stop):
            yield node, answer
            yield node, answer
            yield 5000, answer

    world.transport.send = twice
    voice = speak(world, world.transport)
    asked = dict.fromkeys(HOSPITALS, ({"kind": "describe"}, b""))
    assert sorted(party for party, _ in voice.ask(asked, 10.0)) == list(HOSPITALS)
    assert not voice.problems

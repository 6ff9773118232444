"""What a site does not add to, or help to unmask: message by message, from a server that holds the right key."""

import json
from dataclasses import replace

import pytest

from tests.federation.inside import FOUR, HOSPITALS, World
from unalike.federation import asking
from unalike.federation.envelope import Envelope, peek, write
from unalike.federation.folders import PUBLIC, Card, make_key
from unalike.federation.speaker import Speaker
from unalike.federation.summing import Protection, TooFewParties, secure_total
from unalike.secure.crypto.primitives import new_secret, signing_public
from unalike.secure.policy import Policy, new_session

NODE, NAME = 12, "hungarian"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    path, train = tmp_path_factory.mktemp("masked"), {"channel": "masked", "rounds": 1}
    world = World.make(path, FOUR, quorum=3, train=train)
    world.serve()
    return world


@pytest.fixture
def voice(masked):
    return voice_of(masked)


INCARNATIONS = iter(range(100, 10_000))


def voice_of(world):
    """A server's voice with numbers above all that were seen."""
    place = world.folder
    return Speaker(
        world.plan,
        world.transport,
        place.signer(),
        place.roster(world.plan),
        next(INCARNATIONS),
        world.said.append,
    )


def policy_of(voice, **changes):
    identities = (*(voice.roster[name] for name in HOSPITALS), signing_public(voice.signer))
    made = Policy(new_session(), "masks", 3, 10, 2**31 - 1, 3, identities, bits=32)
    return replace(made, **changes)


def opened(voice, policy, kind="sum"):
    """The site's answer to the terms of a sum: None, and the reason, where it refuses."""
    raw = policy if isinstance(policy, bytes) else policy.to_bytes()
    header = {"kind": kind, "step": 0, "session": "", "protocol": len(raw)}
    answers = dict(voice.ask({NAME: (header, raw)}, 10.0))
    return answers.get(NAME), voice.problems.get(NAME, "")


def test_good_terms_are_taken(voice):
    answer, _ = opened(voice, policy_of(voice))
    assert answer is not None
    assert answer.body


def strange(voice):
    return signing_public(new_secret())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda v, p: {"identities": (strange(v), *p.identities[1:])}, "whom this site has not agreed to"),
        (lambda v, p: {"identities": (*p.identities[:3], strange(v))}, "whom this site has not agreed to"),
        (lambda v, p: {"bits": 64}, "not as agreed"),
        (lambda v, p: {"protect": "none", "bits": 0}, "not as agreed"),
        (lambda v, p: {"bound": 3 * 2**20}, "not as agreed"),  # an update beyond it would be refused: that tells
        (lambda v, p: {"allow_two": True}, "not as agreed"),
    ],
)
def test_terms_that_were_not_agreed_on(change, why, voice):
    policy = policy_of(voice)
    answer, problem = opened(voice, replace(policy, **change(voice, policy)))
    assert answer is None
    assert why in problem


@pytest.mark.parametrize("kind", ["sum", "measure-sum"])
@pytest.mark.parametrize("parties", [3, 4])
def test_the_threshold_is_the_plans(kind, parties, four):
    """Also where the server asks fewer: three of four is safe in a sum of three, four of four is another rule."""
    voice = voice_of(four)
    names = four.plan.parties[:parties]
    identities = (*(voice.roster[name] for name in names), signing_public(voice.signer))
    for threshold in range(3, parties + 1):
        policy = Policy(new_session(), "masks", parties, 10, 2**31 - 1, threshold, identities, bits=32)
        answer, problem = opened(voice, policy, kind)
        if threshold != 3:
            assert f"threshold is {threshold}, by the plan it must be 3" in problem
        elif parties < 4 and kind == "measure-sum":
            assert "the sum is of 3 parties, the plan needs 4" in problem
        else:
            assert answer is not None


@pytest.mark.parametrize("raw", [b"", b"{}", b"[" * 1000, b"\xff", b'{"session": 5}'])
def test_terms_that_are_none(raw, voice):
    answer, problem = opened(voice, raw)
    assert answer is None
    assert "malformed" in problem


@pytest.mark.parametrize(
    "header",
    [{"step": -1}, {"step": 1}, {"step": 3}, {"step": True}, {"step": None}, {"protocol": -1}, {"protocol": 10**9},
     {"protocol": True}],
)  # fmt: skip
def test_steps_out_of_order(header, voice):
    opened(voice, policy_of(voice))
    answers = dict(
        voice.ask({NAME: ({"kind": "sum", "step": 1, "session": "00", "protocol": 0, **header}, b"")}, 10.0)
    )
    assert not answers
    assert "says:" in voice.problems[NAME]


def test_before_agreement_and_without_a_masked_plan(tmp_path):
    world = World.make(tmp_path, FOUR, quorum=3, train={"channel": "masked", "rounds": 1})
    answer, problem = opened(voice_of(world), policy_of(voice_of(world)))
    assert answer is None
    assert "nothing was agreed on yet" in problem
    other = World.make(tmp_path / "other", train={"rounds": 1})
    answer, problem = opened(voice_of(other), policy_of(voice_of(other)))
    assert "has not agreed to secure sums" in problem
    every = World.make(tmp_path / "every", train={"channel": "masked", "rounds": 1})
    every.serve()
    answer, problem = opened(voice_of(every), policy_of(voice_of(every)))
    assert "by this site's plan hidden sums are made in one trip" in problem


# Four sites, so that sums of three exist


@pytest.fixture
def four(tmp_path, monkeypatch):
    """A federation of four, three of which make a quorum, after its only round; the fourth has va's table."""
    world = World.make(tmp_path, train={"channel": "masked", "rounds": 1})
    plan = replace(world.plan, parties=(*HOSPITALS, "zurich"), quorum=3)
    plan.write(tmp_path / "server")
    world.plan = plan
    for node, name in enumerate(plan.parties, 11):
        table = world.path / "tables" / f"{name}.csv"
        if not table.exists():
            table.write_text((world.path / "tables" / "va.csv").read_text())
        key = make_key(world.path / "sites" / name / "keys" / "site.key")
        Card(name, key.hex()).write(world.path / "server" / "parties" / f"{name}{PUBLIC}")
        world.start(node, name)
    world.serve()
    return world


def messages_of(world, names):
    """What the server asked each of them to compute in round 1, as it was."""
    made = {}
    for node, raw, _ in world.transport.log:
        message = peek(raw)
        if message.kind == "sum" and "ask" in message.header:
            name = world.transport.sites[node].name
            header = {k: v for k, v in message.header.items() if k not in ("number", "sender", "receiver", "plan")}
            made[name] = header, message.body[header["protocol"] :]
    return {name: made[name] for name in names}


def total(world, names, needed=3, **changes):
    voice = voice_of(world)
    version = f"000001-0-{voice.incarnation}"
    asked = {
        name: ({**header, "version": version, **changes}, body)
        for name, (header, body) in messages_of(world, names).items()
    }
    length = json.loads(first_policy(world))["length"]
    return voice, lambda: secure_total(voice, asked, length, Protection(32), needed, world.plan.cohort)


def first_policy(world):
    raw = next(raw for _, raw, _ in world.transport.log if peek(raw).header.get("step") == 0)
    return peek(raw).body


def test_a_second_sum_over_other_parties_is_refused_also_after_a_restart(four):
    every = four.plan.parties
    _, same = total(four, every)
    assert same()[0] == list(every)  # the same again shows nothing new
    for restart in (False, True):
        if restart:
            for node, name in enumerate(every, 11):
                four.start(node, name)
        voice, fewer = total(four, every[:3])
        with pytest.raises(TooFewParties):
            fewer()
        assert all("agreed to a sum of this exchange over other" in voice.problems[name] for name in every[:3])


def test_who_vanishes_below_the_quorum_does_not_cost_the_exchange(four):
    """Nothing is unmasked, so that the sum of all can still be made."""
    (four.path / "sites" / NAME / "once.jsonl").unlink()
    for node, name in enumerate(four.plan.parties, 11):
        (four.path / "sites" / name / "once.jsonl").unlink(missing_ok=True)
        four.start(node, name)

    def before(node, raw):
        header = peek(raw).header
        return None if node == 14 and header.get("step") == 2 else raw

    four.transport.before = before
    _, attempt = total(four, four.plan.parties, needed=4)
    with pytest.raises(TooFewParties, match="Only 3 vectors came, the quorum is 4"):
        attempt()
    four.transport.before = lambda node, raw: raw
    _, again = total(four, four.plan.parties, needed=4)
    assert again()[0] == list(four.plan.parties)


def test_the_occasion_is_what_the_site_does_and_not_what_a_header_says(four):
    """Another round in the header of a sum is another question to train; it is not a second sum of round 1."""
    voice, other = total(four, four.plan.parties[:3], round=2)
    with pytest.raises(TooFewParties):
        other()
    assert "the plan has 1" in voice.problems[NAME]


def test_the_state_of_a_sum_is_used_once(voice, masked):
    policy = policy_of(voice)
    opened(voice, policy)
    site = masked.transport.sites[NODE]
    header = {"kind": "sum", "step": 1, "session": policy.session.hex(), "protocol": 4, "sender": "server",
              "receiver": NAME, "plan": masked.plan.digest}  # fmt: skip
    reasons = []
    for number in range(2):
        raw = write(Envelope({**header, "number": [10**6, number]}, b"junk"), voice.signer)
        reasons.append(peek(site.answer(raw)).header["reason"])
    assert "takes no part in" not in reasons[0]
    assert "takes no part in, or not any more" in reasons[1]

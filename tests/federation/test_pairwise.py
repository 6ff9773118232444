"""Hidden sums in one trip: the bits of simulation, noise for a server that lies, and masks that are used once."""

from contextlib import suppress

import numpy as np
import pytest
import torch

from tests.federation.inside import FOUR, HOSPITALS, World
from tests.federation.liar import INCARNATIONS, OWN, record_grids
from tests.federation.test_faults import Crash, participation
from tests.federation.test_server import assert_same
from tests.secure.test_masks_alone import uniform
from unalike.data.table import read_table
from unalike.errors import UserError
from unalike.federation import asking
from unalike.federation.audit import read_audit
from unalike.federation.envelope import Envelope, pack, peek, write
from unalike.federation.folders import read_key
from unalike.federation.once import Once
from unalike.federation.pairing import KEY_FILE, SitePairs
from unalike.federation.speaker import Speaker, Stopped
from unalike.federation.summing import question
from unalike.federation.terms import terms_of
from unalike.secure import pairwise
from unalike.secure.crypto.primitives import new_secret, sign

NODE, NAME = 12, "hungarian"
ALGORITHMS = ["fedavg", "scaffold", "rfedavg+"]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


@pytest.fixture
def true(monkeypatch):
    """What each site adds, by its number: what nobody else may have."""
    return record_grids(monkeypatch)


def make(path, names=HOSPITALS, channel="masked", **train):
    return World.make(path, names, train={"channel": channel, "rounds": 2, **train})


def kinds(world, kind):
    """The messages of a kind that sites got: (node, message, answer)."""
    return [(node, peek(raw), peek(answer)) for node, raw, answer in world.transport.log if peek(raw).kind == kind]


def vectors(world, round=1):
    """What each site sent in the first exchange of a round, by its number."""
    return {
        world.transport.sites[node].number: np.frombuffer(answer.body, "<u4")
        for node, asked, answer in kinds(world, "add")
        if (asked.header["round"], asked.header["turn"]) == (round, 0)
    }


class Liar:
    """A server with the right key that asks each site what it likes, in one session."""

    def __init__(self, world, round=1):
        """Play by the rules until sites are about to be asked in a round."""
        self.world, self.asked = world, {}

        def before(node, raw):
            message = peek(raw)
            if message.kind != "add" or message.header["round"] != round:
                return raw
            header = {key: value for key, value in message.header.items() if key not in OWN}
            self.asked[world.transport.sites[node].name] = header, message.body
            return None

        world.transport.before = before
        with suppress(Stopped):
            world.serve(stopped=lambda: bool(self.asked))
        world.transport.before = lambda node, raw: raw

    def ask(self, name, body=None, **changes):
        """A site's answer to a question that may be bent: its words, or why it refuses."""
        world, place = self.world, self.world.folder
        voice = Speaker(world.plan, world.transport, place.signer(), place.roster(world.plan), next(INCARNATIONS))
        header, usual = self.asked[name]
        version = f"{header['round']:06d}-{header['turn']}-{voice.incarnation}"
        message = {**header, "version": version, **changes}, usual if body is None else body
        answers = dict(voice.ask({name: message}, 10.0))
        return np.frombuffer(answers[name].body, "<u4") if name in answers else voice.problems[name]

    def other_model(self, name):
        """The same question about a model of zeros."""
        header, body = self.asked[name]
        vectors = Envelope(header, body).vectors()
        arrays, body = pack({key: torch.zeros_like(value) for key, value in vectors.items()})
        return {"arrays": arrays, "body": body}

    def keys(self, **changes):
        return {**self.asked[NAME][0]["keys"], **changes}


def is_sum(words, grids):
    """Whether words without their checks are the sum of these grids."""
    return words[: -pairwise.CHECKS].view("<i4").tolist() == sum(grids.values()).tolist()


# The same bits


@pytest.mark.parametrize("channel", ["masked", "clip(1.0)+masked(64)"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_bits_of_simulation_in_one_trip_an_exchange(algorithm, channel, tmp_path):
    world = make(tmp_path, channel=channel, algorithm=algorithm)
    world.serve()
    assert_same(world, world.simulation()[0])
    exchanges = 2 * (2 if algorithm == "rfedavg+" else 1)
    assert len(kinds(world, "add")) == 3 * exchanges
    assert len(kinds(world, "greet")) == 3
    assert not kinds(world, "sum")


def test_the_sum_is_that_of_what_the_sites_have(tmp_path, true):
    world = make(tmp_path, rounds=1)
    world.serve()
    found = vectors(world)
    assert is_sum(sum(found.values()), true)
    for number, words in found.items():
        assert words[: -pairwise.CHECKS].view("<i4").tolist() != true[number].tolist()


def test_cohorts_greet_when_they_are_first_asked(tmp_path):
    """Of five sites four take part in a round; who is in none may stay away."""
    names = ("s0", "s1", "s2", "s3", "s4")
    world = make(tmp_path, names, sample=0.8, rounds=3)
    world.serve()
    assert_same(world, world.simulation()[0])
    played = {number for who in participation(world).values() for number in who}
    greeted = [world.transport.sites[node].number for node, _, _ in kinds(world, "greet")]
    assert sorted(greeted) == sorted(played)


@pytest.mark.parametrize(("quorum", "kind"), [(0, "add"), (4, "add"), (3, "sum")])
def test_a_smaller_quorum_keeps_the_sum_that_bears_drop_outs(quorum, kind, tmp_path):
    world = World.make(tmp_path, FOUR, quorum=quorum, train={"channel": "masked", "rounds": 1})
    world.serve()
    assert {asked.kind for _, asked, _ in kinds(world, "add") + kinds(world, "sum")} == {kind}
    assert_same(world, world.simulation()[0])


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({}, ["over all 4 sites that are asked, in one trip", "against a server that lies; sites in league"]),
        ({"quorum": 3}, ["that answered, 3 of 4 at least, in five trips", "under a third of them in league"]),
        ({"channel": "encrypted"}, ["that answered, 4 of 4 at least", "One site in league with it can read"]),
        ({"channel": None}, []),
    ],
)
def test_the_terms_say_which_sum_it_is(plan, said, tmp_path):
    train = {"channel": plan.get("channel", "masked"), "rounds": 1}
    world = World.make(tmp_path, FOUR, quorum=plan.get("quorum", 0), train=train)
    told = terms_of(world.plan, "va", read_table(f"csv:{tmp_path / 'tables' / 'va'}.csv")).hidden
    assert bool(told) == bool(said)
    assert all(part in told for part in said), told


# Nothing but the sum


def test_single_vectors_and_those_of_any_fewer_look_uniform(tmp_path):
    world = make(tmp_path, model="mlp(64)", rounds=1)
    world.serve()
    found = vectors(world)
    assert len(found[0]) > 1000
    for number in found:
        assert uniform(found[number])
        assert uniform(sum(words for other, words in found.items() if other != number))
    assert not uniform(sum(found.values()))


@pytest.mark.parametrize("what", ["model", "scale", "session"])
def test_two_stories_give_noise(what, tmp_path, true):
    """One site is asked something else, which would make its update vanish or show: no masks cancel any more."""
    liar = Liar(make(tmp_path, model="mlp(64)"))
    bent = {
        "model": liar.other_model(NAME),
        "scale": {"most_rows": 2**31 - 1},
        "session": {"session": "00" * 16},
    }[what]
    answers = [liar.ask(name, **(bent if name == NAME else {})) for name in HOSPITALS]
    assert not is_sum(sum(answers), true)
    assert uniform(sum(answers))
    assert uniform(answers[0] + answers[2])


def test_a_row_of_each_ones_own_gives_noise(tmp_path):
    """Sites do not rely on a server that refuses algorithms whose payload is another for every site."""
    liar = Liar(make(tmp_path, model="mlp(64)"))
    answers = []
    for number, name in enumerate(HOSPITALS):
        header, body = liar.asked[name]
        payload = {key: value + 0.01 * number for key, value in Envelope(header, body).vectors().items()}
        answers.append(liar.ask(name, body=pack(payload)[1]))
    assert uniform(sum(answers))


def test_noise_is_told_and_never_used(tmp_path, monkeypatch):
    world, real = make(tmp_path), SitePairs.answer

    def bent(self, message, vector):
        header, answer = real(self, message, vector)
        return header, answer[4:] + answer[:4] if self._name == NAME else answer

    monkeypatch.setattr(SitePairs, "answer", bent)
    with pytest.raises(UserError, match="The sum is noise, as the masks do not cancel"):
        world.serve()
    assert not participation(world)
    monkeypatch.undo()
    world.serve()
    assert_same(world, world.simulation()[0])


def test_the_names_in_a_sum_are_the_plans(tmp_path, true):
    """A key less is refused, one more changes nothing: who is in the sum, the site works out itself."""
    names = ("s0", "s1", "s2", "s3", "s4")
    world = make(tmp_path, names, sample=0.8, rounds=1)
    liar = Liar(world)
    first, *others = liar.asked
    keys = liar.asked[first][0]["keys"]
    assert sorted(keys) == sorted(liar.asked)
    fewer = {name: key for name, key in keys.items() if name != others[0]}
    assert "no key of a site that by the plan takes part" in liar.ask(first, keys=fewer)
    (outsider,) = set(names) - set(liar.asked)
    site = next(site for site in world.transport.sites.values() if site.name == outsider)
    key = SitePairs(site.folder, outsider, site.signer, {}, b"", 32, world.plan.digest, None).greet()[0]["key"]
    answers = [liar.ask(name, keys={**keys, outsider: key}) for name in liar.asked]
    assert is_sum(sum(answers), true)


# Keys


def signed(world, name, public):
    signer = read_key(world.path / "sites" / name / "keys" / "site.key")
    return (public + sign(signer, b"unalike pairwise" + public + world.plan.digest.encode())).hex()


def test_keys_that_are_not_those_of_the_sites(tmp_path):
    world = make(tmp_path)
    liar = Liar(world)
    keys, plan = liar.keys(), world.plan.digest.encode()
    stranger = pairwise.introduction(new_secret(), new_secret(), plan).hex()
    low = signed(world, "va", bytes(32))  # of low order: everybody would know the shared secret
    signer = read_key(world.path / "sites" / "va" / "keys" / "site.key")
    elsewhere = pairwise.introduction(new_secret(), signer, b"another plan").hex()
    wrong = "the key of va for hidden sums is none, or not signed by it for this plan"
    for told, why in [
        ({"va": stranger}, wrong),
        ({"va": keys["cleveland"]}, wrong),
        ({"va": elsewhere}, wrong),
        ({"va": "zz"}, wrong),
        ({"va": 5}, wrong),
        ({"va": None}, wrong),
        ({"va": low}, wrong),
        ({"zurich": stranger}, "'zurich' is nobody whom this site has agreed to"),
        ({NAME: keys["va"]}, "the server has another key of this site"),
    ]:
        assert why in liar.ask(NAME, keys=liar.keys(**told)), told


@pytest.mark.parametrize("restart", [False, True])
def test_a_key_that_changes_after_the_first_is_refused_by_name(restart, tmp_path):
    """Also one that the site signed itself: somebody has its folder, or two of it are there."""
    world = make(tmp_path)
    liar = Liar(world)
    assert len(liar.ask(NAME))
    if restart:
        world.start(NODE, NAME)
    other = pairwise.introduction(
        new_secret(), read_key(world.path / "sites" / "va" / "keys" / "site.key"), world.plan.digest.encode()
    ).hex()
    problem = liar.ask(NAME, keys=liar.keys(va=other), session="11" * 16)
    assert "the key of va for hidden sums has changed since this run began" in problem
    assert len(liar.ask(NAME))


def test_a_site_that_lost_its_key_stops_the_run_by_name(tmp_path):
    world = make(tmp_path)
    (Liar(world, round=2), (world.path / "sites" / NAME / KEY_FILE).unlink())
    with pytest.raises(UserError, match=f"the key of {NAME} for hidden sums has changed"):
        world.serve()


def test_a_site_that_tells_a_wrong_key_is_named_by_the_server(tmp_path):
    world = make(tmp_path)

    def after(node, answer):
        message = peek(answer)
        if node != NODE or "key" not in message.header:
            return answer
        return write(Envelope({**message.header, "key": "00" * 96}), world.transport.sites[node].signer)

    world.transport.after = after
    with pytest.raises(UserError, match=f"{NAME} sent an answer that is not accepted: the key of {NAME}"):
        world.serve()


def test_the_key_is_gone_when_the_run_is_over(tmp_path):
    """Who takes a site's folder later cannot open what somebody recorded."""
    world = make(tmp_path)
    Liar(world)
    path = world.path / "sites" / NAME / KEY_FILE
    assert path.exists()
    assert path.stat().st_mode & 0o077 == 0
    world.serve()
    assert not any((world.path / "sites" / name / KEY_FILE).exists() for name in HOSPITALS)
    assert all(site._sums.pairs == {} for site in world.transport.sites.values())  # nor are they in memory
    world.serve()  # a run that is over needs none
    assert len(kinds(world, "greet")) == 6


# One vector under one mask


@pytest.mark.parametrize("channel", ["masked", "clip(0.5)+gauss(0.3, where=shared)+masked"])
def test_asked_the_same_again_a_site_says_the_same_bytes(channel, tmp_path):
    world = make(tmp_path, channel=channel)
    liar = Liar(world, round=2)
    first = liar.ask(NAME).tolist()
    assert liar.ask(NAME).tolist() == first
    world.start(NODE, NAME)
    assert liar.ask(NAME).tolist() == first
    assert liar.ask(NAME, session="22" * 16).tolist() != first


def test_never_two_vectors_under_one_mask(tmp_path):
    """The rows of a table change, and with them the update: the difference would show what changed."""
    world = make(tmp_path, model="mlp(64)")
    liar = Liar(world)
    first = liar.ask(NAME)
    table = world.path / "tables" / f"{NAME}.csv"
    lines = table.read_text().splitlines()
    lines[1] = lines[1].replace(lines[1].split(",")[0], "31.5", 1)
    table.write_text("\n".join(lines) + "\n")
    world.start(NODE, NAME)
    assert "has answered the same with another vector" in liar.ask(NAME)
    again = liar.ask(NAME, session="33" * 16)  # new masks: as a server that was started again makes them
    assert uniform(again - first)


def test_noise_of_the_sites_own_is_for_one_question(tmp_path):
    liar = Liar(make(tmp_path, channel="clip(0.5)+gauss(0.3, where=shared)+masked"))
    assert len(liar.ask(NAME))
    refused = liar.ask(NAME, **liar.other_model(NAME))
    assert "has answered other questions in that exchange" in refused


@pytest.mark.parametrize("algorithm", ["scaffold", "moon"])
def test_a_site_computes_from_one_state_in_an_exchange(algorithm, tmp_path):
    """In a second sum of the same question this site alone is told to begin from nothing: the rest cancels."""
    world = make(tmp_path, algorithm=algorithm)
    liar = Liar(world, round=2)
    assert len(liar.ask(NAME))
    for session in (liar.asked[NAME][0]["session"], "44" * 16):
        assert "has computed from another state in that exchange" in liar.ask(NAME, base="", session=session)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"session": None}, "not a question of a sum in one trip"),
        ({"session": 5}, "not a question of a sum in one trip"),
        ({"session": "zz" * 16}, "not a question of a sum in one trip"),
        ({"session": "00" * 15}, "The session must have 16 bytes"),
        ({"session": ""}, "The session must have 16 bytes"),
        ({"keys": None}, "not a question of a sum in one trip"),
        ({"keys": [5]}, "not a question of a sum in one trip"),
        ({"keys": {}}, "another key of this site"),
        ({"round": 9}, "the plan has 2"),
        ({"extra": 1}, "which a site works out itself or nobody asks"),
        ({"kind": "exchange"}, "sees sums only"),
        ({"kind": "sum", "step": 0, "protocol": 0}, "hidden sums are made in one trip"),
    ],
)
def test_questions_that_are_none(changes, why, tmp_path):
    world = make(tmp_path)
    assert why in Liar(world).ask(NAME, **changes)
    refused = [row["outcome"] for row in read_audit(world.transport.sites[NODE].folder) if "outcome" in row]
    assert any(why in outcome for outcome in refused)


@pytest.mark.parametrize("kind", ["greet", "add"])
@pytest.mark.parametrize(("channel", "quorum"), [("masked", 3), ("encrypted", 0), (None, 0)])
def test_where_the_plan_has_no_sums_in_one_trip(channel, quorum, kind, tmp_path):
    world = World.make(tmp_path, FOUR, quorum=quorum, train={"channel": channel, "rounds": 1})
    world.serve()
    place = world.folder
    voice = Speaker(world.plan, world.transport, place.signer(), place.roster(world.plan), next(INCARNATIONS))
    assert not dict(voice.ask({NAME: ({"kind": kind, "session": "00" * 16, "keys": {}}, b"")}, 10.0))
    assert "has not agreed to sums in one trip" in voice.problems[NAME]


# Absences and restarts


@pytest.mark.parametrize("late", [False, True], ids=["vanished", "answers too late"])
@pytest.mark.parametrize("algorithm", ["scaffold", "rfedavg+"])
def test_a_missing_site_is_waited_for_and_nobody_else_asked_again(algorithm, late, tmp_path):
    world = make(tmp_path, algorithm=algorithm)
    lost = []

    def lose(node, raw):
        header = peek(raw if not late else world.transport.log[-1][1]).header
        if node == NODE and header.get("round") == 2 and header["kind"] == "add" and len(lost) < 2:
            lost.append(node)
            return None
        return raw

    setattr(world.transport, "after" if late else "before", lose)
    world.serve()
    assert len(lost) == 2
    assert any(f"2 of 3 parties answered, 3 are needed. Waiting for {NAME}" in line for line in world.said)
    assert_same(world, world.simulation()[0])
    turns = 4 if algorithm == "rfedavg+" else 2
    asked = [node for node, _, _ in kinds(world, "add")]
    assert [asked.count(node) for node in (11, 13)] == [turns, turns]
    assert asked.count(NODE) == turns + 2 * late
    again = [
        answer.body for node, asked, answer in kinds(world, "add") if node == NODE and asked.header["turn"] == 0
    ]
    assert len(set(again)) == 2  # a round each: asked again, it said the same


@pytest.mark.parametrize("algorithm", ["scaffold", "rfedavg+"])
def test_sites_that_restart_all_the_time(algorithm, tmp_path):
    world = make(tmp_path, algorithm=algorithm)

    def before(node, raw):
        world.start(node, world.transport.sites[node].name)
        return raw

    world.transport.before = before
    world.serve()
    assert_same(world, world.simulation()[0])


@pytest.mark.parametrize(
    "channel", ["masked", "clip(0.5)+gauss(0.1)+masked", "clip(0.5)+gauss(0.1,where=shared)+masked"]
)
@pytest.mark.parametrize("moment", range(1, 15, 2))
def test_a_server_that_dies_anywhere_goes_on(moment, channel, tmp_path):
    """In any message of two exchanges a round; where it adds noise, the second is another question then."""
    world = make(tmp_path, channel=channel, algorithm="rfedavg+")
    heard = []

    def dying(node, raw):
        if peek(raw).kind in ("greet", "add"):
            heard.append(node)
            if len(heard) == moment:
                raise Crash
        return raw

    world.transport.before = dying
    with pytest.raises(Crash):
        world.serve()
    for node, name in enumerate(HOSPITALS, 11):
        world.start(node, name)
    world.serve()
    assert participation(world) == {(round, turn): [0, 1, 2] for round in (1, 2) for turn in (0, 1)}
    if "gauss" not in channel:
        assert_same(world, world.simulation()[0])
    for name in HOSPITALS:
        known = Once(world.path / "sites" / name / "once.json").known
        assert all(len(answers) == 1 for what, answers in known.items() if what.startswith("masks"))


def test_what_is_asked_decides_the_masks_and_whose_state_it_is_does_not():
    """The versions that a message names have the server's starts in them, and differ after a restart."""
    header = {"schema": "s", "ask": "train", "phase": "", "round": 2, "turn": 1, "most_rows": 9, "arrays": []}
    first = question(header, b"abcd")
    own = {
        "base": "000002-0-1",
        "keep": [],
        "version": "000002-1-2",
        "session": "00",
        "keys": {},
        "number": [3, 4],
    }
    assert question({**header, **own}, b"abcd") == first
    assert all(question({**header, key: "another"}, b"abcd") != first for key in header)
    assert question(header, b"abce") != first

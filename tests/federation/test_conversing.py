"""Protocols between real sites: the bits of simulation, whatever stops; a server that lies gets noise."""

import json
import re
from contextlib import suppress

import numpy as np
import pytest

from tests.federation.inside import HOSPITALS, World
from tests.federation.liar import INCARNATIONS, OWN
from tests.runs.toy_protocol import ToyProtocol
from tests.secure.test_masks_alone import uniform
from unalike.algorithms import algorithm
from unalike.algorithms.protocol import NOTHING, SERVER, Say, want
from unalike.errors import UserError
from unalike.federation import asking, conversing
from unalike.federation.audit import Head, read_audit
from unalike.federation.envelope import Envelope, peek, write
from unalike.federation.mail import pack_mail, unpack_mail
from unalike.federation.once import Once
from unalike.federation.speaker import Speaker, Stopped
from unalike.federation.using import site_predictor
from unalike.runs.record import read_rounds
from unalike.secure import pairwise

NODE, NAME = 12, "hungarian"
TREES = "trees(depth=2,bins=8)"


class Crash(Exception):
    """The server's process ends."""


@algorithm("toy-mailing")
class ToyMailing(ToyProtocol):
    """A perceptron whose parties mail how many rows they have, each for itself."""

    only_sums = False

    def step(self, me, state, turn, inbox):
        if turn.round > 0:
            return super().step(me, state, turn, inbox)
        if me.number != SERVER:
            mail = {SERVER: {"rows": np.array([len(me.rows.train)])}}
            return state, Say(mail) if turn.number == 0 else NOTHING
        if turn.number == 0:
            return state, NOTHING
        told = [want(inbox, number, "rows", "int64", (1,)) for number in range(me.terms.parties)]
        return {**state, "rows": sum(told)}, NOTHING


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


def make(path, channel=None, algorithm="toy-perceptron", rounds=2, model=None, parties=HOSPITALS, **plan):
    model = model or ("toy-linear" if algorithm.startswith("toy") else TREES)
    train = {"model": model, "algorithm": algorithm, "rounds": rounds}
    return World.make(path, parties, train=train | ({"channel": channel} if channel else {}), **plan)


def assert_as_simulated(world, found=None):
    """The same bits as in one process; simulated once for each plan and tables."""
    simulation, _ = world.simulation()
    result = found or json.loads((world.folder.run / "result.json").read_text())
    assert result["server_sha256"] == simulation.state.server_digest()
    assert result["model_sha256"] == simulation.about_model()["model_sha256"]
    return simulation


def messages(world, *kinds):
    return [
        (node, peek(raw), peek(answer)) for node, raw, answer in world.transport.log if peek(raw).kind in kinds
    ]


# The same bits


@pytest.mark.parametrize(
    ("algorithm", "channel"),
    [
        ("toy-perceptron", "masked"),
        ("toy-mailing", None),
        ("histogram", None),
        ("histogram", "masked"),
        ("bagging", None),
        ("cyclic", None),
    ],
)
def test_the_bits_of_simulation(algorithm, channel, tmp_path):
    world = make(tmp_path, channel, algorithm, missing="indicate" if algorithm.startswith("toy") else "keep")
    found = world.serve()
    simulation = assert_as_simulated(world, found)
    (*_, row) = read_rounds(world.folder.run)
    for key in ("accuracy", "validation_accuracy", "brier"):
        assert found[key] == pytest.approx(simulation.figures(simulation.state)[key], abs=1e-12)
    assert row["parties"]["count"] == len(row["sites"]) == 3
    assert found["not_reached"] == []
    again = world.serve()  # it is over: nothing is asked any more
    assert (again["server_sha256"], len(read_rounds(world.folder.run))) == (found["server_sha256"], 2)


def test_patience_ends_the_run_for_all_and_the_result_says_so(tmp_path):
    world = make(tmp_path, "masked", "histogram", rounds=30, model="trees(depth=2,bins=8,eta=1,patience=1)")
    found = world.serve()
    assert found["rounds"] < 30
    assert found["stopped"]["round"] == found["rounds"]
    assert "validation rows" in found["stopped"]["why"]
    assert_as_simulated(world, found)
    assert world.folder.status()["state"].startswith(f"finished after round {found['rounds']}: the loss")


def test_each_site_for_itself_keeps_its_own_model(tmp_path):
    world = make(tmp_path, None, "local", model=TREES)
    found = world.serve()
    simulation, rows = world.simulation()
    assert found["server_sha256"] == simulation.state.server_digest()
    assert found["personal"] == rows[-1]["personal"]
    kept = {(tmp_path / "sites" / name / "model.safetensors").read_bytes() for name in HOSPITALS}
    assert len(kept) == 3
    assert not any(arrays for _, _, answer in messages(world, "turn") for _, arrays in answer.header["mail"])


def test_a_site_uses_the_trees_that_it_got(tmp_path):
    world = make(tmp_path, "masked", "histogram")
    world.serve()
    for name in HOSPITALS:
        folder = tmp_path / "sites" / name
        (folder / "party.txt").write_text(name)
        world.plan.write(folder)
        table = site_predictor(folder)
        assert (
            table.model.ensemble.sha256
            == world.folder.run.joinpath("result.json").read_text().split('"model_sha256": "')[1][:64]
        )
        figures = json.loads((folder / "figures.json").read_text())
        assert figures["test"]["rows"] > 0


# What travels


def test_masked_a_sites_answer_is_noise_and_all_together_are_the_sum(tmp_path, monkeypatch):
    world = make(tmp_path, "masked", "histogram", rounds=1)
    parts = {}
    real = conversing.SiteMail._opened

    def opened(self, adds, adding):
        parts.setdefault("words", {n: np.frombuffer(one.payload, "<u8") for n, one in adding.items()})
        parts.setdefault("total", real(self, adds, adding))
        return real(self, adds, adding)

    monkeypatch.setattr(conversing.SiteMail, "_opened", opened)
    world.serve()
    words, total = parts["words"], parts["total"]
    assert min(map(len, words.values())) > 500
    assert all(uniform(one) for one in words.values())
    assert all(uniform(words[a] + words[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    whole = sum(words.values())
    assert not whole[-pairwise.CHECKS :].any()
    expected = np.concatenate([array.ravel() for _, array in sorted(total.items())])
    assert whole[: -pairwise.CHECKS].view(np.int64).tolist() == expected.tolist()


def test_a_tree_takes_as_many_trips_as_it_is_deep_and_one_to_keep_it(tmp_path):
    world = make(tmp_path, "masked", "histogram", rounds=3, model="trees(depth=3,bins=8)", figures="none")
    world.serve()
    asked = [
        m.header["kind"]
        for node, m, _ in messages(world, "turn", "whole")
        if node == NODE and m.header["round"] > 1
    ]
    assert asked.count("turn") <= 3 * 2
    assert asked.count("whole") == 2


def test_the_log_has_a_line_where_a_round_begins_and_counts_the_rest(tmp_path):
    world = make(tmp_path, "masked", "histogram")
    world.serve()
    folder = tmp_path / "sites" / NAME
    rows = read_audit(folder)
    turns = [row for row in rows if row["kind"] == "turn"]
    assert [row["round"] for row in turns] == [0, 1, 2]
    asked = messages(world, "turn", "whole", "evaluate", "finish", "greet", "agree", "describe", "hello")
    own = [(m, a) for node, m, a in asked if node == NODE]
    head = Head.read(folder)
    assert (head.messages_in, head.messages_out, head.refused) == (len(own), len(own), 0)
    raw = [(len(raw), len(answer)) for node, raw, answer in world.transport.log if node == NODE]
    assert (head.bytes_in, head.bytes_out) == tuple(map(sum, zip(*raw, strict=True)))
    assert len(rows) < 2 * len(own)
    assert all(row["turns"]["out"] == row["turns"]["in"] + 1 for row in rows if "turns" in row)


def test_sites_are_told_what_is_new_of_a_model_and_all_of_it_after_a_restart(tmp_path):
    world = make(tmp_path, None, "histogram", rounds=4)

    def before(node, raw):
        header = peek(raw).header
        if node == NODE and (header["kind"], header.get("round")) == ("turn", 4) and header["begins"]:
            world.start(NODE, NAME)
        return raw

    world.transport.before = before
    found = world.serve()
    tried = [(node, m) for node, m, _ in messages(world, "evaluate")]
    whole = [(node, m.header["round"]) for node, m in tried if "since" not in m.header]
    assert sorted(whole) == [(11, 1), (12, 1), (12, 4), (13, 1)]
    assert len(tried) == 3 * 4 + 1
    sizes = {m.header["round"]: len(m.body) for node, m in tried if node == 11}
    assert sizes[3] < sizes[1] / 2
    _, rows = world.simulation()
    played = read_rounds(world.folder.run)
    assert [row["accuracy"] for row in played] == pytest.approx([row["accuracy"] for row in rows], abs=1e-12)
    assert found["accuracy"] == played[-1]["accuracy"]


# Faults


@pytest.mark.parametrize("late", [False, True], ids=["vanished", "answers too late"])
def test_a_site_that_vanishes_inside_a_tree_is_named_waited_for_and_asked_again(late, tmp_path):
    world, lost = make(tmp_path, "masked", "histogram"), []

    def lose(node, raw):
        header = peek(raw if not late else world.transport.log[-1][1]).header
        if node == NODE and (header.get("round"), header.get("turn")) == (2, 3) and len(lost) < 2:
            lost.append(node)
            return None
        return raw

    setattr(world.transport, "after" if late else "before", lose)
    assert_as_simulated(world, world.serve())
    assert len(lost) == 2
    assert any(f"2 of 3 parties answered, 3 are needed. Waiting for {NAME}" in line for line in world.said)
    again = [
        (m.header["session"], a.body)
        for node, m, a in messages(world, "turn")
        if node == NODE and m.header["turn"] == 3 and m.header["round"] == 2
    ]
    assert len(set(again)) == 1


@pytest.mark.parametrize("channel", ["masked"])
def test_a_run_that_is_stopped_inside_a_tree_goes_on_later_to_the_same_bits(channel, tmp_path):
    world, met = make(tmp_path, channel, "histogram"), []

    def before(node, raw):
        if (peek(raw).header.get("round"), peek(raw).header.get("turn")) == (2, 3) and node == NODE:
            met.append(node)
            return None
        return raw

    world.transport.before = before
    with pytest.raises(Stopped):
        world.serve(stopped=lambda: len(met) >= 1)
    assert [row["round"] for row in read_rounds(world.folder.run)] == [1]
    world.transport.before = lambda node, raw: raw
    assert_as_simulated(world, world.serve())


@pytest.mark.parametrize("algorithm", ["toy-perceptron", "histogram"])
def test_a_site_that_restarts_within_a_round_has_it_played_again(algorithm, tmp_path):
    world, done, kept = make(tmp_path, "masked", algorithm), [], []

    def before(node, raw):
        header = peek(raw).header
        last = {"toy-perceptron": 2, "histogram": 3}[algorithm]
        if node == NODE and (header.get("round"), header.get("turn")) == (2, last) and not done:
            done.append(world.start(NODE, NAME))
        if node == 13 and (header["kind"], header.get("round")) == ("whole", 1) and not kept:
            kept.append(world.start(13, "va"))
        return raw

    world.transport.before = before
    assert_as_simulated(world, world.serve())
    assert any(f"{NAME} was started again within a round: round 2 is played again" in line for line in world.said)
    assert any(line.startswith("va was started again within a round: round 1") for line in world.said)
    known = Once(tmp_path / "sites" / NAME / "once.json").known
    assert all(len(asked) == 1 for what, asked in known.items() if what.startswith(("turn", "masks")))


def test_a_site_that_restarts_all_the_time_ends_the_run_with_its_name(tmp_path):
    world = make(tmp_path, None, "histogram")

    def before(node, raw):
        if node == NODE and peek(raw).kind in ("turn", "whole"):
            world.start(NODE, NAME)
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match=f"{NAME} was started again 10 times within round 1"):
        world.serve()
    world.transport.before = lambda node, raw: raw
    assert_as_simulated(world, world.serve())


@pytest.mark.parametrize("moment", [1, 8, 9, 10, 11, 12])
def test_a_server_that_dies_anywhere_goes_on(moment, tmp_path):
    """In any message, before or after the sites have it: the same questions again, under new masks."""
    world, heard = make(tmp_path, "masked", "histogram", model="trees(depth=2,bins=4)"), []

    def dying(node, raw):
        if peek(raw).kind in ("answer", "turn", "whole"):
            heard.append(node)
            if len(heard) == moment * 3:
                raise Crash
        return raw

    setattr(world.transport, "before" if moment % 2 else "after", dying)
    with suppress(Crash):
        world.serve()
    assert len(heard) == moment * 3
    world.transport.before = world.transport.after = lambda node, raw: raw
    for node, name in enumerate(HOSPITALS, 11):
        world.start(node, name)
    assert_as_simulated(world, world.serve())
    for name in HOSPITALS:
        known = Once(tmp_path / "sites" / name / "once.json").known
        assert all(len(asked) == 1 for what, asked in known.items() if what.startswith(("turn", "masks")))


@pytest.mark.parametrize("round", [1, 2])
def test_a_server_that_dies_after_sites_kept_a_round_that_it_did_not(round, tmp_path):
    """The sites are a round ahead of the last checkpoint: they still have the state before it."""
    world = make(tmp_path, "masked", "histogram")

    def before(node, raw):
        if (peek(raw).kind, peek(raw).header.get("round")) == ("evaluate", round):
            raise Crash
        return raw

    world.transport.before = before
    with pytest.raises(Crash):
        world.serve()
    assert len(read_rounds(world.folder.run)) == round - 1
    world.transport.before = lambda node, raw: raw
    world.start(NODE, NAME)
    assert_as_simulated(world, world.serve())


def test_a_site_that_lost_its_state_ends_the_run_and_does_not_begin_anew(tmp_path):
    world = make(tmp_path)

    def before(node, raw):
        header = peek(raw).header
        if node == NODE and header.get("round") == 2 and header["kind"] == "turn":
            for path in (tmp_path / "sites" / NAME / "state").iterdir():
                path.unlink()
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match=f"{NAME} says: the state version 000001-0-0 is not here"):
        world.serve()


def test_rows_that_changed_between_two_plays_of_a_turn_are_refused(tmp_path):
    """Two sums of one turn that differ by a row would show that row."""
    world, met = make(tmp_path, "masked", "histogram"), []

    def before(node, raw):
        if (peek(raw).header.get("round"), peek(raw).header.get("turn")) == (2, 3):
            met.append(node)
            raise Crash
        return raw

    world.transport.before = before
    with pytest.raises(Crash):
        world.serve()
    table = tmp_path / "tables" / f"{NAME}.csv"
    lines = table.read_text().splitlines()
    other = lines[1].split(",")
    lines[1] = ",".join(["31.5", *other[1:]])
    table.write_text("\n".join(lines) + "\n")
    world.start(NODE, NAME)
    world.transport.before = lambda node, raw: raw
    with pytest.raises(
        UserError, match=f"{NAME} says: this site has been asked something else in that turn, or with"
    ):
        world.serve()


# A site that is wrong


@pytest.mark.parametrize(
    ("channel", "bend", "why"),
    [
        (
            None,
            lambda h, body: ({**h, "adds": [["gradient", "int64", [1]]]}, bytes(8)),
            "adds .*, but cleveland adds",
        ),
        (
            None,
            lambda h, body: ({**h, "adds": [["gradient", "float64", [1]]]}, bytes(8)),
            "it adds what is not int64",
        ),
        (None, lambda h, body: (h, body[:-1]), "its mail does not fit its body"),
        (None, lambda h, body: ({**h, "adds": 5}, body), "its list of mail is malformed"),
        (None, lambda h, body: ({**h, "mail": [[7, []]]}, body), "its mail is of or for 7"),
        (None, lambda h, body: ({**h, "mail": [[1, []]]}, body), "its mail is of or for 1"),
        ("masked", lambda h, body: (h, body[:-8]), "adds .*, but cleveland adds"),
        ("masked", lambda h, body: (h, body[:-3]), "no vector under masks"),
        ("masked", lambda h, body: (h, body[8:] + body[:8]), "The sum is noise"),
        ("masked", lambda h, body: ({**h, "adds": None}, b""), f"{NAME} adds nothing"),
    ],
)
def test_a_site_that_sends_wrong_arrays_is_named(channel, bend, why, tmp_path):
    world = make(tmp_path, channel)

    def after(node, answer):
        message, asked = peek(answer), peek(world.transport.log[-1][1])
        if node != NODE or asked.kind != "turn" or asked.header["round"] != 1 or "adds" not in message.header:
            return answer
        header, body = bend(message.header, message.body)
        return write(Envelope(header, body), world.transport.sites[node].signer)

    world.transport.after = after
    with pytest.raises(UserError, match=why) as error:
        world.serve()
    assert NAME in str(error.value) or "noise" in why
    assert not read_rounds(world.folder.run)  # nothing of it is used


def test_mail_that_the_server_has_no_use_for_names_the_site(tmp_path):
    world = make(tmp_path, None, "toy-mailing")

    def after(node, answer):
        message = peek(answer)
        if node != NODE or not message.header.get("mail"):
            return answer
        listed, body = pack_mail({SERVER: {"rows": np.zeros(2)}})
        return write(Envelope({**message.header, "mail": listed}, body), world.transport.sites[node].signer)

    world.transport.after = after
    with pytest.raises(UserError, match=rf"^{NAME} said 'rows' as float64 \(2,\), it must be int64"):
        world.serve()


# A server that lies


class Liar:
    """A server with the right key that plays by the rules until a turn, and then asks each site what it likes."""

    def __init__(self, world, round, turn):
        self.world, self.asked = world, {}

        def before(node, raw):
            message = peek(raw)
            if message.kind != "turn" or (message.header["round"], message.header["turn"]) != (round, turn):
                return raw
            header = {key: value for key, value in message.header.items() if key not in OWN}
            self.asked[world.transport.sites[node].name] = header, message.body
            return None

        world.transport.before = before
        with suppress(Stopped):
            world.serve(stopped=lambda: len(self.asked) == 3)
        world.transport.before = lambda node, raw: raw

    def ask(self, name, body=None, **changes):
        """A site's answer to a question that may be bent: what it adds, or why it refuses."""
        world, place = self.world, self.world.folder
        voice = Speaker(world.plan, world.transport, place.signer(), place.roster(world.plan), next(INCARNATIONS))
        header, usual = self.asked[name]
        answers = dict(voice.ask({name: ({**header, **changes}, usual if body is None else body)}, 10.0))
        if name not in answers:
            return voice.problems[name]
        return (
            answers[name].header if "again" in answers[name].header else np.frombuffer(answers[name].body, "<u8")
        )

    def mail(self, name=NAME):
        header, body = self.asked[name]
        return unpack_mail(header["mail"], body, (SERVER,))[SERVER]

    def bent(self, **arrays):
        listed, body = pack_mail({SERVER: {**self.mail(), **arrays}})
        return {"mail": listed, "body": body}


def zero_checks(words):
    return not words[-pairwise.CHECKS :].any()


def test_two_stories_give_noise_in_this_turn_and_in_all_that_follow(tmp_path):
    """One site is told other values of the last tree, so that only its own gradients do not vanish."""
    world = make(tmp_path, "masked", "histogram")
    liar = Liar(world, 2, 1)
    assert "value" in liar.mail()
    lie = liar.bent(value=liar.mail()["value"] + 50)
    answers = [liar.ask(name) for name in HOSPITALS[::2]] + [liar.ask(NAME, **lie)]
    assert not zero_checks(sum(answers))
    assert uniform(sum(answers))


def test_two_stories_of_an_earlier_round_give_noise_too(tmp_path, monkeypatch):
    """The lie is told in round 1; in round 2 all are asked the same, but what was told before is in the masks."""
    world = make(tmp_path, "masked")

    def before(node, raw):
        message = peek(raw)
        if node == NODE and message.kind == "turn" and message.header["mail"] and message.header["round"] == 1:
            mail = unpack_mail(message.header["mail"], message.body, (SERVER,))
            listed, body = pack_mail({SERVER: {name: array * 0 for name, array in mail[SERVER].items()}})
            return write(Envelope({**message.header, "mail": listed}, body), world.folder.signer())
        if node == NODE and message.kind in ("turn", "whole") and told:
            return write(Envelope({**message.header, "told": told[-1]}, message.body), world.folder.signer())
        return raw

    told, real = [], conversing.SiteMail.whole

    def whole(self, round):
        place = world.transport.sites[NODE]._work.turns.place
        told.append(place.told.hex())
        real(self, round)

    monkeypatch.setattr(conversing.SiteMail, "whole", whole)
    world.transport.before = before
    with pytest.raises(UserError, match="The sum is noise, as the masks do not cancel"):
        world.serve()
    assert [row["round"] for row in read_rounds(world.folder.run)] == [1]


def test_one_question_a_turn_and_the_same_answer_to_it(tmp_path):
    world = make(tmp_path, "masked", "histogram")
    liar = Liar(world, 2, 1)
    first = liar.ask(NAME).tolist()
    assert liar.ask(NAME).tolist() == first
    assert liar.ask(NAME, session="22" * 16).tolist() != first
    other = liar.bent(value=liar.mail()["value"] * 2)
    for _ in range(2):
        refused = "this site has been asked something else in that turn"
        assert refused in liar.ask(NAME, **other)
        assert refused in liar.ask(NAME, **other, session="33" * 16)
        world.start(NODE, NAME)
    assert liar.ask(NAME).tolist() == first


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"told": "00" * 32}, "was told other things in earlier rounds"),
        ({"told": None}, "does not say what this site was told"),
        ({"round": 9}, "the plan has 2"),
        ({"round": -1}, "its round is not a number"),
        ({"turn": 10**9}, "its turn is not a number"),
        ({"turn": True}, "its turn is not a number"),
        ({"round": 1}, "was told other things"),
        ({"mail": []}, "its mail does not fit its body"),
        ({"mail": None}, "malformed"),
        ({"lr": 3}, "which a site works out itself or nobody asks"),
        ({"schema": "x"}, "another schema"),
        ({"session": "00"}, "16 bytes"),
        ({"session": None}, "not a question of a sum in one trip"),
        ({"keys": {}}, "another key of this site"),
        ({"kind": "exchange"}, "is talked through in turns"),
        ({"kind": "add"}, "is talked through in turns"),
        ({"kind": "sum"}, "in one trip"),
    ],
)
def test_questions_that_are_none(changes, why, world_in_tree):
    assert why in world_in_tree.ask(NAME, **changes)


@pytest.fixture(scope="module")
def world_in_tree(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "PAUSE", 0.0)
        return Liar(make(tmp_path_factory.mktemp("tree"), "masked", "histogram"), 2, 1)


@pytest.mark.parametrize(
    ("turn", "name", "bend", "why"),
    [
        (3, "wanted", lambda a: np.zeros_like(a), "wants node 0"),
        (3, "wanted", lambda a: a + 100, "which is no leaf that it told of"),
        (3, "wanted", lambda a: np.concatenate([a, a]), "wants a node again"),
        (3, "rows", lambda a: np.where(a == a.max(), a, 3), "At least 20 must be in each|do not add up"),
        (3, "feature", lambda a: np.where(a >= 0, a + 1000, a), "a column that none of"),
        (3, "bin", lambda a: np.where(a >= 0, a + 1000, a), "a bin that its column does not have"),
        (3, "left", lambda a: a * 0, "make no tree"),
        (3, "wanted", lambda a: a.astype(np.float64), "must be int32"),
        (1, "value", lambda a: a[:, :-1], "must be float64"),
    ],
)
def test_a_server_that_asks_for_what_no_tree_has_is_refused(turn, name, bend, why, lies):
    liar = lies[turn]
    answer = liar.ask(NAME, **liar.bent(**{name: bend(liar.mail()[name])}))
    assert isinstance(answer, str), answer
    assert re.search(why, answer), answer
    refused = [row["outcome"] for row in read_audit(liar.world.path / "sites" / NAME) if "outcome" in row]
    assert re.search(why, refused[-1])


@pytest.fixture(scope="module")
def lies(tmp_path_factory):
    """Servers that are about to ask in a turn; the site's memory of questions is taken away, to try many."""
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "PAUSE", 0.0)
        for turn in (1, 3):
            made[turn] = Liar(make(tmp_path_factory.mktemp("lies"), "masked", "histogram"), 2, turn)
            made[turn].world.transport.sites[NODE]._work.turns.once = None
    return made


def test_turns_do_not_go_back(lies):
    """What was told fits, but the turn is one that this site has passed: it is not answered."""
    liar, place = lies[3], lies[3].world.transport.sites[NODE]._work.turns.place
    assert (place.round, place.turn) == (2, 1)
    assert all(liar.ask(NAME, turn=turn)["again"] is True for turn in (0, 1))


def test_where_the_plan_has_exchanges_there_are_no_turns(tmp_path):
    world = World.make(tmp_path, train={"rounds": 1})
    world.serve()
    place = world.folder
    voice = Speaker(world.plan, world.transport, place.signer(), place.roster(world.plan), next(INCARNATIONS))
    header = {"kind": "turn", "schema": place.schema().digest, "round": 1, "turn": 0, "told": "00", "mail": []}
    assert not dict(voice.ask({NAME: (header, b"")}, 10.0))
    assert "has exchanges, and no turns" in voice.problems[NAME]

"""Sites with other columns: the bits of simulation, whatever stops; the server reads nothing."""

import csv
import json

import numpy as np
import pytest

from tests.federation import columns
from tests.federation.columns import BANK, INSURER, SHOP, SITES, parts_kept, parts_simulated, simulated
from tests.federation.liar import INCARNATIONS, OWN
from tests.secure.test_masks_alone import uniform
from unalike.algorithms import algorithm
from unalike.algorithms.protocol import NOTHING, SERVER, SUM, Protocol, Say, want
from unalike.errors import UserError
from unalike.federation import asking, column_work
from unalike.federation.column_predict import REQUEST, new_people, offer_table
from unalike.federation.envelope import Envelope, peek, write
from unalike.federation.folders import PREDICT, TRAIN, make_key, read_key
from unalike.federation.letters import passed_on
from unalike.federation.mail import pack_mail, unpack_mail
from unalike.federation.once import Once
from unalike.federation.speaker import Speaker
from unalike.rounds.conversation import role_secret
from unalike.runs.record import read_rounds
from unalike.secure import pairwise

NODE = {name: node for node, name in enumerate(SITES, 11)}
NUMBER = {name: number for number, name in enumerate(SITES)}
FAST = {"lr": 0.5, "batch_size": 64, "epochs": 1}
TREES = "trees(depth=2,bins=8,least_rows=5)"
ROUNDS = 2


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


def make(path, algorithm="vertical", model="logistic", rounds=ROUNDS, train=FAST, **more):
    return columns.make(path, algorithm, model, rounds, train=train, **more)


def folders(world):
    return [world.path / "sites" / name for name in world.plan.parties]


def assert_same_parts(world):
    simulation, rows = simulated(world)
    for kept, part in zip(parts_kept(folders(world)), parts_simulated(simulation), strict=True):
        assert kept.keys() == part.keys()
        for name, array in part.items():
            assert (kept[name].dtype, kept[name].shape) == (array.dtype, array.shape)
            assert kept[name].tobytes() == array.tobytes(), name
    return rows


def own_secret(folder):
    make_key(folder / "keys" / "secrets.key")
    return read_key(folder / "keys" / "secrets.key")


def turns(world, name, round=None):
    """The questions of a site's turns, with its answers."""
    return [
        (peek(raw), peek(answer))
        for node, raw, answer in world.transport.log
        if node == NODE[name] and peek(raw).kind == "turn"
        if round is None or peek(raw).header["round"] == round
    ]


# The same bits


@pytest.mark.parametrize(
    ("how", "model", "train", "sites"),
    [
        ("vertical", "logistic", FAST, SITES),
        ("vertical(protect=clear)", "logistic", FAST, (BANK, INSURER)),
        ("fedbcd(q=2)", "logistic", FAST, SITES),
        ("split-net", "mlp(4)", FAST, SITES),
        ("secureboost(bits=2048)", TREES, {}, (BANK, INSURER)),
    ],
)
def test_the_bits_and_figures_of_simulation(how, model, train, sites, tmp_path, monkeypatch):
    if how == "split-net":  # its first weights are a site's secret, which simulation does not know
        secrets = [role_secret(0, number) for number in range(3)]
        monkeypatch.setattr(column_work, "site_secret", lambda key, conversation: secrets[kept.index(key)])
    rounds = 1 if how.startswith("secureboost") else ROUNDS
    world = make(tmp_path, how, model, rounds, train, sites=sites)
    kept = [own_secret(folder) for folder in folders(world)]
    found = world.serve()
    rows = assert_same_parts(world)
    for key in ("accuracy", "loss", "validation_accuracy", "held_out_accuracy", "alone", "gain", "train_loss"):
        assert found[key] == pytest.approx(rows[-1][key], abs=1e-9), key
    assert found["gain"] == pytest.approx(found["accuracy"] - found["alone"])
    played = read_rounds(world.folder.run)
    assert [row["accuracy"] for row in played] == pytest.approx([row["accuracy"] for row in rows], abs=1e-9)
    assert "model_sha256" not in found
    assert not (world.folder.run / "model.json").exists()  # no side has the whole model
    again = world.serve()
    assert again["server_sha256"] == found["server_sha256"]


def test_the_figures_are_at_the_label_holder_alone_and_leave_it_only_by_the_plan(tmp_path):
    world = make(tmp_path, rounds=1, figures="none")
    found = world.serve()
    assert found["accuracy"] is None
    assert not any(peek(raw).kind == "evaluate" for _, raw, _ in world.transport.log)
    assert not any("figures" in answer.header for _, _, raw in world.transport.log for answer in [peek(raw)])
    assert read_rounds(world.folder.run)[0]["train_loss"] is None  # nobody has told it
    assert_same_parts(world)


def test_only_the_label_holder_is_asked_for_figures(tmp_path):
    world = make(tmp_path, rounds=1)
    world.serve()
    asked = {node for node, raw, _ in world.transport.log if peek(raw).kind == "evaluate"}
    assert asked == {NODE[BANK]}
    kept = [json.loads((folder / "figures.json").read_text()) for folder in folders(world)]
    assert kept[0]["test"]["rows"] + kept[0]["validation"]["rows"] < 200
    assert {"alone", "gain"} <= kept[0].keys()
    assert kept[1:] == [{}, {}]


# What travels


def test_the_server_carries_boxes_and_noise(tmp_path):
    """Nothing of any site's scores or residuals is in any message, and masked words look like noise."""
    world = make(tmp_path, rounds=1, train={**FAST, "batch_size": 200})
    world.serve()
    words = {}
    for name in SITES:
        for _, answer in turns(world, name):
            receivers = dict(answer.header.get("mail", []))
            assert all([one[0] for one in arrays] == ["box"] for role, arrays in receivers.items() if role >= 0)
            if "adds" in answer.header and name != BANK:
                assert answer.header["to"] == NUMBER[BANK]
                words.setdefault(name, []).append(np.frombuffer(answer.body[-8 * 120 :], "<u8"))
    assert words.keys() == {INSURER, SHOP}
    one, other = (words[name][0] for name in (INSURER, SHOP))
    assert uniform(one)
    assert uniform(one + other)  # the masks with the label holder are still in the sum


class Adding(Protocol):
    """The holders add whole numbers for the label holder, which keeps their sum."""

    splits = "columns"
    models = ("logistic",)
    uses = frozenset({"lr", "epochs", "batch_size"})
    sends = "sums of scores"
    fault = ""

    def start(self, me):
        return {"heard": np.zeros(3, np.int64)} if me.number == me.terms.label_holder else {"said": np.zeros(1)}

    def step(self, me, state, turn, inbox):
        if me.number == SERVER:
            return state, NOTHING
        if turn.number == 0 and me.number != me.terms.label_holder:
            return {"said": state["said"] + 1}, Say(add=self.own(me, turn), to=self.to(me))
        if SUM in inbox:
            heard = want(inbox, SUM, "numbers", "int64", (3,))
            others = [number for number in range(me.terms.parties) if number != me.number]
            return {"heard": state["heard"] + heard}, Say({number: {"heard": heard * 0} for number in others})
        return state, NOTHING

    def own(self, me, turn):
        return {"numbers": np.array([me.number, 10**12 * turn.round, -(2**40)])}

    def to(self, me):
        return me.terms.label_holder

    def model(self, me, state, server):
        return dict(state)

    def learns(self, terms):
        return {}


@algorithm("toy-adding")
class RightAdding(Adding):
    """As it should be."""


@algorithm("toy-adding-else")
class OtherAdding(Adding):
    """One site adds an array of another length."""

    def own(self, me, turn):
        return {"numbers": np.arange(3 + (me.number == 2))}


@algorithm("toy-adding-own")
class OwnAdding(Adding):
    """A site adds for itself."""

    def to(self, me):
        return me.number


@algorithm("toy-adding-server")
class ServerAdding(Adding):
    """Sites add for the server, which by their plan reads nothing of them."""

    def to(self, me):
        return SERVER


NO_FIGURES = {"rounds": 2, "train": {}, "figures": "none"}


def test_the_label_holder_has_the_sum_and_nobody_else_anything(tmp_path):
    world = make(tmp_path, "toy-adding", **NO_FIGURES)
    world.transport.before = lambda node, raw: None if peek(raw).header.get("purpose") == "predict" else raw
    world.serve()
    (heard, *_) = parts_kept(folders(world))
    each = [np.array([number, 10**12 * round, -(2**40)]) for number in (1, 2) for round in (0, 1, 2)]
    assert heard["heard"].tolist() == sum(each).tolist()


def test_sums_that_do_not_fit_are_refused_with_a_name(tmp_path):
    with pytest.raises(UserError, match=f"{SHOP} adds .*, but {INSURER} adds"):
        make(tmp_path / "a", "toy-adding-else", **NO_FIGURES).serve()
    for name in ("own", "server"):
        with pytest.raises(UserError, match="is for another of them"):
            make(tmp_path / name, f"toy-adding-{name}", **NO_FIGURES).serve()
    with pytest.raises(UserError, match="a sum for one site is of two others or more"):
        make(tmp_path / "b", "toy-adding", sites=(BANK, INSURER), **NO_FIGURES).serve()


# Faults


@pytest.mark.parametrize(
    ("how", "who"), [("vertical", BANK), ("vertical", SHOP), ("secureboost(bits=2048)", SHOP)]
)
def test_a_site_that_restarts_within_a_round_has_it_played_again(how, who, tmp_path):
    """In memory it has nothing of the round: to the same bits, and no turn is asked two questions."""
    boosted = how.startswith("secureboost")
    world, done = (
        make(tmp_path, how, TREES if boosted else "logistic", train={} if boosted else FAST, rounds=2),
        [],
    )

    def before(node, raw):
        header = peek(raw).header
        place = (header.get("round"), header.get("purpose"))
        if node == NODE[who] and place == (2, None) and header.get("turn", 0) >= 2 and not done:
            done.append(world.start(NODE[who], who))
        return raw

    world.transport.before = before
    world.serve()
    assert done
    assert any(f"{who} was started again within a round: round 2 is played again" in line for line in world.said)
    assert_same_parts(world)
    for name in SITES:
        known = Once(tmp_path / "sites" / name / "once.json").known
        assert all(len(asked) == 1 for what, asked in known.items() if "turn" in what or what.startswith("masks"))


@pytest.mark.parametrize("kind", ["turn", "evaluate"])
def test_a_site_that_restarts_while_the_model_is_tried_has_it_tried_again(kind, tmp_path):
    world, done = make(tmp_path), []

    def before(node, raw):
        header = peek(raw).header
        trying = header["kind"] == "evaluate" or header.get("purpose") == "predict"
        here = node == NODE[BANK] and header["kind"] == kind and trying and header["round"] == 1
        if here and header.get("turn", 1) and not done:
            done.append(world.start(NODE[BANK], BANK))
        return raw

    world.transport.before = before
    found = world.serve()
    assert done
    assert any("the trial of round 1 is played again" in line for line in world.said)
    rows = assert_same_parts(world)
    assert found["accuracy"] == pytest.approx(rows[-1]["accuracy"])


def test_a_site_that_vanishes_in_a_turn_is_named_and_waited_for(tmp_path):
    world, lost = make(tmp_path), []

    def before(node, raw):
        header = peek(raw).header
        if node == NODE[SHOP] and (header.get("round"), header.get("turn")) == (2, 2) and len(lost) < 2:
            lost.append(node)
            return None
        return raw

    world.transport.before = before
    world.serve()
    assert len(lost) == 2
    assert any(f"Waiting for {SHOP}" in line for line in world.said)
    assert_same_parts(world)


class Crash(Exception):
    """The server's process ends."""


@pytest.mark.parametrize("moment", [7, 13, 20])
def test_a_server_that_dies_goes_on_to_the_same_bits(moment, tmp_path):
    world, heard = make(tmp_path), []

    def before(node, raw):
        heard.append(peek(raw).kind == "turn")
        if sum(heard) == moment:
            raise Crash
        return raw

    world.transport.before = before
    with pytest.raises(Crash):
        world.serve()
    world.transport.before = lambda node, raw: raw
    for name in SITES:
        world.start(NODE[name], name)
    world.serve()
    assert_same_parts(world)


def test_a_site_that_lost_its_state_or_its_rows_changed_ends_the_run(tmp_path):
    world = make(tmp_path)

    def before(node, raw):
        header = peek(raw).header
        if node == NODE[SHOP] and (header["kind"], header.get("round")) == ("turn", 2):
            for path in (tmp_path / "sites" / SHOP / "state").iterdir():
                path.unlink()
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match=f"{SHOP} says: the state version 000001-0-0 is not here"):
        world.serve()


# A server that lies


def bent(world, name, bend, round=1, purpose=None):
    """Run with the messages of a site's turns changed; what the server is told."""
    signer = world.folder.signer()

    def before(node, raw):
        message = peek(raw)
        if node != NODE[name] or message.kind != "turn" or message.header.get("purpose") != purpose:
            return raw
        if message.header["round"] != round or message.header["turn"] == 0:
            return raw
        changed = bend(message)
        return raw if changed is None else write(Envelope(*changed), signer)

    world.transport.before = before
    with pytest.raises(UserError) as error:
        world.serve()
    return str(error.value)


def with_mail(message, change):
    mail = unpack_mail(message.header["mail"], message.body, (SERVER, SUM, 0, 1, 2))
    listed, body = pack_mail(change(mail))
    return {**message.header, "mail": listed}, body


def test_boxes_of_two_receivers_that_are_swapped_do_not_open(tmp_path):
    """The bank's box for the insurer, handed to the shop."""
    world, boxes = make(tmp_path), {}

    def after(node, answer):
        header = peek(answer).header
        if node == NODE[BANK] and header.get("mail"):
            boxes[0] = unpack_mail(header["mail"], peek(answer).body, (1, 2)).get(NUMBER[INSURER])
        return answer

    world.transport.after = after
    why = bent(world, SHOP, lambda message: with_mail(message, lambda mail: {0: boxes[0]}))
    assert f"{SHOP} says: {BANK} sent a box that does not open" in why


def test_a_box_of_another_turn_does_not_open(tmp_path):
    world, seen = make(tmp_path), []

    def bend(message):
        mail = unpack_mail(message.header["mail"], message.body, (0,))
        seen.append(mail)
        return with_mail(message, lambda mail: seen[0]) if len(seen) > 1 else None

    assert f"{BANK} sent a box that does not open" in bent(world, SHOP, bend)


def test_a_refused_box_does_not_use_up_the_turn(tmp_path):
    """The right question is answered afterwards: a wrong one was not kept as the turn's only one."""
    world = make(tmp_path)

    def bend(message):
        return with_mail(message, lambda mail: {0: {"box": mail[0]["box"][::-1].copy()}})

    assert "does not open" in bent(world, SHOP, bend)
    world.transport.before = lambda node, raw: raw
    world.serve()
    assert_same_parts(world)


def test_mail_that_the_server_writes_itself_is_not_read(tmp_path):
    def bend(message):
        return with_mail(message, lambda mail: {SERVER: {"residual": np.zeros(3)}, **mail})

    assert "its mail is of or for -1" in bent(make(tmp_path / "a"), SHOP, bend)

    def bare(message):
        return with_mail(message, lambda mail: {0: {"residual": np.zeros(3)}})

    assert f"{BANK} wrote to this site without a box" in bent(make(tmp_path / "b"), SHOP, bare)


@pytest.mark.parametrize("lie", ["one alone", "of another turn", "another number", "fewer names"])
def test_another_sum_than_the_right_one_is_noise(lie, tmp_path):
    """Forward one site's words alone, those of an earlier turn, or changed ones: the label holder refuses."""
    world, words, old = make(tmp_path), {}, []

    def after(node, answer):
        header = peek(answer).header
        if "adds" in header:
            size = 8 * (int(np.prod(header["adds"][0][2])) + pairwise.CHECKS)
            words[node] = (header["adds"], peek(answer).body[-size:])
        return answer

    def bend(message):
        mail = unpack_mail(message.header["mail"], message.body, (SUM, 1, 2))
        if SUM not in mail:
            return None
        old.append(mail[SUM])
        if lie == "one alone":
            adds, one = words[NODE[SHOP]]
            return with_mail(message, lambda mail: {SUM: passed_on(adds, {0: one})})
        if lie == "another number":
            sums = {name: array + (name == "zeros") for name, array in mail[SUM].items()}
            return with_mail(message, lambda mail: {SUM: sums})
        if lie == "fewer names":
            return with_mail(message, lambda mail: {SUM: {"zeros": mail[SUM]["zeros"]}})
        return with_mail(message, lambda mail: {SUM: old[0]}) if len(old) > 1 else None

    world.transport.after = after
    why = bent(world, BANK, bend, round=2 if lie != "of another turn" else 1)
    assert why.startswith(f"{BANK} says: ")
    assert "noise" in why or "the sum that it passes on is none" in why


def voice(world):
    place = world.folder
    return Speaker(world.plan, world.transport, place.signer(), place.roster(world.plan), next(INCARNATIONS))


def test_the_same_question_has_the_same_answer_and_what_is_none_is_refused(tmp_path):
    world, asked = make(tmp_path), []

    def before(node, raw):
        message = peek(raw)
        if node == NODE[SHOP] and (message.header.get("round"), message.header.get("turn")) == (2, 2):
            asked.append(message)
            raise Crash
        return raw

    world.transport.before = before
    with pytest.raises(Crash):
        world.serve()
    world.transport.before = lambda node, raw: raw
    header = {key: value for key, value in asked[0].header.items() if key not in OWN}

    def ask(**changes):
        speaker = voice(world)
        answers = dict(speaker.ask({SHOP: ({**header, **changes}, asked[0].body)}, 10.0))
        return answers.get(SHOP) or speaker.problems[SHOP]

    first, again = ask(), ask(session="22" * 16)
    assert len(first.body) > 8 * 60
    assert (again.body, again.header["mail"], again.header["adds"]) == (
        first.body,
        first.header["mail"],
        first.header["adds"],
    )
    assert "another key of this site" in ask(keys={})
    assert "nobody here has offered a table" in ask(occasion="00" * 16, purpose="predict")
    assert "which job it is of" in ask(occasion="x")
    assert "conversation that this plan does not have" in ask(purpose="else")
    assert "does not fit its body" in ask(mail=[])
    assert f"{BANK} sent a box that does not open" in ask(purpose="predict")
    assert "does not open" in ask(turn=3)
    world.start(NODE[SHOP], SHOP)
    assert ask().header["again"] is True


# New people


def offered(world, rows=60):
    """Every site offers its table of the same people, of whom some were trained on."""
    names = world.plan.parties
    columns.write_people(world.path / "new", rows, names, start=180, apart=0)
    for name in names:
        table, output = world.path / "new" / f"{name}.csv", world.path / "sites" / name / "out.csv"
        offer_table(world.path / "sites" / name, f"csv:{table}", str(output))
    world.folder.set_job(PREDICT)
    return world


def predictions(world):
    path = world.path / "sites" / BANK / "out.csv"
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.parametrize(
    ("how", "model", "train"), [("vertical", "logistic", FAST), ("secureboost(bits=2048)", TREES, {})]
)
def test_new_people_are_predicted_together_and_only_the_label_holder_is_told(how, model, train, tmp_path):
    world = make(tmp_path, how, model, 1, train)
    world.serve()
    assert offered(world).serve() == {"people": 60}
    told = predictions(world)
    own = list(csv.DictReader((world.path / "new" / f"{BANK}.csv").read_text().splitlines()))
    assert [row["patient"] for row in told] == [row["patient"] for row in own]
    assert not any((world.path / "sites" / name / "out.csv").exists() for name in (INSURER, SHOP))
    simulation, _ = simulated(world)
    works = [site._columns._work for site in world.transport.sites.values()]
    people = [
        new_people(world.plan, work, f"csv:{world.path / 'new' / name}.csv")
        for name, work in zip(SITES, works, strict=True)
    ]
    whole = np.concatenate([one.x for one in people], axis=1)
    arrays, _ = simulation.cast.models(simulation.state)
    expected = 1 / (1 + np.exp(-simulation.cast.grown(arrays).margins(whole)[:, 0]))
    found = [float(told[row]["p_healthy"]) for row in people[0].order]
    assert found == pytest.approx(expected.tolist(), abs=1e-12)
    assert all((row["predicted"] == "healthy") == (float(row["p_healthy"]) > 0.5) for row in told)
    assert not any((folder / REQUEST).exists() for folder in folders(world))  # an offer is for one prediction
    assert not list(tmp_path.glob("sites/*/keys/pairs-*.key"))
    world.folder.set_job(PREDICT)
    with pytest.raises(UserError, match="nobody here has offered a table of new people"):
        world.serve()


def test_a_prediction_survives_a_site_that_restarts_and_a_server_that_dies(tmp_path):
    world, done = make(tmp_path, rounds=1), []
    world.serve()

    def before(node, raw):
        header = peek(raw).header
        if header.get("occasion") and (header["kind"], header.get("turn")) == ("turn", 1) and len(done) < 2:
            done.append(world.start(NODE[BANK], BANK))
            if len(done) == 2:
                raise Crash
        return raw

    world.transport.before = before
    with pytest.raises(Crash):
        offered(world).serve()
    assert world.serve() == {"people": 60}
    assert len(predictions(world)) == 60
    assert any("the prediction is played again" in line for line in world.said)


def test_tables_of_other_people_or_of_few_are_refused(tmp_path):
    world = make(tmp_path, rounds=1)
    with pytest.raises(UserError, match="no trained model yet"):
        offered(world).serve()
    world.folder.set_job(TRAIN)
    world.serve()
    with pytest.raises(UserError, match="10 people, and 32 are predicted together at least"):
        offered(world, 10).serve()
    offered(world)
    table = world.path / "new" / f"{SHOP}.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(UserError, match=f"{SHOP} offers a table of other people than {BANK}"):
        world.serve()
    assert not (world.path / "sites" / BANK / "out.csv").exists()

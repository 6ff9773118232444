"""People are matched between real sites: all find the same, whatever stops, and the server sees numbers."""

import csv
import json
import random

import numpy as np
import pytest

from tests.federation.inside import Inside, World
from unalike.data import load_dataset
from unalike.errors import UserError
from unalike.federation import asking
from unalike.federation.attempts import Attempts
from unalike.federation.envelope import Envelope, peek
from unalike.federation.folders import MATCH, PUBLIC, Card, ServerFolder, make_key, read_key
from unalike.federation.matched import Matched
from unalike.federation.plan import Plan
from unalike.federation.server import serve

SITES = ("bank", "insurer", "shop")
KNOWN = {"bank": range(0, 260), "insurer": range(60, 330), "shop": range(20, 240)}
COMMON = set.intersection(*map(set, KNOWN.values()))


def write_people(folder, known=KNOWN, label=("bank",)):
    """A table for every site: people in an order of its own, ids written in its own way."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, people in known.items():
        rng = random.Random(name)
        people = list(people)
        rng.shuffle(people)
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["who", f"{name} a", f"{name} b", *(["outcome"] if name in label else [])])
            for person in people:
                who = f"Pérson-{person}" if name == "bank" else f" PÉRSON-{person} "
                row = [who, rng.gauss(3, 2), rng.choice("xyz")]
                writer.writerow([*row, *([rng.choice(["no", "yes"])] if name in label else [])])


class PeopleWorld(World):
    """Sites with other columns of the same people, in one process."""

    @classmethod
    def make(cls, path, known=KNOWN, label=("bank",), **plan):
        write_people(path / "tables", known, label)
        public = make_key(path / "server" / "keys" / "server.key")
        train = {"algorithm": "vertical", "model": "logistic", "rounds": 1}
        plan = {"least_common": 50, "id": ("who",), **plan}
        made = Plan("people", tuple(sorted(known)), public.hex(), "127.0.0.1:1", train, "outcome", **plan)
        made.write(path / "server")
        (path / "server" / "parties").mkdir(exist_ok=True)
        for name in known:
            key = make_key(path / "sites" / name / "keys" / "site.key")
            Card(name, key.hex()).write(path / "server" / "parties" / f"{name}{PUBLIC}")
        world = cls(path, made, Inside())
        for node, name in enumerate(made.parties, 11):
            world.start(node, name)
        return world

    def match(self, stopped=lambda: False):
        ServerFolder(self.path / "server").set_job(MATCH)
        return serve(self.transport, self.path / "server", self.said.append, stopped)

    def rows(self, name):
        site = self.transport.sites[11 + self.plan.number(name)]
        return Matched.read(self.path / "sites" / name, self.plan, site.columns).tolist()

    def people(self, name):
        """The people that a site has matched, in the order in which it has them."""
        with (self.path / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        return [int(table[row]["who"].strip().split("-")[1]) for row in self.rows(name)]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


@pytest.fixture
def world(tmp_path):
    return PeopleWorld.make(tmp_path)


def test_all_sites_find_the_same_people_in_the_same_order(world):
    found = world.match()
    assert found["common"] == len(COMMON)
    assert found["sizes"] == {name: len(people) for name, people in KNOWN.items()}
    assert found["label_holder"] == "bank"
    each = [world.people(name) for name in SITES]
    assert each[0] == each[1] == each[2]
    assert set(each[0]) == COMMON
    assert each[0] != sorted(each[0])


def test_real_sites_have_the_bits_of_tables_in_one_place(world):
    from unalike.data.sites.side_by_side import side_people

    world.match()
    data = world.plan.sites(str(world.path / "tables")).load()
    for number, name in enumerate(SITES):
        columns = world.transport.sites[11 + number].columns
        side = side_people(columns, np.array(world.rows(name)), world.plan.people)
        own = data.holders.columns[number]
        assert (data.x[:, own] == side.x[~side.test]).all()
        assert (data.x_test[:, own] == side.x[side.test]).all()
        assert (data.holders.apart[number] == side.apart).all()
        if name == "bank":
            assert (data.y == side.y[~side.test]).all()
        else:
            assert side.y is None
    text = f"people:{world.path / 'tables'}(label=outcome,id=who,least_common=50)"
    assert load_dataset(text).digest == data.digest


def test_no_id_and_no_hash_that_says_who_it_is_leaves_a_site(world):
    world.match()
    sent = b"".join(raw + answer for _, raw, answer in world.transport.log)
    assert b"RSON-" not in sent.upper()
    assert "pérson-100".encode() not in sent
    boxes = [peek(answer).body for _, _, answer in world.transport.log if len(answer) > 4000]
    assert boxes
    for one in boxes:
        share = np.bincount(np.frombuffer(one, np.uint8), minlength=256) / len(one)
        assert share.max() < 0.012, "what passes the server must look random"


def test_the_server_cannot_open_what_it_passes_on(world):
    """Points of two lists that the server could compare would tell it how many people two sites share."""
    world.match()
    steps = [
        (peek(raw).header, peek(answer).header)
        for _, raw, answer in world.transport.log
        if peek(raw).kind == "match-step"
    ]
    named = {
        name
        for asked, told in steps
        for header in (asked, told)
        for _, own in header.get("mail", ())
        for name, *_ in own
    }
    assert named == {"box"}


def test_a_message_again_has_the_same_answer_and_another_one_is_refused(world):
    again = []

    def before(node, raw):
        message = peek(raw)
        if message.kind == "match-step" and message.header["step"] == "answer":
            again.append((node, message))
        return raw

    kept = []
    site = world.transport.sites[12]
    taken = site._columns.matching.step

    def twice(message):
        first, second = taken(message), taken(message)
        kept.append(first == second)
        with pytest.raises(UserError, match="with something else"):
            taken(
                Envelope(message.header, message.body[:-1] + bytes([message.body[-1] ^ 1]))
            ) if message.body else taken(Envelope(message.header, b"x"))
        return second

    site._columns.matching.step = twice
    world.transport.before = before
    assert world.match()["common"] == len(COMMON)
    assert kept == [True, True]


def test_a_second_matching_has_other_secrets_and_finds_the_same(world):
    world.match()
    before, rows = list(world.transport.log), {name: world.rows(name) for name in SITES}
    session = Matched.kept(world.path / "sites" / "bank", world.plan).session
    world.transport.log.clear()
    world.match()
    assert {name: world.rows(name) for name in SITES} == rows
    assert Matched.kept(world.path / "sites" / "bank", world.plan).session != session
    bodies = [
        {peek(answer).body for _, _, answer in log if len(answer) > 2000} for log in (before, world.transport.log)
    ]
    assert bodies[0]
    assert not bodies[0] & bodies[1]
    assert not list((world.path / "sites").glob("*/keys/match-*"))
    assert not list((world.path / "sites").glob("*/keys/pairs-*"))


def test_a_site_that_restarts_half_way_is_matched_anew(world):
    steps = []

    def before(node, raw):
        if peek(raw).kind == "match-step":
            steps.append(node)
            if len(steps) == 3:
                world.start(12, "insurer")
                world.start(11, "bank")
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match="Match again"):
        world.match()
    world.transport.before = lambda node, raw: raw
    assert world.match()["common"] == len(COMMON)
    assert world.people("bank") == world.people("shop")
    assert not list((world.path / "sites").glob("*/keys/match-*"))


@pytest.mark.parametrize(("step", "blamed"), [("ask", "bank"), ("answer", "insurer|shop"), ("find", "bank")])
def test_a_box_that_was_changed_on_the_way_names_its_sender(world, step, blamed):
    def after(node, answer):
        message = peek(answer)
        if message.header.get("mail") and current[-1] == step:
            body = bytearray(message.body)
            body[40] ^= 1
            return rewritten(world, node, message, bytes(body))
        return answer

    current = []

    def before(node, raw):
        current.append(peek(raw).header.get("step", ""))
        return raw

    world.transport.before, world.transport.after = before, after
    with pytest.raises(UserError, match=f"({blamed}) sent a box that does not open"):
        world.match()
    assert not list((world.path / "sites").glob("*/matched.json"))


def rewritten(world, node, message, body):
    """An answer with another body, signed by its site: what a site that lies would send."""
    from unalike.federation.envelope import write

    name = world.plan.parties[node - 11]
    return write(Envelope(message.header, body), read_key(world.path / "sites" / name / "keys" / "site.key"))


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"bank": range(100), "shop": range(100, 220)}, r"Of 100 and 120 ids, 0 are common\. Is the id written"),
        ({"bank": range(100), "shop": range(60, 220)}, r"40 are common, fewer than least_common=50"),
        ({"bank": range(100), "shop": range(10)}, r"shop has 10 ids, fewer than least_common=50"),
    ],
)
def test_too_few_common_people_are_refused_with_the_number(tmp_path, known, said):
    world = PeopleWorld.make(tmp_path, known)
    with pytest.raises(UserError, match=said):
        world.match()
    assert not list((world.path / "sites").glob("*/matched.json"))
    with pytest.raises(UserError, match="Nobody was matched by this plan yet"):
        world.rows("shop")


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ((), "no site has the column outcome: say which with --label"),
        (("bank", "shop"), "bank and shop have the column outcome"),
    ],
)
def test_one_site_has_the_label(tmp_path, label, said):
    with pytest.raises(UserError, match=said):
        PeopleWorld.make(tmp_path, label=label).match()


def test_a_table_with_other_ids_than_were_matched_is_refused(world):
    world.match()
    path = world.path / "tables" / "shop.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("PÉRSON-100 ", "PÉRSON-9100 "), encoding="utf-8")
    world.start(13, "shop")
    with pytest.raises(UserError, match="other ids than when its people were matched"):
        world.rows("shop")


def test_more_ids_than_the_plan_allows_are_refused_at_the_site(tmp_path):
    with pytest.raises(UserError, match=r"This table has 260 ids; by the plan a site may bring 250"):
        PeopleWorld.make(tmp_path, most_ids=250)


def test_duplicates_are_told_by_row_at_the_site(tmp_path, world):
    path = world.path / "tables" / "shop.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, lines[3]]) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"1 id occurs twice \(first in lines 4 and 222\)"):
        world.start(13, "shop")


def test_a_server_that_tells_other_sizes_is_refused(world):
    site = world.transport.sites[12]
    taken = site._columns.matching.step
    seen = []

    def lied(message):
        for claims in (
            {**message.header["claims"], "insurer": 5},
            {"bank": 2},
            {**message.header["claims"], "bank": 10**9},
        ):
            with pytest.raises(UserError, match=r"every site brings|other numbers of ids"):
                taken(Envelope({**message.header, "claims": claims}, message.body))
        seen.append(message)
        return taken(message)

    site._columns.matching.step = lied
    assert world.match()["common"] == len(COMMON)
    assert seen


def test_the_number_of_matchings_is_limited(world, monkeypatch):
    from unalike.federation import site_matching

    monkeypatch.setattr(site_matching, "MOST_MATCHINGS", 2)
    world.match()
    world.match()
    with pytest.raises(UserError, match="were matched 2 times by this plan"):
        world.match()


def test_sites_tell_how_many_ids_the_others_claim(world):
    world.match()
    assert "Matching people with insurer 270, shop 220 ids; this site brings 260." in world.said
    assert f"Matched: {len(COMMON)} of this site's 260 people are known to all sites." in world.said


def test_the_job_is_done_by_whoever_serves(world):
    from unalike.federation import attempts

    folder = world.path / "server"
    Attempts(folder).submit(MATCH)
    attempts.serve(world.transport, folder)
    assert Attempts(folder).outcome().how == "finished"
    assert json.loads((folder / "matched.json").read_text())["common"] == len(COMMON)

"""A site and what may reach it: nothing but the agreed server's questions, in order, under the agreed plan."""

import errno
import json
import shutil

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.federation.inside import HOSPITALS, World
from unalike.cli.federation.site import _told
from unalike.data.schema import Schema
from unalike.errors import UserError
from unalike.federation import audit, work
from unalike.federation.audit import read_audit
from unalike.federation.envelope import SERVER, Envelope, pack, peek, read, write
from unalike.federation.folders import Card, read_key
from unalike.federation.site import MOST_SCHEMAS, Site
from unalike.secure.crypto.primitives import new_secret, signing_public

NODE, NAME = 12, "hungarian"


class Server:
    """Speaks to one site as its server would, or does not quite."""

    def __init__(self, world):
        self.world, self.signer, self.count = world, world.folder.signer(), 100
        recorded = [peek(raw) for node, raw, _ in world.transport.log if node == NODE]
        self.recorded = {(m.kind, m.header.get("round"), m.header.get("turn")): m for m in recorded}
        self.raw = {peek(raw).kind: raw for node, raw, _ in world.transport.log if node == NODE}

    @property
    def site(self):
        return self.world.transport.sites[NODE]

    def bytes(self, message, signer=None, body=None, **changes):
        """A recorded message with a new number, changed; None removes a key."""
        self.count += 1
        header = {**message.header, "number": [50, self.count], "heard": None, **changes}
        if header.get("version") and type(header["round"]) is int:
            header["version"] = changes.get("version", f"{header['round']:06d}-{header['turn']}-50")
        header = {key: value for key, value in header.items() if value is not None}
        return write(Envelope(header, message.body if body is None else body), signer or self.signer)

    def ask(self, message, signer=None, body=None, **changes):
        return self.read(self.site.answer(self.bytes(message, signer, body, **changes)))

    def read(self, answer):
        """The answer, which its site must have signed whatever it says."""
        return read(answer, {NAME: signing_public(self.site.signer)}, SERVER)

    def arrays(self, message, **changes):
        """Ask with other arrays."""
        arrays, body = pack({**message.vectors(), **changes})
        return self.ask(message, body=body, arrays=arrays)


def played(path, **plan):
    """A federation that has played its rounds, all messages recorded."""
    world = World.make(path, train={"rounds": 2, "algorithm": "scaffold", **plan.pop("train", {})}, **plan)
    world.serve()
    return world


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return played(tmp_path_factory.mktemp("plain") / "world")


@pytest.fixture
def world(plain, tmp_path):
    """A copy of it that a test may spoil."""
    shutil.copytree(plain.path, tmp_path / "world")
    made = World(tmp_path / "world", plain.plan, type(plain.transport)(log=plain.transport.log))
    for node, name in enumerate(HOSPITALS, 11):
        made.start(node, name)
    return made


@pytest.fixture
def server(world):
    return Server(world)


def refused(server, answer, why):
    """It is an error with that reason, logged with it, and the site still answers a good message."""
    assert answer.kind == "error"
    assert why in answer.header["reason"]
    came, went = read_audit(server.site.folder)[-2:]
    assert (came["way"], went["way"]) == ("in", "out")
    assert why in came["outcome"]
    assert any(line.startswith("Refused a message") for line in server.world.said)
    assert server.ask(server.recorded["describe", None, None]).kind == "answer"


def test_a_good_message_is_answered_with_the_same_bits_again(server):
    again = server.ask(server.recorded["exchange", 2, 0])
    _, _, before = next(
        log
        for log in server.world.transport.log
        if log[0] == NODE and peek(log[1]).kind == "exchange" and peek(log[1]).header["round"] == 2
    )
    assert again.kind == "answer"
    assert again.body == peek(before).body


def test_replays_and_disorder(server):
    for raw in server.raw.values():
        refused(server, server.read(server.site.answer(raw)), "seen before")
    raw = server.bytes(server.recorded["exchange", 2, 0])
    later = server.bytes(server.recorded["exchange", 2, 0])
    assert server.read(server.site.answer(later)).kind == "answer"
    refused(server, server.read(server.site.answer(later)), "seen before")  # at once
    refused(server, server.read(server.site.answer(raw)), "out of order")
    # After a restart too.
    server.world.start(NODE, NAME)
    refused(server, server.read(server.site.answer(later)), "seen before")


def test_forgers(server):
    other = read_key(server.world.path / "sites" / "va" / "keys" / "site.key")
    good = server.recorded["exchange", 2, 0]
    refused(server, server.ask(good, signer=new_secret()), "the signature is not that of server")
    refused(server, server.ask(good, signer=other), "the signature is not that of server")
    refused(server, server.ask(good, signer=other, sender="va"), "nobody here is called 'va'")
    refused(server, server.ask(good, receiver="va"), "it is for 'va'")
    refused(server, server.ask(good, receiver="anybody"), "it is for 'anybody'")
    # What is not proven to be from the server is not acted on: not even its number counts.
    assert server.ask(good).kind == "answer"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"plan": "0" * 64}, "another plan"),
        ({"plan": None}, "another plan"),
        ({"schema": "0" * 64}, "another schema"),
        ({"kind": "train"}, "is not known here"),
        ({"kind": "__init__"}, "is not known here"),
        ({"number": None}, "no number"),
        ({"number": [1]}, "no number"),
        ({"number": [50, 1e9]}, "no number"),
        ({"number": [True, 10**6]}, "no number"),
        ({"number": "x"}, "no number"),
        ({"number": [2**60, 1]}, "no number"),
        ({"ask": "steal"}, "it asks to 'steal', scaffold"),
        ({"ask": ["train"]}, "it asks to \"['train']\", scaffold"),
        ({"ask": None}, "it asks to 'None', scaffold"),
        ({"ask": "measure"}, "it asks to 'measure'"),
        ({"phase": "head"}, "it asks to 'train' in phase 'head', scaffold"),
        ({"phase": 5}, "it asks to 'train' in phase '5', scaffold"),
        ({"round": 0}, "it is of round 0"),
        ({"round": 3}, "it is of round 3; the plan has 2"),
        ({"round": 10**9}, "the plan has 2"),
        ({"round": "1"}, "not a number"),
        ({"turn": 1}, "has 1 exchanges in a round"),
        ({"turn": True}, "not a number"),
        ({"most_rows": -1}, "not a number"),
        ({"base": "../../keys/site"}, "is no version"),
        ({"base": "000002-0-7"}, "is not here"),
        ({"version": "000001-0-1"}, "is not the version"),
        ({"version": "../../../x"}, "is not the version"),
        ({"keep": 5}, "names no versions"),
        ({"keep": ["a", "b", "c"]}, "names no versions"),
        ({"arrays": None}, "malformed"),
        ({"arrays": []}, "do not fit"),
    ],
)
def test_what_was_not_agreed_on(server, changes, why):
    refused(server, server.ask(server.recorded["exchange", 2, 0], **changes), why)


def test_payloads_that_the_algorithm_does_not_send(server):
    good = server.recorded["exchange", 2, 0]
    w = good.vectors()["payload/w"]
    refused(server, server.arrays(good, **{"payload/w": w[:-1]}), "its payload is")
    refused(server, server.arrays(good, **{"payload/w": w.double()}), "its payload is")
    refused(server, server.arrays(good, **{"payload/extra": w}), "its payload is")
    refused(server, server.arrays(good, buffers=w), "running statistics")
    body = bytearray(good.body)
    body[:4] = b"\0\0\xc0\x7f"  # NaN
    refused(server, server.ask(good, body=bytes(body)), "not finite")


def test_before_agreement_nothing_is_done(server, tmp_path):
    folder = tmp_path / "fresh"
    site = Site(folder, NAME, server.world.plan, server.site.table, server.site.signer)
    for kind in ("exchange", "evaluate", "finish"):
        message = next(m for key, m in server.recorded.items() if key[0] == kind)
        answer = server.read(site.answer(server.bytes(message)))
        assert answer.kind == "error"
        assert "nothing was agreed on yet" in answer.header["reason"]
    assert not list((folder / "state").iterdir())


def test_a_site_believes_the_others_own_files_and_not_the_server(server):
    agreed = server.recorded["agree", None, None]
    card = server.site.folder / "va.public.json"
    Card("va", agreed.header["roster"]["va"]).write(card)
    assert server.ask(agreed).kind == "answer"
    Card("va", "00" * 32).write(card)
    refused(server, server.ask(agreed), "another key of va than va.public.json at this site. Telephone va")
    card.write_text("{}")
    refused(server, server.ask(agreed), "does not hold a site's public keys")


def test_another_sites_own_file_counts_also_when_it_comes_after_the_agreement(tmp_path):
    world = World.make(tmp_path, train={"channel": "masked", "rounds": 2})

    def before(node, raw):
        header = peek(raw).header
        if header["kind"] == "add" and header.get("round") == 2:
            Card("va", "00" * 32).write(world.path / "sites" / NAME / "va.public.json")
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match=r"another key of va than va\.public\.json"):
        world.serve()


def fresh(server, folder):
    """The site as it was before anything was agreed, in another folder."""
    return Site(folder, NAME, server.world.plan, server.site.table, server.site.signer)


def shifted(schema, by):
    """The same schema with another constant in its first column of numbers."""
    fields = [dict(one) for one in schema["fields"]]
    next(one for one in fields if one["kind"] == "number")["shift"] += by
    return {**schema, "fields": fields}


def test_extremes_of_a_column_cannot_be_searched_for_by_proposing_schemas(server, tmp_path):
    site = fresh(server, tmp_path / "fresh")
    agreed = server.recorded["agree", None, None]

    def propose(by):
        raw = server.bytes(agreed, schema=shifted(agreed.header["schema"], by))
        return server.read(site.answer(raw)).header.get("reason", "")

    assert not any(propose(by) for by in range(MOST_SCHEMAS))
    assert "has tried 10 other schemas" in propose(100)
    site = fresh(server, tmp_path / "fresh")
    assert "has tried 10 other schemas" in propose(100)  # also after a restart
    assert not propose(0)


def measured(server, site, schema, of):
    """The site agrees to a schema and is asked for labels or ranges under it."""
    agreed = server.recorded["agree", None, None]
    site.answer(server.bytes(agreed, schema=schema))
    digest = Schema.from_dict(schema).digest
    raw = server.bytes(agreed, kind="measure-support", of=of, schema=digest, roster=None)
    return server.read(site.answer(raw))


def test_what_is_measured_is_coded_by_the_schema_that_was_agreed_on_last(server, tmp_path):
    first = server.recorded["agree", None, None].header["schema"]
    site = fresh(server, tmp_path / "fresh")
    assert measured(server, site, first, "labels").kind == "answer"
    ranges = measured(server, site, shifted(first, 5.0), "features")
    anew = measured(server, fresh(server, tmp_path / "anew"), shifted(first, 5.0), "features")
    assert ranges.kind == "answer"
    assert ranges.body == anew.body


def test_two_schemas_do_not_tell_the_extremes_of_a_column(server, tmp_path):
    """A range is widened by a secret part of a step: two steps that differ would give two equations for it."""
    first = server.recorded["agree", None, None].header["schema"]
    site = fresh(server, tmp_path / "fresh")
    told = measured(server, site, first, "features")
    other = measured(server, site, shifted(first, 5.0), "features")
    assert (told.kind, other.kind) == ("answer", "error")
    assert "ranges under another schema" in other.header["reason"]
    site = fresh(server, tmp_path / "fresh")
    assert measured(server, site, shifted(first, 5.0), "features").kind == "error"
    assert measured(server, site, first, "features").body == told.body


def test_a_hello_tells_nothing_but_who_it_is(server):
    for _, raw, answer in server.world.transport.log:
        if peek(raw).kind == "hello":
            assert set(peek(answer).header) == {"kind", "sender", "receiver", "answers"}


def test_agreements_that_a_site_does_not_make(server):
    agreed = server.recorded["agree", None, None]
    roster, schema = agreed.header["roster"], agreed.header["schema"]
    assert server.ask(agreed).kind == "answer"
    refused(server, server.ask(agreed, roster={**roster, NAME: "00" * 32}), "another key for this site")
    refused(server, server.ask(agreed, roster={**roster, "va": "00" * 32}), "keys have changed")
    refused(server, server.ask(agreed, roster={**roster, "new": "00" * 32}), "or other parties")
    refused(server, server.ask(agreed, roster=5), "malformed")
    refused(server, server.ask(agreed, schema=None), "malformed")
    refused(server, server.ask(agreed, schema={**schema, "fields": 5}), "malformed")
    refused(server, server.ask(agreed, schema={**schema, "label": "age"}), "predicts 'age'")
    less = {**schema, "fields": schema["fields"][1:]}
    refused(server, server.ask(agreed, schema=less), "other columns are used")
    scaled = [{**schema["fields"][0], "shift": 5.0}, *schema["fields"][1:]]
    refused(
        server, server.ask(agreed, schema={**schema, "fields": scaled}), "training has begun with another schema"
    )


def test_figures_of_one_model_a_round(server):
    asked = server.recorded["evaluate", 2, 0]
    w = asked.vectors()["w"]
    first = server.ask(asked)
    assert first.kind == "answer"
    refused(server, server.arrays(asked, w=w + 1), "another model of that round")
    server.world.start(NODE, NAME)
    refused(server, server.arrays(asked, w=w + 1), "another model of that round")
    assert server.ask(asked).body == first.body
    assert first.vectors()["test/rows"] > 0
    known = (server.site.folder / "once.jsonl").read_text()
    for round in (
        0,
        10**6,
        "x" * 1000,
        None,
    ):  # what was never an occasion is not remembered: the file stays small
        assert server.ask(asked, round=round, version=None).kind == "error"
    assert (server.site.folder / "once.jsonl").read_text() == known


@pytest.mark.parametrize("round", [0, 3, "x" * 1000, 2.0, True, None])
def test_figures_of_rounds_that_are_none_leave_no_trace(server, round):
    before = (server.site.folder / "once.jsonl").read_text()
    assert server.ask(server.recorded["evaluate", 2, 0], round=round).kind == "error"
    assert (server.site.folder / "once.jsonl").read_text() == before


def test_models_of_another_size(server):
    for kind in ("evaluate", "finish"):
        asked = server.recorded[kind, 2, 0]
        assert server.arrays(asked, w=torch.zeros(3)).kind == "error"
    finish = server.recorded["finish", 2, 0]
    refused(server, server.arrays(finish, w=torch.zeros(3)), "its model has")
    arrays, body = pack({key: value for key, value in finish.vectors().items() if key != "w"})
    refused(server, server.ask(finish, body=body, arrays=arrays), "has a global model, which it does not fit")


def test_no_figures_where_the_plan_says_so(tmp_path):
    world = played(tmp_path, figures="none", train={"rounds": 1})
    server = Server(world)
    finish = server.recorded["finish", 1, 0]
    answer = server.ask(finish, kind="evaluate")
    assert answer.kind == "error"
    assert "no figures leave" in answer.header["reason"]


@pytest.mark.parametrize(
    "failure", [MemoryError("x"), RuntimeError("row 7: 63, male"), ZeroDivisionError(), KeyError(5)]
)
def test_a_failure_inside_ends_in_an_answer_without_internals(server, monkeypatch, failure, capsys):
    def fail(*args):
        raise failure

    monkeypatch.setattr(work.Sequential, "answer", fail)
    answer = server.ask(server.recorded["exchange", 2, 0])
    monkeypatch.undo()
    refused(server, answer, f"the site failed ({type(failure).__name__})")
    assert "row 7" not in answer.header["reason"]
    assert type(failure).__name__ in capsys.readouterr().err  # for the people at the site


def test_a_full_disk_is_told_and_the_site_goes_on(server, monkeypatch):
    good = server.recorded["exchange", 2, 0]

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    for target in ("os.fsync", "unalike.federation.audit.write_all"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target, full)
            answer = server.ask(good)
        assert answer.kind == "error"
        assert "No space left" in answer.header["reason"]
        assert str(server.site.folder) not in answer.header["reason"]
        assert not answer.body
    assert server.ask(good).kind == "answer"
    assert len(read_audit(server.site.folder)) > 2  # and its chain holds


def test_a_closed_terminal_does_not_cost_an_answer(server, monkeypatch):
    def closed(*args, **more):
        raise BrokenPipeError

    server.site.say = closed
    told = _told(server.site, server.site.folder / "errors.log")
    monkeypatch.setattr("unalike.cli.federation.site.say", closed)
    monkeypatch.setattr("traceback.print_exception", closed)
    for kind in ("describe", "agree", "evaluate", "finish", "exchange"):
        message = next(m for key, m in server.recorded.items() if key[0] == kind and key[1] in (None, 2))
        assert server.read(told(server.bytes(message))).kind == "answer", kind
    monkeypatch.setattr(work.Sequential, "answer", lambda *args: 1 / 0)
    answer = server.read(told(server.bytes(server.recorded["exchange", 2, 0])))
    assert "ZeroDivisionError" in answer.header["reason"]


def test_what_cannot_be_logged_is_not_answered(server, monkeypatch):
    """The log of the answer itself fails: the update stays here."""
    real = audit.Audit.note

    def note(self, way, *rest, **more):
        if way == "out":
            raise UserError("No space left")
        real(self, way, *rest, **more)

    monkeypatch.setattr(audit.Audit, "note", note)
    answer = server.ask(server.recorded["exchange", 2, 0])
    assert answer.kind == "error"
    assert not answer.body


def test_nothing_that_is_shown_moves_the_cursor(server):
    evil = write(Envelope({"kind": "\x1b[2J\nhello", "sender": "\x1b[1m\ud800"}), new_secret())
    server.read(server.site.answer(evil))
    assert all(line.isprintable() for line in server.world.said)


@pytest.mark.parametrize("name", ["seen.json", "agreed.json", "once.json", "once.jsonl"])
@pytest.mark.parametrize("content", ["", "[]", "{", '{"number": 5}'])
def test_a_damaged_file_of_its_own_is_an_error_at_the_start(server, name, content):
    path = server.site.folder / name
    path.write_text(content)
    if content.startswith('{"') and name in ("agreed.json", "once.json"):
        return
    if not content.endswith("\n") and name == "once.jsonl":  # as after a crash: what was torn was never answered
        server.world.start(NODE, NAME)
        path.write_text(content + "\n")
    with pytest.raises(UserError):
        server.world.start(NODE, NAME)


@given(data=st.data())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_end_the_site(server, data):
    """Signed by the server itself, with any header."""
    value = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    )
    message = data.draw(st.sampled_from(list(server.recorded.values())))
    keys = sorted(set(message.header) - {"plan", "number", "receiver", "sender"})
    changes = data.draw(st.dictionaries(st.sampled_from(keys), value, max_size=3))
    body = data.draw(st.none() | st.binary(max_size=40))
    raw = server.bytes(Envelope({**message.header, "version": None}, message.body), body=body, **changes)
    assert server.read(server.site.answer(raw)).kind in ("answer", "error")
    cut = data.draw(st.integers(0, len(raw)))
    assert server.read(server.site.answer(raw[:cut])).kind == "error" or cut == len(raw)
    assert server.read(server.site.answer(data.draw(st.binary(max_size=100)))).kind == "error"


def test_the_log_is_whole_and_has_every_message(world):
    rows = read_audit(world.path / "sites" / NAME)
    sent = [log for log in world.transport.log if log[0] == NODE]
    assert len(rows) == 2 * len(sent)
    assert [row["bytes"] for row in rows] == [len(part) for _, raw, answer in sent for part in (raw, answer)]


def test_no_more_rounds_than_agreed_by_asking_one_again(server):
    """Without noise a few other questions are answered, as one that restarts may have them; not any number."""
    good = server.recorded["exchange", 2, 0]
    w = good.vectors()["payload/w"]
    kinds = [server.arrays(good, **{"payload/w": w + 0.01 * n}).kind for n in range(1, work.MOST_QUESTIONS + 3)]
    assert kinds == ["answer"] * (work.MOST_QUESTIONS - 1) + ["error"] * 3
    assert server.ask(good).kind == "answer"  # the same again


# Noise


@pytest.fixture(
    scope="module", params=["clip(0.5)+gauss(0.3, where=party)", "clip(0.5)+gauss(0.3, where=shared)+masked"]
)
def noisy(request, tmp_path_factory):
    return played(
        tmp_path_factory.mktemp("noisy") / "world", train={"channel": request.param, "algorithm": "fedavg"}
    )


def vector_of(server, message):
    """What the site sends or adds, and the key of its noise."""
    site = server.site
    header = {
        **message.header,
        "number": [50, 1],
        "version": f"{message.header['round']:06d}-{message.header['turn']}-50",
    }
    rest = Envelope(header, message.body[header.get("protocol", 0) :])
    if "masked" in server.world.plan.spec.channel:
        return site._ready(rest).grid(rest, site._vault)[1].tobytes()
    return site._ready(rest).answer(rest, site._vault)[1]


def test_noise_cannot_be_averaged_away(noisy, tmp_path):
    shutil.copytree(noisy.path, tmp_path / "world")
    world = World(tmp_path / "world", noisy.plan, type(noisy.transport)(log=noisy.transport.log))
    world.start(NODE, NAME)
    server = Server(world)
    trains = [peek(raw) for node, raw, _ in world.transport.log if node == NODE and "ask" in peek(raw).header]
    asked = next(m for m in trains if m.kind in ("exchange", "add") and m.header["round"] == 2)
    first = vector_of(server, asked)
    assert vector_of(server, asked) == first
    world.start(NODE, NAME)  # also not by making the site start anew
    assert vector_of(server, asked) == first
    size = asked.header.get("protocol", 0)
    listed = Envelope(asked.header, asked.body[size:])
    arrays, body = pack({**listed.vectors(), "payload/w": listed.vectors()["payload/w"] + 1e-3})
    other = Envelope({**asked.header, "arrays": arrays}, asked.body[:size] + body)
    with pytest.raises(UserError, match="other questions in that exchange"):
        vector_of(server, other)


def test_other_rows_have_other_noise_and_are_refused(noisy, tmp_path):
    """With the noise of the first answer, the difference of two would show what changed in the table."""
    shutil.copytree(noisy.path, tmp_path / "world")
    world = World(tmp_path / "world", noisy.plan, type(noisy.transport)(log=noisy.transport.log))
    table = world.path / "tables" / f"{NAME}.csv"
    lines = table.read_text().splitlines()
    lines[1] = lines[1].replace(lines[1].split(",")[0], "31.5", 1)
    table.write_text("\n".join(lines) + "\n")
    world.start(NODE, NAME)
    trains = [peek(raw) for node, raw, _ in world.transport.log if node == NODE and "ask" in peek(raw).header]
    asked = next(m for m in trains if m.kind in ("exchange", "add") and m.header["round"] == 2)
    with pytest.raises(UserError, match="other questions in that exchange"):
        vector_of(Server(world), asked)


@pytest.mark.parametrize("heard", [[], [1], [1, 2, 3], ["1", 2], [-1, 2], [1.5, 2], 7, "x", {}, [1, 2**53]])
def test_what_the_server_has_heard_is_a_number_or_the_message_is_refused(server, heard):
    asked = server.recorded["describe", None, None]
    refused(server, server.ask(asked, heard={NAME: heard}), "it has no number")
    refused(server, server.ask(asked, heard=[heard]), "cannot be read")


def test_seen_numbers_are_on_the_disk_before_anything_is_done(server):
    server.ask(server.recorded["exchange", 2, 0])
    kept = json.loads((server.site.folder / "seen.json").read_text())
    assert kept["number"] == [50, server.count]

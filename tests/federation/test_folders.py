"""Keys, cards and the server's small files."""

import errno
import json
import stat

import pytest

from unalike.errors import UserError
from unalike.federation.folders import PUBLIC, Card, ServerFolder, make_key, read_key
from unalike.federation.plan import Plan
from unalike.secure.crypto.primitives import signing_public


def test_a_key_is_its_owners_alone_and_made_once(tmp_path):
    path = tmp_path / "keys" / "site.key"
    public = make_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert make_key(path) == public == signing_public(read_key(path))
    assert make_key(tmp_path / "keys" / "other.key") != public


@pytest.mark.parametrize("content", ["", "zz", "ab" * 31, "ab" * 33, "é"])
def test_a_damaged_key_is_one_line(content, tmp_path):
    path = tmp_path / "k"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="key"):
        read_key(path)
    with pytest.raises(UserError, match="There is no key"):
        read_key(tmp_path / "none")


def test_a_card_survives_its_file(tmp_path):
    card = Card("ward", "ab" * 32, "pem")
    card.write(tmp_path / "c")
    assert Card.read(tmp_path / "c") == card
    assert card.fingerprint == "abab abab abab abab abab abab"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "5",
        "{}",
        '{"name": "a"}',
        '{"name": "a", "sign": "abcd"}',
        '{"name": "a", "sign": 5}',
        json.dumps({"name": "../../keys/server", "sign": "ab" * 32}),
        json.dumps({"name": "server", "sign": "ab" * 32}),
        "[" * 10**5,
    ],
)
def test_a_bad_card_is_one_line(content, tmp_path):
    (tmp_path / "c").write_text(content)
    with pytest.raises(UserError, match="does not hold a site's public keys"):
        Card.read(tmp_path / "c")


@pytest.fixture
def server(tmp_path):
    place = ServerFolder(tmp_path)
    place.parties.mkdir()
    for n, name in enumerate("abc"):
        Card(name, f"{n:02d}" * 32).write(place.parties / f"{name}{PUBLIC}")
    return place


PLAN = Plan("heart", ("a", "b", "c"), "ab" * 32, "localhost:1")


def test_the_roster_is_of_all_parties_and_each_has_its_own_key(server):
    assert server.roster(PLAN) == {name: bytes([n]) * 32 for n, name in enumerate("abc")}
    Card("b", "00" * 32).write(server.parties / f"b{PUBLIC}")
    with pytest.raises(UserError, match="Two parties have the same key"):
        server.roster(PLAN)
    Card("a", "07" * 32).write(server.parties / f"b{PUBLIC}")
    with pytest.raises(UserError, match="is the card of a, not of b"):
        server.roster(PLAN)
    (server.parties / f"b{PUBLIC}").unlink()
    with pytest.raises(UserError, match="b is not admitted yet"):
        server.roster(PLAN)


def test_every_start_has_a_number_of_its_own(server):
    assert [server.next_incarnation() for _ in range(3)] == [1, 2, 3]
    (server.path / "incarnation").write_text("x")
    with pytest.raises(UserError, match="Cannot read"):
        server.next_incarnation()


def test_the_log_takes_what_others_wrote(server, monkeypatch):
    server.say("one \ud800 line")
    assert "line" in (server.path / "log.txt").read_text()

    def full(*args, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unalike.federation.folders.open_file", full)
    with pytest.raises(UserError, match="No space left"):
        server.say("another")

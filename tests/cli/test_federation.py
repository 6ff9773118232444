"""``unalike federation`` as far as no process is started; those are in tests/federation/test_end_to_end.py."""

import json
import os
import re
import shutil
import socket
import stat
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from filelock import FileLock

from tests.federation.inside import HOSPITALS, write_tables
from tests.federation.real import free_port
from unalike.cli.federation import measure as federation_measure
from unalike.cli.federation import needs as federation_needs
from unalike.cli.federation import run as federation_run
from unalike.cli.federation import server as federation_server
from unalike.cli.federation import site as federation_site
from unalike.errors import TryLater, UserError
from unalike.federation import attempts
from unalike.federation import server as serving
from unalike.federation.audit import Audit
from unalike.federation.folders import MEASURE, TRAIN, Card, make_key, read_key
from unalike.federation.making import SiteFolder
from unalike.federation.plan import Plan
from unalike.federation.speaker import Stopped
from unalike.federation.transport.https import certificates
from unalike.measure import measure

pytestmark = pytest.mark.skipif(os.name != "posix", reason="real sites need Linux or macOS")
PARTIES = [part for name in HOSPITALS for part in ("--party", name)]
PORT = free_port()
USUAL = [
    "--address",
    f"127.0.0.1:{PORT}",
    "--label",
    "outcome",
    "--missing",
    "indicate",
    "--rounds",
    "2",
    "--epochs",
    "1",
]


@pytest.fixture
def made(unalike):
    answer = unalike("federation", "init", "heart", *PARTIES, *USUAL)
    assert answer.code == 0, answer.err
    write_tables(Path("tables"), 60)
    return Path("heart")


def invitation(made, name="va"):
    shutil.copytree(made / "invitations" / name, name)
    return Path(name)


def test_init_makes_keys_plan_and_invitations_with_nothing_secret(unalike, made):
    plan = Plan.read(made)
    assert plan.parties == HOSPITALS
    assert plan.train["rounds"] == 2
    secrets = [made / "keys" / "server.key", *made.glob("certificates/*.key")]
    assert len(secrets) == 3
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    for name in HOSPITALS:
        folder = SiteFolder(made / "invitations" / name)
        assert sorted(path.name for path in folder.path.iterdir()) == ["ca.pem", "federation.toml", "party.txt"]
        assert folder.name == name
        assert folder.plan() == plan
        assert not any(b"PRIVATE" in path.read_bytes() for path in folder.path.iterdir())


def test_init_says_every_next_step_and_overwrites_nothing(unalike):
    answer = unalike("federation", "init", "heart", *PARTIES, *USUAL)
    for command in ("join cleveland", "admit heart", "run heart", "rehearse heart"):
        assert f"unalike federation {command}" in answer.out
    before = Path("heart/keys/server.key").read_bytes()
    again = unalike("federation", "init", "heart", *PARTIES, *USUAL)
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "overwritten" in again.err
    assert Path("heart/keys/server.key").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--party", "va"], "twice"),
        (["--quorum", "9"], "quorum"),
        (["--quorum", "2", "--channel", "masked"], "use a quorum of 3 or more"),
        (["--sample", "0.6", "--channel", "masked"], "needs three or more, 2 are asked"),
        (["--algorithm", "fedavgg"], "fedavg"),
        (["--figures", "some"], "figures"),
        (["--deadline", "0"], "deadline"),
        (["--channel", "gauss(1.0)"], "clip"),
        (["--address", "nowhere"], "host:port"),
        (["--address", "https://hospital.example:9443"], "host:port"),
        (["--rounds", "0"], "rounds"),
    ],
)
def test_a_plan_that_cannot_be_is_one_line_and_leaves_nothing(unalike, options, word):
    answer = unalike("federation", "init", "heart", *PARTIES, *USUAL, *options)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert word in answer.err
    assert not Path("heart").exists()


def test_a_folder_called_server_is_fine(unalike):
    assert unalike("federation", "init", "server", *PARTIES, *USUAL).code == 0


def test_join_tells_everything_first_and_without_an_answer_does_nothing(unalike, made, monkeypatch):
    site = invitation(made)
    before = sorted(site.iterdir())
    answer = unalike("federation", "join", "va", "--data", "csv:tables/va.csv")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "--yes" in answer.err
    assert sorted(site.iterdir()) == before
    columns = Path("tables/va.csv").read_text().splitlines()[0].split(",")
    for told in (
        *columns,
        "cleveland",
        "hungarian",
        "fedavg",
        "2 rounds",
        "1 local epoch ",
        "delta",
        "weight",
        "loss",
    ):
        assert told in answer.out, told
    assert "sees this site's own update" in answer.out
    assert "no differential privacy" in answer.out
    assert "how unalike" in answer.out


def test_a_person_is_asked_once_for_a_plan_and_a_table(unalike, made, monkeypatch):
    site, answers, joined = invitation(made), [], []
    monkeypatch.setattr(federation_site.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(federation_site.typer, "confirm", lambda *question, default: answers.pop())
    monkeypatch.setattr(federation_site, "_take_part", lambda *given: joined.append(given))
    join = ["federation", "join", "va", "--data", "csv:tables/va.csv"]
    answers = [False]
    answer = unalike(*join)
    assert (answer.code, answer.err.count("\n"), joined) == (2, 1, [])
    assert not (site / "keys").exists()
    answers = [True]
    answer = unalike(*join)
    assert (answer.code, len(joined)) == (0, 1)
    assert "va.public.json" in answer.out
    assert stat.S_IMODE((site / "keys" / "site.key").stat().st_mode) == 0o600
    again = unalike(*join)  # nobody is asked: answers is empty
    assert (again.code, len(joined)) == (0, 2)
    assert "You agreed" in again.err
    shutil.copy("tables/va.csv", "tables/other.csv")
    answers = [False]
    assert unalike(*join[:-1], "csv:tables/other.csv").code == 2


def test_a_second_join_does_not_touch_the_files_of_the_first(unalike, made, monkeypatch):
    site = invitation(made)
    join = ["federation", "join", "va", "--data", "csv:tables/va.csv", "--yes"]
    monkeypatch.setattr(federation_site, "_take_part", lambda *given: None)
    assert unalike(*join).code == 0
    half = b'{"time": "a line that is being writ'
    (site / "audit.jsonl").write_bytes(half)
    with FileLock(site / ".join.lock"):
        answer = unalike(*join)
        assert (answer.code, "has joined already" in answer.err) == (2, True)
        assert (site / "audit.jsonl").read_bytes() == half
    assert unalike(*join).code == 0
    assert (site / "audit.jsonl").read_bytes() == b""  # nobody is writing: it was torn


def test_the_terms_say_what_a_channel_hides(unalike):
    channel = [
        "--channel",
        "clip(1.0)+gauss(1.0)+masked",
        "--figures",
        "none",
        "--algorithm",
        "rfedavg+",
        "--no-measure",
    ]
    assert unalike("federation", "init", "heart", *PARTIES, *USUAL, *channel).code == 0
    write_tables(Path("tables"), 60)
    invitation(Path("heart"))
    out = unalike("federation", "join", "va", "--data", "csv:tables/va.csv").out
    assert "only the sum" in out
    assert re.search(r"epsilon [0-9.]+ at delta 1e-05", out)
    assert "No figures" in out
    assert "how unalike" not in out
    assert "delta_k" in out
    assert "mean training loss" not in out


@pytest.mark.parametrize(
    ("data", "options", "word"),
    [
        ("csv:nowhere.csv", [], "nowhere.csv"),
        ("csv:tables/va.csv", ["--label", "num"], "'num'"),
        ("csv:other.csv", [], "outcome"),
    ],
)
def test_a_wrong_table_or_label_is_told_before_anything(unalike, made, data, options, word):
    invitation(made)
    Path("other.csv").write_text("age,result\n1,a\n2,b\n3,a\n4,b\n")
    answer = unalike("federation", "join", "va", "--data", data, "--yes", *options)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert word in answer.err
    assert not Path("va/keys").exists()


def test_join_in_the_servers_folder_is_refused(unalike, made):
    answer = unalike("federation", "join", "heart", "--data", "csv:tables/va.csv", "--yes")
    assert answer.code == 2
    assert "invitations" in answer.err


def test_admit_keeps_one_key_for_each_party(unalike, made):
    card = SiteFolder(invitation(made)).card()
    answer = unalike("federation", "admit", "heart", "va/va.public.json")
    assert answer.code == 0
    assert card.fingerprint in answer.out
    assert "cleveland, hungarian" in answer.out
    assert "before" in unalike("federation", "admit", "heart", "va/va.public.json").out
    replace(card, sign="ab" * 32).write(Path("other.public.json"))
    assert "another key" in unalike("federation", "admit", "heart", "other.public.json").err
    replace(card, name="cleveland").write(Path("thief.public.json"))
    assert "not one of cleveland" in unalike("federation", "admit", "heart", "thief.public.json").err
    replace(SiteFolder(invitation(made, "cleveland")).card(), sign=card.sign).write(Path("thief.public.json"))
    assert "key of va" in unalike("federation", "admit", "heart", "thief.public.json").err
    replace(card, name="oslo").write(Path("stranger.public.json"))
    assert unalike("federation", "admit", "heart", "stranger.public.json").code == 2


def test_admit_tells_of_a_site_whose_clock_is_ahead(unalike, made, monkeypatch):
    class Ahead(datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.now(zone) + timedelta(days=30)

    with monkeypatch.context() as there:
        there.setattr(certificates, "datetime", Ahead)
        SiteFolder(invitation(made)).card()
    answer = unalike("federation", "admit", "heart", "va/va.public.json")
    assert (answer.code, "valid only from" in answer.err) == (2, True)


def test_run_says_who_is_missing_and_that_the_port_is_taken(unalike, made):
    answer = unalike("federation", "run", "heart")
    assert answer.code == 2
    assert "cleveland is not admitted" in answer.err
    for name in HOSPITALS:
        SiteFolder(invitation(made, name)).card()
        assert unalike("federation", "admit", "heart", f"{name}/{name}.public.json").code == 0
    with socket.create_server(("127.0.0.1", PORT)):
        answer = unalike("federation", "run", "heart")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert f"Cannot listen at 127.0.0.1:{PORT}" in answer.err
    assert attempts.Attempts(made).wanted is None  # a later serve does not train unasked


def test_rehearse_has_the_bits_of_run_on_the_same_tables(unalike, made):
    rehearsed = unalike("federation", "rehearse", "heart", "--tables", "tables", "--json", "--quiet").json
    table = "sites:tables(label=outcome, missing=indicate)"
    same = ["--partition", "natural", "--rounds", "2", "--epochs", "1", "--engine", "sequential"]
    simulated = unalike("run", "--dataset", table, *same, "--json", "--quiet").json
    assert rehearsed["server_sha256"] == simulated["server_sha256"]
    other = unalike("run", "--dataset", table, *same, "--seed", "1", "--json", "--quiet").json
    assert other["server_sha256"] != simulated["server_sha256"]
    Path("tables/va.csv").rename("tables/vienna.csv")
    answer = unalike("federation", "rehearse", "heart", "--tables", "tables")
    assert answer.code == 2
    assert "vienna" in answer.err


def log_of(site):
    make_key(site / "keys" / "site.key")
    return Audit(site, read_key(site / "keys" / "site.key"))


def test_status_at_server_and_site(unalike, made):
    found = unalike("federation", "status", "heart", "--json").json
    assert (found["serving"], found["training"], found["round"]) == (False, False, 0)
    assert [party["admitted"] for party in found["parties"]] == [False] * 3
    site = invitation(made)
    audit = log_of(site)
    audit.note("in", b"abc", "hello")
    audit.note("out", b"abcde", "hello", "refused: why")
    found = unalike("federation", "status", "va", "--json").json
    assert found["messages"] == {"in": 1, "out": 1, "refused": 0, "bytes_in": 3, "bytes_out": 5}
    assert found["others"] == []
    for folder in ("heart", "va"):
        assert unalike("federation", "status", folder).code == 0
    keys = {name: f"{number:064x}" for number, name in enumerate(HOSPITALS)}
    (site / "agreed.json").write_text(json.dumps({"roster": keys}))
    Card("cleveland", keys["cleveland"]).write(site / "cleveland.public.json")
    found = unalike("federation", "status", "va", "--json").json["others"]
    assert [(each["name"], each["same"]) for each in found] == [("cleveland", True), ("hungarian", None)]
    assert found[1]["fingerprint"] == Card("hungarian", keys["hungarian"]).fingerprint
    assert "by telephone" in unalike("federation", "status", "va").out
    # A file that came after the agreement, and names another key than the server did.
    Card("cleveland", "99" * 32).write(site / "cleveland.public.json")
    Card("hungarian", keys["hungarian"]).write(site / "hungarian.public.json")
    found = unalike("federation", "status", "va", "--json").json["others"]
    assert [each["same"] for each in found] == [False, True]
    out = unalike("federation", "status", "va").out
    assert "NOT as in its own file" in out
    assert "by telephone" in out
    answer = unalike("federation", "status", "tables")
    assert (answer.code, answer.err.count("\n")) == (2, 1)


def test_serve_says_whom_the_folder_admits_now(made, monkeypatch, capfd):
    card, looks = made / "parties" / "va.public.json", []
    changes = {
        1: lambda: Card("va", "11" * 32, "key").write(card),
        3: card.unlink,
        5: (made / federation_server.STOP_SERVE).touch,
    }

    def sleep(seconds):
        looks.append(capfd.readouterr().err)
        changes.get(len(looks), int)()

    monkeypatch.setattr(federation_server.time, "sleep", sleep)
    federation_server._attend(made, Plan.read(made))
    assert ["may connect" in said for said in looks] == [False, True, False, False, False]
    assert ["not admitted any more" in said for said in looks] == [False, False, False, True, False]
    assert not (made / federation_server.STOP_SERVE).exists()


def test_audit_shows_the_log_and_finds_what_was_changed(unalike, made):
    site = invitation(made)
    for kind in ("hello", "describe", "agree"):
        log_of(site).note("in", b"abc", kind)
    assert "describe" in unalike("federation", "audit", "va").out
    lines = (site / "audit.jsonl").read_text().splitlines(keepends=True)
    (site / "audit.jsonl").write_text("".join([lines[0], *lines[2:]]))
    answer = unalike("federation", "audit", "va")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "line 2" in answer.err


def test_audit_of_a_folder_without_a_log_does_not_call_it_whole(unalike, made):
    answer = unalike("federation", "audit", "heart")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert "the server's folder" in answer.err
    invitation(made)
    assert unalike("federation", "audit", "va").out == "No message has come to va yet.\n"


def test_two_sites_cannot_be_measured(unalike):
    assert unalike("federation", "init", "heart", *PARTIES[:4], *USUAL).code == 0
    answer = unalike("federation", "measure", "heart")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "needs three sites" in answer.err


def test_the_degrees_of_sites_are_shown(unalike, made, monkeypatch):
    """Total variation of labels, or the distance of CDFs on request; of features always the latter."""
    rows = np.random.default_rng(0).normal(size=(len(HOSPITALS), 9, 2))
    sites = {name: {"a": 90, "b": 1 + 200 * k, "c": 40} for k, name in enumerate(HOSPITALS)}
    found = {
        "labels": measure(sites, protect="none").to_dict(),
        "features": measure(dict(zip(sites, rows, strict=True)), of="features", protect="none").to_dict(),
    }
    Path("heart/measure.json").write_text(stored := json.dumps(found))
    monkeypatch.setattr(federation_measure, "follow", lambda *args, **how: None)
    monkeypatch.setattr(federation_measure, "done", lambda *args: None)
    monkeypatch.setattr(
        federation_measure, "ServerFolder", lambda folder: SimpleNamespace(roster=lambda plan: None)
    )
    shown = {degree: unalike("federation", "measure", "heart", "--degree", degree).out for degree in ("tv", "cdf")}
    heads = {
        degree: [line.split()[2:4] for line in out.splitlines() if "quantity" in line]
        for degree, out in shown.items()
    }
    assert heads == {"tv": [["TV", "random"], ["K-S", "area"]], "cdf": [["K-S", "area"], ["K-S", "area"]]}
    assert "would have to change their label" in shown["tv"]
    assert "up to some label" in shown["cdf"]
    assert unalike("federation", "measure", "heart", "--json").json == json.loads(stored)
    wrong = unalike("federation", "measure", "heart", "--degree", "ks")
    assert (wrong.code, wrong.err) == (2, "Error: Unknown degree 'ks'. Known: cdf, tv.\n")


def test_stop_without_a_training_says_so(unalike, made):
    assert "No training" in unalike("federation", "stop", "heart").out
    assert "Nobody serves heart" in unalike("federation", "stop", "heart", "--all").out
    assert not (made / "stop-serve").exists()
    with FileLock(made / ".serve.lock"):
        assert "The server ends" in unalike("federation", "stop", "heart", "--all").out
    assert (made / "stop-serve").exists()


def test_stop_names_the_job_that_it_stops(unalike, made):
    attempts.Attempts(made).submit(MEASURE)
    answer = unalike("federation", "stop", "heart").out
    assert "The measuring is stopped" in answer
    assert "federation measure heart" in answer


def test_status_tells_a_training_that_nobody_is_at_from_one_that_runs(unalike, made, monkeypatch):
    attempts.Attempts(made).submit(TRAIN)
    place = attempts.ServerFolder(made)
    place.tell("round 2 of 2", round=2)
    assert "Training: interrupted" in unalike("federation", "status", "heart").out
    with FileLock(made / ".serve.lock"):
        assert "Training: round 2 of 2;" in unalike("federation", "status", "heart").out

    def refuse(transport, folder, stopped):
        raise UserError("column x is missing.")

    monkeypatch.setattr(serving, "serve", refuse)
    attempts.Attempts(made).submit(MEASURE)
    attempts.serve(None, made)
    assert "measuring refused: column x is missing;" in unalike("federation", "status", "heart").out


@pytest.mark.parametrize("command", ["serve", "run", "stop", "measure"])
def test_a_sites_folder_is_not_the_servers(unalike, made, command):
    invitation(made)
    answer = unalike("federation", command, "va")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "va is a site's folder" in answer.err


@pytest.mark.parametrize("command", ["admit", "serve", "run", "stop"])
def test_a_folder_that_is_none_is_one_line(unalike, command):
    more = ["x.public.json"] if command == "admit" else []
    answer = unalike("federation", command, "nowhere", *more)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "nowhere" in answer.err


def test_without_the_extra_or_on_windows_one_line_says_what_is_needed(unalike, monkeypatch):
    monkeypatch.setattr(federation_needs, "find_spec", lambda name: None)
    answer = unalike("federation", "init", "heart", *PARTIES, *USUAL)
    assert answer.code == 2
    assert "pip install 'unalike[federation]'" in answer.err
    monkeypatch.setattr(federation_needs, "POSIX", False)
    assert "Linux or macOS" in unalike("federation", "serve", "heart").err


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (None, "finished"),
        (Stopped("s"), "stopped"),
        (UserError("column x"), "refused"),
        (TryLater("disk x"), "put off"),
        (ValueError("v"), "failed"),
    ],
)
def test_how_a_try_ended_is_told_in_a_file(tmp_path, monkeypatch, capsys, error, how):
    def serve(transport, folder, stopped):
        assert tries.working is True
        if error is not None:
            raise error

    monkeypatch.setattr(serving, "serve", serve)
    tries = attempts.Attempts(tmp_path)
    assert (tries.working, tries.wanted, tries.outcome()) == (False, None, None)
    tries.submit(TRAIN)
    assert (tries.working, tries.wanted, tries.outcome()) == (False, TRAIN, None)
    attempts.serve(None, tmp_path)
    assert (tries.working, tries.wanted, tries.outcome().how) == (False, None, how)
    assert (str(error) if error else "") in tries.outcome().reason
    tries.submit("measure")
    assert (tries.wanted, tries.outcome()) == ("measure", None)


def test_a_full_disk_at_the_server_has_the_code_of_what_may_do_later(tmp_path, monkeypatch):
    def serve(transport, folder, stopped):
        raise TryLater("No space left")

    monkeypatch.setattr(serving, "serve", serve)
    attempts.serve(None, tmp_path)
    with pytest.raises(TryLater, match="No space left"):
        federation_run.done(tmp_path, attempts.Attempts(tmp_path).outcome(), "run")


def test_a_job_that_has_ended_is_at_no_moment_wanted_again(tmp_path, monkeypatch):
    """Somebody may serve the folder, or the machine may die, while the next job is submitted."""
    tries, unlink, seen = attempts.Attempts(tmp_path), Path.unlink, []

    def look(path, **given):
        unlink(path, **given)
        seen.append(tries.wanted)

    tries.submit(TRAIN)
    (tmp_path / "outcome.json").write_text('{"how": "finished"}')
    monkeypatch.setattr(Path, "unlink", look)
    tries.submit("measure")
    assert TRAIN not in seen
    assert tries.wanted == "measure"


def test_a_job_whose_server_ends_stays_wanted_unless_somebody_stops_it(tmp_path, monkeypatch):
    def serve(transport, folder, stopped):
        assert stopped()
        raise Stopped("s")

    monkeypatch.setattr(serving, "serve", serve)
    tries = attempts.Attempts(tmp_path)
    tries.submit(TRAIN)
    attempts.serve(None, tmp_path, closing=lambda: True)
    assert (tries.wanted, tries.outcome()) == (TRAIN, None)
    tries.ask_to_stop()
    attempts.serve(None, tmp_path, closing=lambda: True)
    assert tries.outcome().how == "stopped"


def test_a_training_that_nobody_follows_is_taken_up_and_not_begun_twice(made, capfd):
    follower = federation_run.Onlooker(made, Plan.read(made), TRAIN, quiet=False)
    follower.submit()
    follower.attempts.ask_to_stop()
    with FileLock(made / ".attempt.lock"):
        follower.submit()
        assert (made / "stop").exists()  # the one under way is not touched
        follower.show = lambda: Path(made / "outcome.json").write_text('{"how": "finished"}')
        assert follower.follow().how == "finished"
        Path(made / "outcome.json").unlink()
        follower.job = "measure"
        with pytest.raises(UserError, match="busy"):
            follower.submit()
    follower.submit()  # nobody is at it any more: what is left of it does not count
    assert follower.attempts.wanted == "measure"
    assert not (made / "stop").exists()


def test_a_server_that_goes_and_comes_back_is_spoken_of(made, monkeypatch, capfd):
    served = iter([True, False, False, True, True])
    monkeypatch.setattr(federation_run, "_LOOK", 0)
    monkeypatch.setattr(federation_run, "is_served", lambda folder: next(served))
    follower = federation_run.Onlooker(made, Plan.read(made), TRAIN, quiet=False)
    looks = []

    def show():
        looks.append(1)
        if len(looks) == 5:
            Path(made / "outcome.json").write_text('{"how": "finished"}')

    follower.show = show
    assert follower.follow().how == "finished"
    said = capfd.readouterr().err
    assert (said.count("The server is gone"), said.count("The server is back")) == (1, 1)
    assert said.index("gone") < said.index("back")


def test_stop_does_not_say_that_a_busy_training_is_stopped(unalike, made, monkeypatch):
    attempts.Attempts(made).submit(TRAIN)
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(federation_run, "time", SimpleNamespace(monotonic=lambda: next(now), sleep=lambda s: None))
    with FileLock(made / ".attempt.lock"):
        assert "still busy" in unalike("federation", "stop", "heart").out
    assert (made / "stop").exists()


def test_the_outcome_is_kept_although_the_status_cannot_be(tmp_path, monkeypatch, capsys):
    def fail(*args, **how):
        raise UserError("No space left for status.json")

    monkeypatch.setattr(serving, "serve", fail)
    monkeypatch.setattr(attempts.ServerFolder, "tell", fail)
    with pytest.raises(UserError):
        attempts.serve(None, tmp_path)
    assert attempts.Attempts(tmp_path).outcome().how == "refused"


def test_the_reason_of_the_server_reaches_the_user(unalike, made, monkeypatch):
    monkeypatch.setattr(federation_run.ServerFolder, "roster", lambda place, plan: {})

    class Served:
        """A server that knows the outcome at once."""

        address = "here"

        def __init__(self, folder, plan, say):
            self.folder = folder

        def __enter__(self):
            (self.folder / "outcome.json").write_text(json.dumps(ending))
            return self

        def __exit__(self, *raised):
            pass

    monkeypatch.setattr("unalike.federation.serving.Serving", Served)
    ending = {"how": "refused", "reason": "column chol: va has texts."}
    answer = unalike("federation", "run", "heart", "--quiet")
    assert (answer.code, answer.err) == (2, "Error: column chol: va has texts.\n")
    ending = {"how": "put off", "reason": "No space left."}
    answer = unalike("federation", "run", "heart", "--quiet")
    assert (answer.code, answer.err) == (75, "Error: No space left.\n")
    ending = {"how": "stopped"}
    assert unalike("federation", "run", "heart").code == 130
    ending = {"how": "failed", "reason": "ValueError: v"}
    answer = unalike("federation", "run", "heart")
    assert (answer.code, "ValueError" in answer.err) == (1, True)

"""``unalike watch``: what can be followed, what is said of mistakes, and how it ends."""

import os
import signal
import stat
import subprocess
import sys
import urllib.request
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.watch.made import write_run
from unalike.cli.main import call
from unalike.cli.signals import StopRequested
from unalike.cli.watch import _source
from unalike.watch.federations import ServerSide
from unalike.watch.sources import OneRun, RunsIn, StudyRuns


def source(what, runs="runs", **more):
    return _source(what, Path(runs), more.get("scale", 1.0), more.get("only", []), baselines=False)


def test_what_can_be_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "digits-fedavg-3f2a")
    (tmp_path / "server" / "invitations").mkdir(parents=True)
    (tmp_path / "server" / "federation.toml").touch()
    (tmp_path / "grid.toml").write_text('title = "x"\n[base]\nrounds = 2\n')
    assert isinstance(source(None), RunsIn)
    assert isinstance(source("runs"), RunsIn)
    assert isinstance(source("3f2a"), OneRun)
    assert isinstance(source("runs/digits-fedavg-3f2a"), OneRun)
    assert isinstance(source("server"), ServerSide)
    assert isinstance(source("grid.toml"), StudyRuns)
    assert isinstance(source("quick", scale=0.1, only=["dataset=digits"]), StudyRuns)
    assert isinstance(source(None, "not-there-yet"), RunsIn)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["watch", "nothing"], "No run in runs has a name that begins with 'nothing'"),
        (["watch", "none.toml"], "none.toml"),
        (["watch", "--port", "70000"], "--port must be from 0 to 65535"),
        (["watch", "--port", "-1"], "--port must be from 0 to 65535"),
        (["watch", "--scale", "0.5"], "are for studies"),
        (["watch", "quick", "--only", "datase=digits"], "datase"),
        (["watch", "site"], "is a site's folder"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "federation.toml").touch()
    assert call(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_it_serves_until_ctrl_c_and_writes_nothing(tmp_path):
    folder = write_run(tmp_path / "runs" / "run")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    process = subprocess.Popen(
        [sys.executable, "-m", "unalike", "watch", "runs"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "DISPLAY": ""},
    )  # fmt: skip
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=20) as answer:
            page, cookie = answer.read(), answer.headers["Set-Cookie"]
        assert b"Unalike watch" in page
        events = urllib.request.Request(address.partition("?")[0] + "events", headers={"Cookie": cookie})
        with urllib.request.urlopen(events, timeout=20) as answer:
            assert answer.readline() == b"event: whole\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert said.endswith("The page is closed.\n")
    assert "Traceback" not in said
    assert before == {path: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.mark.parametrize("works", [True, False])
def test_the_browser_is_led_there_by_a_private_file(tmp_path, monkeypatch, capsys, works):
    monkeypatch.chdir(tmp_path)
    seen = []

    def opened(address):
        path = Path(unquote(urlsplit(address).path))
        seen.append((path, path.read_text(), stat.S_IMODE(path.stat().st_mode)))
        return works

    def stop():
        raise StopRequested

    monkeypatch.setattr(webbrowser, "open", opened)
    monkeypatch.setattr("unalike.cli.watch._wait", stop)
    assert call(["watch", "--open"]) == 0
    said = capsys.readouterr()
    ((path, text, mode),) = seen
    assert said.out.strip() in text
    assert mode == 0o600
    assert not path.exists()
    assert ("No browser could be started" in said.err) != works

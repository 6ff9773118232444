"""A real federation on loopback: the command line in processes of its own, each site in its own folder."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.federation.inside import HOSPITALS, write_tables
from unalike.cli.main import call
from unalike.data.sites import Sites
from unalike.federation.plan import Plan
from unalike.federation.public import TABLE
from unalike.federation.replay import participation_in
from unalike.runs.conversing import Conversing
from unalike.runs.playable import is_over
from unalike.runs.record import read_rounds
from unalike.runs.simulation import Simulation

ROOT = Path(__file__).parents[2]
UNALIKE = [sys.executable, "-c", "from unalike.cli.start import main; main()"]
PATIENCE = 180
TRAIN = ("--epochs", "1", "--batch-size", "16", "--lr", "0.05")


def free_port():
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, what, seconds=PATIENCE):
    """Wait for something that another process does; say what, if it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.1)


def processes_about(path):
    """The processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(path) in line and int(entry.name) != os.getpid():
            found.append(f"{entry.name} {line[:300]}")
    return found


class Federation:
    """A server and three hospitals; everything goes through the command line."""

    def __init__(self, path, *options, rows=80, hospitals=HOSPITALS, plugin=None, train=TRAIN):
        self.path, self.server, self.tables = path, path / "server", path / "tables"
        write_tables(self.tables, rows, hospitals)
        self.plugin = plugin
        self.processes = {}
        self.address = f"127.0.0.1:{free_port()}"
        parties = [part for name in hospitals for part in ("--party", name)]
        usual = ["--label", "outcome", "--missing", "indicate", "--address", self.address]
        assert (
            call(
                ["federation", "init", str(self.server), *parties, *usual, *train, *options, *self._plugin(plugin)]
            )
            == 0
        )
        for name in hospitals:  # what is sent to the site, and its own table: nothing else is there
            self.site(name).mkdir(parents=True)
            shutil.copytree(self.server / "invitations" / name, self.site(name) / "invitation")
            shutil.move(self.tables / f"{name}.csv", self.site(name) / "patients.csv")
            if plugin is not None:  # a site's people give it the code themselves
                shutil.copy(plugin, self.site(name) / "own.py")
        self.hospitals = hospitals

    def _plugin(self, path):
        return [] if self.plugin is None else ["--plugin", str(path)]

    def site(self, name):
        return self.path / "sites" / name

    def start(self, name, *args, cwd, **variables):
        """A command in a process of its own, with these variables; what it says is in a file."""
        environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*UNALIKE, *args], cwd=cwd, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        return self.processes[name]

    def log(self, name):
        return self.path / f"{name}.log"

    def said(self, name):
        return self.log(name).read_text(errors="replace") if self.log(name).exists() else ""

    def serve(self):
        before = self.said("serve").count("Serving at")
        server = self.start(
            "serve", "federation", "serve", str(self.server), *self._plugin(self.plugin), cwd=self.path
        )
        until(
            lambda: self.said("serve").count("Serving at") > before or server.poll() is not None,
            lambda: self.said("serve"),
        )
        assert server.poll() is None, self.said("serve")

    def join(self, name):
        args = ["federation", "join", "invitation", "--data", "csv:patients.csv", "--label", "outcome", "--yes"]
        return self.start(name, *args, *self._plugin("own.py"), cwd=self.site(name))

    def card(self, name):
        return self.site(name) / "invitation" / f"{name}.public.json"

    def begin(self):
        """Everybody is there and admitted."""
        for name in self.hospitals:
            self.join(name)
        self.serve()
        until(lambda: all(self.card(name).exists() for name in self.hospitals), "no card")
        cards = [str(self.card(name)) for name in self.hospitals]
        assert call(["federation", "admit", str(self.server), *cards]) == 0
        return self

    def kill(self, name, how=signal.SIGKILL):
        self.processes[name].send_signal(how)

    def close(self):
        """End everything, as a user would; nothing may be left."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        codes = {name: process.wait(60) for name, process in self.processes.items()}
        until(lambda: not processes_about(self.path), lambda: f"left over: {processes_about(self.path)}", 30)
        return codes

    @property
    def rounds(self):
        return read_rounds(self.server / "run")

    @property
    def result(self):
        return json.loads((self.server / "run" / "result.json").read_text())

    def audit(self, name):
        path = self.site(name) / "invitation" / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def gather_tables(self):
        """The tables in one folder, for simulation: only now that it is over."""
        for name in self.hospitals:
            shutil.copy(self.site(name) / "patients.csv", self.tables / f"{name}.csv")
        return self.tables

    def simulation(self):
        """The same plan in one process, with those who answered; its state at the end."""
        plan = Plan.read(self.server)
        public = str(self.server / TABLE) if plan.public else ""
        tables = Sites(str(self.gather_tables()), plan.label, plan.ignore, plan.missing, plan.test, public=public)
        played = participation_in(self.rounds)
        spec, quiet = plan.spec_of(tables), lambda line: None
        if plan.protocol is None:
            simulation = Simulation(spec, participation=played, say=quiet)
        else:
            simulation = Conversing(spec, plan.protocol, say=quiet)
        while not is_over(simulation):
            simulation.state, _ = simulation.play_round()
        return simulation.state

"""A federation in one process: real messages between a real server and real sites, carried by a function call."""

import csv
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from unalike.data.sites import Sites
from unalike.federation.folders import PUBLIC, Card, ServerFolder, make_key, read_key
from unalike.federation.plan import Plan
from unalike.federation.public import TABLE, digest_of_table, hand_out
from unalike.federation.replay import participation_in
from unalike.federation.server import serve
from unalike.federation.site import Site
from unalike.federation.vault import Vault
from unalike.runs.conversing import Conversing
from unalike.runs.playable import is_over
from unalike.runs.record import read_rounds
from unalike.runs.simulation import Simulation
from unalike.secure.crypto.primitives import signing_public

HOSPITALS = ("cleveland", "hungarian", "va")
FOUR = ("cleveland", "hungarian", "switzerland", "va")
"""The fewest of whom one may be absent from a sum under masks."""


def write_tables(folder, rows=80, hospitals=HOSPITALS):
    """The hospitals' patients, a table each; a hospital that is made up gets an even part of all patients."""
    folder.mkdir(parents=True, exist_ok=True)
    source = (resources.files("unalike.data") / "vendored" / "heart.csv").read_text(encoding="utf-8")
    patients = list(csv.DictReader(source.splitlines()))
    names = [name for name in patients[0] if name not in ("hospital", "num")]
    for number, hospital in enumerate(hospitals):
        own = [patient for patient in patients if patient["hospital"] == hospital]
        own = (own or patients[number :: len(hospitals)])[: rows + 10 * number]
        with (folder / f"{hospital}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*names, "outcome"])
            for patient in own:
                outcome = "disease" if int(patient["num"]) else "healthy"
                writer.writerow([*(patient[name] for name in names), outcome])


@dataclass
class Failure:
    reason: str


@dataclass
class Inside:
    """Carries messages by calling the sites; ``before`` and ``after`` may lose, delay or change them."""

    sites: dict = field(default_factory=dict)
    before: object = lambda node, raw: raw
    after: object = lambda node, raw: raw
    log: list = field(default_factory=list)

    def nodes(self):
        return sorted(self.sites)

    def send(self, messages, seconds, stop):
        # Last first: a server must not depend on who answers first.
        for node, raw in sorted(messages.items(), reverse=True):
            raw = self.before(node, raw)
            if raw is None or node not in self.sites:
                continue
            answer = self.sites[node].answer(raw)
            self.log.append((node, raw, answer))
            answer = self.after(node, answer)
            if answer is not None:
                yield node, answer


@dataclass
class World:
    """A server's folder, three sites' folders, and what carries messages between them."""

    path: Path
    plan: Plan
    transport: Inside
    said: list = field(default_factory=list)

    @classmethod
    def make(cls, path, parties=HOSPITALS, public=None, **plan):
        """``public``: a table that everybody gets beside the plan."""
        write_tables(path / "tables", hospitals=parties)
        server = path / "server"
        if public is not None:
            for folder in (server, *(path / "sites" / name for name in parties)):
                folder.mkdir(parents=True, exist_ok=True)
                hand_out(public, folder)
            plan["public"] = digest_of_table(public)
        public = make_key(server / "keys" / "server.key")
        train = plan.pop("train", {})
        if "trees" not in train.get("model", "") and "toy" not in train.get("model", ""):
            train = {"rounds": 3, "epochs": 1, "batch_size": 16, "lr": 0.05, **train}
        plan = {"missing": "indicate", **plan}
        made = Plan("heart", parties, public.hex(), "127.0.0.1:1", train, "outcome", **plan)
        made.write(server)
        for name in parties:
            key = make_key(path / "sites" / name / "keys" / "site.key")
            (server / "parties").mkdir(exist_ok=True)
            Card(name, key.hex()).write(server / "parties" / f"{name}{PUBLIC}")
        world = cls(path, made, Inside())
        for node, name in enumerate(parties, 11):
            world.start(node, name)
        return world

    def start(self, node, name):
        """Start a site anew, as after a crash: nothing but its folder is left."""
        folder = self.path / "sites" / name
        signer = read_key(folder / "keys" / "site.key")
        table = f"csv:{self.path / 'tables' / name}.csv"
        self.transport.sites[node] = Site(folder, name, self.plan, table, signer, self.said.append)
        return self.transport.sites[node]

    def serve(self, stopped=lambda: False):
        return serve(self.transport, self.path / "server", self.said.append, stopped)

    def kept(self, name, version):
        """What a site keeps at a version."""
        return Vault(self.path / "sites" / name / "state").load(version)

    @property
    def folder(self):
        return ServerFolder(self.path / "server")

    @property
    def played(self):
        """Who answered in which exchange, from the record."""
        return participation_in(read_rounds(self.folder.run))

    def simulation(self, participation=None, **changes):
        """The same run in one process."""
        public = str(self.path / "server" / TABLE) if self.plan.public else ""
        tables = Sites(str(self.path / "tables"), "outcome", missing=self.plan.missing, public=public)
        spec = replace(self.plan.spec_of(tables), **changes)
        if self.plan.protocol is not None:
            simulation = Conversing(spec, self.plan.protocol, say=lambda line: None)
        else:
            simulation = Simulation(spec, participation=participation, say=lambda line: None)
        rows = []
        while not is_over(simulation):
            simulation.state, row = simulation.play_round()
            rows.append(row)
        return simulation, rows


def server_public(world):
    return signing_public(read_key(world.path / "server" / "keys" / "server.key"))

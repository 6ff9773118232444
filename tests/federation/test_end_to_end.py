"""Three hospitals and a server in processes of their own, started by the command line, on loopback.

TLS, node authentication and the proxy are on, as always. What comes out is compared bit for bit with simulation.
"""

import json
import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.federation import plugged
from tests.federation.inside import HOSPITALS, write_tables
from tests.federation.real import Federation, until
from unalike.cli.main import call
from unalike.federation.audit import read_audit
from unalike.federation.envelope import SERVER, Envelope, peek, write
from unalike.federation.folders import read_key
from unalike.federation.plan import Plan
from unalike.federation.transport.https.certificates import split_address
from unalike.federation.transport.https.server import HttpsServer
from unalike.federation.vault import Vault
from unalike.secure.crypto.primitives import new_secret

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="looks at processes in /proc"),  # noqa: PTH112
]


@contextmanager
def federation(path, *options, **settings):
    whole = Federation(path, *options, **settings)
    try:
        yield whole.begin()
    finally:
        codes = whole.close()
    assert codes["serve"] == 0, whole.said("serve")


def say_everything(whole):
    return "\n".join(f"--- {name}\n{whole.said(name)[-3000:]}" for name in whole.processes)


@pytest.mark.parametrize(
    ("algorithm", "channel"),
    [
        ("fedavg", "none"),
        ("scaffold", "none"),
        ("rfedavg+", "none"),
        ("scaffold", "clip(1.0)+masked"),
        ("fedavg", "encrypted"),
    ],
)
def test_real_sites_train_the_same_bits_as_the_sequential_engine(algorithm, channel, tmp_path, capsys):
    with federation(tmp_path, "--algorithm", algorithm, "--channel", channel, "--rounds", "3") as whole:
        assert call(["federation", "run", str(whole.server)]) == 0, say_everything(whole)
    assert [row["answered"][0] for row in whole.rounds] == [[0, 1, 2]] * 3
    noted = [line for name in HOSPITALS for line in read_audit(whole.site(name) / "invitation")]
    assert not any("outcome" in line for line in noted)
    hidden = {"add"} if "masked" in channel else {"sum"} if channel == "encrypted" else {"exchange"}
    assert {line["kind"] for line in noted} & {"add", "sum", "exchange"} == hidden
    capsys.readouterr()
    tables = str(whole.gather_tables())
    assert call(["federation", "rehearse", str(whole.server), "--tables", tables, "--json", "--quiet"]) == 0
    rehearsed = json.loads(capsys.readouterr().out)
    assert rehearsed["engine"] == "sequential"
    assert whole.result["server_sha256"] == rehearsed["server_sha256"]
    for figure in ("accuracy", "validation_accuracy"):
        assert whole.result[figure] == pytest.approx(rehearsed[figure], abs=1e-12)
    models = [load_file(whole.site(name) / "invitation" / "model.safetensors") for name in HOSPITALS]
    ours = load_file(whole.server / "run" / "weights.safetensors")
    assert all(model[key].equal(value) for model in models for key, value in ours.items())


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("fedrep", ["--model", "mlp(8)"]),
        ("ditto", ["--model", "mlp(8)"]),
        ("plugged-fedmd", ["--model", "mlp(8)|mlp(6,4)|logistic"]),
    ],
)
def test_personal_algorithms_and_ones_own_train_the_same_bits_at_real_sites(algorithm, options, tmp_path, capsys):
    """Phases, personal parts, public rows, three nets; FedMD comes from the sites' own plug-in."""
    if algorithm == "plugged-fedmd":
        write_tables(tmp_path / "public", rows=30, hospitals=("switzerland",))
        options = [*options, "--public", str(tmp_path / "public" / "switzerland.csv")]
    options = ["--algorithm", algorithm, "--rounds", "2", *options]
    plugin = Path(plugged.__file__) if algorithm == "plugged-fedmd" else None
    with federation(tmp_path / "world", *options, plugin=plugin) as whole:
        assert call(["federation", "run", str(whole.server)]) == 0, say_everything(whole)
    state = whole.simulation()
    assert whole.result["server_sha256"] == state.server_digest()
    assert whole.rounds[-1]["personal"]["count"] == 3
    for number, name in enumerate(HOSPITALS):
        kept = Vault(whole.site(name) / "invitation" / "state")
        last = kept.load(max(kept.versions))
        assert {key.removeprefix("state/") for key in last} == set(state.parties[number])
        assert all(last[f"state/{key}"].equal(value) for key, value in state.parties[number].items())


class Faults:
    """A long training, and what happens to it."""

    def __init__(self, whole):
        self.whole, self.code = whole, None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        self.code = call(["federation", "run", str(self.whole.server)])

    def reach(self, rounds):
        until(lambda: len(self.whole.rounds) >= rounds or self.code is not None, self.report)
        assert self.code is None, self.report()

    def without(self, name):
        """Wait for a round in which the site took no part."""
        number = HOSPITALS.index(name)
        until(lambda: any(number not in row["answered"][0] for row in self.whole.rounds), self.report)

    def asked(self, name):
        """The site stands still, and the server waits for its answer: the middle of a round."""
        self.whole.kill(name, signal.SIGSTOP)
        return self.log()

    def log(self):
        path = self.whole.server / "log.txt"
        return path.read_text() if path.exists() else ""

    def report(self):
        return f"{self.log()[-3000:]}\n{say_everything(self.whole)}"

    def said(self, text, since):
        until(lambda: text in self.log()[len(since) :], self.report)


def test_kills_and_stragglers_change_nothing_but_who_took_part(tmp_path):
    """A straggler past its deadline, kill -9 of a site, of the server's app and of the whole server, mid-round."""
    options = ["--algorithm", "scaffold", "--rounds", "60", "--quorum", "2", "--deadline", "4"]
    with federation(tmp_path, *options) as whole:
        faults = Faults(whole)
        try:
            faults.reach(1)
            since = faults.asked("va")  # a straggler: it answers, but too late
            faults.said("va did not answer in time", since)
            faults.without("va")  # it may have been late with its figures only
            whole.kill("va", signal.SIGCONT)
            faults.reach(len(whole.rounds) + 1)

            since = faults.asked("hungarian")  # killed in the middle of a round, and back later
            whole.kill("hungarian")
            whole.processes["hungarian"].wait()
            faults.said("hungarian", since)
            faults.without("hungarian")
            whole.join("hungarian")

            for how in (signal.SIGTERM, signal.SIGKILL):  # the server, while a round waits
                since = faults.asked("cleveland")
                whole.kill("serve", how)
                assert whole.processes["serve"].wait() == (0 if how == signal.SIGTERM else -signal.SIGKILL)
                whole.kill("cleveland", signal.SIGCONT)
                whole.serve()
                faults.said("Going on after round", since)
                faults.reach(len(whole.rounds) + 1)
            faults.thread.join(300)
            assert faults.code == 0, faults.report()
        finally:
            for name in HOSPITALS:
                whole.kill(name, signal.SIGCONT)
            if faults.thread.is_alive():
                call(["federation", "stop", str(whole.server)])
                faults.thread.join(120)
    answered = [row["answered"][0] for row in whole.rounds]
    assert len(answered) == 60
    assert any(2 not in who for who in answered), "the straggler was there every time"
    assert any(1 not in who for who in answered), "the killed site was there every time"
    assert whole.result["server_sha256"] == whole.simulation().server_digest()


def test_what_is_not_from_the_server_is_refused_and_logged(tmp_path):
    with federation(tmp_path, "--rounds", "1", "--quorum", "2") as whole:
        assert call(["federation", "run", str(whole.server)]) == 0, say_everything(whole)
        whole.kill("serve", signal.SIGTERM)
        whole.processes["serve"].wait()
        plan = Plan.read(whole.server)
        invitation, va = whole.site("va") / "invitation", plan.number("va")
        before = read_audit(invitation)
        host, port = split_address(plan.address)
        with HttpsServer(whole.server, plan.parties, host, port, plan.most_bytes) as rogue:
            until(lambda: va in rogue.nodes(), lambda: whole.said("va"))

            def ask(raw):
                ((_, answer),) = rogue.send({va: raw}, 60)
                return answer

            for raw in (b"UNF2", b"\0" * 100, b"UNF2" + b"\xff" * 200, b"x" * (2**28 + 1)):
                assert b"error" in ask(raw), raw[:20]
            signer = read_key(whole.server / "keys" / "server.key")
            header = {"kind": "describe", "number": [99, 1]}
            header |= {"sender": SERVER, "receiver": "va", "plan": plan.digest}
            assert peek(ask(write(Envelope(header), signer))).kind == "answer"
            for problem, raw in {
                "replay": write(Envelope(header), signer),
                "signature": write(Envelope(header | {"number": [99, 2]}), new_secret()),
                "another plan": write(Envelope(header | {"number": [99, 2], "plan": "0" * 64}), signer),
                "not for va": write(Envelope(header | {"number": [99, 2], "receiver": "cleveland"}), signer),
            }.items():
                assert problem in peek(ask(raw)).header["reason"]
        after = read_audit(invitation)[len(before) :]
        outcomes = [line.get("outcome", "ok")[:8] for line in after if line["way"] == "in"]
        assert outcomes == ["refused:"] * 4 + ["ok"] + ["refused:"] * 4
        assert whole.processes["va"].poll() is None
        assert call(["federation", "audit", str(invitation)]) == 0
        text = (invitation / "audit.jsonl").read_text()
        (invitation / "audit.jsonl").write_text(text.replace('"way": "in"', '"way": "on"', 1))
        assert call(["federation", "audit", str(invitation)]) == 2

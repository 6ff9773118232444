"""Flower as its operators run it, on loopback: flower-superlink, flower-supernode and flwr run, none of them ours.

TLS and SuperNode authentication are on. Flower is only ever started by its commands.
"""

import json
import os
import shlex
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.federation.real import ROOT, Federation, free_port, until
from unalike.cli.main import call

OFFLINE = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
QUICK = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1"}
COMMANDS = Path(sys.executable).parent
"""Where pip puts the commands of packages."""


def write_key(folder, name):
    """A SuperNode's key pair, as ssh-keygen makes it."""
    key = ec.generate_private_key(ec.SECP384R1())
    secret = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    public = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    (folder / name).write_bytes(key.private_bytes(*secret))
    (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(*public))
    return folder / name


class StockFlower(Federation):
    """The hospitals behind their doors, and Flower's own processes between them and the server."""

    def __init__(self, path, *options, **settings):
        super().__init__(path, *options, **settings)
        self.certificates, self.home = self.server / "certificates", path / "flwr"
        self.home.mkdir()
        connection = {"address": self.address, "root-certificates": str(self.certificates / "ca.pem")}
        lines = [f"{key} = {json.dumps(value)}" for key, value in connection.items()]
        (self.home / "config.toml").write_text("[superlink.here]\n" + "\n".join(lines) + "\n")

    def environment(self):
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        commands = os.pathsep.join([str(COMMANDS), os.environ["PATH"]])
        known = {"PYTHONPATH": paths, "PATH": commands, "FLWR_HOME": str(self.home), "NO_PROXY": "127.0.0.1"}
        return {**os.environ, **OFFLINE, **QUICK, **known}

    def flower(self, name, *args):
        """One of Flower's processes that stay; what it says is in a file."""
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [COMMANDS / args[0], *args[1:]],
                cwd=self.path,
                env=self.environment(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        return self.processes[name]

    def flwr(self, *args):
        """A command of Flower's that ends; its answer."""
        done = subprocess.run(
            [COMMANDS / "flwr", *args, "--format", "json"],
            cwd=self.path,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def begin(self):
        """SuperLink, SuperNodes that are registered by their keys, and the sites behind their doors."""
        self.superlink()
        for name in self.hospitals:
            self.join(name)
        until(lambda: all(self.card(name).exists() for name in self.hospitals), "no card")
        assert call(["federation", "admit", str(self.server), *(str(self.card(n)) for n in self.hospitals)]) == 0
        self.healthy()
        for name in self.hospitals:
            self.supernode(name)
        assert call(["federation", "flower", str(self.server), *self._plugin(self.plugin)]) == 0
        return self

    def superlink(self):
        host, port = self.address.split(":")
        ours = [("ca-certfile", "ca.pem"), ("certfile", "server.pem"), ("keyfile", "server.key")]
        tls = [part for flag, file in ours for part in (f"--ssl-{flag}", str(self.certificates / file))]
        usual = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        self.flower("superlink", "flower-superlink", "--host", host, "--port", port, *tls, *usual)

    def healthy(self):
        trusted = ssl.create_default_context(cafile=str(self.certificates / "ca.pem"))
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        opener = urllib.request.build_opener(*handlers)

        def answers():
            try:
                return opener.open(f"https://{self.address}/health", timeout=5).status == 200
            except OSError:
                return False

        until(answers, lambda: self.said("superlink"))

    def join(self, name):
        args = ["federation", "join", "invitation", "--data", "csv:patients.csv", "--label", "outcome", "--yes"]
        return self.start(name, *args, "--transport", "flower", *self._plugin("own.py"), cwd=self.site(name))

    def node_config(self, name):
        """What the site says that its SuperNode is to be started with."""
        until(lambda: "--node-config" in self.said(name), lambda: self.said(name))
        (line,) = (line for line in self.said(name).splitlines() if "--node-config" in line)
        return shlex.split(line)[-1]

    def supernode(self, name):
        key = write_key(self.site(name), "supernode")
        self.flwr("supernode", "register", str(key.with_suffix(".pub")), "here")
        args = ["--superlink", self.address, "--root-certificates", str(self.certificates / "ca.pem")]
        args += ["--auth-supernode-private-key", str(key), "--port", str(free_port())]
        args += ["--node-config", self.node_config(name)]
        return self.flower(f"supernode-{name}", "flower-supernode", *args)

    def run(self, *config, seconds=240):
        """``flwr run`` to its end; what became of it, as ``flwr list`` says."""
        started = self.flwr("run", str(self.server / "flower-app"), "here", *config)
        number = started["run-id"]
        end = time.monotonic() + seconds
        while True:
            (found,) = self.flwr("list", "here", "--run-id", number)["runs"]
            if found["status"].startswith("finished"):
                return found["status"]
            assert time.monotonic() < end, self.report()
            time.sleep(1)  # its answer costs a process

    def report(self):
        return "\n".join(f"--- {name}\n{self.said(name)[-3000:]}" for name in self.processes)

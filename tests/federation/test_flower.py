"""The same plan on stock Flower: its own processes, TLS, SuperNode authentication, and nothing of it touched."""

import ast
import os
import tomllib
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from safetensors.torch import load_file

import unalike
from tests.federation.inside import HOSPITALS
from tests.federation.real import ROOT
from tests.federation.stock_flower import StockFlower
from unalike.federation.audit import read_audit

PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp"}
"""What Flower documents for apps."""
OURS = Path(unalike.__file__).parent
TESTS = Path(__file__).parents[1]


def uses_of_flower(text):
    """The modules of Flower that a source imports, and private names that it reaches for in a file that does."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    found = {name for name in names if name.split(".")[0] == "flwr"}
    texts = [str(node.value) for node in nodes if isinstance(node, ast.Constant)]  # import_module, monkeypatch
    found |= {name for name in texts if name.startswith("flwr.") and " " not in name}
    reached = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr.startswith("_")]
    others = [node for node in reached if not (isinstance(node.value, ast.Name) and node.value.id == "self")]
    return found | {f"_.{node.attr}" for node in others if found and node.attr != "__init__"}


@pytest.mark.parametrize("folder", [OURS, TESTS], ids=["sources", "tests"])
def test_only_what_flower_documents_is_used(folder):
    used = {}
    for path in folder.rglob("*.py"):
        if path != Path(__file__):
            used[str(path.relative_to(folder))] = uses_of_flower(path.read_text())
    assert "flwr.app" in set().union(*used.values()), "nothing was looked at"
    assert not {path: names - PUBLIC for path, names in used.items() if names - PUBLIC}


@pytest.mark.parametrize(
    "text",
    [
        "import flwr",
        "import flwr.common",
        "from flwr.supercore import heartbeat",
        "import_module('flwr.supernode')",
        "monkeypatch.setattr('flwr.app.Message', None)",
        "from flwr.serverapp import Grid\ngrid._runtime_client",
        "from flwr.app import Message\nmessage.metadata.__dict__",
    ],
)
def test_the_check_of_uses_can_fail(text):
    assert uses_of_flower(text) - PUBLIC


def test_no_newer_flower_is_shut_out_and_real_sites_need_none():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (flower,) = (need for need in map(Requirement, extras["flower"]) if need.name == "flwr")
    assert Version("99") in flower.specifier
    assert not any("flwr" in need for need in extras["federation"])


@contextmanager
def stock(*options):
    """The folder's name is short: Unix sockets are in it."""
    with TemporaryDirectory(prefix="unalike-", dir="/tmp") as folder:
        whole = StockFlower(Path(folder), *options, "--figures", "none")
        try:
            yield whole.begin()
        finally:
            whole.close()


@pytest.mark.federation
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="looks at processes in /proc")  # noqa: PTH112
@pytest.mark.parametrize(("channel", "rounds"), [("none", 2), ("masked", 1)])
def test_the_same_plan_on_stock_flower_gives_the_same_bits(channel, rounds):
    with stock("--algorithm", "fedavg", "--channel", channel, "--rounds", str(rounds)) as whole:
        assert whole.run() == "finished:completed", whole.report()
        assert [row["answered"][0] for row in whole.rounds] == [[0, 1, 2]] * rounds
        assert whole.result["server_sha256"] == whole.simulation().server_digest()
        ours = load_file(whole.server / "run" / "weights.safetensors")
        for name in HOSPITALS:
            model = load_file(whole.site(name) / "invitation" / "model.safetensors")
            assert all(model[key].equal(value) for key, value in ours.items())
            assert not any("outcome" in line for line in read_audit(whole.site(name) / "invitation"))

"""A federation that Flower carries the bytes of, as far as none of Flower's processes is started."""

import os
import shlex
import shutil
import tomllib
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from flwr.app import Context, RecordDict

from tests.federation.inside import HOSPITALS, World, write_tables
from tests.federation.transport.flower.grid import Grid, question
from unalike.cli.federation import flower
from unalike.cli.federation.server_app import app
from unalike.cli.signals import StopRequested
from unalike.errors import UserError
from unalike.federation.attempts import Attempts
from unalike.federation.envelope import peek
from unalike.federation.transport.flower.door import ask
from unalike.federation.transport.flower.packing import pack
from unalike.runs.files import file_lock
from unalike.runs.record import read_run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="real sites need Linux or macOS")
PARTIES = [part for name in HOSPITALS for part in ("--party", name)]


@pytest.fixture
def made(unalike):
    usual = ["--address", "127.0.0.1:9443", "--label", "outcome", "--missing", "indicate"]
    assert unalike("federation", "init", "heart", *PARTIES, *usual).code == 0
    write_tables(Path("tables"), 60)
    shutil.copytree(Path("heart/invitations/va"), "va")
    return Path("heart")


def app_of(folder):
    return tomllib.loads((folder / "flower-app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]


def test_the_app_names_what_is_installed_and_carries_no_code(unalike, made):
    answer = unalike("federation", "flower", "heart")
    assert answer.code == 0
    for word in ("flwr run heart/flower-app", "--transport flower", "federation status heart"):
        assert word in answer.out
    assert [path.name for path in (made / "flower-app").iterdir()] == ["pyproject.toml"]
    for name in app_of(made)["components"].values():
        module, _, attribute = name.partition(":")
        assert hasattr(import_module(module), attribute)
    assert app_of(made)["config"] == {"folder": str(made.resolve()), "job": "train", "plugins": ""}
    assert unalike("federation", "flower", "heart").code == 0, "writing it again must not fail"


def test_the_app_is_for_a_server(unalike, made):
    answer = unalike("federation", "flower", "va")
    assert answer.code == 2
    assert "va is a site's folder" in answer.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--transport", "pigeon"], "https or flower, got 'pigeon'"),
        (["--door", "socket"], "--door socket is for --transport flower"),
        (["--transport", "flower", "--address", "a:1"], "--address a:1 is for the SuperNode"),
    ],
)
def test_a_wrong_transport_is_one_line_and_nothing_is_written(unalike, made, options, words):
    before = sorted(Path("va").iterdir())
    answer = unalike("federation", "join", "va", "--data", "csv:tables/va.csv", "--yes", *options)
    assert answer.code == 2
    assert words in answer.err
    assert sorted(Path("va").iterdir()) == before


@pytest.fixture
def short(monkeypatch):
    """A folder whose name leaves room for a socket's: a hundred letters are all there is."""
    with TemporaryDirectory(prefix="unalike-", dir="/tmp") as folder:
        monkeypatch.chdir(folder)
        yield


@pytest.mark.parametrize("options", [[], ["--door", "shared/door"]])
def test_a_site_waits_behind_its_door_and_says_what_its_supernode_needs(
    short, unalike, made, monkeypatch, options
):
    """The SuperNode's configuration is taken from what the command prints, and something knocks there."""
    said, answers = [], []

    def knock(seconds):
        words = shlex.split(said[-1])
        door = tomllib.loads(words[words.index("--node-config") + 1])["door"]
        assert Path(door) == Path(*options[1:] or ["va/flower/door"]).absolute()
        answers.append(peek(ask(door, b"not from the server")))
        raise StopRequested

    monkeypatch.setattr(flower, "say", said.append)
    monkeypatch.setattr(flower, "time", SimpleNamespace(sleep=knock))
    join = ["federation", "join", "va", "--data", "csv:tables/va.csv", "--yes", "--transport", "flower"]
    assert unalike(*join, *options).code == 0
    assert [(answer.sender, answer.kind) for answer in answers] == [("va", "error")]
    assert "refused" in Path("va/audit.jsonl").read_text()
    assert not list(Path().rglob("door"))


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr("unalike.federation.transport.flower.transport.Message", question)
    world = World.make(tmp_path / "world", train={"algorithm": "scaffold"})
    (world.path / "server" / "invitations").mkdir()
    return world


def run(world, **config):
    """What Flower does with the ServerApp: it is called with a grid and the run's configuration."""
    sites = world.transport.sites
    grid = Grid(lambda node, data: pack(sites[node].answer(data)), nodes=sites)
    config = {"folder": str(world.path / "server"), "job": "train", "plugins": "", **config}
    app(grid, Context(run_id=7, node_id=1, node_config={}, state=RecordDict(), run_config=config))


def test_the_server_app_trains_the_bits_of_simulation(world):
    run(world)
    simulation, _ = world.simulation()
    assert read_run(world.folder.run).result["server_sha256"] == simulation.state.server_digest()
    assert Attempts(world.folder.path).outcome().how == "finished"
    run(world)  # once more does no harm
    assert len(world.played) == 3


def test_the_server_app_measures(world):
    run(world, job="measure")
    assert (world.folder.path / "measure.json").exists()
    run(world)
    assert read_run(world.folder.run).result is not None


def test_a_stop_that_was_asked_for_before_is_forgotten(world):
    Attempts(world.folder.path).ask_to_stop()
    run(world)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"job": "guess"}, "job must be train or measure, got 'guess'"),
        ({"folder": "nowhere"}, "nowhere is not a federation's server folder"),
        ({"plugins": "none.py"}, "There is no plugin file none.py"),
    ],
)
def test_a_run_that_cannot_be_ends_with_the_reason(world, config, words):
    with pytest.raises(UserError, match=words):
        run(world, **config)


def test_a_bad_end_is_an_error_for_flower(world):
    (world.folder.parties / "va.public.json").unlink()
    with pytest.raises(UserError, match="refused: va is not admitted yet"):
        run(world)


def test_two_runs_of_one_folder_do_not_meet(world):
    run(world)
    with file_lock(world.folder.path / ".attempt.lock"), pytest.raises(UserError, match="Another process is at"):
        run(world)
    with file_lock(world.folder.path / ".serve.lock"), pytest.raises(UserError, match="Another process is at"):
        run(world)
    assert Attempts(world.folder.path).outcome().how == "finished", "the other's traces are left alone"


def test_status_sees_a_server_that_flower_runs(unalike, made):
    status = ["federation", "status", "heart", "--json"]
    assert not unalike(*status).json["serving"]
    with file_lock(made / ".attempt.lock"):
        assert unalike(*status).json["serving"]


def test_plugins_are_named_in_the_app_and_loaded_by_the_server(unalike, made, world):
    Path("mine.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    assert unalike("federation", "flower", "heart", "--plugin", "mine.py").code == 0
    named = app_of(made)["config"]["plugins"]
    assert named == str(Path("mine.py").resolve())
    Path("mine.py").rename("again.py")  # a file is run once in a process
    Path("ran").unlink()
    run(world, plugins=named.replace("mine", "again"))
    assert Path("ran").exists()

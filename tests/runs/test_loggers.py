"""Logs that keep step with a run: stopped, gone on with, finished before, missing, broken."""

import socket
import struct
import sys
import time
import types
from pathlib import Path
from typing import ClassVar

import pytest

from unalike.cli.main import call
from unalike.errors import UserError
from unalike.runs.loggers import KEY, MLflow, TensorBoard, WandB, Watchers, make_loggers, scalars
from unalike.runs.record import read_rounds
from unalike.runs.run import Watcher, run
from unalike.runs.spec import RunSpec

SPEC = RunSpec(dataset="digits", model="mlp(8)", rounds=5, epochs=1)
ARGS = ["run", "--dataset", "digits", "--model", "mlp(8)", "--rounds", "5", "--epochs", "1"]


class Kill(BaseException):
    """As if the process had ended."""


class KilledAfter(Watcher):
    def __init__(self, last):
        self.last = last

    def round_done(self, row):
        if row["round"] == self.last:
            raise Kill


def play(logger, runs, killed_after=None, checkpoint=0.0):
    """A process of its own, as far as the logger can tell."""
    try:
        watcher = Watchers([logger, KilledAfter(killed_after)])
        result = run(SPEC, runs=runs, watcher=watcher, checkpoint_seconds=checkpoint)
    except Kill:
        return
    logger.finish(SPEC, result.rows)


# ---- MLflow, against a small copy of what is used of it


class Client:
    """MlflowClient on a dictionary that outlives it."""

    store: ClassVar[dict] = {}

    def get_experiment_by_name(self, name):
        return types.SimpleNamespace(experiment_id=name) if name in self.store else None

    def create_experiment(self, name):
        assert name not in self.store
        self.store[name] = []
        return name

    def search_runs(self, experiment_ids, filter_string, max_results):
        key = filter_string.split("'")[1]
        assert filter_string == f"tags.`{KEY}` = '{key}'"
        return [one for one in self.store[experiment_ids[0]] if one.tags[KEY] == key][:max_results]

    def create_run(self, experiment_id, tags, run_name):
        number = f"id{len(self.store[experiment_id])}"
        one = types.SimpleNamespace(
            info=types.SimpleNamespace(run_id=number), data=types.SimpleNamespace(metrics={}), tags=tags,
            name=run_name, params={}, history=[], status="RUNNING",
        )  # fmt: skip
        self.store[experiment_id].append(one)
        return one

    def run(self, run_id):
        return next(one for runs in self.store.values() for one in runs if one.info.run_id == run_id)

    def log_batch(self, run_id, metrics=(), params=()):
        one = self.run(run_id)
        for name, value in params:
            assert one.params.setdefault(name, value) == value  # MLflow refuses another value
        for name, value, timestamp, step in metrics:
            assert isinstance(timestamp, int)
            one.history.append((name, step, value))
            one.data.metrics[name] = value

    def update_run(self, run_id, status):
        self.run(run_id).status = status

    def set_terminated(self, run_id, status):
        self.run(run_id).status = status


@pytest.fixture
def mlflow(monkeypatch):
    monkeypatch.setattr(Client, "store", {})
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    module, entities = types.ModuleType("mlflow"), types.ModuleType("mlflow.entities")
    module.MlflowClient = Client
    entities.Metric, entities.Param = (lambda *values: values), (lambda *values: values)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return Client.store


def steps(store, name="accuracy", experiment="unalike"):
    (one,) = store[experiment]
    return [step for metric, step, _ in one.history if metric == name]


def test_mlflow_has_parameters_and_every_round(mlflow, tmp_path):
    play(MLflow(tmp_path), tmp_path)
    (one,) = mlflow["unalike"]
    assert (one.tags, one.name, one.status) == ({KEY: SPEC.key}, SPEC.folder, "FINISHED")
    assert one.params["algorithm"] == "fedavg"
    assert steps(mlflow) == [1, 2, 3, 4, 5]
    recorded = [row["accuracy"] for row in read_rounds(tmp_path / SPEC.folder)]
    assert [value for name, _, value in one.history if name == "accuracy"] == recorded


@pytest.mark.parametrize("checkpoint", [0.0, 1000.0])  # the round before the kill is saved, or only recorded
def test_mlflow_goes_on_in_the_same_run(mlflow, tmp_path, monkeypatch, checkpoint):
    with monkeypatch.context() as killed:
        if checkpoint:  # kill -9 leaves no last checkpoint
            killed.setattr("unalike.runs.run.save", lambda simulation, folder: None)
        play(MLflow(tmp_path), tmp_path, killed_after=3, checkpoint=checkpoint)
    assert steps(mlflow) == [1, 2, 3]
    play(MLflow(tmp_path), tmp_path)
    assert steps(mlflow) == [1, 2, 3, 4, 5]
    assert steps(mlflow, "round") == [1, 2, 3, 4, 5]
    assert mlflow["unalike"][0].status == "FINISHED"


def test_mlflow_gets_the_rounds_from_before_it_was_asked_for(mlflow, tmp_path):
    play(make_silent(), tmp_path, killed_after=3)
    play(MLflow(tmp_path), tmp_path)
    assert steps(mlflow) == [1, 2, 3, 4, 5]


def make_silent():
    made = Watcher()
    made.finish = lambda *args, **options: None
    return made


def test_a_finished_run_is_logged_as_a_whole_and_once(mlflow, tmp_path):
    result = run(SPEC, runs=tmp_path)
    for _ in range(2):
        MLflow(tmp_path).finish(SPEC, result.rows)
    assert steps(mlflow) == [1, 2, 3, 4, 5]


def test_the_experiment_can_be_named(mlflow, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    play(MLflow(tmp_path), tmp_path)
    assert steps(mlflow, experiment="mine") == [1, 2, 3, 4, 5]


def test_a_log_that_breaks_is_given_up_and_the_run_goes_on(mlflow, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(Client, "log_batch", lambda *args, **options: 1 / 0)
    play(MLflow(tmp_path, said.append), tmp_path)
    assert len(said) == 1
    assert "The MLflow log is given up (division by zero). The run goes on" in said[0]
    assert len(read_rounds(tmp_path / SPEC.folder)) == 5


def test_a_stop_is_no_breakage(mlflow, tmp_path, monkeypatch):
    """Ctrl-C inside a logger stops the run."""

    def stop(*args, **options):
        raise Kill

    monkeypatch.setattr(Client, "log_batch", stop)
    with pytest.raises(Kill):
        run(SPEC, runs=tmp_path, watcher=MLflow(tmp_path))


def test_the_command_logs_and_stops(mlflow, tmp_path, monkeypatch):
    from unalike.cli.signals import StopRequested

    monkeypatch.chdir(tmp_path)
    real = Watchers.round_done

    def stop(self, row):
        real(self, row)
        if row["round"] == 2:
            raise StopRequested

    monkeypatch.setattr(Watchers, "round_done", stop)
    assert call([*ARGS, "--log", "mlflow", "--quiet"]) == 130
    assert mlflow["unalike"][0].status == "KILLED"
    monkeypatch.setattr(Watchers, "round_done", real)
    assert call([*ARGS, "--log", "mlflow", "--log", "mlflow", "--quiet"]) == 0
    assert steps(mlflow) == [1, 2, 3, 4, 5]
    assert mlflow["unalike"][0].status == "FINISHED"
    assert call([*ARGS, "--log", "mlflow", "--quiet"]) == 0  # finished before
    assert steps(mlflow) == [1, 2, 3, 4, 5]


# ---- TensorBoard


@pytest.mark.parametrize("saved", [True, False])
def test_a_tensorboard_log_is_written_anew(tmp_path, monkeypatch, saved):
    """Against a writer of text lines; the real one is below."""

    class Writer:
        made = 0

        def __init__(self, folder, purge_step):
            assert purge_step == 1
            Writer.made += 1
            self.file = Path(folder) / f"events.out.tfevents.{Writer.made}"
            self.file.touch()

        def add_scalar(self, name, value, step):
            with self.file.open("a") as file:
                file.write(f"{name} {step}\n")

        def add_text(self, name, text, step):
            assert 'dataset = "digits"' in text

        def close(self):
            pass

    monkeypatch.setitem(sys.modules, "tensorboard", types.ModuleType("tensorboard"))
    module = types.SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    with monkeypatch.context() as killed:
        if not saved:  # rounds 1 to 3 are recorded, and played again
            killed.setattr("unalike.runs.run.save", lambda simulation, folder: None)
        play(TensorBoard(tmp_path), tmp_path, killed_after=3)
    play(TensorBoard(tmp_path), tmp_path)
    (file,) = (tmp_path / SPEC.folder / "tensorboard").iterdir()
    lines = file.read_text().splitlines()
    assert [line for line in lines if line.startswith("accuracy ")] == [f"accuracy {n}" for n in range(1, 6)]


def test_tensorboard_reads_it_back(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    play(TensorBoard(tmp_path), tmp_path, killed_after=3)
    play(TensorBoard(tmp_path), tmp_path)
    found = EventAccumulator(str(tmp_path / SPEC.folder / "tensorboard"))
    found.Reload()
    events = found.Scalars("accuracy")
    assert [event.step for event in events] == [1, 2, 3, 4, 5]
    recorded = [row["accuracy"] for row in read_rounds(tmp_path / SPEC.folder)]
    assert [event.value for event in events] == pytest.approx(recorded)
    assert "parties/worst" in found.Tags()["scalars"]


# ---- W&B


class Online:
    """What is used of the package, on a dictionary that outlives it; ``init`` goes on where an id is known."""

    store: ClassVar[dict] = {}
    Settings = staticmethod(lambda **settings: settings)

    @classmethod
    def init(cls, **settings):
        assert settings["resume"] == "allow"
        resumed = settings["id"] in cls.store
        kept = cls.store.setdefault(settings["id"], types.SimpleNamespace(rows=[], summary={}, codes=[]))
        kept.settings = settings

        def log(values, step):
            kept.rows.append((step, values))
            kept.summary.update(values)

        return types.SimpleNamespace(
            log=log, resumed=resumed, summary=kept.summary, finish=lambda exit_code: kept.codes.append(exit_code)
        )


@pytest.fixture
def wandb_online(monkeypatch):
    monkeypatch.setattr(Online, "store", {})
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setitem(sys.modules, "wandb", Online)
    return Online.store


def test_wandb_goes_on_in_the_same_run(wandb_online, tmp_path, monkeypatch):
    with monkeypatch.context() as killed:  # rounds 1 to 3 are recorded, and played again
        killed.setattr("unalike.runs.run.save", lambda simulation, folder: None)
        play(WandB(tmp_path), tmp_path, killed_after=3)
    play(WandB(tmp_path), tmp_path)
    WandB(tmp_path).finish(SPEC, read_rounds(tmp_path / SPEC.folder))
    kept = wandb_online[SPEC.key]
    assert [step for step, _ in kept.rows] == [1, 2, 3, 4, 5]
    recorded = [row["accuracy"] for row in read_rounds(tmp_path / SPEC.folder)]
    assert [values["accuracy"] for _, values in kept.rows] == recorded
    assert kept.codes == [0, 0]
    assert kept.settings["config"]["algorithm"] == "fedavg"
    assert kept.settings["project"] == "unalike"


def test_wandb_may_have_another_project_and_is_told_of_a_stop(wandb_online, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    log = WandB(tmp_path)
    play(log, tmp_path, killed_after=2)
    log.stop()
    assert wandb_online[SPEC.key].settings["project"] == "mine"
    assert wandb_online[SPEC.key].codes == [1]


def wandb_steps(folder):
    """The rounds in the files of the real package, which are in the format of LevelDB's logs."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, place, part, found = path.read_bytes(), 7, b"", []
    while place + 7 <= len(data):
        left = 2**15 - place % 2**15
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        part += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the end of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(part)
            part = b""
            if record.WhichOneof("record_type") == "history":
                values = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                found.append((int(values["_step"]), float(values["accuracy"])))
    return found


def test_wandb_is_offline_unless_asked_and_is_written_anew(tmp_path, monkeypatch):
    for name in ("WANDB_MODE", "WANDB_ERROR_REPORTING"):  # what the logger sets is undone after the test
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    looked_up = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *names, **more: looked_up.append(names))
    pytest.importorskip("wandb.proto")
    stopped = WandB(tmp_path)
    play(stopped, tmp_path, killed_after=3)
    stopped.stop()
    play(WandB(tmp_path), tmp_path)
    end = time.monotonic() + 20  # another process writes the files, after all has been said
    while len(found := wandb_steps(tmp_path / SPEC.folder)) < 5 and time.monotonic() < end:
        time.sleep(0.02)
    assert [step for step, _ in found] == [1, 2, 3, 4, 5]
    recorded = [row["accuracy"] for row in read_rounds(tmp_path / SPEC.folder)]
    assert [value for _, value in found] == pytest.approx(recorded)
    assert looked_up == []
    machine = socket.gethostname().encode()
    files = [path for path in (tmp_path / SPEC.folder / "wandb").rglob("*.wandb") if path.is_file()]
    assert files
    assert len(machine) < 4 or not any(machine in path.read_bytes() for path in files)


# ---- all of them


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_named_with_its_remedy(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, name, None)  # import raises ImportError
    monkeypatch.chdir(tmp_path)
    assert call([*ARGS, "--log", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--log {name} needs the package {name}" in line
    assert f"pip install 'unalike[{name}]'" in line
    assert not (tmp_path / "runs").exists()


def test_an_unknown_log(tmp_path):
    with pytest.raises(UserError, match="Did you mean 'tensorboard'"):
        make_loggers(["tensorbord"], tmp_path, print)


def test_nothing_is_imported_without_being_asked_for(tmp_path):
    assert make_loggers([], tmp_path, print) == []


def test_scalars():
    row = {"round": 3, "loss": float("nan"), "accuracy": 0.5, "cohort": 4, "flag": True, "note": "x", "none": None,
           "parties": {"worst": 0.1, "each": [1, 2]}, "traffic": {"up": {"w": 3}}}  # fmt: skip
    assert scalars(row) == {"accuracy": 0.5, "cohort": 4.0, "parties/worst": 0.1}

"""The result store holds what the folders hold, whatever happens to its file."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import subprocess
import sys

import pytest

from tests.studies.fake_runs import failed, finished
from tests.studies.made_up import write_run
from unalike.errors import UserError
from unalike.runs.record import read_run
from unalike.runs.spec import RunSpec
from unalike.studies.export import csv_bytes, parquet_bytes, study_keys
from unalike.studies.store import FILE, MIGRATIONS, Store
from unalike.studies.study_file import read_study

SPECS = [RunSpec(rounds=3, steps=1, seed=seed) for seed in range(3)]


@pytest.fixture
def runs(tmp_path):
    for number, spec in enumerate(SPECS[:2]):
        finished(tmp_path, spec, accuracy=number / 10, parties={"worst": 0.25, "each": [0.25, 1.0]})
    failed(tmp_path, SPECS[2], "the weights are no longer finite")
    return tmp_path


def content(runs):
    with sqlite3.connect(runs / FILE) as base:
        return [base.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in ("runs", "rounds")]


def synced(runs):
    with Store(runs) as store:
        store.sync()
    return content(runs)


def test_a_row_a_run_and_a_row_a_round(runs):
    found, rounds = synced(runs)
    assert (len(found), len(rounds)) == (3, 6)
    with sqlite3.connect(runs / FILE) as base:
        rows = base.execute(
            "SELECT seed, state, accuracy, worst_party, problem, rounds_done FROM runs ORDER BY seed"
        ).fetchall()
        assert base.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert rows == [
        (0, "finished", 0.0, 0.25, None, 3),
        (1, "finished", 0.1, 0.25, None, 3),
        (2, "failed", None, None, "the weights are no longer finite", 0),
    ]


def test_only_what_changed_is_read_again(runs):
    with Store(runs) as store:
        assert store.sync() == 3
        assert store.sync() == 0
        finished(runs, SPECS[2], accuracy=0.9)
        assert store.sync() == 1
        shutil.rmtree(runs / SPECS[0].folder)
        assert store.sync() == 1
        assert {row["seed"]: row["state"] for row in store.rows()} == {1: "finished", 2: "finished"}
        assert len(store.rows(rounds=True)) == 6


@pytest.mark.parametrize(
    "damage", ["missing", "no database", "torn", "empty", "of another program", "with other tables"]
)
def test_a_damaged_store_is_made_anew(runs, damage):
    before = synced(runs)
    file = runs / FILE
    data = file.read_bytes()
    file.unlink()
    if damage == "no database":
        file.write_bytes(b"this is no database, but long enough to be looked at " * 100)
    elif damage == "torn":
        file.write_bytes(data[: len(data) // 2] + bytes(len(data) // 2))
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "of another program":
        with sqlite3.connect(file) as base:
            base.executescript(f"CREATE TABLE runs (x); PRAGMA user_version = {len(MIGRATIONS)};")
    elif damage == "with other tables":
        with sqlite3.connect(file) as base:
            base.executescript("CREATE TABLE mine (x); INSERT INTO mine VALUES (7);")
    assert synced(runs) == before
    if damage == "with other tables":  # it may be somebody's only copy
        with sqlite3.connect(runs / f"{FILE}.damaged") as base:
            assert base.execute("SELECT * FROM mine").fetchall() == [(7,)]


@pytest.mark.parametrize(
    ("spec", "result"),
    [
        ("when = 2020-01-01", "{}"),
        ("more = 99999999999999999999999", "{}"),
        ("model = [1, 2]", "{}"),
        ("model = {}", "{}"),
        ("", '{"key": "x", "parties": [1], "accuracy": [2], "seconds": {"a": 1}, "bytes_up": 1e400}'),
        ("", '{"key": "x", "personal": "all", "loss": 99999999999999999999999}'),
    ],
)
def test_a_folder_of_another_program_does_not_stop_the_store(runs, spec, result):
    before = synced(runs)
    (runs / "foreign-x").mkdir()
    head = "dataset = 'digits'\npartition = 'iid'\nalgorithm = 'fedavg'\nseed = 0\nrounds = 1\n"
    (runs / "foreign-x" / "spec.toml").write_text(head + spec)
    (runs / "foreign-x" / "rounds.jsonl").write_text('{"round": 1, "loss": [1]}\n')
    (runs / "foreign-x" / "result.json").write_text(result)
    after = synced(runs)
    assert [row for row in after[0] if row[1] != "foreign-x"] == before[0]


def test_an_old_store_is_brought_up_to_date(runs):
    before = synced(runs)
    for version in range(1, len(MIGRATIONS)):
        (runs / FILE).unlink()
        with sqlite3.connect(runs / FILE) as base:
            for step in MIGRATIONS[:version]:
                base.executescript(step)
            base.execute(f"PRAGMA user_version = {version}")
            insert = (
                "INSERT INTO runs (key, folder, stamp, state, rounds_done, spec, figures) "
                "VALUES (?, ?, ?, 'finished', 0, '{}', '{}')"
            )
            base.execute(insert, ("gone", "gone", ""))
            for key, folder, stamp, *_ in before[0]:  # as it was read before there was the newest column
                base.execute(insert, (key, folder, stamp))
        assert synced(runs) == before
        with sqlite3.connect(runs / FILE) as base:
            assert base.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_newer_store_is_refused_and_left_alone(runs):
    synced(runs)
    with sqlite3.connect(runs / FILE) as base:
        base.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="newer unalike") as error:
        Store(runs)
    assert "\n" not in str(error.value)
    assert len(content(runs)[0]) == 3


WRITER = """
import sys
from pathlib import Path
from unalike.runs.results import read_record
from unalike.studies.store import Store
runs = Path(sys.argv[1])
records = [record for path in sorted(runs.iterdir()) if (record := read_record(path))]
with Store(runs) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(40):
        for record in records:
            store.put(record)
        store.sync()
"""


def test_several_processes_write_at_once(runs):
    before = synced(runs)
    (runs / FILE).unlink()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(runs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    writers[0].kill()  # in the middle of it
    assert [writer.wait(timeout=60) for writer in writers[1:]] == [0, 0]
    for writer in writers:
        writer.communicate()
    assert synced(runs) == before


def test_export(runs):
    with Store(runs) as store:
        store.sync()
        rows, rounds = store.rows(), store.rows(rounds=True)
    done = next(row for row in rows if row["state"] == "finished")
    assert done.keys() >= {*SPECS[0].to_dict(), "accuracy", "state", "problem", "parties_worst"}
    assert "parties_each" not in done
    read = list(csv.DictReader(io.StringIO(csv_bytes(rows).decode())))
    assert {(row["seed"], row["accuracy"], row["state"]) for row in read} == {
        ("0", "0.0", "finished"),
        ("1", "0.1", "finished"),
        ("2", "", "failed"),
    }
    assert [row["round"] for row in csv.DictReader(io.StringIO(csv_bytes(rounds).decode()))] == list("123123")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(parquet_bytes(rows))).to_pylist()
    assert {row["seed"]: row["accuracy"] for row in table} == {0: 0.0, 1: 0.1, 2: None}
    assert csv_bytes([]) == b"\n"
    assert parquet.read_table(io.BytesIO(parquet_bytes([]))).num_rows == 0


def test_columns_of_several_types_are_text():
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(parquet_bytes([{"a": 1, "b": 1}, {"a": "x", "b": 0.5}, {}])))
    assert table.to_pylist() == [{"a": "1", "b": 1.0}, {"a": "x", "b": 0.5}, {"a": None, "b": None}]


def test_the_keys_of_a_study(runs):
    study = read_study("x", "title='x'\nseeds=[0, 1]\n[base]\nrounds = 3\nsteps = 1", "x")
    assert study_keys(study, runs) == {spec.key for spec in SPECS[:2]}


def test_figures_are_kept_whole(runs):
    synced(runs)
    with sqlite3.connect(runs / FILE) as base:
        (text,) = base.execute("SELECT figures FROM runs WHERE seed = 1").fetchone()
    assert json.loads(text) == read_run(runs / SPECS[1].folder).result


def test_the_runs_score_has_columns_of_its_own(tmp_path):
    write_run(tmp_path, by="rmse", accuracies=(90.0, 53.2), seed=1)
    write_run(tmp_path, accuracies=(0.1, 0.8), seed=2)  # of a time when there was accuracy alone
    write_run(tmp_path, by="balanced-accuracy", accuracies=(0.1, 0.7), seed=3)
    synced(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as base:
        found = base.execute("SELECT seed, score, value, accuracy FROM runs ORDER BY seed").fetchall()
        curve = base.execute("SELECT rounds.value FROM rounds JOIN runs USING (key) WHERE seed = 1 ORDER BY round")
        assert [value for (value,) in curve] == [90.0, 53.2]
    assert found == [
        (1, "rmse", 53.2, None),
        (2, "accuracy", 0.8, 0.8),
        (3, "balanced-accuracy", 0.7, None),
    ]


def test_the_validation_score_has_a_column(runs):
    finished(runs, RunSpec(rounds=1), score="rmse", rmse=53.2, validation_rmse=54.0)
    synced(runs)
    with sqlite3.connect(runs / FILE) as base:
        assert base.execute("SELECT validation_value FROM runs WHERE score = 'rmse'").fetchall() == [(54.0,)]

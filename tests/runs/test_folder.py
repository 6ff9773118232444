from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import pytest
import safetensors.torch
import torch

from unalike.errors import UserError
from unalike.runs.checkpoint import Checkpoint, save_checkpoint
from unalike.runs.folder import RunDirectory
from unalike.runs.record import RunRecord, read_rounds, read_run, read_spec

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX only")

# Imports once, then forks: a child that writes rounds and checkpoints as fast as it can until it is killed.
KILLED = """
import os, sys, pathlib, torch
from unalike.runs.checkpoint import Checkpoint
from unalike.runs.folder import RunDirectory

def write(path):
    def say(line):
        raise SystemExit(line)
    with RunDirectory.open(path) as run:
        run.write_spec("rounds = 1000000")
        found = run.load_checkpoint(say)
        start = found.round if found else 0
        for number in range(start + 1, 1_000_000):
            run.append_round({"round": number, "loss": 1 / number, "pad": "x" * 200})
            if number % 3 == 0:
                run.save_checkpoint(Checkpoint(number, {"w": torch.full((50_000,), number)}, {"n": number}))

for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            write(pathlib.Path(sys.argv[1]))
        finally:
            os._exit(1)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""

HOLDER = """
import sys, pathlib
from unalike.runs.folder import RunDirectory
with RunDirectory.open(pathlib.Path(sys.argv[1])) as run:
    run.append_round({"round": 1})
    print("open", flush=True)
    sys.stdin.readline()
"""


def never(line: str) -> None:
    raise AssertionError(line)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".unalike-tmp")]


@contextmanager
def child(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@POSIX
def test_killed_at_any_moment_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "run"
    moments = random.Random(5)
    kills = rows_before = round_before = 0
    with child(KILLED, str(path)) as process:
        # A slow disk needs more of them to get anywhere.
        while kills < 16 or (round_before < 9 and kills < 200):
            kills += 1
            tell(process)
            pid = int(hear(process))
            time.sleep(moments.uniform(0.005, 0.12))
            os.kill(pid, signal.SIGKILL)
            assert os.WTERMSIG(int(hear(process))) == signal.SIGKILL  # it had not ended by itself
            read_rounds(path)  # before anything is mended
            with RunDirectory.open(path) as run:
                found = run.load_checkpoint(never)
                rows = run.rounds()
            reached = found.round if found else 0
            if found:
                assert found.meta == {"n": reached}
                assert torch.equal(found.tensors["w"], torch.full((50_000,), reached))
            assert [row["round"] for row in rows] == list(range(1, len(rows) + 1))
            assert len(rows) >= max(reached, rows_before)
            assert reached >= round_before
            assert leftovers(path) == []
            rows_before, round_before = len(rows), reached
    assert kills < 200, "no checkpoint was ever written"
    with RunDirectory.open(path) as run:
        # Each kill between writing one and removing the oldest leaves one more, until a save ends.
        run.save_checkpoint(Checkpoint(rows_before + 1, {}))
    assert len(list(path.glob("checkpoint-*"))) == 2


def test_second_process_is_told_who_has_the_folder(tmp_path: Path) -> None:
    with child(HOLDER, str(tmp_path / "run")) as process:
        assert hear(process) == "open"
        with pytest.raises(UserError) as caught, RunDirectory.open(tmp_path / "run"):
            pass
        assert str(caught.value) == (
            f"{tmp_path / 'run'} is in use by another process (pid {process.pid}). "
            "Wait for it, or choose another --runs folder."
        )
        assert read_rounds(tmp_path / "run") == [{"round": 1}]  # reading needs no lock
        process.kill()
        process.wait()
        with RunDirectory.open(tmp_path / "run") as run:
            assert run.rounds() == [{"round": 1}]


def test_second_opening_in_one_process(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path):
        with pytest.raises(UserError, match=f"pid {os.getpid()}"), RunDirectory.open(tmp_path):
            pass
        (tmp_path / "lock.pid").write_text("?")
        with pytest.raises(UserError, match=r"another process\. Wait"), RunDirectory.open(tmp_path):
            pass
    with RunDirectory.open(tmp_path):
        pass
    assert not (tmp_path / "lock.pid").exists()


def test_an_error_in_a_run_gives_the_folder_back(tmp_path: Path) -> None:
    def fail() -> None:
        with RunDirectory.open(tmp_path) as run:
            run.append_round({"round": 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with RunDirectory.open(tmp_path) as run:
        assert run.rounds() == [{"round": 1}]


def test_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="Cannot write"), RunDirectory.open(tmp_path / "run"):
        pass


def test_temporary_files_of_a_kill_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint-000001.safetensors.0123456789abcdef.unalike-tmp").write_bytes(b"half")
    with RunDirectory.open(tmp_path):
        assert leftovers(tmp_path) == []


def test_spec(tmp_path: Path) -> None:
    text = 'name = "Zürich"\r\n'
    assert read_spec(tmp_path / "absent") is None
    with RunDirectory.open(tmp_path) as run:
        run.write_spec(text)
        run.write_spec(text)
        with pytest.raises(UserError, match="belongs to another run"):
            run.write_spec("other = 1\n")
    assert read_spec(tmp_path) == text


def test_rows(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path) as run:
        assert run.rounds() == []
        run.append_round(
            {"round": 1, "loss": math.nan, "parties": {"a": [math.inf, 1.5, (-math.inf,)]}, "ä": "\n"}
        )
        run.append_round({"round": 2, "loss": 0.1, "seconds": 1})
    with RunDirectory.open(tmp_path) as run:
        for number in (1, 2, 4):
            with pytest.raises(ValueError, match=f"Round {number} does not follow round 2"):
                run.append_round({"round": number})
        run.append_round({"round": 3})
        rows = run.rounds()
    assert rows == read_rounds(tmp_path)
    assert rows == [
        {"round": 1, "loss": None, "parties": {"a": [None, 1.5, [None]]}, "ä": "\n"},
        {"round": 2, "loss": 0.1, "seconds": 1},
        {"round": 3},
    ]
    for line in (tmp_path / "rounds.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=never)  # no NaN or Infinity


def test_a_row_that_is_not_json_writes_nothing(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path) as run:
        with pytest.raises(TypeError):
            run.append_round({"round": 1, "x": object()})
        with pytest.raises(ValueError, match="must be an int"):
            run.append_round({"round": "1"})
        with pytest.raises(KeyError):
            run.append_round({"loss": 1})
        run.append_round({"round": 1})
        assert run.rounds() == [{"round": 1}]


def lines(folder: Path, *rows: dict[str, object]) -> list[bytes]:
    """The lines that these rows are written as."""
    with RunDirectory.open(folder) as run:
        for row in rows:
            run.append_round(row)
    return (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)


def test_a_line_torn_anywhere_is_cut_and_written_again(tmp_path: Path) -> None:
    file = tmp_path / "rounds.jsonl"
    first, last = lines(tmp_path, {"round": 1, "loss": 0.5}, {"round": 2, "loss": 0.25})
    for size in range(0, len(last), 3):
        file.write_bytes(first + last[:size])
        assert read_run(tmp_path) == RunRecord(None, [{"round": 1, "loss": 0.5}])  # no damage: it is unfinished
        assert file.read_bytes() == first + last[:size]  # reading mends nothing
        with RunDirectory.open(tmp_path) as run:
            assert file.read_bytes() == first
            run.append_round({"round": 2, "loss": 0.25})
        assert file.read_bytes() == first + last


@pytest.mark.parametrize("tail", [bytes(50), bytes(50) + b"\n", b'{"round": 2' + bytes(9) + b'}\n{"round"\0\n'])
def test_zeros_of_a_power_cut_are_cut(tmp_path: Path, tail: bytes) -> None:
    first, second = lines(tmp_path, {"round": 1}, {"round": 2})
    (tmp_path / "rounds.jsonl").write_bytes(first + tail)
    assert read_run(tmp_path) == RunRecord(None, [{"round": 1}])
    with RunDirectory.open(tmp_path) as run:
        run.append_round({"round": 2})
    assert (tmp_path / "rounds.jsonl").read_bytes() == first + second


@pytest.mark.parametrize(
    "line", [b'{"round": 2', b"", b"[2]", b'{"loss": 2}', b'{"round": 2}', b"\xff\xfe", bytes(9)]
)
def test_rows_after_a_damaged_line_are_cut_and_kept_aside(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "rounds.jsonl"
    first, second, third = lines(tmp_path, *({"round": number} for number in (1, 2, 3)))
    content = first + line + b"\n" + third
    file.write_bytes(content)
    said: list[str] = []
    with RunDirectory.open(tmp_path) as run:
        save_checkpoint(tmp_path, Checkpoint(1, {}))
        save_checkpoint(tmp_path, Checkpoint(3, {}))
        found = run.load_checkpoint(said.append)
        assert found is not None
        assert found.round == 1  # the one of round 3 has no rows to go with it
        run.append_round({"round": 2})
    assert file.read_bytes() == first + second
    assert (tmp_path / "rounds.jsonl.damaged").read_bytes() == content
    assert "rounds.jsonl: line 2 has no seal" in said[0]
    assert len(said) == 2


def test_rows_beyond_the_checkpoint_are_played_again(tmp_path: Path) -> None:
    """They may be of another version, of other data, or of a round in which other parties took part."""
    with RunDirectory.open(tmp_path) as run:
        for number in (1, 2, 3):
            run.append_round({"round": number, "of": "before"})
            if number == 1:
                run.save_checkpoint(Checkpoint(1, {}))
    with RunDirectory.open(tmp_path) as run:
        assert run.load_checkpoint(never) is not None
        for number in (2, 3):
            run.append_round({"round": number, "of": "after"})
        assert [row["of"] for row in run.rounds()] == ["before", "after", "after"]
    with RunDirectory.open(tmp_path) as run:
        run.load_checkpoint(lambda line: None, lambda checkpoint: "of another run")
        assert run.rounds() == []


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """A disk that takes a part of what is written, then no more."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@POSIX
def test_no_space_for_a_row(tmp_path: Path) -> None:
    file = tmp_path / "rounds.jsonl"
    with RunDirectory.open(tmp_path) as run:
        run.append_round({"round": 1})
        whole = file.read_bytes()
        with files_up_to(60), pytest.raises(UserError, match=r"No space left for .*rounds\.jsonl"):
            run.append_round({"round": 2, "pad": "x" * 100})
        assert file.read_bytes() == whole
        run.append_round({"round": 2})
        assert run.rounds() == [{"round": 1}, {"round": 2}]


def test_ctrl_c_in_the_middle_of_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(file: FileIO, data: bytes) -> None:
        file.write(data[:5])
        raise KeyboardInterrupt

    with RunDirectory.open(tmp_path) as run:
        run.append_round({"round": 1})
        whole = (tmp_path / "rounds.jsonl").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr("unalike.runs.rounds_file.write_all", half)
            with pytest.raises(KeyboardInterrupt):
                run.append_round({"round": 2})
        assert (tmp_path / "rounds.jsonl").read_bytes() == whole
        run._rounds._file.write(b'{"rou')  # as if cutting it off had failed, too
        run.append_round({"round": 2})
        assert run.rounds() == [{"round": 1}, {"round": 2}]


def test_no_space_for_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with RunDirectory.open(tmp_path) as run:
        run.write_spec("rounds = 1")
        run.append_round({"round": 1})
        run.save_checkpoint(Checkpoint(1, {}))
        run.write_result({"accuracy": 1, "key": "a"})
        result = (tmp_path / "result.json").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            run.append_round({"round": 2})
            for act in (
                run.sync,
                lambda: run.save_checkpoint(Checkpoint(2, {})),
                lambda: run.save_weights({}, {}),
                lambda: run.write_result({}),
            ):
                with pytest.raises(UserError, match="No space left for"):
                    act()
        found = run.load_checkpoint(never)
        assert found is not None
        assert found.round == 1
        assert (tmp_path / "result.json").read_bytes() == result
        assert leftovers(tmp_path) == []


@POSIX
def test_a_full_disk_does_not_keep_a_run_from_opening(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path) as run:
        run.append_round({"round": 1})
    with files_up_to(0), RunDirectory.open(tmp_path) as run:
        assert run.rounds() == [{"round": 1}]


def test_rows_are_on_the_disk_before_the_checkpoint_and_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunDirectory.open(tmp_path / "run") as run:
        rows = (tmp_path / "run" / "rounds.jsonl").stat().st_ino
        synced: list[bool] = []
        fsync = os.fsync

        def note(descriptor: int) -> None:
            synced.append(os.fstat(descriptor).st_ino == rows)
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", note)
        run.save_checkpoint(Checkpoint(0, {}))
        assert synced[0], "rows of a process that was killed may not be on the disk yet"
        run.append_round({"round": 1})
        synced.clear()
        run.save_checkpoint(Checkpoint(1, {}))
        assert synced[0]
        run.append_round({"round": 2})
        synced.clear()
        run.write_result({})
        assert synced[0]
        synced.clear()
        run.sync()
        assert synced == []  # nothing new to save
        run.append_round({"round": 3})
    assert synced[0], "closing saves the rows"


def test_checkpoints(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path) as run:
        assert run.load_checkpoint(never) is None
        for number in range(5):
            if number:
                run.append_round({"round": number})
            run.save_checkpoint(Checkpoint(number, {"w": torch.ones(2)}), keep=3)
        (tmp_path / "checkpoint-000004.safetensors").write_bytes(b"")
        said: list[str] = []
        found = run.load_checkpoint(said.append)
    assert found is not None
    assert found.round == 3
    assert said == ["checkpoint-000004 is damaged (empty); going on from checkpoint-000003"]


def test_weights_are_plain_safetensors(tmp_path: Path) -> None:
    flat = torch.arange(4.0)
    with RunDirectory.open(tmp_path) as run:
        digest = run.save_weights({"a": flat[:2], "b": flat[2:]}, {"model": "mlp(3)"})
    path = tmp_path / "weights.safetensors"
    loaded = safetensors.torch.load_file(path)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert torch.equal(torch.cat([loaded["a"], loaded["b"]]), flat)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"model": "mlp(3)"}


def test_result(tmp_path: Path) -> None:
    assert read_run(tmp_path / "absent") == RunRecord()
    with RunDirectory.open(tmp_path) as run:
        assert run.found == RunRecord()
        run.write_spec("rounds = 0")
        run.write_result({"key": "a", "accuracy": 0.5, "gap": math.inf})
    assert read_run(tmp_path).result == {"key": "a", "accuracy": 0.5, "gap": None}
    for damaged in (b"", b"{", b"[1]", b"\xff", bytes(20)):
        (tmp_path / "result.json").write_bytes(damaged)
        found = read_run(tmp_path)
        assert found.result is None
        assert str(found.damage).startswith("result.json has no seal")


def test_reading_while_a_run_writes(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path) as run:
        for number in range(1, 50):
            run.append_round({"round": number})
            assert len(read_rounds(tmp_path)) == number  # flushed at once

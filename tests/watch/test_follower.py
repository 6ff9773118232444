"""A run that is followed: every look gives what a fresh reader would find, whatever happened to the files."""

import json
import os
import shutil
import tempfile
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.watch.made import nobody, row, sealed, write_run
from unalike.runs.folder import RunDirectory
from unalike.runs.record import read_rounds
from unalike.runs.rules import cohort_of
from unalike.runs.spec import RunSpec
from unalike.watch.follower import MOST_POINTS, FollowedRun, members, told
from unalike.watch.locks import held_now


def scores(run):
    return [(point[0], point[1]) for point in run.points]


def test_rounds_are_read_on_from_the_last_whole_line(tmp_path):
    folder = write_run(tmp_path / "run", done=0)
    lines, _ = sealed([row(1), row(2)])
    path, run = folder / "rounds.jsonl", FollowedRun(folder)
    run.look(nobody)
    path.write_bytes(lines[0] + lines[1][:40])
    assert run.look(nobody)
    assert (scores(run), run.start) == ([(1, 1.0)], 0)
    path.write_bytes(lines[0] + lines[1])
    assert run.look(nobody)
    assert (scores(run), run.start) == ([(1, 1.0), (2, 2.0)], 1)
    assert not run.look(nobody)
    assert run.start == 2


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grow", "cut", "anew", "zeros"]),
        st.tuples(st.integers(0, 8), st.sampled_from([0, 0, 1, 200])),  # whole lines, and bytes of the next
        st.integers(0, 3),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_whatever_happens_to_the_file_a_look_finds_what_a_fresh_reader_finds(steps):
    with tempfile.TemporaryDirectory() as name:
        folder = write_run(Path(name) / "run", done=0)
        path, run, content = folder / "rounds.jsonl", FollowedRun(folder), b""
        whole = [b"".join(sealed([row(n, n / (100 + kind)) for n in range(1, 9)])[0]) for kind in range(4)]
        kind = 0
        for what, (lines, more), other in steps:
            size = len(b"".join(whole[kind].splitlines(keepends=True)[:lines])) + more
            if what == "grow":
                content = whole[kind][: max(len(content), size)]
            elif what == "cut":
                content = content[:size]
            elif what == "anew":  # another run's rounds, perhaps just as many bytes
                kind = other
                content = whole[kind][:size]
            else:
                content += b"\0" * (size % 50)
            before = path.stat()
            path.write_bytes(content)
            os.utime(path, ns=(0, before.st_mtime_ns + 10**6))  # a clock may be too coarse for a test
            run.look(nobody)
            fresh = [(each["round"], float(f"{100 * each['accuracy']:.5g}")) for each in read_rounds(folder)]
            assert scores(run) == fresh


def test_states_and_their_lines(tmp_path):
    made = {
        "finished": write_run(tmp_path / "a", done=6, finished=True),
        "failed": write_run(tmp_path / "b", problem="The loss is not finite."),
        "stopped": write_run(tmp_path / "c"),
        "waiting": tmp_path / "d",
        "damaged": write_run(tmp_path / "e", done=6, finished=True),
    }
    lines = (made["damaged"] / "rounds.jsonl").read_bytes()
    (made["damaged"] / "rounds.jsonl").write_bytes(lines.replace(b"0.03", b"0.97"))
    runs = {state: FollowedRun(path) for state, path in made.items()}
    for run in runs.values():
        run.look(nobody)
    assert {run.state for run in runs.values()} == set(runs)
    assert all(run.state == state for state, run in runs.items())
    assert runs["failed"].problem == "The loss is not finite."
    assert "line 3" in runs["damaged"].problem
    assert len(runs["damaged"].points) == 2


def test_a_result_that_does_not_fit_its_rounds_is_no_end(tmp_path):
    folder = write_run(tmp_path / "a", done=6, finished=True)
    lines = (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "rounds.jsonl").write_bytes(b"".join(lines[:4]))
    run = FollowedRun(folder)
    run.look(nobody)
    assert run.state == "damaged"
    assert run.done == 4


def test_a_run_that_begins_again_is_read_anew(tmp_path):
    folder = write_run(tmp_path / "a", done=6, finished=True)
    run = FollowedRun(folder)
    run.look(nobody)
    (folder / "result.json").unlink()
    write_run(folder, done=2)
    assert run.look(nobody)
    assert (run.state, run.done, run.start) == ("stopped", 2, 0)
    shutil.rmtree(folder)
    assert run.look(nobody)
    assert (run.state, run.points) == ("waiting", [])


@pytest.mark.parametrize("text", ["rounds = ", "", "rounds = 'x'", "\xff", "rounds = 9223372036854775808"])
def test_a_spec_that_cannot_be_read_is_damage_and_no_crash(tmp_path, text):
    folder = write_run(tmp_path / "a")
    (folder / "spec.toml").write_text(text, encoding="latin-1")
    run = FollowedRun(folder)
    run.look(nobody)
    assert run.state == "damaged"
    assert run.problem
    assert run.done == 3
    assert run.head()["rounds"] == 0


@pytest.mark.parametrize("more", [{"score": "made-up"}, {"parties": 3}, {"seconds": "x"}, {"accuracy": None}])
def test_odd_rows_are_no_crash(tmp_path, more):
    folder = write_run(tmp_path / "a", done=0)
    (folder / "rounds.jsonl").write_bytes(b"".join(sealed([row(1, **more)])[0]))
    run = FollowedRun(folder)
    run.look(nobody)
    run.head()
    assert run.state == ("damaged" if "score" in more else "stopped")


def test_running_comes_from_the_lock_and_a_look_leaves_no_trace(tmp_path):
    folder = write_run(tmp_path / "run")
    run = FollowedRun(folder)
    run.look(held_now())
    assert run.state == "stopped"
    with RunDirectory.open(folder):
        run.look(held_now())
        assert run.state == "running"
        assert run.head()["eta"] == 6.0  # three rounds of two seconds
    (folder / "lock.pid").write_text(str(os.getpid()))  # as after kill -9, with a number that is in use again
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.iterdir()}
    assert run.look(held_now())
    assert run.state == "stopped"
    assert before == {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.iterdir()}


def test_looking_never_keeps_a_run_from_starting(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "lock").touch()
    (folder / "lock.pid").write_text("1")
    run, done = FollowedRun(folder), threading.Event()

    def look():
        while not done.is_set():
            run.look(held_now())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(300):
            with FileLock(folder / "lock", timeout=0):
                pass
    finally:
        done.set()
        thread.join()


def test_totals_and_the_last_values(tmp_path):
    run = FollowedRun(write_run(tmp_path / "a", done=4))
    run.look(nobody)
    head = run.head()
    assert (head["bytes_up"], head["bytes_down"], head["seconds"]) == (400, 800, 8)
    assert head["values"]["score"] == 4.0
    assert head["values"]["parties_worst"] == 2.0
    assert head["eta"] is None  # nobody is at it
    assert head["partition"] == "label-dirichlet(0.1)"


def test_a_long_curve_is_thinned_and_stays_in_order(tmp_path):
    folder = write_run(tmp_path / "a", done=0, rounds=3000)
    lines, _ = sealed([row(number) for number in range(1, 1501)])
    run, path = FollowedRun(folder), folder / "rounds.jsonl"
    for end in (599, 601, 650, 1500):
        path.write_bytes(b"".join(lines[:end]))
        run.look(nobody)
        rounds = [point[0] for point in run.points]
        assert rounds == sorted(set(rounds))
        assert len(rounds) <= MOST_POINTS
        assert rounds[-1] > end - 8
        assert run.done == end


@pytest.mark.parametrize(("sample", "parties"), [(0.5, 10), (0.25, 20), (0.1, 100)])
def test_who_is_in_a_round_is_who_the_training_asks(sample, parties):
    spec = RunSpec(parties=parties, sample=sample, seed=3)
    for number in (1, 2, 7):
        cohort = cohort_of(spec, parties, number)
        assert members(spec.to_dict(), len(cohort), number) == cohort


@pytest.mark.parametrize(
    "odd", [{"parties": None}, {"newcomers": 0.1}, {"seed": -1}, {"seed": "x"}, {"parties": 5}]
)
def test_who_is_in_a_round_is_not_guessed(odd):
    assert members({"parties": 10, "seed": 0, **odd}, 5, 1) is None


def test_names_are_as_they_were_found_but_not_endless():
    assert told("algorithm", "<b>") == "<b>"
    assert told("algorithm", 3) == "?"
    assert len(told("dataset", "x" * 10**6)) <= 200


@pytest.mark.parametrize(
    "figures",
    [
        {"loss": 1e308, "accuracy": 1.7e308, "seconds": 1.7e308, "bytes_up": 1.7e308},
        {"loss": 10**400, "seconds": 10**400, "epsilon": 10**400, "parties": {"mean": 10**400}},
        {"cohort": -3, "seconds": -1e300},
    ],
)
def test_figures_that_no_run_has_do_not_end_the_page_for_all_others(tmp_path, figures):
    rows, _ = sealed([row(1) | figures, row(2) | figures])
    folder = write_run(tmp_path / "run", done=0)
    (folder / "rounds.jsonl").write_bytes(b"".join(rows))
    run = FollowedRun(folder)
    run.look(nobody)
    json.dumps([run.head(), run.points], allow_nan=False)
    assert run.head()["seconds"] < 100


def test_points_of_a_long_curve_are_equally_far_apart(tmp_path):
    count = 3 * MOST_POINTS
    folder = write_run(tmp_path / "run", done=count)
    run = FollowedRun(folder)
    run.look(nobody)
    rounds = [point[0] for point in run.points]
    assert MOST_POINTS / 2 <= len(rounds) <= MOST_POINTS
    assert len({later - earlier for earlier, later in pairwise(rounds)}) == 1


def test_a_pipe_in_place_of_the_rounds_does_not_hold_up_the_page(tmp_path):
    folder = write_run(tmp_path / "run", done=0)
    (folder / "rounds.jsonl").unlink()
    os.mkfifo(folder / "rounds.jsonl")
    run = FollowedRun(folder)
    run.look(nobody)
    assert run.head()["state"] == "damaged"
    assert "a device or a pipe" in run.head()["problem"]

"""What pages are told: all of it once, then differences that add up to the same."""

import json
import shutil

import pytest

from tests.watch.made import row, sealed, write_run
from unalike.watch import board as module
from unalike.watch.board import Board
from unalike.watch.sources import OneRun, RunsIn


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.0)


def taken(known, news, whole):
    """What the page makes of an event."""
    known = {"about": {}, "runs": {}} if whole else known
    known["about"].update(news.get("about", {}))
    for name in news.get("gone", []):
        del known["runs"][name]
    for each in news.get("runs", []):
        rows = known["runs"].get(each["id"], {"rows": []})["rows"][: each["from"]]
        known["runs"][each["id"]] = {"head": each["head"], "rows": rows + each["rows"]}
    return known


def grow(folder, done, **more):
    lines, _ = sealed([row(number, **more) for number in range(1, done + 1)])
    (folder / "rounds.jsonl").write_bytes(b"".join(lines))


def test_differences_add_up_to_the_whole(tmp_path):
    runs = [write_run(tmp_path / f"run-{n}", done=n, seed=n) for n in range(4)]
    board = Board(RunsIn(tmp_path))
    number, text = board.whole()
    known = taken(None, json.loads(text), True)
    steps = [
        lambda: grow(runs[1], 5),
        lambda: write_run(tmp_path / "run-new", done=2, lr=0.5),  # other runs are named by their lr now, too
        lambda: shutil.rmtree(runs[2]),
        lambda: grow(runs[1], 2),
        lambda: write_run(runs[3], done=6, finished=True),
        lambda: (runs[0] / "failure.json").write_text('{"problem": "x"}'),
    ]
    for step in steps:
        step()
        board.look()
        news = list(board.since(number))
        assert len(news) == 1
        number, text = news[0]
        known = taken(known, json.loads(text), False)
        assert known == taken(None, json.loads(board.whole()[1]), True)
    assert known["runs"]["run-0"]["head"]["state"] == "failed"
    assert "run-2" not in known["runs"]
    assert known["runs"]["run-new"]["head"]["more"] == "lr 0.5"


def test_nothing_new_is_no_event_and_an_event_has_only_what_is_new(tmp_path):
    for n in range(3):
        write_run(tmp_path / f"run-{n}", done=3)
    board = Board(RunsIn(tmp_path))
    number, _ = board.whole()
    board.look()
    assert list(board.since(number)) == []
    grow(tmp_path / "run-1", 4)
    board.look()
    ((_, text),) = board.since(number)
    (only,) = json.loads(text)["runs"]
    assert (only["id"], only["from"], len(only["rows"])) == ("run-1", 3, 1)


def test_a_page_that_fell_behind_is_told_so(tmp_path):
    folder = write_run(tmp_path / "run", done=0, rounds=200)
    board = Board(RunsIn(tmp_path))
    number, _ = board.whole()
    for done in range(1, 80):
        grow(folder, done)
        board.look()
    assert board.since(number) is None
    assert len(list(board.since(board.whole()[0] - 5))) == 5
    first = board.whole()[0] - module._KEPT
    assert len(list(board.since(first))) == module._KEPT  # all that is kept, and nothing is missing before it
    assert board.since(first - 1) is None


def test_several_pages_share_a_look(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LOOK", 60.0)
    board = Board(RunsIn(tmp_path))
    board.look()
    write_run(tmp_path / "run")
    assert json.loads(board.whole()[1])["runs"] == []


def test_one_run_whose_folder_goes(tmp_path):
    folder = write_run(tmp_path / "run")
    board = Board(OneRun(folder))
    assert [each["id"] for each in json.loads(board.whole()[1])["runs"]] == ["run"]
    shutil.rmtree(folder)
    told = json.loads(board.whole()[1])
    assert told["runs"] == []
    assert "not there any more" in told["about"]["empty"]


def test_what_is_no_run_is_not_shown(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "file.txt").write_text("x")
    write_run(tmp_path / ".hidden")
    assert json.loads(Board(RunsIn(tmp_path)).whole()[1])["runs"] == []
    assert json.loads(Board(RunsIn(tmp_path / "none")).whole()[1])["runs"] == []

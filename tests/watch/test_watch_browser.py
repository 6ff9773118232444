"""The page in a real browser, while runs really train, are torn, cut, removed, or have hostile names."""

import json
import shutil
import threading
import time
from contextlib import contextmanager

import pytest

from benchmarks.browser import Browser, chromium
from tests.federation.inside import World
from tests.watch.made import row, sealed, write_run
from unalike.federation.attempts import serve
from unalike.runs.run import Watcher, run
from unalike.studies.study import plan_study
from unalike.studies.study_file import load_study
from unalike.watch.board import Board
from unalike.watch.federations import ServerSide
from unalike.watch.server import serving
from unalike.watch.sources import OneRun, RunsIn, StudyRuns

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no chromium to open the page with")

EVIL = "<img src=x onerror=\"document.title='hit'\"><script>document.title='hit'</script>"
POINTS = "document.querySelector('#chart [data-line]')?.getAttribute('d').split(/[ML]/).length - 1"


@pytest.fixture(scope="module")
def browser():
    with Browser(1000, 1200) as made:
        yield made


@contextmanager
def opened(browser, source):
    browser.events.clear()
    with serving(Board(source), 0) as server:
        browser.open(server.address)
        until(browser, "document.body.dataset.seen === 'yes'")
        yield browser
        assert browser.complaints == []
        own = server.address.partition("?")[0]
        assert all(address.startswith(own) for address in browser.requests)
        browser.open("about:blank")


def until(browser, script, seconds=20.0):
    """Wait until an expression is true on the page."""
    end = time.monotonic() + seconds
    while not browser.run(f"Boolean({script})"):
        assert time.monotonic() < end, (script, browser.run("document.body.innerText"))
        time.sleep(0.05)


def text(browser, place="body"):
    return browser.run(f"document.querySelector({json.dumps(place)}).innerText")


class Pausing(Watcher):
    """Stops a training after a round until it may go on."""

    def __init__(self, after):
        self.after, self.there, self.go = after, threading.Event(), threading.Event()

    def round_done(self, row):
        if row["round"] == self.after:
            self.there.set()
            assert self.go.wait(60)


def test_a_curve_grows_while_the_run_trains(browser, tmp_path):
    pause = Pausing(3)
    fields = {"dataset": "digits", "model": "mlp(8)", "rounds": 6, "epochs": 1, "sample": 0.5, "parties": 10}
    thread = threading.Thread(target=lambda: run(**fields, runs=tmp_path, watcher=pause, checkpoint_seconds=1000))
    with opened(browser, RunsIn(tmp_path)):
        assert "There are no runs" in text(browser, "#empty")
        thread.start()
        try:
            assert pause.there.wait(60)
            until(browser, f"{POINTS} === 3")
            assert "running: round 3 of 6" in text(browser, "#summary")
            assert "left" in text(browser, "#eta")
            assert "of round 4" in text(browser, "#fact-list")
            browser.run("document.querySelector('#chart svg.plot').focus()")
            browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
            assert text(browser, "#tip").startswith("round 1")
        finally:
            pause.go.set()
            thread.join()
        until(browser, f"{POINTS} === 6")
        until(browser, "document.getElementById('summary').textContent.includes('finished')")
        assert text(browser, "#tip").startswith("round 1")  # what somebody reads stays
        assert browser.run("document.querySelectorAll('#chart g[visibility=visible]').length") == 1
        assert browser.run("document.activeElement.classList.contains('plot')")
        assert browser.run("location.search") == ""


def test_torn_cut_and_removed_files(browser, tmp_path):
    folder = write_run(tmp_path / "run", done=2)
    lines, _ = sealed([row(number) for number in range(1, 6)])
    with opened(browser, OneRun(folder)):
        until(browser, f"{POINTS} === 2")
        (folder / "rounds.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:50])
        until(browser, f"{POINTS} === 4")
        (folder / "rounds.jsonl").write_bytes(b"".join(lines[:3]))
        until(browser, f"{POINTS} === 3")
        assert "stopped" in text(browser, "#summary")
        shutil.rmtree(folder)
        until(browser, "!document.getElementById('empty').hidden")
        assert browser.run("document.getElementById('curves').hidden")


def test_hostile_names_are_text(browser, tmp_path):
    for number in range(2):
        write_run(
            tmp_path / f"run-{number}", dataset=EVIL, algorithm=EVIL, partition=EVIL, seed=number, problem=EVIL,
            **{"lr": f"{number}{EVIL}"},
        )  # fmt: skip
    write_run(tmp_path / "<b>bold<b>-aa")
    with opened(browser, RunsIn(tmp_path)):
        assert text(browser, "#list").count(EVIL) >= 6
        assert browser.run("document.title") != "hit"
        assert browser.run("document.querySelectorAll('img, b, main script').length") == 0


def test_many_runs_are_sorted_filtered_and_chosen(browser, tmp_path):
    for number in range(90):
        algorithm = "fedavg" if number % 3 else "scaffold"
        write_run(tmp_path / f"run-{number:03d}", done=6, finished=True, algorithm=algorithm, seed=number)
    write_run(tmp_path / "broken", problem="The loss is not finite in round 2.")
    with opened(browser, RunsIn(tmp_path)):
        assert "91 runs: 1 failed, 90 finished" in text(browser, "#summary")
        first = text(browser, "#list tr")
        assert "✗ failed" in first
        assert "The loss is not finite in round 2." in first
        assert browser.run("document.querySelectorAll('#list tr').length") == 60
        browser.run("document.getElementById('all').click()")
        assert browser.run("document.querySelectorAll('#list tr').length") == 91
        fill = "(f => { f.value = 'scaffold finished'; f.dispatchEvent(new Event('input')); })"
        browser.run(f"{fill}(document.getElementById('filter'))")
        assert text(browser, "#found") == "30 runs of 91"
        assert browser.run("document.querySelectorAll('#list tr').length") == 30
        drawn = "document.querySelectorAll('#chart [data-line]').length"
        before = browser.run(drawn)
        browser.run("document.querySelector('#list input:not(:checked)').click()")
        assert browser.run(drawn) == before + 1
        for _ in range(before + 1):
            browser.run("document.querySelector('#list input:checked').click()")
        assert browser.run(drawn) == 0
        assert "NaN" not in browser.run("document.getElementById('chart').innerHTML")
        labels = (
            "[...document.querySelectorAll('#list input')].every(e => e.getAttribute('aria-label').length > 8)"
        )
        assert browser.run(labels)


STUDY = """
title = "A small grid"
seeds = [0, 1]
[base]
rounds = 6
dataset = "digits"
[axes]
algorithm = ["fedavg", "fedprox"]
partition = ["iid", "label-dirichlet(0.1)"]
[tune.fedprox]
mu = [0.1, 1.0]
"""


def test_a_study_shows_its_grid_and_what_is_to_come(browser, tmp_path):
    path, runs = tmp_path / "grid.toml", tmp_path / "runs"
    path.write_text(STUDY)
    study = load_study(str(path))
    plan = plan_study(study)
    first = next(goal.planned.spec for goal in plan.goals if goal.planned)
    write_run(runs / first.folder, done=3, **first.to_dict())
    with opened(browser, StudyRuns(study, plan, runs)):
        assert text(browser, "h1") == "A small grid"
        said = text(browser, "#summary")
        assert f"{plan.total} runs" in said
        assert "1 stopped" in said
        assert "No process is at it" in said
        heads = browser.run("[...document.querySelectorAll('#grid-head th')].map(e => e.textContent)")
        assert heads == ["Setting", "fedavg", "fedprox"]
        cells = browser.run("[...document.querySelectorAll('#grid tr')].map(e => e.innerText)")
        assert len(cells) == 2
        assert "3.0 %" in cells[0]
        assert "tuning first" in cells[1]
        for planned in plan.tuning_runs():
            write_run(runs / planned.spec.folder, done=6, finished=True, **planned.spec.to_dict())
        until(browser, "!document.getElementById('grid').innerText.includes('tuning first')")


def test_a_federation_shows_who_answered_and_nothing_else_of_a_site(browser, tmp_path):
    world = World.make(tmp_path, train={"rounds": 2})
    folder = world.folder.path
    (folder / "invitations").mkdir()
    with opened(browser, ServerSide(folder)):
        assert "The server is not running" in text(browser, "#standing")
        assert "unalike federation run" in text(browser, "#empty")
        serve(world.transport, folder)
        until(browser, f"{POINTS} === 2")
        until(browser, "document.getElementById('sites').innerText.includes('●●')")
        names = browser.run("[...document.querySelectorAll('#sites th')].map(e => e.textContent)")
        assert names == list(world.plan.parties)
    told = json.loads(Board(ServerSide(folder)).whole()[1])
    shown = {name for party in told["about"]["standing"]["parties"] for name in party}
    assert shown == {"name", "admitted", "answered", "answers", "seconds", "bytes_up", "bytes_down"}


@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_is_wider_than_the_screen_and_all_can_be_reached(tmp_path, width):
    for number in range(3):
        write_run(
            tmp_path / f"run-{number}", seed=number, algorithm="a-very-long-name-of-an-algorithm-of-ones-own"
        )
    with Browser(width, 900, dark=True, phone=width < 500) as browser, opened(browser, RunsIn(tmp_path)):
        assert browser.run("document.documentElement.scrollWidth") <= width
        ink, paper = browser.run(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert max(map(int, paper[4:-1].split(","))) < 60 < min(map(int, ink[4:-1].split(",")))
        named = browser.run(
            "[...document.querySelectorAll('button, input, [role=region], svg.plot')]"
            ".filter(e => e.getClientRects().length)"
            ".every(e => (e.textContent || e.ariaLabel || e.labels?.[0]?.textContent || '').trim())"
        )
        assert named
        levels = browser.run("[...document.querySelectorAll('h1, h2')].map(e => e.tagName)")
        assert levels.count("H1") == 1

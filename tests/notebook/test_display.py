"""Progress where people look: one bar in a notebook, a bar on a terminal, nothing in a pipe."""

import sys
from types import SimpleNamespace

import pytest

import unalike
from unalike.errors import UserError
from unalike.notebook import display
from unalike.notebook.display import NotebookBar, following
from unalike.notebook.progress import Bar
from unalike.runs.run import Watcher

FIELDS = {"dataset": "heart", "partition": "natural", "rounds": 3}
CELLS = (
    "import unalike\nfields = dict(dataset='heart', partition='natural', rounds=60)",
    "result = unalike.run(**fields, runs='runs')",
    "result",
    "unalike.run(**fields, runs='runs', progress=True).score == result.score",
    "unalike.run(**fields, progress=False).score == result.score",
)


def test_a_notebook_that_was_run_has_the_last_state_once(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    _, trained, shown, looked_up, silent = (cell["outputs"] for cell in notebook.cells)
    (bar,) = trained
    assert bar["output_type"] == "display_data"
    assert bar["data"]["text/plain"].startswith("round 60 of 60 · accuracy")
    assert 'value="60" max="60"' in bar["data"]["text/html"]
    assert "to go" not in bar["data"]["text/html"]
    assert "<table>" in shown[0]["data"]["text/html"]
    assert shown[0]["data"]["text/plain"].startswith("Result: fedavg on heart")
    assert [output["output_type"] for output in (*looked_up, *silent)] == ["execute_result"] * 2


def test_a_script_in_a_pipe_says_nothing(capfd):
    unalike.run(**FIELDS)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("progress", [None, False, True])
def test_a_terminal_has_a_bar_unless_told_otherwise(terminal, progress, monkeypatch):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: terminal, write=len, flush=lambda: None))
    with following(None, progress) as watcher:
        assert isinstance(watcher, Bar) == (terminal if progress is None else progress)


def test_a_watcher_of_ones_own_takes_the_bars_place_or_stands_beside_it(monkeypatch):
    monkeypatch.setattr(display, "_looked_at", lambda: True)
    own = Watcher()
    with following(own, None) as watcher:
        assert watcher is own
    with following(own, True) as watcher:
        assert watcher.watchers[0] is own
        assert len(watcher.watchers) == 2


def test_another_word_for_progress_is_refused():
    with pytest.raises(UserError, match="True, False or None, got 'yes'"):
        unalike.run(**FIELDS, progress="yes")


class Page:
    """A notebook's page: what was displayed, and how often it was drawn."""

    def __init__(self):
        self.shown, self.drawn = [], 0

    def display(self, shown, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(shown)
        return self

    def update(self, shown, raw):
        assert raw
        self.shown[-1] = shown
        self.drawn += 1


@pytest.fixture
def page(monkeypatch):
    made = Page()
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=made.display))
    return made


@pytest.mark.parametrize(("seconds", "times"), [(0.0, 31), (1e9, 1)])  # each round and the end, or the end alone
def test_rounds_faster_than_the_eye_are_not_all_drawn(seconds, times, page, monkeypatch):
    monkeypatch.setattr(display, "SECONDS_BETWEEN", seconds)
    with NotebookBar() as bar:
        unalike.run(**{**FIELDS, "rounds": 30}, watcher=bar)
    assert len(page.shown) == 1
    assert page.drawn == times
    assert page.shown[0]["text/plain"].startswith("round 30 of 30")


def test_a_stopped_run_says_where(page):
    bar = NotebookBar()

    def stop(row):
        raise KeyboardInterrupt

    bar.round_done = stop
    with pytest.raises(KeyboardInterrupt), bar:
        unalike.run(**FIELDS, watcher=bar)
    said = page.shown[0]["text/plain"]
    assert said.startswith("round 1 of 3 · ")
    assert said.endswith(" · stopped")


def test_messages_stay_below_the_bar_and_are_escaped(page):
    with NotebookBar() as bar:
        bar.say("Use <b>less</b>.")
        unalike.run(**FIELDS, watcher=bar)
    assert len(page.shown) == 1
    assert "Use &lt;b&gt;less&lt;/b&gt;." in page.shown[0]["text/html"]
    assert page.shown[0]["text/plain"].endswith("Use <b>less</b>.")


def test_a_run_that_is_looked_up_draws_nothing(page, tmp_path):
    unalike.run(**FIELDS, runs=tmp_path)
    with NotebookBar() as bar:
        unalike.run(**FIELDS, runs=tmp_path, watcher=bar)
    assert page.shown == []

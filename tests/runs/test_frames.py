"""Rounds as a DataFrame, of whichever library is there."""

import pytest

from unalike.errors import UserError
from unalike.runs import frames
from unalike.runs.frames import frame, names_in

ROWS = [
    {"round": 1, "train_loss": 0.5, "score": "accuracy"},
    {"round": 2, "train_loss": 0.4, "score": "accuracy", "parties": {"worst": 0.25, "each": [0.25, None]}},
]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_line_for_each_round_and_a_dot_within(kind):
    pytest.importorskip(kind)
    made = frame(ROWS, kind)
    assert type(made).__module__.startswith(kind)
    assert list(made.columns) == ["round", "train_loss", "score", "parties.worst"]
    assert made.shape == (2, 4)
    assert list(made["round"]) == [1, 2]
    assert made["parties.worst"][1] == 0.25


def test_without_a_word_it_is_the_one_that_is_there(monkeypatch):
    pytest.importorskip("polars")
    monkeypatch.setattr(frames, "find_spec", lambda name: True if name == "polars" else None)
    assert type(frame(ROWS)).__module__.startswith("polars")


@pytest.mark.parametrize(("kind", "named"), [(None, "pandas or polars"), ("polars", "polars")])
def test_without_a_library_the_remedy_is_told(kind, named, monkeypatch):
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=rf"needs {named}\. Install one: pip install {named.split()[0]}\. .*\.rows"
    ):
        frame(ROWS, kind)


def test_another_library_is_refused():
    with pytest.raises(UserError, match="pandas"):
        frame(ROWS, "panda")


def test_figures_that_are_numbers():
    assert names_in(ROWS) == ["round", "train_loss", "parties.worst"]
    assert names_in([]) == []

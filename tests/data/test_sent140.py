"""Tweets: cut the same way everywhere, a vocabulary of training tweets only, users as parties."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.data import Dataset, load_dataset, sent140
from unalike.data.sent140 import Sent140
from unalike.data.text import bag_of_words, token_ids, tokenise, vocabulary
from unalike.errors import UserError

ORIGINAL = "training.1600000.processed.noemoticon.csv"
TWEETS = [
    (n % 2, f"user{n % 7}", f'{"good" if n % 2 else "bad"} day, number "{n}"\r\nsecond line') for n in range(50)
]


def write_small(folder: Path, rows: list[tuple[int, str, str]]) -> None:
    with (folder / "sent140_20k.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "user", "date", "text"])
        writer.writerows([label, user, "Mon Apr 06", text] for label, user, text in rows)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    monkeypatch.setitem(sent140.ROWS, "sent140_20k.csv", len(TWEETS))
    monkeypatch.setitem(sent140.ROWS, ORIGINAL, len(TWEETS))
    write_small(tmp_path, TWEETS)
    return tmp_path


def words_of(data: Dataset, row: int) -> list[str]:
    return [data.features[number] for number in data.x[row] if number]


def test_tokens(folder: Path) -> None:
    data = load_dataset("sent140(length=6)")
    assert (data.x.shape, data.x_test.shape, data.x.dtype, data.kind) == ((40, 6), (10, 6), np.int32, "tokens")
    assert np.bincount(data.y_test).tolist() == [5, 5]
    assert data.features[:2] == ("<pad>", "<unknown>")
    for row, label in enumerate(data.y):
        assert words_of(data, row)[:5] == [("bad", "good")[label], "day", ",", "number", '"']
    assert data.classes == ("negative", "positive")


def test_users_are_parties(folder: Path) -> None:
    rows = [*TWEETS[:-1], (1, "once", "good day only")]
    write_small(folder, rows)
    data = load_dataset("sent140")
    assert data.group is not None
    assert data.group_test is not None
    for row in range(len(data.y)):  # the number in the tweet tells its user
        number = next((int(word) for word in words_of(data, row) if word.isdigit()), None)
        assert data.group_names[data.group[row]] == ("once" if number is None else f"user{number % 7}")
    assert set(range(len(data.group_names))) == set(data.group)
    assert (data.group_test >= -1).all()


def test_a_user_with_test_tweets_only_is_no_party(folder: Path) -> None:
    write_small(folder, [(n % 2, f"user{n}", f"text {n}") for n in range(50)])
    data = load_dataset("sent140")
    assert len(data.group_names) == 40
    assert data.group_test is not None
    assert set(data.group_test) == {-1}


def test_only_training_words_are_known(folder: Path) -> None:
    data = load_dataset("sent140")
    numbers = {word for word in data.features if word.isdigit()}
    assert len(numbers) == 40  # each tweet has a number of its own; those of the test tweets are unknown
    assert (data.x_test == 1).sum(axis=1).tolist() == [1] * 10
    assert len(load_dataset("sent140(words=3)").features) == 5


def test_bag(folder: Path) -> None:
    data, tokens = load_dataset("sent140(bag)"), load_dataset("sent140")
    assert data.is_sparse
    assert (data.kind, data.x.dtype, data.x.shape) == ("numbers", np.float32, (40, len(data.features)))
    assert data.features == tokens.features[1:]
    for row in range(40):
        counts = np.bincount(tokens.x[row], minlength=len(tokens.features))[1:]
        np.testing.assert_array_equal(data.x[[row]].toarray()[0], counts)
    assert data.x_test[:, [0]].sum() == 10  # the unknown words


def test_the_original_file_goes_first(folder: Path) -> None:
    small = Sent140().fingerprint()
    with (folder / ORIGINAL).open("w", newline="", encoding="latin-1") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        for number, (label, user, text) in enumerate(TWEETS):
            writer.writerow([4 * label, number, "Mon Apr 06", "NO_QUERY", user, f"café {text}"])
    data = load_dataset("sent140")
    assert "café" in data.features
    assert np.bincount(data.y).tolist() == [20, 20]
    assert set(data.group_names) == {f"user{n}" for n in range(7)}
    assert Sent140().fingerprint() != small


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "line 1 must be label,user,date,text"),
        ("a,b,c,d\n", "line 1 must be label,user,date,text"),
        ("label,user,date,text\n4,u,d,t\n", "line 2 is not 4 columns that begin with 0 or 1"),
        ("label,user,date,text\n1,u,d\n", "line 2 is not 4 columns"),
        ("label,user,date,text\n1,u,d,t\n", "has 1 rows, the public file 50"),
    ],
)
def test_mistakes(folder: Path, content: str, said: str) -> None:
    (folder / "sent140_20k.csv").write_text(content)
    with pytest.raises(UserError, match=said):
        load_dataset("sent140")


def test_absent_file_and_parameters(folder: Path) -> None:
    (folder / "sent140_20k.csv").write_bytes(b"label,user,date,text\n1,u,d,\xff\n")
    with pytest.raises(UserError, match="Cannot read"):
        load_dataset("sent140")
    (folder / "sent140_20k.csv").unlink()
    with pytest.raises(UserError, match=r"sent140 is not in .*Sentiment140"):
        load_dataset("sent140")
    with pytest.raises(UserError, match="sent140's words must be >= 1, got 0"):
        load_dataset("sent140(words=0)")
    with pytest.raises(UserError, match="sent140's length must be >= 1, got 0"):
        load_dataset("sent140(length=0)")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@Bob see HTTP://t.co/X?a=1!", ["<user>", "see", "<link>"]),
        ("I can't; it's o'clock, we’ll", ["i", "ca", "n't", ";", "it", "'s", "o'clock", ",", "we", "'ll"]),
        ("don't won't n't", ["do", "n't", "wo", "n't", "n't"]),
        ("so happy :) 2nite &quot;yes&quot;", ["so", "happy", ":)", "2", "nite", '"', "yes", '"']),
        ("Été_1 ÇA", ["été", "_", "1", "ça"]),
        ("  \n", []),
    ],
)
def test_cutting(text: str, words: list[str]) -> None:
    assert tokenise(text) == words


@given(st.text(max_size=60))
def test_any_text_is_cut_without_blanks(text: str) -> None:
    words = tokenise(text)
    assert all(word and not any(character.isspace() for character in word) for word in words)
    assert tokenise(text) == words


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=6), min_size=1, max_size=6), st.integers(1, 6))
def test_vocabulary_and_ids(texts: list[list[str]], words: int) -> None:
    known = vocabulary(texts, words)
    assert known == vocabulary(texts[::-1], words)
    counts = [sum(text.count(word) for text in texts) for word in known[2:]]
    assert counts == sorted(counts, reverse=True)
    ids, bag = token_ids(texts, known, 6), bag_of_words(texts, known)
    for text, row in zip(texts, ids, strict=True):
        assert [known[n] for n in row if n] == [word if word in known else "<unknown>" for word in text]
    np.testing.assert_array_equal(bag.toarray(), [np.bincount(row, minlength=len(known))[1:] for row in ids])


@pytest.mark.skipif(
    not Path(os.environ.get("UNALIKE_DATA", ""), "sent140_20k.csv").is_file(),
    reason="sent140_20k.csv is not there",
)
def test_the_real_file() -> None:
    data = load_dataset("sent140")
    assert (data.x.shape, data.x_test.shape) == ((16_000, 25), (4_000, 25))
    assert len(data.features) == 5002
    assert np.bincount(data.y_test).tolist() == [2_000, 2_000]
    assert (data.x == 1).sum() < 0.1 * (data.x > 0).sum()

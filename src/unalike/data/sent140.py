"""Sentiment140: tweets, each of a user, the natural party."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Literal

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.folder import find
from unalike.data.libsvm import check_count
from unalike.data.split import choose_test_rows
from unalike.data.text import bag_of_words, token_ids, tokenise, vocabulary
from unalike.errors import UserError

ROWS = {"sent140_20k.csv": 20_000, "training.1600000.processed.noemoticon.csv": 1_600_000}
_ORIGINAL = "training.1600000.processed.noemoticon.csv"
_SPLIT_SEED = 140  # constant: every run, whatever its seed, is tested on the same tweets
HOW = f"Download Sentiment140 (Stanford's 'For Academics' page) and unpack {_ORIGINAL} into that folder."


@register_dataset("sent140", paper="Go et al. 2009; LEAF, arXiv:1812.01097")
class Sent140:
    """Tweets, positive or negative, of thousands of users, the natural parties; as word ids or word counts.

    Reads the original file of 1,600,000 tweets, else ``sent140_20k.csv``, a file of 20,000 of them with the
    columns label, user, date and text; the fingerprint of a run tells the two apart. A fixed fifth of the tweets,
    stratified by label, is the test set. Words are those of ``unalike.data.text.tokenise``; the vocabulary is the
    ``words`` most frequent words of the training tweets, and ``features`` holds it: ``features[id]`` is the word
    of an id, as a model needs to look up word vectors.

    ``form="tokens"``: the ids of the first ``length`` words, 0 for padding and 1 for an unknown word.
    ``form="bag"``: how often each word is in the tweet (sparse), over the same vocabulary without the padding.
    """

    form: Literal["tokens", "bag"] = "tokens"
    words: int = 5000
    length: int = 25

    def __post_init__(self) -> None:
        for name in ("words", "length"):
            if getattr(self, name) < 1:
                raise UserError(
                    f"sent140's {name} must be >= 1, got {getattr(self, name)}. Use 5000 words, length 25."
                )

    def fingerprint(self) -> str:
        """The SHA-256 of the file that is read."""
        with _file().open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def model(self) -> str | None:
        """The model that a run uses where none is named: one for tokens; a bag of words takes any."""
        return f"token-mlp(words={self.words + 2})" if self.form == "tokens" else None

    def load(self) -> Dataset:
        """Read the tweets from the data folder."""
        y, user, tweets = _read(_file())
        test = choose_test_rows(y, 0.2, _SPLIT_SEED)
        texts = [tokenise(tweet) for tweet in tweets]
        train_texts = [texts[row] for row in np.flatnonzero(~test)]
        test_texts = [texts[row] for row in np.flatnonzero(test)]
        words = vocabulary(train_texts, self.words)
        if self.form == "tokens":
            x, x_test = token_ids(train_texts, words, self.length), token_ids(test_texts, words, self.length)
        else:
            x, x_test = bag_of_words(train_texts, words), bag_of_words(test_texts, words)
        names, group = np.unique(user[~test], return_inverse=True)
        place = np.minimum(np.searchsorted(names, user[test]), len(names) - 1)
        return Dataset(
            name="sent140",
            x=x,
            y=y[~test],
            x_test=x_test,
            y_test=y[test],
            classes=("negative", "positive"),
            features=words if self.form == "tokens" else words[1:],
            group=group,
            group_names=tuple(map(str, names)),
            group_test=np.where(names[place] == user[test], place, -1),
            kind="tokens" if self.form == "tokens" else "numbers",
        )


def _file() -> Path:
    names = (_ORIGINAL, "sent140_20k.csv")
    return find("sent140", [f"{folder}{name}" for name in names for folder in ("", "sent140/")], HOW)


def _read(path: Path) -> tuple[Array, Array, list[str]]:
    """The label, the user and the text of every tweet."""
    original = path.name == _ORIGINAL
    marks = {"0": 0, "4": 1} if original else {"0": 0, "1": 1}
    width, user_at = (6, 4) if original else (4, 1)
    labels, users, texts = [], [], []
    try:
        content = path.read_bytes().decode("latin-1" if original else "utf-8-sig")
        reader = csv.reader(io.StringIO(content, newline=""))
        if not original and next(reader, None) != ["label", "user", "date", "text"]:
            raise UserError(f"{path}, line 1 must be label,user,date,text. Is it another file?")
        for row in reader:
            if len(row) != width or row[0] not in marks:
                raise UserError(
                    f"{path}, line {reader.line_num} is not {width} columns that begin with "
                    f"{' or '.join(marks)}. Download it again."
                )
            labels.append(marks[row[0]])
            users.append(row[user_at])
            texts.append(row[-1])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"Cannot read {path}: {error}. Download it again.") from None
    check_count(path, len(labels), ROWS[path.name])
    return np.array(labels), np.array(users), texts

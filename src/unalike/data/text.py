"""Words of short messages: one way to cut text, and a vocabulary of the training texts."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from unalike.data.dataset import Array

PADDING, UNKNOWN = 0, 1
SPECIAL = ("<pad>", "<unknown>")  # the words of the ids 0 and 1

_LINK = re.compile(r"(?:https?://|www\.)\S+")
_MENTION = re.compile(r"@\w+")
_NEGATION = re.compile(r"(?<=[a-z])n't\b")
_ENDING = r"(?:s|m|re|ve|ll|d)\b"
# A mask, an ending as in it's, a word (apostrophes inside: o'clock), a number, an emoticon, any other sign
_TOKEN = re.compile(
    rf"<link>|<user>|n't\b|'{_ENDING}|[^\W\d_]+(?:'(?!{_ENDING})[^\W\d_]+)*|\d+|[:;=8][-o']?[)(\]\[dp/\\|]|[^\w\s]|_"
)


def tokenise(text: str) -> list[str]:
    """The words of a message, in lower case; links become ``<link>`` and mentions ``<user>``.

    Contractions are cut as in the corpora of the public word vectors (``ca n't``, ``it 's``), so that most words
    have a vector. Numbers, signs and common emoticons are tokens of their own, HTML's ``&quot;`` is its sign.
    Nothing is drawn, and nothing depends on the language set on the machine.
    """
    lower = html.unescape(text).lower().replace("\u2019", "'")
    masked = _MENTION.sub(" <user> ", _LINK.sub(" <link> ", lower))
    return _TOKEN.findall(_NEGATION.sub(" n't", masked))


def vocabulary(texts: Iterable[Sequence[str]], words: int) -> tuple[str, ...]:
    """The word of every id: padding, unknown, then the ``words`` most frequent words of the texts.

    Equally frequent words are in alphabetical order, so that the ids do not depend on the order of the texts.
    A model that loads word vectors looks up ``dataset.features[id]``, which is this tuple.
    """
    counts = Counter(chain.from_iterable(texts))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return (*SPECIAL, *ranked[:words])


def token_ids(texts: Sequence[Sequence[str]], words: Sequence[str], length: int) -> Array:
    """The ids of the first ``length`` words of every text (int32), padded at the end with 0."""
    known = {word: number for number, word in enumerate(words)}
    ids = np.full((len(texts), length), PADDING, np.int32)
    for row, text in enumerate(texts):
        found = [known.get(word, UNKNOWN) for word in text[:length]]
        ids[row, : len(found)] = found
    return ids


def bag_of_words(texts: Sequence[Sequence[str]], words: Sequence[str]) -> Any:
    """How often every word is in every text: CSR, float32. Column j counts ``words[j + 1]``: no padding."""
    from scipy import sparse  # slow to import, so only when it is needed

    known = {word: number - 1 for number, word in enumerate(words)}
    columns = [known.get(word, UNKNOWN - 1) for text in texts for word in text]
    starts = np.concatenate(([0], np.cumsum([len(text) for text in texts])))
    counts = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, starts), (len(texts), len(words) - 1))
    counts.sum_duplicates()
    return counts

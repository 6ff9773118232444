"""What the messages about an exchange hold: names of their vectors, and what a header may say."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from unalike.algorithms.contract import Vectors
from unalike.channels import Summand
from unalike.federation.envelope import Refused

PAYLOAD, BUFFERS = "payload/", "buffers"
MESSAGE, UPLOAD = "message/", "upload/"
WEIGHT, LOSS = "message/engine/weight", "message/engine/loss"
ENVELOPE = (
    "kind",
    "sender",
    "receiver",
    "plan",
    "number",
    "heard",
    "arrays",
    "step",
    "session",
    "protocol",
    "keys",
)
EXCHANGE = ("schema", "ask", "phase", "round", "turn", "base", "keep", "version", "most_rows")
"""All that a message may say of an exchange: phases, rows and learning rate are not among it."""


def under(prefix: str, vectors: Vectors) -> Vectors:
    """The vectors whose names begin so, by the rest of their names."""
    return {key.removeprefix(prefix): value for key, value in vectors.items() if key.startswith(prefix)}


def message_vectors(message: Summand) -> Vectors:
    """A summand as named vectors: with its weight, and its training loss where there is one."""
    vectors = {f"{MESSAGE}{key}": value for key, value in message.vectors.items()}
    vectors[WEIGHT] = torch.tensor(message.weight, dtype=torch.float64)
    if message.loss is not None:
        vectors[LOSS] = torch.tensor(message.loss, dtype=torch.float64)
    return vectors


def message_of(vectors: Vectors) -> Summand:
    """The summand that such vectors are."""
    numbers = {key: float(vectors[key]) for key in (WEIGHT, LOSS) if key in vectors}
    keys = {key for key in vectors if key.startswith(MESSAGE)} - numbers.keys()
    sums = {key.removeprefix(MESSAGE): vectors[key] for key in sorted(keys)}
    return Summand(sums, numbers[WEIGHT], numbers.get(LOSS))


def layout(vectors: Vectors) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Of each vector its type and shape."""
    return {key: (str(value.dtype), tuple(value.shape)) for key, value in sorted(vectors.items())}


def digest_of(*parts: bytes) -> str:
    """SHA-256 of all parts, each for itself."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def whole_number(header: dict[str, Any], key: str, most: int = 2**31 - 1) -> int:
    """A number in a header, from 0 to ``most``."""
    value = header.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise Refused(f"its {key} is not a number")
    return value

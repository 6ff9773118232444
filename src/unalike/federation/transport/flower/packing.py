"""One message is one flat array of bytes: every Flower array costs two HTTP requests on every hop.

The array begins with random bytes. Flower stores an object under its hash and gives it to any admitted node that
names the hash: without them, a node could find out by guessing what was sent to another.
"""

from __future__ import annotations

import secrets

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

PAYLOAD = "payload"
_SALT = 16
REFUSAL = "refusal"


def pack(data: bytes) -> RecordDict:
    """A record with these bytes, and nothing else."""
    # Flower's own serialiser (``numpy.save``) would copy the bytes once more and be parsed on the other side.
    salted = secrets.token_bytes(_SALT) + data
    array = Array(dtype="uint8", shape=(len(salted),), stype=PAYLOAD, data=salted)
    return RecordDict({PAYLOAD: ArrayRecord({PAYLOAD: array})})


def unpack(content: RecordDict) -> bytes:
    """The bytes of a packed record; ``ValueError`` for any other record."""
    record = content.get(PAYLOAD)
    if len(content) != 1 or not isinstance(record, ArrayRecord) or list(record) != [PAYLOAD]:
        raise ValueError("this is not a message of one packed array")
    array = record[PAYLOAD]
    if array.stype != PAYLOAD or array.dtype != "uint8" or tuple(array.shape) != (len(array.data),):
        raise ValueError("the packed array's shape does not match its bytes")
    if len(array.data) < _SALT:
        raise ValueError("the packed array is too short")
    return array.data[_SALT:]


def refusal(content: RecordDict) -> str | None:
    """Why a site did not answer, where that is what the record says."""
    record = content.get(REFUSAL)
    if not isinstance(record, ConfigRecord):
        return None
    return " ".join(str(record.get("reason", "no reason given")).split())[:500]

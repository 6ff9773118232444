"""One message is one flat array of bytes: every Flower array costs two HTTP requests on every hop."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

PAYLOAD = "payload"
REFUSAL = "refusal"


def pack(data: bytes) -> RecordDict:
    """A record with these bytes, and nothing else."""
    # Flower's own serialiser (``numpy.save``) would copy the bytes once more and be parsed on the other side.
    array = Array(dtype="uint8", shape=(len(data),), stype=PAYLOAD, data=data)
    return RecordDict({PAYLOAD: ArrayRecord({PAYLOAD: array})})


def unpack(content: RecordDict) -> bytes:
    """The bytes of a packed record; ``ValueError`` for any other record."""
    record = content.get(PAYLOAD)
    if len(content) != 1 or not isinstance(record, ArrayRecord) or list(record) != [PAYLOAD]:
        raise ValueError("this is not a message of one packed array")
    array = record[PAYLOAD]
    if array.stype != PAYLOAD or array.dtype != "uint8" or tuple(array.shape) != (len(array.data),):
        raise ValueError("the packed array's shape does not match its bytes")
    return array.data


def refusal(content: RecordDict) -> str | None:
    """Why a site did not answer, where that is what the record says."""
    record = content.get(REFUSAL)
    if not isinstance(record, ConfigRecord):
        return None
    return " ".join(str(record.get("reason", "no reason given")).split())[:500]

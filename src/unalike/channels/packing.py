"""Small numbers as tightly packed bytes, and back. Bytes from outside are checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unalike.channels.errors import ChannelError

Codes = NDArray[np.int64]
_TRITS = 5  # 3^5 = 243 fit into a byte
_POWERS = 3 ** np.arange(_TRITS)


def packed_bytes(count: int, bits: int) -> int:
    """The bytes of so many numbers of so many bits."""
    return -(-count * bits // 8)


def pack(codes: Codes, bits: int) -> bytes:
    """Numbers below 2^bits, lowest bit first."""
    if bits in (8, 16, 32):
        return codes.astype(f"<u{bits // 8}").tobytes()
    table = (codes[:, None] >> np.arange(bits)) & 1
    return np.packbits(table.astype(np.uint8), bitorder="little").tobytes()


def unpack(data: bytes, count: int, bits: int) -> Codes:
    """``count`` numbers of ``bits`` bits; exactly the bytes that ``pack`` makes."""
    expect(data, packed_bytes(count, bits))
    if bits in (8, 16, 32):
        return np.frombuffer(data, f"<u{bits // 8}").astype(np.int64)
    raw = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if raw[count * bits :].any():
        raise ChannelError("Packed numbers end in bits that must be zero and are not.")
    table: Codes = raw[: count * bits].reshape(count, bits).astype(np.int64)
    codes: Codes = table @ (1 << np.arange(bits))
    return codes


def trit_bytes(count: int) -> int:
    """The bytes of so many numbers of three values."""
    return -(-count // _TRITS)


def pack_trits(codes: Codes) -> bytes:
    """Numbers from 0 to 2, five to a byte."""
    table = np.zeros((trit_bytes(len(codes)), _TRITS), np.int64)
    table.ravel()[: len(codes)] = codes
    return (table @ _POWERS).astype(np.uint8).tobytes()


def unpack_trits(data: bytes, count: int) -> Codes:
    """``count`` numbers from 0 to 2; exactly the bytes that ``pack_trits`` makes."""
    expect(data, trit_bytes(count))
    raw = np.frombuffer(data, np.uint8).astype(np.int64)
    if (raw >= 3**_TRITS).any():
        raise ChannelError(f"A byte of five ternary numbers must be below 243, got {raw.max()}.")
    table = (raw[:, None] // _POWERS % 3).ravel()
    if table[count:].any():
        raise ChannelError("Packed ternary numbers end in ones that must be zero and are not.")
    return table[:count]


def expect(data: bytes, size: int) -> None:
    """Refuse bytes of another length."""
    if len(data) != size:
        raise ChannelError(f"The message must have {size} bytes here, got {len(data)}.")

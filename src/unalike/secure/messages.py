"""Messages as bytes: strictly parsed, bound to a policy, a step, a sender and a receiver, and signed.

Layout, big-endian: magic, step, sender, receiver, session, digest of the policy, number of parts; each part with
its length; the signature. There is one way to write a message, so bytes that differ are other messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import SIGNATURE_BYTES, sign, verify
from unalike.secure.errors import SERVER, ProtocolError, name_of
from unalike.secure.policy import Policy

EVERYONE = -2
"""The receiver of what the server tells all parties alike."""
MOST_BYTES = 2**28
MOST_PARTS = 2**16
_MAGIC = b"UNS1"
_HEAD = struct.Struct(">4sBii16s32sI")
_LENGTH = struct.Struct(">I")
HEAD_BYTES, LENGTH_BYTES, NUMBER_BYTES = _HEAD.size, _LENGTH.size, 4
"""Sizes of a message's head, of the length before each of its parts, and of a party's number in a list."""
# Parties in one process check the same relayed messages: once is enough. A refusal is not remembered.
_verify_once = lru_cache(maxsize=4096)(verify)
_UNSIGNED = bytes(SIGNATURE_BYTES)


class Step(StrEnum):
    """The steps in their order. In each, the parties send to the server and the server answers."""

    HELLO = "hello"
    SHARES = "shares"
    VECTOR = "vector"
    CONSENT = "consent"
    UNMASK = "unmask"


ORDER = tuple(Step)


def steps(policy: Policy) -> tuple[Step, ...]:
    """The steps that a sum takes: without masks nothing is unmasked, without secrets nothing is consented to."""
    if policy.masked:
        return ORDER
    return (Step.HELLO, Step.VECTOR, Step.CONSENT) if policy.encrypted else (Step.HELLO, Step.VECTOR)


@dataclass(frozen=True)
class Message:
    """One message. ``parts`` are byte strings whose meaning depends on the step."""

    step: Step
    sender: int
    receiver: int
    session: bytes
    policy: bytes
    parts: tuple[bytes, ...]
    signature: bytes = _UNSIGNED

    def to_bytes(self) -> bytes:
        """The message as it travels."""
        return self.signed_bytes() + self.signature

    def signed_bytes(self) -> bytes:
        """All of it but the signature."""
        numbers = ORDER.index(self.step), self.sender, self.receiver
        head = _HEAD.pack(_MAGIC, *numbers, self.session, self.policy, len(self.parts))
        return head + b"".join(_LENGTH.pack(len(part)) + part for part in self.parts)

    @staticmethod
    def from_bytes(raw: bytes) -> Message:
        """Read a message from bytes that anybody may have sent."""
        if not _HEAD.size + SIGNATURE_BYTES <= len(raw) <= MOST_BYTES:
            raise ProtocolError(None, f"sent a message of an impossible size: {len(raw)} bytes.")
        magic, step, sender, receiver, session, policy, count = _HEAD.unpack_from(raw)
        if magic != _MAGIC or step >= len(ORDER) or count > MOST_PARTS:
            raise ProtocolError(None, "sent something that is not a message of this protocol.")
        parts, at, end = [], _HEAD.size, len(raw) - SIGNATURE_BYTES
        for _ in range(count):
            size = _LENGTH.unpack_from(raw, at)[0] if at + _LENGTH.size <= end else end
            at += _LENGTH.size
            if at + size > end:
                raise ProtocolError(None, "sent a message that is cut short.")
            parts.append(raw[at : at + size])
            at += size
        if at != end:
            raise ProtocolError(None, "sent a message with bytes left over.")
        return Message(ORDER[step], sender, receiver, session, policy, tuple(parts), raw[end:])


def write(policy: Policy, step: Step, sender: int, receiver: int, parts: Iterable[bytes], signer: bytes) -> bytes:
    """A message as bytes, signed with the sender's Ed25519 secret key (empty where there are no identities)."""
    message = Message(step, sender, receiver, policy.session, policy.digest, tuple(parts))
    content = message.signed_bytes()
    return content + (sign(signer, content) if policy.identities else _UNSIGNED)


def read(policy: Policy, raw: bytes, step: Step, sender: int, receiver: int) -> Message:
    """The message that ``sender`` owes to ``receiver`` in this step; anything else is an error that names it."""
    try:
        message = Message.from_bytes(raw)
    except ProtocolError as error:
        raise ProtocolError(sender, str(error).removeprefix(f"{name_of(None)} ")) from error
    fault = _fault(policy, message, step, sender, receiver) or _forgery(policy, raw, message, verify)
    if fault:
        raise ProtocolError(sender, f"sent {fault}.")
    return message


def _fault(policy: Policy, message: Message, step: Step, sender: int, receiver: int) -> str:
    """What is wrong with a message, apart from its signature; empty if nothing is."""
    if message.sender != sender:
        return f"a message in the name of another: {name_of(message.sender).lower()}"
    if message.session != policy.session:
        return "a message of another session"
    if message.policy != policy.digest:
        return "a message of another policy: other parties, keys, bounds or threshold"
    if message.step is not step:
        return f"a message of the step {message.step!s} in the step {step!s}"
    if message.receiver not in (receiver, EVERYONE):
        return f"{name_of(receiver).lower()} a message that was meant for another"
    return ""


def _forgery(policy: Policy, raw: bytes, message: Message, check: Callable[..., None]) -> str:
    if policy.identities:
        try:  # the server's key is the last, and its number -1
            check(policy.identities[message.sender], message.signature, raw[:-SIGNATURE_BYTES])
        except CryptoError:
            return "a message with a wrong signature"
    return ""


def read_relayed(policy: Policy, raws: Sequence[bytes], step: Step) -> dict[int, Message]:
    """Messages of parties to the server that the server passed on, by sender, in rising order.

    An honest server refuses wrong ones itself, so whatever is wrong with them is its fault.
    """
    found: dict[int, Message] = {}
    last = -1
    for raw in raws:
        try:
            message = Message.from_bytes(raw)
        except ProtocolError as error:
            raise ProtocolError(SERVER, f"passed on what is not a message ({error}).") from error
        if not last < message.sender < policy.parties:
            raise ProtocolError(SERVER, "passed on messages out of order, or twice, or of no party.")
        last = message.sender
        fault = _fault(policy, message, step, last, SERVER) or _forgery(policy, raw, message, _verify_once)
        if fault:
            raise ProtocolError(SERVER, f"passed on, as party {last}'s, {fault}.")
        found[last] = message
    return found


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Numbers of parties as bytes, four for each."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def unpack_numbers(raw: bytes, policy: Policy, sender: int) -> tuple[int, ...]:
    """Parties' numbers from bytes: rising, all of them parties, at least as many as the threshold."""
    if len(raw) % 4:
        raise ProtocolError(sender, "sent a malformed list of parties.")
    numbers = _numbers(raw)
    if any(a >= b for a, b in pairwise(numbers)) or max(numbers, default=0) >= policy.parties:
        raise ProtocolError(sender, "sent a list of parties that is out of order or names others.")
    if len(numbers) < policy.threshold:
        raise ProtocolError(sender, f"goes on with {len(numbers)} parties; the threshold is {policy.threshold}.")
    return numbers


@lru_cache(maxsize=4)
def _numbers(raw: bytes) -> tuple[int, ...]:
    """The whole numbers in these bytes: one list for all parties of one process, not one for each."""
    return struct.unpack(f">{len(raw) // 4}I", raw)


def pieces(raw: bytes, count: int, size: int, sender: int) -> list[bytes]:
    """A part cut into ``count`` pieces of ``size`` bytes."""
    if len(raw) != count * size:
        raise ProtocolError(sender, f"sent {len(raw)} bytes where {count} times {size} belong.")
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def parts(message: Message, count: int) -> tuple[bytes, ...]:
    """The message's parts, which must be so many."""
    if len(message.parts) != count:
        raise ProtocolError(message.sender, f"sent {len(message.parts)} parts in the step {message.step!s}.")
    return message.parts

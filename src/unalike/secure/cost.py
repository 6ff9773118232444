"""The bytes of a secure sum's messages, counted without sending any: what a simulation reports."""

from __future__ import annotations

from collections.abc import Mapping

from unalike.errors import UserError, unknown
from unalike.secure.crypto.primitives import KEY_BYTES, SIGNATURE_BYTES
from unalike.secure.crypto.shamir import VALUE_BYTES
from unalike.secure.keys import BOX_BYTES, COMMITMENT_BYTES
from unalike.secure.messages import HEAD_BYTES, LENGTH_BYTES, NUMBER_BYTES, ORDER, Step, steps
from unalike.secure.policy import SESSION_BYTES, Policy, Protect, safe_threshold

START = "start"
"""For ``drop_after``: a party that never appears."""


def example(
    parties: int, length: int, *, protect: Protect = "masks", bits: int = 32, threshold: int | None = None
) -> Policy:
    """A policy of that size with made-up keys: to count with, never to add with."""
    return Policy(
        session=bytes(SESSION_BYTES),
        protect=protect,
        parties=parties,
        length=length,
        bound=0,
        threshold=safe_threshold(parties) if threshold is None else threshold,
        identities=tuple(i.to_bytes(KEY_BYTES, "big") for i in range(parties + 1)) if protect != "none" else (),
        fingerprint=bytes(KEY_BYTES) if protect in ("fhe", "fhe+masks") else b"",
        allow_two=parties == 2,
        bits=bits if protect == "masks" else 0,
    )


def traffic(
    policy: Policy, drop_after: Mapping[int, Step | str] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The bytes that each party sends and receives, in order of their numbers: exact, for "masks" and "none".

    drop_after: for parties that vanish, the last step they take part in, as for ``secure_sum``. The server's
    answer to that step is counted as received: the server cannot know that nobody listens.
    """
    if policy.encrypted:
        raise UserError(
            f"Ciphertexts differ in size, so the bytes of {policy.protect!r} are not known before. Run the sum."
        )
    up, down = [0] * policy.parties, [0] * policy.parties
    last = last_steps(drop_after or {}, policy.parties)
    there = {step: sum(number > ORDER.index(step) for number in last) for step in steps(policy)}
    for step, count in there.items():
        sent, received = (_masked if policy.masked else _plain)(policy, step, there)
        if count < policy.threshold:
            raise UserError(f"Only {count} parties take the step {step!s}, the threshold is {policy.threshold}.")
        for party in range(policy.parties):
            if last[party] > ORDER.index(step):
                up[party] += sent
                down[party] += received
    return tuple(up), tuple(down)


def last_steps(drop_after: Mapping[int, Step | str], count: int) -> list[int]:
    """How many of the steps each party takes."""
    names = [START, *Step]
    last = [len(names)] * count
    for number, name in drop_after.items():
        if not 0 <= number < count:
            raise UserError(f"drop_after names party {number}; parties are 0..{count - 1}.")
        if name not in names:
            raise unknown("step", str(name), map(str, names))
        last[number] = names.index(name)
    return last


def _message(*parts: int) -> int:
    """A message with parts of so many bytes."""
    return HEAD_BYTES + sum(LENGTH_BYTES + part for part in parts) + SIGNATURE_BYTES


def _plain(policy: Policy, step: Step, there: Mapping[Step, int]) -> tuple[int, int]:
    """Bytes up and down of a step without masks."""
    if step is Step.HELLO:
        return _message(), _message()
    vector = 8 * policy.length
    return _message(vector), _message(NUMBER_BYTES * there[step], vector)


def _masked(policy: Policy, step: Step, there: Mapping[Step, int]) -> tuple[int, int]:
    """Bytes up and down of a step with masks; ``there`` are the parties that take each."""
    hello, consent = _message(*[KEY_BYTES] * 3), _message(COMMITMENT_BYTES)
    known, members = there[Step.HELLO], there[Step.SHARES]
    match step:
        case Step.HELLO:
            return hello, _message(*[hello] * known)
        case Step.SHARES:
            up = _message(BOX_BYTES * (known - 1), 2 * COMMITMENT_BYTES * known)
            each = members - 1
            return up, _message(NUMBER_BYTES * members, BOX_BYTES * each, 2 * COMMITMENT_BYTES * each)
        case Step.VECTOR:
            return _message(policy.bits // 8 * policy.length), _message(NUMBER_BYTES * there[step])
        case Step.CONSENT:
            return consent, _message(*[consent] * policy.threshold)
        case Step.UNMASK:
            return _message(VALUE_BYTES * members), 0

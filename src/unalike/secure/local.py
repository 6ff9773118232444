"""The sum of the parties' integer vectors in one process, by real messages between parties and a server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.secure import party, server
from unalike.secure.carrier import largest
from unalike.secure.clock import Clock
from unalike.secure.cost import last_steps
from unalike.secure.crypto import bfv, discrete_gaussian, primitives
from unalike.secure.errors import ProtocolError
from unalike.secure.messages import Step, steps
from unalike.secure.policy import Policy, Protect, new_session, safe_threshold

__all__ = ["Protect", "ProtocolError", "Step", "SumResult", "secure_sum"]
_NOISE_REACH = 12  # in sigmas; a draw beyond has a probability below 1e-32


@dataclass(frozen=True, eq=False)
class SumResult:
    """What a secure sum gave, and what it cost.

    total: the sum of the survivors' vectors, as the parties decrypted it, or with "masks" the server.
    survivors: the parties whose vectors are in it, in order.
    bytes_up, bytes_down: bytes that each party sent and received, without the dealer's keys.
    seconds: time of each step, all parties and the server together; "keys" is the dealer's.
    server_seconds: the server's part of it, in seconds of the processor.
    server_view: every byte string that the server received, in order; empty unless asked for.
    """

    total: NDArray[np.int64]
    survivors: tuple[int, ...]
    protect: Protect
    threshold: int
    bytes_up: tuple[int, ...]
    bytes_down: tuple[int, ...]
    seconds: Mapping[str, float]
    server_seconds: float
    server_view: tuple[bytes, ...] = field(default=(), repr=False)


def secure_sum(
    vectors: Sequence[NDArray[np.int64]],
    *,
    protect: Protect = "fhe+masks",
    drop_after: Mapping[int, Step | str] | None = None,
    bound: int | None = None,
    threshold: int | None = None,
    allow_two: bool = False,
    noise_sigma: float = 0.0,
    keys: bfv.Keys | None = None,
    keep_view: bool = False,
    bits: int = 32,
) -> SumResult:
    """Add the parties' vectors so that nobody sees a single one (docs/secure-measurement.md).

    drop_after: for parties that vanish, the last step they take part in: start (none), hello, shares, vector,
    consent or unmask. A party that drops after "vector" or later is in the sum.
    bound: an agreed public bound on every |entry| of the sum, of which each party may use an even part; without
    it, what is needed for the largest entry.
    threshold: so many parties must stay; by default two thirds, rounded up (``safe_threshold``).
    noise_sigma: every party adds discrete Gaussian noise of this sigma; ``crypto.discrete_gaussian.epsilon`` tells
    what that protects.
    keys: of the dealer; made anew by default.
    bits: for the protection "masks", of every entry on its way: 32 or 64.
    """
    count = len(vectors)
    last = last_steps(drop_after or {}, count)
    numbers = [_noisy(_checked(vector, i, vectors), noise_sigma) for i, vector in enumerate(vectors)]
    reach = int(np.ceil(_NOISE_REACH * noise_sigma))
    if bound is None:
        bound = count * (max(map(largest, vectors), default=0) + reach)
    clock = Clock()
    secret, public = _contexts(protect, keys)
    signers = [primitives.new_secret() for _ in range(count + 1)] if protect != "none" else [b""] * (count + 1)
    policy = Policy(
        session=new_session(),
        protect=protect,
        parties=count,
        length=len(numbers[0]) if numbers else 0,
        bound=bound,
        threshold=safe_threshold(count) if threshold is None else threshold,
        identities=tuple(map(primitives.signing_public, signers)) if protect != "none" else (),
        fingerprint=public.fingerprint if public else b"",
        allow_two=allow_two,
        bits=bits if protect == "masks" else 0,
    )
    clock.lap("keys")
    return _run(policy, numbers, secret, public, signers, last, clock, keep_view)


def _run(
    policy: Policy,
    vectors: Sequence[NDArray[np.int64]],
    secret: bfv.Context | None,
    public: bfv.Context | None,
    signers: Sequence[bytes],
    last: Sequence[int],
    clock: Clock,
    keep_view: bool,
) -> SumResult:
    """Carry messages until the sum is there. ``last`` is how many steps each party takes."""
    up, down = [0] * policy.parties, [0] * policy.parties
    view: list[bytes] = []
    busy = 0.0
    central = server.start(policy, context=public, signer=signers[-1])
    states, outbox = {}, {}
    for i, signer in enumerate(signers[:-1]):
        states[i], outbox[i] = party.start(policy, i, context=secret, signer=signer)
    for step in steps(policy):
        sent = [(i, raw) for i, raw in outbox.items() if last[i] > list(Step).index(step)]
        for i, raw in sent:
            up[i] += len(raw)
        if keep_view:
            view.extend(raw for _, raw in sent)
        since = time.process_time()
        central, answers = server.step(central, sent)
        busy += time.process_time() - since
        outbox = {}
        for i, raw in answers.items():
            down[i] += len(raw)
            vector = vectors[i] if states[i].needs_vector else None
            states[i], answer = party.step(states[i], raw, vector)
            if answer is not None:
                outbox[i] = answer
        clock.lap(step)
    ends = [central.total, *(state.total for state in states.values())]
    totals = [total for total in ends if total is not None]
    if any(not np.array_equal(total, totals[0]) for total in totals):
        raise RuntimeError("parties and server have different sums")
    return SumResult(
        total=totals[0],
        survivors=central.survivors,
        protect=policy.protect,
        threshold=policy.threshold,
        bytes_up=tuple(up),
        bytes_down=tuple(down),
        seconds=clock.laps,
        server_seconds=busy,
        server_view=tuple(view),
    )


def _contexts(protect: Protect, keys: bfv.Keys | None) -> tuple[bfv.Context | None, bfv.Context | None]:
    """The dealer's keys, secret for the parties and public for the server."""
    if protect in ("none", "masks"):
        return None, None
    keys = keys or bfv.deal()
    return bfv.load(keys.secret, secret=True), bfv.load(keys.public, secret=False)


def _checked(vector: NDArray[np.int64], number: int, vectors: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    if not isinstance(vector, np.ndarray) or vector.ndim != 1 or vector.dtype != np.int64 or not len(vector):
        raise UserError(f"Party {number}'s vector must be one-dimensional int64 and not empty.")
    if len(vector) != len(vectors[0]):
        raise UserError(f"Party {number}'s vector has {len(vector)} entries, party 0's {len(vectors[0])}.")
    return vector


def _noisy(vector: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
    return vector + discrete_gaussian.sample(sigma, len(vector)) if sigma else vector

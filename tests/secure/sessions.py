"""Parties and a server of a small sum, one step at a time, with a hand in between."""

from __future__ import annotations

from functools import cache

import numpy as np

from unalike.secure import party, server
from unalike.secure.crypto import bfv
from unalike.secure.crypto.primitives import new_secret, signing_public
from unalike.secure.errors import SERVER
from unalike.secure.messages import Message, Step, steps, write
from unalike.secure.policy import Policy, new_session, safe_threshold


@cache
def contexts():
    """Keys, and the contexts loaded from them; dealing takes time."""
    keys = bfv.deal()
    return keys, bfv.load(keys.secret, secret=True), bfv.load(keys.public, secret=False)


SIGNERS = [new_secret() for _ in range(21)]  # twenty parties, then the server


def take(state, raw, vector=None):
    """A party's step, with a vector (zeros unless given) if it needs one."""
    if not state.needs_vector:
        return party.step(state, raw)
    return party.step(state, raw, np.zeros(state.policy.length, np.int64) if vector is None else vector)


class Session:
    """Runs step by step; ``tamper(step, party, raw)`` may change what a party sends, or return None to lose it."""

    default = "fhe+masks"

    def __init__(self, vectors, protect=None, **fields):
        protect = protect or self.default
        dealt, self.secret, public = contexts()
        count = len(vectors)
        self.signers = [*SIGNERS[:count], SIGNERS[-1]]
        plain = protect in ("none", "masks")
        self.vectors = vectors
        terms = {
            "session": new_session(),
            "protect": protect,
            "parties": count,
            "length": len(vectors[0]),
            "bound": 10_000,
            "threshold": safe_threshold(count),
            "identities": () if protect == "none" else tuple(map(signing_public, self.signers)),
            "fingerprint": b"" if plain else dealt.fingerprint,
            "bits": 32 if protect == "masks" else 0,
        }
        self.policy = Policy(**terms | fields)
        self.server = server.start(self.policy, context=None if plain else public, signer=self.signers[-1])
        self.parties, self.outbox = {}, {}
        self.answers = {}
        for i in range(count):
            self.parties[i], self.outbox[i] = party.start(
                self.policy, i, context=None if plain else self.secret, signer=self.signers[i]
            )

    def ask_server(self, tamper=lambda step, party, raw: raw):
        """Hand the parties' messages to the server."""
        now = self.server.awaits
        sent = [(i, tamper(now, i, raw)) for i, raw in self.outbox.items()]
        self.server, self.answers = server.step(self.server, [(i, raw) for i, raw in sent if raw is not None])

    def ask_parties(self):
        """Hand the server's answers to the parties."""
        self.outbox = {}
        for i, raw in self.answers.items():
            self.parties[i], answer = self.answer(i, raw)
            if answer is not None:
                self.outbox[i] = answer

    def answer(self, number, raw):
        """What a party makes of the server's message."""
        return take(self.parties[number], raw, self.vectors[number])

    def until(self, step, tamper=lambda step, party, raw: raw):
        """Go on until the parties' messages of ``step`` are ready to be sent; None for the end."""
        while self.server.awaits is not step:
            self.ask_server(tamper)
            self.ask_parties()
        return self

    def run(self, tamper=lambda step, party, raw: raw):
        """To the end: the sum as every party has it, and the server if it can read it."""
        self.until(None, tamper)
        return [state.total for state in (*self.parties.values(), self.server) if state.total is not None]

    def rewrite(self, number, raw, **changes):
        """A message with other content, signed by its sender all the same."""
        message = Message.from_bytes(raw)
        fields = {"step": message.step, "receiver": message.receiver, "parts": message.parts} | changes
        policy = fields.pop("policy", self.policy)
        signer = self.signers[number]
        return write(policy, fields["step"], number, fields["receiver"], fields["parts"], signer)


def vectors(parties, length=5, seed=0):
    """Small numbers, negative ones too."""
    return list(np.random.default_rng(seed).integers(-900, 900, (parties, length)))


__all__ = ["SERVER", "SIGNERS", "Session", "Step", "contexts", "steps", "take", "vectors"]

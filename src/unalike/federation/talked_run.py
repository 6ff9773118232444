"""What all runs by a protocol between real sites are to the server: a state, rounds, and who was told what."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from unalike.algorithms.contract import Vectors
from unalike.algorithms.protocol import Arrays, Me
from unalike.federation.asking import Asking
from unalike.federation.plan import Plan
from unalike.federation.replay import ANSWERED, PREPARED
from unalike.federation.speaker import Speaker
from unalike.federation.talk_rounds import Conversation
from unalike.federation.told import wire_figures
from unalike.federation.turns import as_tensor
from unalike.own_code import explained
from unalike.rounds.state import State
from unalike.scores import Figures, choose


class TalkedRun:
    """A protocol's run whose parties are elsewhere; ``state`` is the server's after the last whole round.

    ``agreed`` is the digest of what sites agreed on, ``first`` what each was told before round 0.
    """

    again = 0
    norms: Sequence[dict[str, float]] = ()

    def __init__(self, plan: Plan, speaker: Speaker, me: Me, agreed: str, first: bytes) -> None:
        assert plan.protocol is not None
        self.plan, self.speaker, self.spec = plan, speaker, plan.spec
        self.protocol, self.me = plan.protocol, me
        self.origin = agreed
        """what a checkpoint must have in common with the run to be of it"""
        self.score = choose(self.spec.score, "classification")
        with explained(self.protocol):
            start = self.protocol.start(self.me)
        told = dict.fromkeys(range(len(plan.parties)), first)
        self._talk = Conversation(self.protocol, self.me, Asking(speaker), agreed, start, told)
        self._after = told
        self.state = State(0, tensors_of(start), torch.zeros(0), {})

    @property
    def stopped(self) -> str | None:
        """Why training ends before its last round, in words; None to go on."""
        return self.protocol.finished(arrays_in(self.state.server)) if self.state.round else None

    def resume(self, state: State, accepted: Mapping[str, str]) -> None:
        """Go on from a checkpoint, and from what it says that sites were told until then."""
        self.state, self._talk.state = state, arrays_in(state.server)
        self._talk.told = self._after = {int(number): bytes.fromhex(told) for number, told in accepted.items()}

    def accepted(self) -> dict[str, str]:
        """For a checkpoint: what each site was told until the round that is whole."""
        return {str(number): told.hex() for number, told in self._after.items()}

    def kept(self) -> None:
        """The checkpoint is written: the next round goes on from it."""
        self._talk.state, self._talk.told = arrays_in(self.state.server), self._after

    def play_round(self) -> tuple[State, Figures]:
        """Play the next round; nothing changes until ``state`` is set to what is returned, and ``kept``."""
        began, number, speaker = time.perf_counter(), self.state.round + 1, self.speaker
        speaker.slowest, before = {}, (speaker.sent_by.copy(), speaker.sent_to.copy())
        rounds = [0, 1] if number == 1 else [number]
        with explained(self.protocol):
            server, self._after, spoken = self._talk.play(rounds)
        after = State(number, tensors_of(server), torch.zeros(0), {})
        everybody = list(range(len(self.plan.parties)))
        row: Figures = {"round": number, "train_loss": math.nan, **spoken[-1].figures}
        row |= dict(self.protocol.figures(server, number))
        last = number == self.spec.rounds or self.protocol.finished(server) is not None
        if last or number % self.spec.evaluate_every == 0:
            row |= self._evaluated(server, number, last=last)
        row |= {"cohort": len(everybody), "turns": sum(one.turns for one in spoken), ANSWERED: [everybody]}
        row |= {PREPARED: [everybody]} if number == 1 else {}
        return after, row | wire_figures(speaker, *before) | {"seconds": time.perf_counter() - began}

    def _evaluated(self, server: Arrays, number: int, *, last: bool) -> Figures:
        """The figures of a round, from what sites tell of the model after it."""
        raise NotImplementedError

    def privacy(self, last: Figures) -> dict[str, Any]:
        """Nothing: there is no noise of a channel."""
        return {}


def tensors_of(arrays: Arrays) -> Vectors:
    """What a role keeps, as tensors with memory of their own."""
    return {name: as_tensor(array) for name, array in arrays.items()}


def arrays_in(tensors: Vectors) -> Arrays:
    """What a role keeps, as arrays that share the memory of tensors."""
    return {name: value.numpy() for name, value in tensors.items()}

"""What a run has come to: everything that a later round depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unalike.algorithms.contract import Vectors
from unalike.rounds.ledger import Ledger
from unalike.rounds.party_states import PartyStates, PartyTensors, with_states, with_tensors

_FIELDS = {"party": "parties", "statistics": "own_buffers", "channel": "memories"}
"""Where a state has what parties keep, by the kind of it."""


@dataclass(frozen=True, eq=False)
class State:
    """Everything that a later round depends on. Random streams derive from seed and round: none is kept."""

    round: int
    server: Vectors
    buffers: Tensor
    parties: Mapping[int, Vectors]
    """States of the parties that have taken part; the others' are still as ``init_party`` makes them."""
    own_buffers: Mapping[int, Tensor] = field(default_factory=dict)
    """Running statistics that parties keep to themselves, where the spec says so."""
    memories: Mapping[int, Vectors] = field(default_factory=dict)
    """What the parties' sides of a private channel keep."""
    exchanges: Mapping[int, int] = field(default_factory=dict)
    """Under noise: how many rounds had so many exchanges."""

    def after(self, round: int, server: Vectors, ledger: Ledger, exchanges: Mapping[int, int]) -> State:
        """The state after a round that changed this; what it did not change is shared with this one."""
        states = {k: _owned(state) for k, state in ledger.states.items() if state}
        memories = {k: memory for k, memory in ledger.memories.items() if memory}
        return State(
            round,
            _owned(server),
            ledger.buffers,
            with_states(self.parties, states),
            with_tensors(self.own_buffers, ledger.own_buffers),
            with_states(self.memories, memories),
            exchanges,
        )

    def tensors(self) -> Vectors:
        """All tensors under one flat set of names."""
        named = {f"server/{key}": value for key, value in self.server.items()}
        for number, state in sorted(self.parties.items()):
            named |= {f"party/{number}/{key}": value for key, value in state.items()}
        named |= {f"statistics/{number}": value for number, value in sorted(self.own_buffers.items())}
        for number, memory in sorted(self.memories.items()):
            named |= {f"channel/{number}/{key}": value for key, value in memory.items()}
        named |= {f"exchanges/{count}": torch.tensor(rounds) for count, rounds in sorted(self.exchanges.items())}
        return named | {"buffers": self.buffers}

    @classmethod
    def of(cls, round: int, tensors: Vectors) -> State:
        """The state that ``tensors`` gave."""
        server: Vectors = {}
        parties: dict[int, Vectors] = {}
        own_buffers: dict[int, Tensor] = {}
        memories: dict[int, Vectors] = {}
        exchanges: dict[int, int] = {}
        for name, value in tensors.items():
            kind, _, rest = name.partition("/")
            if kind == "server":
                server[rest] = value
            elif kind in ("party", "channel"):
                number, _, key = rest.partition("/")
                (parties if kind == "party" else memories).setdefault(int(number), {})[key] = value
            elif kind == "statistics":
                own_buffers[int(rest)] = value
            elif kind == "exchanges":
                exchanges[int(rest)] = int(value)
        return cls(round, server, tensors["buffers"], parties, own_buffers, memories, exchanges)

    @property
    def packed(self) -> dict[str, PartyStates]:
        """What very many parties keep, by the kind of it; what few keep is with the other tensors."""
        kinds = {"party": self.parties, "statistics": self.own_buffers, "channel": self.memories}
        whole = {kind: kept.states if isinstance(kept, PartyTensors) else kept for kind, kept in kinds.items()}
        return {kind: kept for kind, kept in whole.items() if isinstance(kept, PartyStates)}

    def with_packed(self, kinds: Mapping[str, PartyStates | None]) -> State:
        """The same with this of what very many parties keep, by the kind of it; None: with nothing."""
        found: dict[str, Any] = {}
        for kind, kept in kinds.items():
            found[_FIELDS[kind]] = {} if kept is None else PartyTensors(kept) if kind == "statistics" else kept
        return replace(self, **found)

    def digest(self) -> str:
        """SHA-256 over the names, shapes and values of the server's vectors, the parties' and the buffers."""
        packed, found = self.packed, []
        for name, value in self.with_packed(dict.fromkeys(packed)).tensors().items():
            found.append((name, value.dtype, tuple(value.shape), partial(_data, value)))
        for kind, kept in packed.items():
            found += [(name, one.dtype, one.shape, partial(one.of, row)) for name, one, row in kept.named(kind)]
        sha = hashlib.sha256()
        for name, dtype, shape, data in sorted(found, key=lambda one: one[0]):
            sha.update(f"{name} {dtype} {shape}".encode())
            sha.update(data())
        return sha.hexdigest()

    def server_digest(self) -> str:
        """The same without what the parties keep: what a server of real sites can compute too."""
        return State(self.round, self.server, self.buffers, {}).digest()


def _owned(vectors: Vectors) -> Vectors:
    """The vectors with memory of their own: a view would keep the whole stack that it is a part of alive."""
    return {k: v if v.untyped_storage().nbytes() == v.nbytes else v.clone() for k, v in vectors.items()}


def _data(value: Tensor) -> bytes:
    return value.detach().cpu().contiguous().numpy().tobytes()

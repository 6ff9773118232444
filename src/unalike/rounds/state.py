"""What a run has come to: everything that a later round depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unalike.algorithms.contract import Vectors


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

    def digest(self) -> str:
        """SHA-256 over the names, shapes and values of the server's vectors, the parties' and the buffers."""
        sha = hashlib.sha256()
        for name, value in sorted(self.tensors().items()):
            sha.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            sha.update(value.detach().cpu().contiguous().numpy().tobytes())
        return sha.hexdigest()

    def server_digest(self) -> str:
        """The same without what the parties keep: what a server of real sites can compute too."""
        return State(self.round, self.server, self.buffers, {}).digest()

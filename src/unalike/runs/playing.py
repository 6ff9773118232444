"""From a spec to what is played: a simulation of nets, or a protocol's conversation."""

from __future__ import annotations

from collections.abc import Callable

from unalike.data import Dataset
from unalike.runs.conversing import Conversing
from unalike.runs.meaning import protocol_of
from unalike.runs.playable import Playable
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec


def playable(spec: RunSpec, *, data: Dataset | None = None, say: Callable[[str], None] = print) -> Playable:
    """The training that a spec describes, before its first round."""
    protocol = protocol_of(spec.algorithm, str(spec.model))
    if protocol is None:
        return Simulation(spec, data=data, say=say)
    return Conversing(spec, protocol, data=data, say=say)

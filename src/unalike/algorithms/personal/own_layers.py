"""What algorithms with layers of one's own share: a part of the net stays at home, the rest is shared."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from unalike.algorithms.around import AroundBase
from unalike.algorithms.contract import Party, Phase, Vectors
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@dataclass(frozen=True)
class Split:
    """A flat vector taken apart into the party's own weights and the shared ones: runs, each own or not."""

    runs: tuple[tuple[slice, bool], ...]

    @classmethod
    def of(cls, task: Task, parts: tuple[str, ...]) -> Split:
        """The split of a net's weights whose named parts are own."""
        runs: list[tuple[slice, bool]] = []
        end = 0
        for span in task.parts.spans(*parts):
            runs += [(slice(end, span.start), False), (span, True)]
            end = span.stop
        return cls((*runs, (slice(end, task.size), False)))

    def own(self, w: Tensor) -> Tensor:
        """The weights that are the party's own, as one vector."""
        return self._taken(w, own=True)

    def shared(self, w: Tensor) -> Tensor:
        """The weights that are shared, as one vector."""
        return self._taken(w, own=False)

    def join(self, shared: Tensor, own: Tensor) -> Tensor:
        """The whole vector of weights from its two parts."""
        import torch

        pieces, ends = [], {True: 0, False: 0}
        for span, mine in self.runs:
            begin = ends[mine]
            ends[mine] = begin + span.stop - span.start
            pieces.append((own if mine else shared)[begin : ends[mine]])
        return torch.cat(pieces)

    def _taken(self, w: Tensor, own: bool) -> Tensor:
        import torch

        return torch.cat([w[:0], *(w[span] for span, mine in self.runs if mine == own)])


class OwnLayers(AroundBase):
    """A part of the net is each party's own and never leaves it; ``base`` trains the rest with all parties.

    Party k's model is (s, o_k): the shared part s, which the base sends, trains and averages as if there were no
    other weights, and its own part o_k. Only s and what the base sends beside it travel. The base may be any
    algorithm that acts on vectors of weights alone, on the party by ``start``, ``proximal`` and ``linear``; one
    that looks at the whole net (a ``loss`` or a measuring pass of its own) is refused.

    o_k is as at the start of the run until the party is first asked. So a party that never was, a newcomer, trains
    its own part alone on the shared one before it uses its model: ``adapt_epochs`` epochs, or without a number for
    as long as a party trains in a round. With ``adapt_all`` everybody does so. Nothing of that is kept.

    There is no one global model. Running statistics of batch norm are averaged, unless an own layer has some: then
    all of them stay at home.
    """

    adapt_epochs: int | None
    adapt_all: bool

    def own_parts(self, task: Task) -> tuple[str, ...]:
        """The names of the parts that stay at home."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (field.name for field in fields(self) if field.name.endswith(("epochs", "layers"))):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise UserError(f"{type(self).__name__}.{name} must be at least 1, got {number}. Leave it out.")

    def _some_layers(self, task: Task, layers: int) -> tuple[str, ...]:
        """The names of all layers, of which so many are own, but not all."""
        _ = task.slices["head"]  # without one nobody knows which layers come last
        names = task.parts.layers
        if len(names) == 1:
            raise UserError(
                f"{type(self).__name__} shares some layers of a net, but this one has a single layer with weights "
                "to train. Choose another --model, such as mlp(32)."
            )
        if layers >= len(names):
            raise UserError(
                f"{type(self).__name__}.layers must be below {len(names)}, all layers of this net with weights to "
                f"train, got {layers}: nothing would be shared. Keep fewer at home."
            )
        return names

    def split(self, task: Task) -> Split:
        """Which weights are own, and which are shared."""
        return Split.of(task, self.own_parts(task))

    def own_first(self, task: Task, own: int, shared: int | None) -> tuple[Phase, ...]:
        """Epochs of the own part with the shared one frozen, then of the shared part with the own one frozen."""
        mine = task.parts.spans(*self.own_parts(task))
        places = [(name, task.slices[name]) for name in task.parameters.names]
        rest = tuple(n for n, at in places if not any(s.start <= at.start and at.stop <= s.stop for s in mine))
        phases = Phase("own", own, trains=self.own_parts(task)), Phase("shared", shared, trains=rest)
        return tuple(phase for phase in phases if phase.trains)

    def keeps_statistics_of(self, task: Task) -> bool:
        """Where an own layer has running statistics, they must not be averaged."""
        return self.keeps_statistics or task.parts.have_statistics(*self.own_parts(task))

    # --- server: the base's, with the shared weights as its model ---
    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The base's state for a model that is the shared part."""
        name, base = type(self).__name__, type(self.base).__name__
        for part in self.own_parts(task):
            if not task.parts.spans(part):
                raise UserError(
                    f"{name} keeps {part} at home, but this net has no such weights to train: it would be FedAvg. "
                    f"Choose another --model{', such as resnet18' if part == 'norm' else ''}."
                )
        server = self.base.init_server(task, self.split(task).shared(w))
        kind = next(self.base.round(task, server)).kind
        if kind != "train":
            raise UserError(
                f"{name}.base must train at once, got {base}, which does {kind}: a measuring pass needs the whole "
                "net. Try base=scaffold(option=ii)."
            )
        return server

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """None, as every party has its own part; where nothing is own, the base's."""
        return None if self.own_parts(task) else self.base.global_model(task, server)

    # --- party ---
    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """The own part is trained alone on the shared one."""
        own = self.own_parts(task)
        return (Phase("own", self.adapt_epochs, trains=own),) if own else ()

    def adapts(self, known: bool) -> bool:
        """Newcomers do; all others where the field says so."""
        return self.adapt_all or not known

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's own part, and what the base keeps for the shared one."""
        split = self.split(task)
        return {**self.base.init_party(task, split.shared(w)), "own": split.own(w)}

    def _whole(self, party: Party, shared: Tensor) -> Tensor:
        return self.split(party.task).join(shared, party.state["own"])

    def _nothing_own(self, party: Party, shared: Tensor) -> Tensor:
        own = party.state["own"]
        return self.split(party.task).join(shared, own.new_zeros(own.shape))

    def start(self, party: Party) -> Tensor:
        """The base's start with the party's own part."""
        return self._whole(party, self.base.start(party))

    def proximal(self, party: Party) -> tuple[float | Tensor, Tensor] | None:
        """The base's term on the shared part; the own part is free."""
        near = self.base.proximal(party)
        if near is None or not self.own_parts(party.task):
            return near
        strength, centre = near
        return self._nothing_own(party, strength * centre.new_ones(centre.shape)), self._whole(party, centre)

    def linear(self, party: Party) -> Tensor | None:
        """What the base adds to the gradient of the shared part; nothing is added to that of the own one."""
        added = self.base.linear(party)
        return None if added is None else self._nothing_own(party, added)

    def keep(self, party: Party, w: Tensor) -> Vectors:
        """The own part after a phase."""
        return {**party.state, "own": self.split(party.task).own(w)}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """What the base uploads of the shared part; the own part stays."""
        split = self.split(party.task)
        upload, state = self.base.upload(party, split.shared(w))
        return upload, {**state, "own": split.own(w)}

    def personal(self, party: Party) -> Tensor:
        """The received shared part with the party's own."""
        return self._whole(party, party.received["w"])

"""Layers of one's own: FedPer, LG-FedAvg, FedRep, FedBN, FedBABU, and a free choice of layers.

They differ in which part of the net stays at home and in when it is trained; ``own_layers.py`` has all else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Algorithm, Phase, Vectors, algorithm
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.personal.own_layers import OwnLayers
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("partial", paper="Pillutla et al. 2022 (arXiv:2204.03809)")
class Partial(OwnLayers):
    """Layers of your choice stay at home, the others are trained together.

    The family of FedPer, LG-FedAvg, FedRep and FedBN with a free choice of the own part. ``own``: "head", "body",
    "norm" (all layers that normalise), a layer's or parameter's name, or several of these; with none of them it is
    ``base``, with "body" and "head" it is training alone. Both parts are trained together (the paper's FedSim).
    With ``own_epochs`` the own part is trained first, for so many epochs, then the shared part for
    ``shared_epochs`` or, without a number, the run's local work (FedAlt). ``OwnLayers`` says what is shared, and
    what newcomers do.
    """

    own: tuple[str, ...] = ("head",)
    own_epochs: int | None = None
    shared_epochs: int | None = None
    base: Algorithm = FedAvg()
    adapt_epochs: int | None = None
    adapt_all: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.own_epochs is None and self.shared_epochs is not None:
            raise UserError(
                "Partial.shared_epochs needs own_epochs: without these both parts are trained together, got "
                f"shared_epochs={self.shared_epochs} alone. Give both."
            )

    def own_parts(self, task: Task) -> tuple[str, ...]:
        """The parts that the field names."""
        return self.own

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """Both parts together, or the own part first."""
        if self.own_epochs is None:
            return (Phase(),)
        return self.own_first(task, self.own_epochs, self.shared_epochs)


@algorithm("fedper", paper="Arivazhagan et al. 2019 (arXiv:1912.00818)")
class FedPer(OwnLayers):
    """The last layers stay at home, all layers before them are trained together.

    ``layers`` is the paper's K_P, the number of personalisation layers: 1 is the head alone. Layers are those that
    have weights of their own to train (the paper counts the blocks of a residual net). Every party trains both
    parts at once. ``OwnLayers`` says what is shared, and what newcomers do.
    """

    layers: int = 1
    base: Algorithm = FedAvg()
    adapt_epochs: int | None = None
    adapt_all: bool = False

    def own_parts(self, task: Task) -> tuple[str, ...]:
        """The names of the last layers."""
        return self._some_layers(task, self.layers)[-self.layers :]


@algorithm("lg-fedavg", paper="Liang et al. 2020 (arXiv:2001.01523)")
class LgFedAvg(OwnLayers):
    """The first layers stay at home, the layers after them, up to the head, are trained together.

    Local representations and a global model on top of them. ``layers``: how many of the first layers are own;
    without a number it is the whole body. Departures: the authors' code starts from a model that FedAvg has
    trained, counts all parties the same and keeps each party's best model by its test rows; here training starts
    from the run's initial weights, parties count by size, and the last model is used. A newcomer trains first
    layers of its own below the shared ones (see ``OwnLayers``). The paper's rule for a device without a model, the
    mean of the outputs of all local models, needs everybody's own layers: that is ``lg-fedavg-ensemble``.
    """

    layers: int | None = None
    base: Algorithm = FedAvg()
    adapt_epochs: int | None = None
    adapt_all: bool = False

    def own_parts(self, task: Task) -> tuple[str, ...]:
        """The names of the first layers."""
        return ("body",) if self.layers is None else self._some_layers(task, self.layers)[: self.layers]


@algorithm("fedrep", paper="Collins et al. 2021 (arXiv:2102.07078), Algorithm 1")
class FedRep(OwnLayers):
    """A shared body and a head of one's own: many epochs of the head alone, then a few of the body alone.

    ``head_epochs`` and ``body_epochs`` are the local work, whatever the run's is. While one part is trained the
    other one keeps its bits, and each phase has new momentum. ``layers``: how many of the last layers are the
    head. The paper averages the bodies plainly; ``base`` counts parties by size. The authors' experiments end in a
    round that everybody trains in, and average the figures of the last ten rounds; here the head of a party is as
    it last trained it, and newcomers train theirs (see ``OwnLayers``).
    """

    head_epochs: int = 10
    body_epochs: int = 1
    layers: int = 1
    base: Algorithm = FedAvg()
    adapt_epochs: int | None = None
    adapt_all: bool = False

    def own_parts(self, task: Task) -> tuple[str, ...]:
        """The names of the last layers."""
        return self._some_layers(task, self.layers)[-self.layers :]

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """The head first, then the body."""
        return self.own_first(task, self.head_epochs, self.body_epochs)


@algorithm("fedbn", paper="Li et al. 2021 (arXiv:2102.07623), Algorithm 1")
class FedBn(OwnLayers):
    """Layers that normalise stay at home with their statistics, all others are trained together.

    Own are the scales and shifts of every layer of a normalising type, whatever its name is, and all running
    statistics. A net without such layers is refused: it would be FedAvg. ``base`` counts parties by size, where
    the paper averages them plainly. ``OwnLayers`` says what newcomers do: they train scales and shifts, and gather
    statistics, on their own rows.
    """

    keeps_statistics: ClassVar[bool] = True
    base: Algorithm = FedAvg()
    adapt_epochs: int | None = None
    adapt_all: bool = False

    def own_parts(self, task: Task) -> tuple[str, ...]:
        """The layers that normalise, by their type."""
        return ("norm",)


@algorithm("fedbabu", paper="Oh et al. 2022 (arXiv:2106.06042)")
class FedBabu(OwnLayers):
    """Only the body is trained and shared; the head stays random, until a party tunes it before use.

    All parties have the same initial head, which training never changes, so there is a global model: the shared
    body with that head. Before a party uses its model it tunes it on its own rows for ``adapt_epochs`` epochs:
    ``tunes`` "head", as the paper's abstract says, or "all" of the net, as its authors' notebook does. 5 epochs
    are the default of the authors' code. Everybody tunes, newcomers too; nothing of it is kept.
    """

    tunes: Literal["head", "all"] = "head"
    adapt_epochs: int | None = 5
    base: Algorithm = FedAvg()

    def own_parts(self, task: Task) -> tuple[str, ...]:
        """The head, which does not travel either."""
        if not task.parts.spans("body"):
            raise UserError(
                "FedBabu trains the body alone, but that of this net has no weights to train. "
                "Choose another --model, such as mlp(32)."
            )
        return ("head",)

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """The body alone is trained."""
        return (Phase(trains="body"),)

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """The head, or the whole net, is tuned from the global model."""
        return (Phase("tune", self.adapt_epochs, trains="head" if self.tunes == "head" else ""),)

    def adapts(self, known: bool) -> bool:
        """Everybody does: the initial head fits nobody."""
        return True

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """The shared body with the initial head."""
        split = self.split(task)
        return split.join(server["w"], split.own(task.initial()))

"""FedGAN: a generator and a judge are averaged as weights are, with a classifier beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Party, Payload, Replies, Vectors, algorithm
from unalike.algorithms.fedrs import check_classes
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.algorithms.generated.gan import Gan
    from unalike.models.batch import Batch
    from unalike.models.task import Task

NETS = ("w", "generator", "judge")


@algorithm("fedgan", paper="Rasouli et al. 2020 (arXiv:2006.07228), Algorithm 1")
class FedGan(Algorithm):
    """Parties train a generator of rows and its judge, both of which are averaged, and the run's net beside them.

    In a local step the judge (the paper's discriminator) learns to tell rows from made ones, and the generator to
    be taken for rows, by the gradients before either moves; the server takes the means of both, weighted by rows
    as in the paper. ``ratio`` is the generator's rate in units of the judge's, b(n)/a(n) in the paper; under Adam,
    which GANs want (``--optimiser "adam(beta1=0.5)" --lr 0.0005``), a factor changes nothing.

    Departures: the paper has no classifier. With ``fill`` above 0 that share of the rows it is trained on are made
    ones of labels drawn evenly, from the generator as it was received, in the rounds after the first ``after``.
    The generator is told a label and the judge asks whether a row fits its label (where there are classes). Slots
    of the local optimiser start anew in each round. The generator's loss is the non-saturating one.

    A generator may make rows that it was trained on, and everybody has it.
    """

    noise: int = 16
    ratio: float = 1.0
    fill: float = 0.0
    after: int = 0

    def __post_init__(self) -> None:
        if self.noise < 1:
            raise UserError(f"FedGan.noise must be at least 1, got {self.noise}. Use 16.")
        if not 0 < self.ratio < float("inf"):
            raise UserError(f"FedGan.ratio must be above 0, got {self.ratio}. Use 1.")
        if not 0 <= self.fill <= 1:
            raise UserError(f"FedGan.fill must be from 0 to 1, got {self.fill}. Use 0 for own rows alone.")
        if self.after < 0:
            raise UserError(f"FedGan.after must be at least 0, got {self.after}. Use 0 to fill up from the start.")

    def nets(self, task: Task) -> Gan:
        """The generator and the judge, as functions of flat vectors."""
        from unalike.algorithms.generated.gan import Gan

        return Gan.of(task, self.noise)

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The classifier, the generator and the judge."""
        if self.fill:
            check_classes(task, "fedgan(fill)")
        gan = self.nets(task)
        return {"w": w, "generator": gan.generator.initial(), "judge": gan.judge.initial()}

    def send(self, task: Task, server: Vectors) -> Payload:
        """The classifier, the generator and the judge."""
        return {name: server[name] for name in NETS}

    def start(self, party: Party) -> Tensor:
        """All three as they were received, in one vector."""
        import torch

        return torch.cat([party.received[name] for name in NETS])

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The classifier's loss, the judge's, and the generator's."""
        import torch

        from unalike.algorithms.generated.gan import both, filled

        gan, seen = self.nets(party.task), batch
        own, g, d = torch.split(w, self._sizes(party.task))
        if self.fill and party.round > self.after:
            fill = own.new_full((gan.classes,), self.fill / gan.classes)
            z = gan.noise_of(batch, 1)
            seen = filled(batch, fill, lambda y: gan.made(party.received["generator"], z, y))
        playing = both(gan, g, d, batch.x, batch.y, gan.noise_of(batch), self.ratio)
        return party.task.loss(own, seen) + batch.mean(playing)

    def _sizes(self, task: Task) -> list[int]:
        gan = self.nets(task)
        return [task.size, gan.generator.size, gan.judge.size]

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The changes of all three."""
        import torch

        changes = torch.split(w - self.start(party), self._sizes(party.task))
        return dict(zip(NETS, changes, strict=True)), party.state

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """All three move by the weighted mean of their changes."""
        return {name: server[name] + replies.mean[name] for name in NETS}

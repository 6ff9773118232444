"""NaiveMix and FedMix: parties mix their rows with means of the others' rows."""

from __future__ import annotations

import copy
import threading
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, Party, Payload, Replies, Sends, Vectors, algorithm
from unalike.algorithms.data.mixing import check_mixable, check_numbers, mixed_loss
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

MEANS = ("means", "labels", "there")
_FORWARD = threading.Lock()
"""Forward derivatives have levels that are one for the whole process: one party at a time takes one."""


@dataclass(frozen=True)
class MeanAugmented(Algorithm):
    """Mean augmented federated learning: what NaiveMix and FedMix have in common.

    Before round 1 each party deals its rows at random to ``groups`` groups of nearly equal size M and sends their
    means (x_g, y_g), labels as shares of the classes. The server sends the means of all to everybody. A group of
    fewer than ``least`` rows is not told: its mean would show single rows, and with ``least=1`` may be one.

    The paper gives M and lets each party have as many groups as that makes; here the number of groups is given, so
    that all parties send the same amount, and M follows. Departure: means are sent down with the model in every
    round, so that a party need not keep them; they go up once.
    """

    needs_each: ClassVar[bool] = True  # everybody gets every mean: there is nothing that a sum could hide
    needs_whole: ClassVar[bool] = True
    sends: ClassVar[Sends] = "mean rows"
    lam: float = 0.1
    groups: int = 1
    least: int = 10

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not 0 <= self.lam < 1:
            raise UserError(f"{name}.lam must be at least 0 and below 1, got {self.lam}. Use 0.05.")
        if self.groups < 1 or self.least < 1:
            raise UserError(
                f"{name} needs a group or more, of a row or more, got groups={self.groups}, least={self.least}."
            )

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, and room for all means."""
        check_mixable(type(self).__name__, task)
        count = task.population * self.groups
        shapes = zip(MEANS, ((*task.shape,), (task.classes,), ()), strict=True)
        return {"w": w} | {key: w.new_zeros(count, *shape) for key, shape in shapes}

    def prepare(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Every party tells its means, which happens once."""
        replies = yield Ask("offer", {})
        filled = {key: server[key].clone() for key in MEANS}
        for number, told in replies.each.items():
            for key in MEANS:
                filled[key][number * self.groups : (number + 1) * self.groups] = told[key]
        if not task.rehearsing and not filled["there"].any():
            raise UserError(
                f"No party has {self.least} rows for each of {self.groups} means, so none was sent. Use fewer "
                f"groups; lower least ({self.least}) only if single rows may be guessed."
            )
        return server | filled

    def offer(self, party: Party, batch: Batch) -> tuple[Vectors, Vectors]:
        """The means of the party's groups; zeros where groups are too small."""
        import torch
        from torch.nn import functional

        from unalike.models import noise

        check_numbers(type(self).__name__, batch.x)
        rows, told = len(batch.y), len(batch.y) // self.groups >= self.least
        group = torch.arange(rows, device=batch.y.device) % self.groups
        group = group[noise.uniform(party.key, rows, 0, torch.float64).argsort()]
        dealt = functional.one_hot(group, self.groups).to(party.task.dtype).T
        share = dealt / dealt.sum(dim=1, keepdim=True).clamp(min=1) * told
        labels = functional.one_hot(batch.y, party.task.classes).to(party.task.dtype)
        means = (share @ batch.x.flatten(1)).reshape(self.groups, *batch.x.shape[1:])
        return {"means": means, "labels": share @ labels, "there": share.new_full((self.groups,), told)}, {}

    def send(self, task: Task, server: Vectors) -> Payload:
        """The model and all means."""
        return server

    def drawn(self, party: Party, batch: Batch) -> tuple[Tensor, Tensor]:
        """One of all means that were told, and its labels' shares: another one in every step."""
        there = party.received["there"]
        upto = there.cumsum(dim=0)
        which = (upto <= batch.uniform(1) * upto[-1]).sum().clamp(max=len(there) - 1).reshape(1)
        return party.received["means"].index_select(0, which)[0], party.received["labels"].index_select(0, which)[
            0
        ]


@algorithm("naivemix", paper="Yoon et al. 2021 (arXiv:2107.00233), section 3.2")
class NaiveMix(MeanAugmented):
    """FedAvg whose parties mix their rows with means of other parties' rows, as Mixup mixes two rows.

    With one mean (x_g, y_g) drawn in every step, the loss is (1-l) L(x, y) + l L(x, y_g) at x = (1-l) x_i + l x_g.
    Before round 1 each party sends ``groups`` means of its rows, which go to everybody; no group of fewer than
    ``least`` rows is told. Departures: the number of groups is given and not their size; means are sent down in
    every round (:class:`MeanAugmented`).
    """

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The loss at rows that are mixed with a mean."""
        mean, labels = self.drawn(party, batch)
        logits = party.task.logits(w, replace(batch, x=(1 - self.lam) * batch.x + self.lam * mean))
        theirs = batch.mean(mixed_loss(party.task, logits, labels))
        return (1 - self.lam) * party.task.loss_of(logits, batch) + self.lam * theirs


@algorithm("fedmix", paper="Yoon et al. 2021 (arXiv:2107.00233), equation 4")
class FedMix(MeanAugmented):
    """NaiveMix's loss to the first order in the means, which is that of mixing with single rows of other parties.

    With one mean (x_g, y_g) drawn in every step, at x = (1-l) x_i the loss is
    (1-l) L(x, y) + l L(x, y_g) + l (1-l) dL/dx(x, y) . x_g, where the derivative is each row's own. The factor 1-l
    of the last term is that of the expansion (and of the published code); without it the difference is of second
    order in l. Before round 1 each party sends ``groups`` means of its rows, which go to everybody; no group of
    fewer than ``least`` rows is told. Departures as in NaiveMix. The net is differentiated twice, once of that
    forward: about 1.6 times FedAvg's work; on the compiled engine the net itself runs, not its kernels.
    """

    lam: float = 0.05

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The expansion around the shrunk rows, with the slope along the mean from a forward derivative."""
        import torch
        from torch.func import jvp

        mean, labels = self.drawn(party, batch)
        plain, shrunk = copy.copy(party.task), replace(batch, x=(1 - self.lam) * batch.x)
        plain.operation = None  # compiled nets have no derivative by rows
        if plain.buffers.size:  # a derivative must not change running statistics
            with torch.no_grad():
                plain.logits(w, shrunk)

        def own(x: Tensor) -> tuple[Tensor, Tensor]:
            logits = plain.logits(w, replace(batch, x=x), track=False)
            return plain.loss_of(logits, batch), logits

        with _FORWARD:
            found: Any = jvp(own, (shrunk.x,), (mean.expand_as(batch.x),), has_aux=True)
        loss, slope, logits = found
        theirs = batch.mean(mixed_loss(plain, logits, labels))
        mixed: Tensor = (1 - self.lam) * loss + self.lam * theirs + self.lam * (1 - self.lam) * slope
        return mixed

"""XorMixFL: rows go to the server XORed with other rows, and the server trains on what it makes of them."""

from __future__ import annotations

from collections.abc import Generator as Script
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Sends, Vectors, algorithm
from unalike.algorithms.data.at_server import ServerWork
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from unalike.models.batch import Batch
    from unalike.models.byte_scale import ByteScale
    from unalike.models.task import Task


@algorithm("xormix", paper="Shin et al. 2020 (arXiv:2006.05148)")
class XorMix(Algorithm):
    """A start that the server trains on rows which reach it XORed with others; then FedAvg.

    Before round 1 each party draws ``seeds`` rows a, with label i, and to each a row b of its own with another
    label j, and sends (a XOR b, i, j), bit by bit of the pixels. The server, which has public rows
    (``--public``), makes (a XOR b) XOR b' with its own rows b' of label j and calls that a row of label i. It
    fills up every label to ``rows`` rows, its own first, and trains the model on them (``epochs``, ``rate``,
    ``batch``); the rounds that follow train it further at the parties.

    XOR with a picture is no cipher: where b' has the pixels of b, background above all, a's are in the clear, and
    if b' is b all of a is. What leaves a party therefore counts as rows. A party with one label takes b from that
    label; one with a single row sends nothing. What is known of the paper here is its abstract and the survey's
    account of it (Zhu et al. 2021, section 5.1.2): how many rows, and how they are drawn, is our reading.
    """

    needs_each: ClassVar[bool] = True
    needs_whole: ClassVar[bool] = True
    sends: ClassVar[Sends] = "rows"
    seeds: int = 10
    rows: int = 200
    epochs: int = 10
    rate: float = 0.01
    batch: int = 32

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.rows < 1:
            raise UserError(
                f"XorMix needs a seed and a row of each label or more, got seeds={self.seeds}, rows={self.rows}."
            )
        self._work.check("XorMix")

    @property
    def _work(self) -> ServerWork:
        return ServerWork(self.epochs, self.rate, self.batch)

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model; rows that are no bytes, or no public ones, are refused."""
        if not task.classes:
            raise UserError("XorMix is for classes: a row is encoded with one of another class. Use fedavg.")
        _scale(task)
        len(task.public.y)  # says what to do where there are none
        return {"w": w}

    def prepare(self, task: Task, server: Vectors) -> Script[Ask, Replies, Vectors]:
        """Collect the encoded rows, make a data set with even labels of them, and train on it."""
        import torch

        replies = yield Ask("offer", {})
        told = {
            key: torch.cat([each[key] for each in replies.each.values()]) for key in ("code", "labels", "there")
        }
        there = told["there"] > 0
        whole, y = self.rebuilt(task, told["code"][there].long(), told["labels"][there].long())
        x = _scale(task).numbers(whole, task.dtype)
        return {"w": self._work.trained(task, server["w"], x, y)}

    def offer(self, party: Party, batch: Batch) -> tuple[Vectors, Vectors]:
        """Rows XORed with rows of another label, and both labels."""
        import torch

        from unalike.models import noise

        pixels, y, count = _scale(party.task).whole(batch.x), batch.y, len(batch.y)
        seeds = noise.uniform(party.key, count, 0, torch.float64).argsort()[: self.seeds]
        # Any row of another label before any of the same, and oneself last.
        order = noise.uniform(party.key, len(seeds) * count, 1, torch.float64).reshape(len(seeds), count)
        order = order + (y == y[seeds][:, None]) + (torch.arange(count, device=y.device) == seeds[:, None])
        others = order.argmin(dim=1)
        dtype, told = party.task.dtype, len(seeds) if count > 1 else 0
        code = torch.zeros(self.seeds, *batch.x.shape[1:], dtype=dtype, device=y.device)
        labels, there = code.new_zeros(self.seeds, 2), code.new_zeros(self.seeds)
        code[:told] = (pixels[seeds] ^ pixels[others])[:told].to(dtype)
        labels[:told] = torch.stack([y[seeds], y[others]], dim=1)[:told].to(dtype)
        there[:told] = 1
        return {"code": code, "labels": labels, "there": there}, {}

    def rebuilt(self, task: Task, code: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """As many rows of every label: the server's own, then decoded ones; none of a label that nobody has."""
        import torch

        base, y, drawn = _scale(task).whole(task.public.x), task.public.y, task.generator(0)
        found, kinds = [], []
        for label in range(task.classes):
            own = torch.nonzero(y == label)[: self.rows, 0]
            pairs = torch.nonzero((labels[:, :1] == label) & (labels[:, 1:] == y))  # a code, and what decodes it
            missing = self.rows - len(own)
            rows = [base[own]]
            if len(pairs):
                picked = pairs[_picked(len(pairs), missing, drawn).to(y.device)]
                rows.append(code[picked[:, 0]] ^ base[picked[:, 1]])
            elif len(own):
                rows.append(base[own[_picked(len(own), missing, drawn).to(y.device)]])
            found.append(torch.cat(rows))
            kinds.append(y.new_full((len(found[-1]),), label))
        return torch.cat(found), torch.cat(kinds)


def _picked(count: int, wanted: int, drawn: Generator) -> Tensor:
    """``wanted`` of so many places at random, each as often as any other, but for one time."""
    import torch

    rounds = [torch.randperm(count, generator=drawn) for _ in range(-(-wanted // count))]
    return torch.cat([torch.zeros(0, dtype=torch.int64), *rounds])[:wanted]


def _scale(task: Task) -> ByteScale:
    if task.byte_scale is None:
        raise UserError("XorMix needs rows of bytes, such as pixels; these are not. Use --dataset mnist.")
    return task.byte_scale

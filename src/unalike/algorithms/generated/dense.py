"""DENSE: one round, after which the server teaches a student what all parties' nets say of rows that it makes."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, Kind, Party, Replies, Vectors, algorithm
from unalike.algorithms.fedrs import check_classes
from unalike.algorithms.knowledge.distil import Course, Member, Teachers, distil
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

BATCH = 64
"""How many rows are made, and learnt from, at a time."""


@algorithm("dense", paper="Zhang et al. 2022 (arXiv:2112.12371), Algorithm 1")
class Dense(Algorithm):
    """The server learns to make rows that the parties' nets know, and a student what those nets say of them.

    Parties train and send their nets; no rows and no public ones are needed. With D the mean of their logits and S
    the student, the server repeats ``epochs`` times: for noise z and labels y drawn evenly, ``makes`` steps of
    Adam (rate ``lr``) move a generator G down

        CE(D(x), y) + statistics L_BN - disagreement mean( [argmax D(x) != argmax S(x)] KL(D(x) || S(x)) )

    where x = G(z, y), and L_BN is how far the rows' means and variances before each batch norm layer are from the
    running ones, over all nets (0 without such layers); then ``learns`` steps of SGD (rate ``student_lr``,
    momentum 0.9) move S towards D, in Kullback-Leibler divergence, on rows drawn from all that were made so far.

    It is meant for one round (``--rounds 1`` and many local epochs); in further ones parties start from S. S
    starts as the weighted mean of the nets, with the mean of their statistics, where the authors' code starts
    afresh; the generator is told y, theirs is not and is begun anew in each epoch. Losses are as in the authors'
    code, read in copies of it; the numbers of steps are ours. The server sees each net by itself.
    """

    needs_each: ClassVar[bool] = True
    epochs: int = 20
    makes: int = 30
    learns: int = 10
    statistics: float = 1.0
    disagreement: float = 0.5
    lr: float = 0.001
    student_lr: float = 0.01
    noise: int = 64

    def __post_init__(self) -> None:
        for name, least in {"epochs": 0, "makes": 1, "learns": 1, "noise": 1}.items():
            if getattr(self, name) < least:
                raise UserError(f"Dense.{name} must be at least {least}, got {getattr(self, name)}. Leave it out.")
        for name in ("statistics", "disagreement"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UserError(f"Dense.{name} must be at least 0, got {getattr(self, name)}. Use 0 for none.")
        for name in ("lr", "student_lr"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UserError(f"Dense.{name} must be above 0, got {getattr(self, name)}. Leave it out.")

    # --- server ---
    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The student, and how many rounds there were."""
        check_classes(task, "dense")
        return {"w": w, "rounds": w.new_zeros(())}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Local training; where there is batch norm, a pass over the rows shows a party's running statistics."""
        kind: Kind = "train+measure" if task.buffers.size else "train"
        replies = yield Ask(kind, self.send(task, server))
        return self.fold(task, server, replies)

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The mean of the nets, taught what they say of made rows."""
        members = [Member(task, each["w"], each.get("statistics")) for each in replies.each.values()]
        number = 1 + int(server["rounds"])
        w = self.taught(task, replies.mean["w"], replies.buffers, members, number)
        return {"w": w, "rounds": server["rounds"] + 1}

    def taught(self, task: Task, w: Tensor, buffers: Tensor, members: list[Member], number: int) -> Tensor:
        """A student's weights after all epochs, from ``w``."""
        import torch

        from unalike.algorithms.generated.gan import Gan
        from unalike.algorithms.generated.learning import learnt, lessons, noise, whole
        from unalike.models.batch import Batch

        gan, stream, rows = Gan.of(task, self.noise), task.generator(number), w.new_zeros(0, *task.shape)
        g = gan.generator.initial(number)
        course = Course(self.learns, BATCH, self.student_lr, "sgd", 0.9, decay=False)

        def drawn(step: int, student: Tensor) -> Batch:
            place = whole(task, stream, len(rows), BATCH)
            return Batch(rows[place], place)  # labels are not looked at

        for _ in range(lessons(task, self.epochs)):
            z, y = noise(task, stream, BATCH, self.noise), whole(task, stream, task.classes, BATCH)
            student = Member(task, w, buffers)

            def loss(g: Tensor, step: int, z: Tensor = z, y: Tensor = y, student: Member = student) -> Tensor:
                return self.making(members, student, Batch(gan.made(g, z, y), y))

            g = learnt(task, g, loss, self.makes, self.lr)
            rows = torch.cat([rows, gan.made(g, z, y)])
            w = distil(task, w, drawn, Teachers(members), course, stream, buffers=buffers)
        return w

    def making(self, members: list[Member], student: Member, made: Batch) -> Tensor:
        """The generator's loss on made rows: cross-entropy, statistics and disagreement."""
        import torch
        from torch.nn import functional

        said = [with_gap(member, made) for member in members]
        told = torch.stack([logits for logits, _ in said]).mean(dim=0)
        guessed = student.logits(made)
        p, q = told.log_softmax(dim=1), guessed.log_softmax(dim=1)
        differ = (told.argmax(dim=1) != guessed.argmax(dim=1)).to(p.dtype)
        apart = (differ * (p.exp() * (p - q)).sum(dim=1)).mean()
        gap = torch.stack([gap for _, gap in said]).mean()
        return functional.cross_entropy(told, made.y) + self.statistics * gap - self.disagreement * apart

    # --- party ---
    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The running statistics after training, which are the same in every batch."""
        assert batch.buffers is not None
        return {"statistics": batch.buffers}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The whole net, and its running statistics where it has any."""
        return {"w": w, **party.measured}, party.state


def with_gap(member: Member, batch: Batch) -> tuple[Tensor, Tensor]:
    """What a net says of rows, and how far they are, before each batch norm layer, from its running statistics."""
    import torch
    from torch import nn

    gaps: list[Tensor] = []

    def look(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x, told_mean, told_spread = inputs[0], module.running_mean, module.running_var
        assert isinstance(told_mean, torch.Tensor)
        assert isinstance(told_spread, torch.Tensor)
        axes = [0, *range(2, x.dim())]
        mean, spread = x.mean(dim=axes), x.var(dim=axes, correction=0)
        gaps.append((mean - told_mean).norm() + (spread - told_spread).norm())

    norms = [m for m in member.task.net.modules() if isinstance(m, nn.modules.batchnorm._NormBase)]
    hooks = [m.register_forward_pre_hook(look) for m in norms if m.running_mean is not None]
    try:
        logits = member.logits(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return logits, sum(gaps, logits.new_zeros(()))

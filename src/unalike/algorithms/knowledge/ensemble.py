"""One round of long local training, whose models are an ensemble that one net learns from."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Algorithm, Ask, Party, Phase, Replies, Vectors, algorithm
from unalike.algorithms.knowledge.distil import Course, Member, Teachers, distil, table
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


def no_statistics(task: Task, name: str) -> None:
    """Refuse a net whose running statistics an upload of weights would leave behind."""
    if task.buffers.size:
        raise UserError(
            f"{name} uses single models as they are, but the running statistics of batch norm arrive as a mean. "
            "Use --batch-norm drop, or a --model without it."
        )


def course_of(
    task: Task, rows: int, passes: int, rate: float, distance: Literal["scores", "squared"] = "scores"
) -> Course:
    """So many passes over so many rows in batches of 128; a rehearsal needs no more than the first step."""
    size = 128
    steps = passes * -(-rows // size)
    return Course(batches=min(steps, 1) if task.rehearsing else steps, size=size, lr=rate, distance=distance)


@algorithm("ensemble", paper="Guha et al. 2019 (arXiv:1902.11175)")
class OneShotEnsemble(Algorithm):
    """Every party trains for long, once; a choice of their models is an ensemble, from which one net learns.

    The ensemble's answer is the mean of its members' probabilities (of numbers: of their predictions). Members
    are ``all``; the ``count`` ``largest``, by training rows (the paper's data selection); or the ``count``
    ``best``, by the loss on their own validation rows (its cross-validation selection, with a threshold). The
    student starts from the weights that were sent, and learns the ensemble's answers on public rows, whose labels
    are not looked at (``passes`` over them, by Adam at ``rate``, falling along a cosine).

    ``distil=false`` leaves the ensemble as it is: what is evaluated is the mean of its members' answers, and the
    saved model has all of them. ``epochs``: the long training; 0 is the run's own. Departure: the paper's local
    models begin apart, here all begin at the run's initial weights. Its form of the student's loss could not be
    checked; here it is the divergence. In further rounds all begin at the student, which the paper does not have.
    """

    needs_each: ClassVar[bool] = True
    members: Literal["all", "best", "largest"] = "all"
    count: int = 5
    epochs: int = 0
    distil: bool = True
    passes: int = 20
    rate: float = 1e-3

    def __post_init__(self) -> None:
        Course(lr=self.rate)
        for name, least in (("count", 1), ("epochs", 0), ("passes", 0)):
            if getattr(self, name) < least:
                raise UserError(f"OneShotEnsemble.{name} must be at least {least}, got {getattr(self, name)}.")

    def course(self, task: Task) -> Course:
        """How the student learns, from probabilities or from numbers."""
        numbers = task.objective.task == "regression"
        return course_of(task, len(task.public.y), self.passes, self.rate, "squared" if numbers else "scores")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The weights that are sent; without a student also room for everybody's model, and who is a member."""
        no_statistics(task, "OneShotEnsemble")
        if self.distil:
            _ = task.public  # which says what is missing
            return {"w": w, "rounds": w.new_zeros(())}
        models = w.repeat(task.population, 1)
        return {"w": w, "models": models, "member": w.new_zeros(task.population), "rounds": w.new_zeros(())}

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """The long training in one phase."""
        return (Phase(epochs=self.epochs or None),)

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """All train; the validation rows are looked at only where they choose."""
        best = self.members == "best"
        kind: Literal["train", "train+measure"] = "train+measure" if best else "train"
        replies = yield Ask(kind, self.send(task, server), rows="validation" if best else "train")
        return self.fold(task, server, replies)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The loss of the trained model."""
        assert party.trained is not None
        return {"loss": party.task.loss(party.trained, batch)}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The trained model, and what it is chosen by: the larger the better."""
        if self.members == "all":
            return {"w": w}, party.state
        by = party.size if self.members == "largest" else -party.measured["loss"]
        return {"w": w, "by": by}, party.state

    def chosen(self, uploads: Mapping[int, Vectors]) -> list[int]:
        """The parties whose models are members, by number."""
        if self.members == "all":
            return sorted(uploads)
        return sorted(sorted(uploads, key=lambda number: (-float(uploads[number]["by"]), number))[: self.count])

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The ensemble, or the student that has learnt from it."""
        numbers, rounds = self.chosen(replies.each), server["rounds"] + 1
        if not self.distil:
            models, member = server["models"].clone(), server["member"] * 0
            for number in numbers:
                models[number], member[number] = replies.each[number]["w"], 1
            return {**server, "models": models, "member": member, "rounds": rounds}
        teachers = Teachers([Member(task, replies.each[number]["w"]) for number in numbers], mean="scores")
        told = table(teachers if task.classes else teachers.logits, task.public)
        student = distil(task, server["w"], task.public, told, self.course(task), task.generator(int(rounds)))
        return {"w": student, "rounds": rounds}

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """The student; without one, the members, [k, d]."""
        if self.distil or not server["member"].any():
            return server["w"]
        return server["models"][server["member"] > 0]

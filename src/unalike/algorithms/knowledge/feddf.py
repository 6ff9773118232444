"""FedDF: the server lets the average of the models learn from all of them, on rows of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Algorithm, ByParty, Party, Payload, Replies, Vectors, algorithm
from unalike.algorithms.knowledge.distil import Course, Member, Teachers, distil, split, table
from unalike.algorithms.knowledge.scores import needs_classes
from unalike.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from unalike.models.task import Task


@algorithm("feddf", paper="Lin et al. 2020 (arXiv:2006.07242), Algorithm 1")
class FedDf(Algorithm):
    """FedAvg, whose new model then learns on the server what the uploaded models say of public rows.

    From w_0 = sum n_k w_k / sum n_k, ``batches`` steps of Adam (or SGD), the rate falling from ``lr`` to 0 along a
    cosine, each on ``size`` public rows d (their labels are not looked at):

        w <- w - lr d/dw KL(softmax(mean over k of logits(w_k, d) / heat) || softmax(logits(w, d) / heat)) heat^2

    With ``validation`` above 0, that share of the public rows is kept apart, with labels: the student whose loss
    on them is least is taken, the average itself included, and training ends after ``patience`` steps without a
    better one (0: never). ``distance="squared"`` is the mean squared difference of logits; regression needs it.

    Departures: the authors' code defaults to 10,000 batches with patience 2,000 and to the mean of the losses to
    each teacher (``avg_losses``), not of the logits, which is the method that the paper describes; it validates by
    accuracy. Here the student is in evaluation mode: batch norm uses the averaged running statistics, and so do
    the teachers, whose own the server never sees (not for ``--batch-norm local``). One upload alone is its own
    average, and nothing is learnt.

    On MNIST by label-dirichlet(0.1) the defaults showed no gain over FedAvg in five seeds; ``batches=500,
    validation=0.2`` did, 1.4 points (docs/knowledge.md).
    """

    needs_each: ClassVar[bool] = True
    batches: int = 100
    size: int = 128
    lr: float = 1e-3
    optimiser: Literal["adam", "sgd"] = "adam"
    heat: float = 1.0
    distance: Literal["scores", "squared"] = "scores"
    validation: float = 0.0
    patience: int = 0

    def __post_init__(self) -> None:
        self.course()
        if not 0 <= self.validation < 1:
            raise UserError(f"FedDf.validation must be at least 0 and below 1, got {self.validation}. Use 0.2.")
        if self.patience and not self.validation:
            raise UserError(
                f"FedDf.patience is {self.patience}, but no rows are kept to stop by. Use validation=0.2."
            )

    def course(self) -> Course:
        """How the student learns on the server."""
        return Course(
            self.batches,
            self.size,
            self.lr,
            self.optimiser,
            heat=self.heat,
            distance=self.distance,
            patience=self.patience,
        )

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, and how many rounds there were: each draws other batches."""
        import torch

        if self.distance == "scores":
            needs_classes(task, "FedDF with distance=scores")
        return {"w": w, "round": torch.zeros((), dtype=torch.int64, device=w.device)}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """FedAvg, then the student, of whom the average is the start."""
        members = [Member(task, server["w"] + each["delta"], replies.buffers) for each in replies.each.values()]
        average, number = server["w"] + replies.mean["delta"], int(server["round"]) + 1
        w = self.taught(task, average, members, number, replies.buffers)
        return {"w": w, "round": server["round"] + 1}

    def taught(
        self, task: Task, w: Tensor, members: Sequence[Member], round: int, buffers: Tensor | None, which: int = 0
    ) -> Tensor:
        """The student of a net: ``which`` tells nets that differ apart."""
        if len(members) == 1 or not self.batches:
            return w
        rows, apart = split(task.public, self.validation, task.generator(0, 1))
        teachers, course = Teachers(members, heat=self.heat), self.course()
        target = teachers.logits if self.distance == "squared" else teachers
        often = course.batches * course.size >= len(rows.y)  # each row will be seen: its target is made once
        return distil(
            task,
            w,
            rows,
            table(target, rows) if often else target,
            course,
            task.generator(round, 2, which),
            buffers=buffers,
            validation=apart,
        )


@algorithm("feddf-nets", paper="Lin et al. 2020 (arXiv:2006.07242), Algorithm 3")
class FedDfNets(FedDf):
    """FedDF of parties whose nets differ: a student for each kind of net, taught by the models of all kinds.

    Each kind's student starts as the weighted mean of the models of its kind; a kind of which nobody took part
    goes on from its last one. There is no one global model: a party deploys the student of its kind. On the
    wire models are as long as the longest, shorter ones end in zeros. Nets with batch norm need ``--batch-norm
    drop``.
    """

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """A row for each kind of net, as long as the longest."""
        import torch

        if any(net.buffers.size for net in task.nets):
            raise UserError("FedDF of nets that differ has no running statistics for them. Use --batch-norm drop.")
        longest = max(net.size for net in task.nets)
        rows = [_as_long_as(net.initial(), longest) for net in task.nets]
        return super().init_server(task, w) | {"w": torch.stack(rows)}

    def send(self, task: Task, server: Vectors) -> Payload:
        """To each party the model of its kind."""
        import torch

        return {"w": ByParty(server["w"], torch.arange(task.population) % len(task.nets))}

    def start(self, party: Party) -> Tensor:
        """The model of the party's kind."""
        return self.personal(party)

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """What the model learnt, and by how many rows it counts."""
        change = _as_long_as(w - self.start(party), len(party.received["w"]))
        return {"delta": change, "rows": party.size.reshape(1)}, party.state

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Each kind's weighted mean, which all models then teach."""
        import torch

        kinds = {number: number % len(task.nets) for number in replies.each}
        members = [
            Member(net, (server["w"][kinds[number]] + each["delta"])[: net.size])
            for number, each in replies.each.items()
            for net in (task.nets[kinds[number]],)
        ]
        rows, number = [], int(server["round"]) + 1
        for kind, net in enumerate(task.nets):
            own = [each for party, each in replies.each.items() if kinds[party] == kind]
            weight = sum(float(each["rows"]) for each in own) or 1.0
            mean = server["w"][kind] + sum(float(each["rows"]) * each["delta"] for each in own) / weight
            student = self.taught(net, mean[: net.size], members, number, None, kind)
            rows.append(_as_long_as(student, server["w"].shape[1]))
        return {"w": torch.stack(rows), "round": server["round"] + 1}

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """None: there is a student for each kind."""
        return None

    def personal(self, party: Party) -> Tensor:
        """The student of the party's kind."""
        return party.received["w"][: party.task.size]


def _as_long_as(w: Tensor, size: int) -> Tensor:
    """The weights, and zeros after them."""
    import torch

    return torch.cat([w, w.new_zeros(size - len(w))])

"""rFedAvg: FedAvg with a penalty on the distance of each party's mean feature to every other party's."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("rfedavg", paper="Wang et al. 2023 (ICDE), Algorithm 1")
class RFedAvg(Algorithm):
    """FedAvg that pulls every party's mean feature towards each of the other parties'.

    delta_k is the mean over *all* of party k's rows of phi, the layer before the head, under party k's own
    model after training, in evaluation mode (line 10; its index is the one before training, the text has it
    after). Everybody is sent the table of all N of them, which is N^2 d numbers a
    round, and trains on

        f_k(w) + lam r_k(w),   r_k(w) = 1/(N-1) sum over j != k of ||mean of phi(w, batch) - delta_j||^2

    (MMD with a linear kernel). As a mean of squared distances is that to the mean and the deltas' own spread, a
    party trains on lam ||mean of phi(w, batch) - mean of the others' delta_j||^2: the same gradient, and a loss
    without that constant. The paper writes r_k with and without 1/(N-1); with it (section IV-C) the
    gradient is that of rFedAvg+ for the same deltas, and ``lam`` does not depend on the number of parties.
    ``lam`` multiplies a sum over the d features, not their mean: the paper has 1e-4 (MNIST), 1e-5 (CIFAR-10)
    and 0.1 (sent140) with d = 512 and 256.

    A party that is absent keeps its last delta in the table; one that never took part has none, and N counts
    the others. ``noise``: the standard deviation of Gaussian noise on every number of delta before it leaves
    (section VI-B.8). The server must see single deltas, and so must every party.
    """

    needs_features: ClassVar[bool] = True
    needs_each: ClassVar[bool] = True
    lam: float = 1e-4
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_regulariser(self)

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, and a table of deltas that nobody has filled."""
        table = w.new_zeros((task.population, task.feature_size))
        return {"w": w, "deltas": table, "known": table[:, 0].clone()}

    def send(self, task: Task, server: Vectors) -> Vectors:
        """Everything: the model and the whole table."""
        return server

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Train, then measure delta under the party's own new model."""
        replies = yield Ask("train+measure", self.send(task, server))
        return self.fold(task, server, replies)

    def near(self, party: Party) -> tuple[float | Tensor, Tensor] | None:
        """Line 9 of the paper, less how far the others' deltas are from their own mean, which no step changes."""
        deltas, known = party.received["deltas"], party.received["known"]
        others = known * (known.new_ones(known.shape).cumsum(0) - 1 != party.number)
        count = others.sum()
        return self.lam * (count > 0.5).to(count.dtype), others @ deltas / count.clamp(min=1)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """Line 10 of the paper: the mean feature of the party's rows under the model that it has just trained."""
        assert party.trained is not None
        return {"delta_k": batch.mean(party.task.features(party.trained, batch))}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """Line 11 of the paper: the party sends its update and its delta, with noise where that is asked for."""
        return {"delta": w - party.received["w"], "delta_k": noisy(party, self.noise)}, party.state

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Lines 12 and 13 of the paper: models are averaged, and deltas that came replace those in the table."""
        deltas, known = server["deltas"].clone(), server["known"].clone()
        for number, upload in replies.each.items():
            deltas[number], known[number] = upload["delta_k"], 1
        return {"w": server["w"] + replies.mean["delta"], "deltas": deltas, "known": known}


def check_regulariser(part: Algorithm) -> None:
    """Refuse values that mean nothing."""
    for name in ("lam", "noise"):
        if not getattr(part, name) >= 0:
            raise UserError(f"{type(part).__name__}.{name} must be >= 0, got {getattr(part, name)}.")


def noisy(party: Party, noise: float) -> Tensor:
    """The measured delta with Gaussian noise, where there is any."""
    delta = party.measured["delta_k"]
    return delta + noise * party.normal(len(delta)) if noise else delta

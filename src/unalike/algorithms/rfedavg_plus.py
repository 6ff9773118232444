"""rFedAvg+: rFedAvg with one mean feature sent to everybody in place of the table of all."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Vectors, algorithm
from unalike.algorithms.rfedavg import check_regulariser, noisy

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("rfedavg+", paper="Wang et al. 2023 (ICDE), Algorithm 2")
class RFedAvgPlus(Algorithm):
    """rFedAvg with the mean of the others' features in place of all of them, measured on the new global model.

    A round has two exchanges: training and averaging (lines 4 to 12), then every party measures delta_k, the
    mean over *all* its rows of phi under the new global model (lines 13 to 16). Party k trains on

        f_k(w) + lam ||mean of phi(w, batch) - delta_{-k}||^2,   delta_{-k} = 1/(N-1) sum over j != k of delta_j

    which has rFedAvg's gradient for the same deltas, since the two differ by the spread of the delta_j alone.
    ``lam`` and ``noise`` are those of rFedAvg.

    The server sends everybody the *sum* of all delta_j and how many there are, d + 1 numbers; a party knows its
    own share and leaves it out. So the server needs sums only: parties send by how much their delta has changed
    since they sent it last, and one that is absent keeps its last delta in the sum. In the first round there is
    no regulariser.
    """

    needs_features: ClassVar[bool] = True
    plain: ClassVar[frozenset[str]] = frozenset({"delta_k", "count"})
    lam: float = 1e-4
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_regulariser(self)

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, and the sum of no deltas."""
        return {"w": w} | _nothing(task, w)

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's share of that sum."""
        return _nothing(task, w)

    def send(self, task: Task, server: Vectors) -> Vectors:
        """The model, the sum of the deltas and their number."""
        return server

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Lines 4 to 18 of the paper: train and average, then measure the parties' features on the new model."""
        replies = yield Ask("train", self.send(task, server))
        server = self.fold(task, server, replies)
        seen = yield Ask("measure", {"w": server["w"]})
        return server | {key: server[key] + seen.sum[key] for key in ("delta_k", "count")}

    def near(self, party: Party) -> tuple[float | Tensor, Tensor] | None:
        """Line 10 of the paper: lam times the squared distance to the others' mean, as soon as there are any."""
        others = party.received["count"] - party.state["count"]
        mean = (party.received["delta_k"] - party.state["delta_k"]) / others.clamp(min=1)
        return self.lam * (others > 0.5).to(others.dtype), mean

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """Line 15 of the paper: the mean feature of the party's rows under the new global model."""
        return {"delta_k": batch.mean(party.task.features(party.received["w"], batch))}

    def report(self, party: Party) -> tuple[Vectors, Vectors]:
        """Line 16 of the paper, as a change: how much delta and count differ from what the party sent last."""
        now = {"delta_k": noisy(party, self.noise), "count": party.size / party.size}
        return {key: value - party.state[key] for key, value in now.items()}, now


def _nothing(task: Task, w: Tensor) -> Vectors:
    return {"delta_k": w.new_zeros(task.feature_size), "count": w.new_zeros(())}

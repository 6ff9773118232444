"""What rFedAvg's public code does otherwise than its paper: does that explain its numbers?

unalike study run docs/results/rfedavg-public.toml --plugin benchmarks/rfedavg_public.py --data-dir DATA

A plug-in with that code's deltas (BUAA-BDA/rfedavg): mean features over one batch of a party's rows, drawn anew in
each round, and in rFedAvg+ a mean of all parties' that includes the party itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.contract import Party, Vectors, algorithm
from unalike.algorithms.rfedavg import RFedAvg
from unalike.algorithms.rfedavg_plus import RFedAvgPlus

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch


def of_one_batch(party: Party, batch: Batch, values: Tensor, rows: int) -> Tensor:
    """The part that ``batch`` has in the mean of ``values`` over a few of the party's rows, drawn in each round.

    A measurement is the mean over all rows, looked at in parts: what was not drawn counts 0, the others the more.
    """
    assert batch.index is not None
    count = int(party.size)
    drawn = party.normal(count).topk(min(rows, count)).indices
    share = values.new_zeros(count)
    share[drawn] = count / len(drawn)
    return batch.mean(values * share[batch.index][:, None])


@algorithm("public-rfedavg", paper="Wang et al. 2023, Algorithm 1, and its public code")
class PublicRFedAvg(RFedAvg):
    """rFedAvg whose deltas are means over one batch of ``rows`` rows."""

    rows: int = 100

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The mean feature of a few rows under the model that the party has just trained."""
        assert party.trained is not None
        return {"delta_k": of_one_batch(party, batch, party.task.features(party.trained, batch), self.rows)}


@algorithm("public-rfedavg+", paper="Wang et al. 2023, Algorithm 2, and its public code")
class PublicRFedAvgPlus(RFedAvgPlus):
    """rFedAvg+ whose deltas are means over one batch, and whose mean of the others includes the party itself."""

    rows: int = 100

    def near(self, party: Party) -> tuple[float | Tensor, Tensor] | None:
        """The distance to the mean of all parties' deltas, as soon as there are any."""
        count = party.received["count"]
        return self.lam * (count > 0.5).to(count.dtype), party.received["delta_k"] / count.clamp(min=1)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The mean feature of a few rows under the new global model."""
        return {"delta_k": of_one_batch(party, batch, party.task.features(party.received["w"], batch), self.rows)}

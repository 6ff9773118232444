"""FedMD: parties with nets of their own come to an agreement on public rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Ask, Party, Phase, Replies, Sends, Vectors, algorithm
from unalike.algorithms.knowledge.own_model import OwnModel
from unalike.algorithms.knowledge.scores import at_their_places, outputs_of
from unalike.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Generator

    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("fedmd", paper="Li and Wang 2019 (arXiv:1910.03581), Algorithm 1")
class FedMd(OwnModel):
    """Parties with nets of their own teach each other by their logits on public rows, which everybody has.

    Before round 1 each trains ``pretrain`` epochs on the labelled public rows, then as many on its own (0: not at
    all). In a round a ``part`` of the public rows is drawn, the same for all; the mean of the parties' logits on
    them is the consensus. A party comes near it for ``digest`` epochs over that part, then trains on its own rows
    (revisit). ``distance``: "absolute", the mean absolute difference, as in the authors' code, or "squared",
    whose gradient ends where all agree; the other's has the same length however near they are.

    Departures: the run's local optimiser is used in all phases (the authors' code has Adam), and the first
    training has a fixed length (theirs ends by the accuracy on the test rows). Public rows have the labels of the
    task; the paper's public classes differ from the private ones, which needs nets with the labels of both.
    The distance is to logits, absolute or squared; ``teach`` declares the divergence of scores, so training is
    not one compiled call.
    """

    sends: ClassVar[Sends] = "scores on public rows"
    plain: ClassVar[frozenset[str]] = frozenset({"logits"})
    pretrain: int = 1
    digest: int = 1
    part: float = 0.5
    distance: Literal["absolute", "squared"] = "absolute"

    def __post_init__(self) -> None:
        for name, least in (("pretrain", 0), ("digest", 1)):
            if not getattr(self, name) >= least:
                raise UserError(f"FedMd.{name} must be at least {least}, got {getattr(self, name)}. Use 1.")
        if not 0 < self.part <= 1:
            raise UserError(
                f"FedMd.part must be above 0 and at most 1, got {self.part}. Use 1 for all public rows."
            )

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """Before round 1 public rows, then own ones; in a round digest, then revisit."""
        if round == 0:
            return Phase("public", epochs=self.pretrain, rows="public"), Phase("own", epochs=self.pretrain)
        return Phase("digest", epochs=self.digest, rows="public", drawn=self.part), Phase("revisit")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """A consensus that nobody has come to."""
        return {"consensus": w.new_zeros(len(task.public_part(1, self.part)), outputs_of(task))}

    def prepare(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Everybody trains on the public rows, then on its own."""
        if self.pretrain:
            yield Ask("train", {})
        return server

    def send(self, task: Task, server: Vectors) -> Vectors:
        """Everybody gets the consensus on the rows of the round."""
        return server

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """All say what they think of the rows that were drawn, and learn what all think on the average."""
        seen = yield Ask("measure", {}, rows="public")
        server = {"consensus": seen.plain_mean["logits"]}
        yield Ask("train", self.send(task, server))
        return server

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The party's logits on the public rows."""
        logits = party.task.logits(party.state["w"], batch)
        return {"logits": at_their_places(logits, batch, len(party.task.public.y))}

    def report(self, party: Party) -> tuple[Vectors, Vectors]:
        """Those on the rows that were drawn for this round."""
        return {"logits": party.measured["logits"][party.task.public_part(party.round, self.part)]}, party.state

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """In the digest the distance to the consensus, else the task's loss."""
        if party.phase != "digest":
            return party.task.loss(w, batch)
        apart = party.task.logits(w, batch) - self.consensus(party, batch)
        return batch.mean((apart.abs() if self.distance == "absolute" else apart**2).mean(dim=-1))

    def consensus(self, party: Party, batch: Batch) -> Tensor:
        """What all say of the batch's rows: the table has those that were drawn for this round, in order."""
        import torch

        drawn = party.task.public_part(party.round, self.part)
        place = torch.zeros(len(party.task.public.y), dtype=torch.int64, device=drawn.device)
        place[drawn] = torch.arange(len(drawn), device=drawn.device)
        return party.received["consensus"][place[batch.index]]

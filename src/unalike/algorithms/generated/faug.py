"""FAug: the server learns to make rows from a few that parties send, and parties fill up the labels they lack."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.around import AroundBase
from unalike.algorithms.contract import Algorithm, Ask, Party, Replies, Sends, Vectors, algorithm
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.fedrs import check_classes
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("faug", paper="Jeong et al. 2018 (arXiv:1811.11479), section 3")
class FAug(AroundBase):
    """Parties send the server a few rows, get a generator for them, and train on made rows of what they lack.

    Before round 1 each party sends ``seeds`` rows of every label it lacks (as far as it has any) among
    ``redundant`` rows of every other, so that, where both are the same, nothing but the rows shows which are
    lacking. The server trains a conditional generator on all of them (``steps`` of Adam at rate ``lr`` on batches
    of 64, labels evenly) and sends it once. A party then trains by ``base`` as if it had made rows enough for
    ``lack`` times as many of each label as of its most frequent one: with 1 its labels are even, with 0 it is the
    base.

    **Whole rows go to the server, in the clear**, and a generator trained on few rows gives them away to everybody
    (docs/data-methods.md has figures). A real site must agree to that by name.

    Departures. Rows are made anew in every step: each row of a batch is a made one with the probability that it
    has in the filled up set, so steps are as many as without, and the party's weight is that of its own rows. The
    paper's server finds more rows like the seeds on the internet; ours has the seeds alone. Labels of which nobody
    sent a row stay as they are. The paper's numbers of seeds and steps were not found; ours are what worked on
    MNIST. MultFAug's hops (arXiv:1907.06426) are left out: it lets seeds travel over other devices to hide whose
    they are, but every message between our sites passes the server, from which hops would hide nothing.
    """

    needs_each: ClassVar[bool] = True
    needs_whole: ClassVar[bool] = True
    sends: ClassVar[Sends] = "rows"
    base: Algorithm = FedAvg()
    seeds: int = 10
    redundant: int = 10
    lack: float = 1.0
    steps: int = 1000
    lr: float = 0.001
    noise: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in {"seeds": 1, "redundant": 0, "steps": 1, "noise": 1}.items():
            if getattr(self, name) < least:
                tip = "Use the base alone to send no rows" if name == "seeds" else f"Use {least} or more"
                raise UserError(f"FAug.{name} must be at least {least}, got {getattr(self, name)}. {tip}.")
        if not 0 <= self.lack <= 1:
            raise UserError(f"FAug.lack must be from 0 to 1, got {self.lack}. Use 1 to fill up all labels.")
        if not 0 < self.lr < float("inf"):
            raise UserError(f"FAug.lr must be above 0, got {self.lr}. Use 0.001.")

    # --- server ---
    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The base's state. The nets are made here, as they cannot be inside a stack of parties."""
        from unalike.algorithms.generated.gan import Gan

        check_classes(task, "faug")
        Gan.of(task, self.noise)
        return super().init_server(task, w)

    def prepare(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Rows come in, a generator goes out."""
        if self.lack:
            sent = yield Ask("offer", {}, phase="seeds")
            generator, known = self.generator_of(task, sent.each)
            yield Ask("offer", {"generator": generator, "known": known}, phase="fill")
        return server

    def generator_of(self, task: Task, sent: Mapping[int, Vectors]) -> tuple[Tensor, Tensor]:
        """A conditional generator of the rows that were sent, and of which labels there were any (ones)."""
        import torch

        from unalike.algorithms.generated.gan import Gan, both
        from unalike.algorithms.generated.learning import learnt, noise, whole

        gan, stream = Gan.of(task, self.noise), task.generator(0)
        rows = torch.cat([each["rows"] for each in sent.values()], dim=1)
        there = torch.cat([each["there"] for each in sent.values()], dim=1) > 0
        known = there.any(dim=1)
        labels = known.nonzero()[:, 0]
        if not len(labels):
            if task.rehearsing:
                return gan.generator.initial(), known.to(task.dtype)
            raise UserError("FAug: no party has rows of a label that it lacks. Use redundant=10.")
        # The rows that are there first, so that the i-th of a label is one of them.
        order = torch.argsort(~there, dim=1, stable=True)
        counts = there.sum(dim=1)

        def loss(both_nets: Tensor, step: int) -> Tensor:
            y = labels[whole(task, stream, len(labels), 64)]
            place = whole(task, stream, 2**40, 64) % counts[y]
            x = rows[y, order[y, place]]
            g, d = torch.split(both_nets, [gan.generator.size, gan.judge.size])
            return both(gan, g, d, x, y, noise(task, stream, 64, self.noise), 1.0).mean()

        start = torch.cat([gan.generator.initial(), gan.judge.initial()])
        trained = learnt(task, start, loss, self.steps, self.lr)
        return trained[: gan.generator.size].clone(), known.to(task.dtype)

    # --- party ---
    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """What the base keeps, the generator, and the share of made rows of each label."""
        from unalike.algorithms.generated.gan import Gan

        own = {
            "generator": w.new_zeros(Gan.of(task, self.noise).generator.size),
            "fill": w.new_zeros(task.classes),
        }
        return {**self.base.init_party(task, w), **own}

    def offer(self, party: Party, batch: Batch) -> tuple[Vectors, Vectors]:
        """The seeds; or nothing, where the generator is received and what is lacking is counted."""
        import torch

        classes = torch.arange(party.task.classes, device=batch.y.device)
        has = batch.y == classes[:, None]
        counts = has.sum(dim=1)
        lacking = (self.lack * counts.max() - counts).clamp(min=0).to(party.task.dtype)
        if party.phase == "fill":
            made = lacking * party.received["known"]
            kept = {"generator": party.received["generator"], "fill": made / (made.sum() + counts.sum())}
            return {}, party.state | kept
        slots = max(self.seeds, self.redundant)
        order = torch.where(has, party.normal(len(batch.y)), float("inf")).argsort(dim=1)[:, :slots]
        order = torch.nn.functional.pad(order, (0, slots - order.shape[1]))
        wanted = torch.where(lacking > 0, self.seeds, self.redundant).minimum(counts)
        there = (torch.arange(slots, device=batch.y.device) < wanted[:, None]).to(party.task.dtype)
        shown = there.reshape(*there.shape, *(1,) * (batch.x.dim() - 1))
        return {"rows": batch.x[order] * shown, "there": there}, party.state

    def start(self, party: Party) -> Tensor:
        """Local training starts where the base's does."""
        return self.base.start(party)

    def linear(self, party: Party) -> Tensor | None:
        """What the base adds to the gradients, such as SCAFFOLD's correction."""
        return self.base.linear(party)

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The base's objective on a batch of the filled up rows."""
        from unalike.algorithms.generated.gan import Gan, filled

        if self.lack:
            gan = Gan.of(party.task, self.noise)
            z = gan.noise_of(batch)
            batch = filled(batch, party.state["fill"], lambda y: gan.made(party.state["generator"], z, y))
        return self.base.loss(party, w, batch)

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """What the base uploads; the generator stays in the state."""
        upload, state = self.base.upload(party, w)
        return upload, party.state | state

    def report(self, party: Party) -> tuple[Vectors, Vectors]:
        """What the base reports; the generator stays in the state."""
        upload, state = self.base.report(party)
        return upload, party.state | state

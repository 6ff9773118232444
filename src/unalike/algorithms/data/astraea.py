"""Astraea: rare classes are seen more often, and parties train in chains whose labels together are even."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Ask, ByParty, Party, Payload, Phase, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("astraea", paper="Duan et al. 2019 (arXiv:1907.01132), Algorithms 1 and 2")
class Astraea(Algorithm):
    """FedAvg with more copies of rows of rare classes, and with chains along which models go between parties.

    Before round 1 every party tells its label counts c_k, of which the server makes C_y = sum_k c_k[y] and their
    mean C. Where C_y < C, a party sees each of its rows of class y (C / C_y)^``alpha`` times in an epoch, ``most``
    at most: the whole part always, one more with the rest as its chance, drawn anew in every round. With
    ``--augment`` each copy is cropped and flipped in its own way; without, copies are alike. Copies count in a
    party's weight: else a party with one rare label would count no more than before.

    In a round the parties that are there are dealt to mediators: the next one of a mediator is the party that
    brings its mix of labels nearest to uniform (least KL), until it has ``gamma``. Its model goes through its
    parties one after the other, ``passes`` times, by way of the server, and mediators are averaged by their rows.
    ``gamma=1`` has no mediators: sums of label counts and of updates are all that the server needs. Above that it
    sees each party's counts and each model. Read of the paper here: its abstract and the survey's account (Zhu et
    al. 2021, section 5.1.2); the greedy choice is as these describe it.
    """

    alpha: float = 0.5
    gamma: int = 1
    passes: int = 1
    most: int = 10
    needs_each: ClassVar[bool] = False
    needs_whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < float("inf"):
            raise UserError(
                f"Astraea.alpha must be 0 or more, got {self.alpha}. Use 0 for no copies, 1 for even classes."
            )
        if min(self.gamma, self.passes, self.most) < 1:
            raise UserError(
                f"Astraea.gamma, passes and most must be 1 or more, got {self.gamma}, {self.passes}, {self.most}."
            )
        for name in ("needs_each", "needs_whole"):
            object.__setattr__(self, name, self.gamma > 1)

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """Epochs over the party's rows and their copies."""
        return (Phase(copies="copies", most=self.most) if self.alpha else Phase(),)

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, how often rows of a class are seen, and where there are mediators everybody's counts."""
        if not task.classes:
            raise UserError("Astraea is for classes, which it levels; this task has numbers. Use fedavg.")
        counts = {"counts": w.new_zeros(task.population, task.classes)} if self.gamma > 1 else {}
        return {"w": w, "copies": w.new_ones(task.classes), **counts}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's label counts, once it has told them."""
        return {"counts": w.new_zeros(task.classes)}

    def prepare(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Everybody's label counts; of their sum follow the copies."""
        import torch

        replies = yield Ask("offer", {}, phase="counts")
        share = replies.mean["shares"]  # C_y / sum of all C
        rare = torch.where(share > 0, share * task.classes, 1).clamp(max=1)
        server = server | {"copies": rare**-self.alpha}
        if self.gamma > 1:
            counts = server["counts"].clone()
            for number, told in replies.each.items():
                counts[number] = told["shares"] * told["rows"]
            server = server | {"counts": counts}
        return server

    def offer(self, party: Party, batch: Batch) -> tuple[Vectors, Vectors]:
        """The party's label counts, as shares of its rows; or only that it is there."""
        from torch.nn import functional

        if party.phase != "counts":
            return {}, party.state
        counts = functional.one_hot(batch.y, party.task.classes).sum(dim=0).to(party.task.dtype)
        told = {"shares": counts / len(batch.y)} | ({"rows": counts.sum()} if self.gamma > 1 else {})
        return told, {"counts": counts}

    def weight(self, party: Party) -> Tensor:
        """The party's rows with their copies."""
        import torch

        if not self.alpha or "copies" not in party.received:
            return party.size
        rows = party.state["counts"].dot(party.received["copies"].clamp(max=self.most))
        return torch.where(rows > 0, rows, party.size)

    def send(self, task: Task, server: Vectors) -> Payload:
        """The model, and how often rows of each class are seen."""
        return {"w": server["w"]} | ({"copies": server["copies"]} if self.alpha else {})

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Without mediators FedAvg's; with them, chains among those who are there."""
        import torch

        sent = self.send(task, server)
        if self.gamma == 1:
            return self.fold(task, server, (yield Ask("train", sent)))
        there = yield Ask("offer", {}, phase="there")
        counts = server["counts"] * (server["copies"].clamp(max=self.most) if self.alpha else 1)
        present = range(task.population) if task.rehearsing else sorted(there.each)
        chains = mediators({number: counts[number] for number in present}, self.gamma)
        models = server["w"].expand(len(chains), -1).clone()
        for turn in range(self.passes * self.gamma):
            place = turn % self.gamma
            asked = {chain[place]: k for k, chain in enumerate(chains) if place < len(chain)}
            if not asked:
                continue
            which = torch.zeros(task.population, dtype=torch.int64)
            which[list(asked)] = torch.tensor(list(asked.values()))
            payload = {**sent, "w": ByParty(models, which)}
            replies = yield Ask("train", payload, to=tuple(sorted(asked)))
            models = models.clone()
            for number, told in replies.each.items():
                models[asked[number]] += told["delta"]
        # Parties that were not there to tell their counts are not nothing: a chain of such counts as one row.
        rows = torch.stack([counts[chain].sum() for chain in chains]).clamp(min=1)
        return server | {"w": rows @ models / rows.sum()}


def mediators(counts: dict[int, Tensor], gamma: int) -> list[list[int]]:
    """Parties by mediator: each takes, one after the other, who brings its labels nearest to uniform."""
    left, chains = dict(sorted(counts.items())), []
    while left:
        chain: list[int] = []
        mix = next(iter(left.values())) * 0
        while left and len(chain) < gamma:
            best = min(left, key=lambda number: float(unevenness(mix + left[number])))
            chain.append(best)
            mix = mix + left.pop(best)
        chains.append(chain)
    return chains


def unevenness(counts: Tensor) -> Tensor:
    """KL(mix of these counts || uniform)."""
    import torch

    share = counts / counts.sum().clamp(min=1)
    divergence: Tensor = torch.special.xlogy(share, share * len(share)).sum()
    return divergence

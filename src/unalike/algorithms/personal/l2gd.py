"""L2GD: a model for each party, now and then pulled towards the mean of all."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Party, Phase, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@lru_cache(maxsize=8)
def _tossed(seed: int, round: int, p: float) -> tuple[int, int]:
    """How many pulls come up in a row, and how many steps after them."""
    from unalike.randomness import stream

    draws = stream(seed, "coins", round)
    return int(draws.geometric(1 - p)), int(draws.geometric(p))


@algorithm("l2gd", paper="Hanzely and Richtarik 2020 (arXiv:2002.05516), Algorithm 1")
class L2gd(Algorithm):
    """A model of one's own that is now and then pulled towards the mean of everybody's.

    Equation 2: min 1/n sum_i f_i(x_i) + lam/(2n) sum_i ||x_i - mean||^2. In every iteration all parties look at
    the same coin. With probability 1 - p they take a step, x_i <- x_i - a/(n(1-p)) grad f_i(x_i); with probability
    p they are pulled, x_i <- (1 - t) x_i + t mean with t = a lam/(n p). The mean does not move under pulls, so a
    message is needed only where the coin goes from steps to pulls: a round here is a run of pulls (their number is
    geometric, 1/(1-p) in the mean) and the run of steps that follows it (geometric, 1/p in the mean), whatever the
    run's local epochs. Both numbers are drawn from the seed and the round, so every site works them out itself.

    The run's learning rate is that of a step, lr = a/(n(1-p)), as for other algorithms; hence a = lr n (1-p) and
    t = lr lam (1-p)/p. The paper's bound wants t <= 1/2; above 1 it is refused. The fewest messages are sent with
    p = lam/(L + lam), where L is the smoothness of the f_i. lam = 0 is training alone. The iterates stay in a
    neighbourhood of the optimum that shrinks with the learning rate.

    The server keeps the mean of the models of all parties that ever took part, absent ones included, and how
    many they are; it sees plain sums of changes alone. The paper lets everybody take part in every iteration;
    here the absent rest, and a party that comes late begins with the mean. A newcomer takes 1/p local steps from
    the mean before it uses it. The paper has no global model; the mean stands for it, as it is what newcomers
    get. Further departures: steps see batches, where the paper's see all rows, and the run's momentum and weight
    decay apply within a round.
    """

    plain: ClassVar[frozenset[str]] = frozenset({"x", "new"})
    needs_exact: ClassVar[bool] = True
    lam: float = 0.5
    p: float = 0.1

    def __post_init__(self) -> None:
        if not self.lam >= 0:
            raise UserError(f"L2gd.lam must be >= 0, got {self.lam}. Use 0 for training alone.")
        if not 0 < self.p < 1:
            raise UserError(f"L2gd.p must be above 0 and below 1, got {self.p}. Try 0.1: ten steps a round.")

    def coins(self, task: Task, round: int) -> tuple[int, int]:
        """How many pulls a round begins with, and how many local steps follow: the same for everybody."""
        return _tossed(task.seed, round, self.p)

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """As many local steps as the coin says."""
        return (Phase(steps=self.coins(task, round)[1]),)

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """A newcomer takes as many local steps from the mean as a round has on average."""
        return (Phase("adapt", steps=round(1 / self.p)),)

    def adapts(self, known: bool) -> bool:
        """Newcomers alone do: all others have a model of their own."""
        return not known

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The mean, and of how many models it is one: none yet."""
        return {"w": w, "count": w.new_zeros(())}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The own model, and whether it was ever trained."""
        return {"x": w, "known": w.new_zeros(())}

    def start(self, party: Party) -> Tensor:
        """The party's model after the pulls."""
        pull = party.lr * self.lam * (1 - self.p) / self.p
        if pull > 1:
            raise UserError(
                f"L2gd's pull, lr lam (1 - p) / p, must be at most 1, got {pull:g}. Lower lam or --lr, or raise p."
            )
        kept = (1 - pull) ** self.coins(party.task, party.round)[0]
        return kept * self.personal(party) + (1 - kept) * party.received["w"]

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """By how much the party's model changed, and whether it is a new one."""
        known = party.state["known"]
        return {"x": w - self.personal(party), "new": 1 - known}, {"x": w, "known": known * 0 + 1}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The mean over all who ever took part, absent ones included; new models have come in at the old mean."""
        count = server["count"] + replies.sum["new"]
        return {"w": server["w"] + replies.sum["x"] / count, "count": count}

    def personal(self, party: Party) -> Tensor:
        """The party's own model; the mean where it has none."""
        import torch

        return torch.where(party.state["known"] > 0, party.state["x"], party.received["w"])

"""VIRTUAL: a distribution over models, to which every party contributes a factor of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Party, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("virtual", paper="Corinzia et al. 2019 (arXiv:1906.06268), shared weights only")
class Virtual(Algorithm):
    """A Gaussian over models in place of one model: the prior times a factor that each party learns.

    The posterior over the weights is q(w) = prior(w) prod_k t_k(w), with each weight on its own; a Gaussian is its
    precision and its shift (precision times mean), and where Gaussians are multiplied these add. Party k

    - divides its own factor out, which leaves the cavity q / t_k: what the prior and all others say;
    - trains a Gaussian q_k to maximise E log p(rows | w) - KL(q_k || cavity), with a new w drawn from q_k in every
      step; both are divided by the party's number of rows n, as the task's loss is a mean;
    - has the new factor t_k = q_k / cavity, and sends how it has changed. The server adds.

    All models are tried at the posterior's mean, by newcomers too. With Gaussian likelihoods, one pass over the
    parties one by one ends in the exact posterior.

    - ``deviation``: of the prior, which is centred at the run's initial weights (centred at 0, a net has nothing
      that tells its units apart).
    - ``damping``: which part of a factor's change is made. All of it is right for one party at a time; where all
      change at once each makes the whole correction, and they overshoot.

    A factor's precision is never below 0: a q_k wider than the cavity counts as wide as the cavity, with its own
    mean. So no precision falls below the prior's. Mean and logarithm of the deviation are trained as differences
    to the posterior; that of the mean in units of sqrt(n / max(n, precision)), without which steps that are fine
    for a net alone are too large where others are sure.

    Departure: the paper gives each party a second, private net that the layers of the shared one feed. The
    contract has no such links between two nets, so all weights are shared here: one model for all.
    """

    plain: ClassVar[frozenset[str]] = frozenset({"precision", "shift"})
    deviation: float = 0.1
    damping: float = 0.2

    def __post_init__(self) -> None:
        if not self.deviation > 0:
            raise UserError(f"Virtual.deviation must be above 0, got {self.deviation}. The default is 0.1.")
        if not 0 < self.damping <= 1:
            raise UserError(f"Virtual.damping must be in (0, 1], got {self.damping}. 1 makes the whole change.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The prior, centred at the initial weights."""
        precision = w.new_full(w.shape, self.deviation**-2)
        return {"precision": precision, "shift": precision * w}

    def send(self, task: Task, server: Vectors) -> Vectors:
        """The posterior, to everybody the same."""
        return server

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Changes of factors are added to the posterior."""
        return {key: server[key] + replies.sum[key] for key in server}

    def global_model(self, task: Task, server: Vectors) -> Tensor:
        """The posterior's mean is the model."""
        return server["shift"] / server["precision"]

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """A factor of 1: the party has said nothing."""
        return {"precision": w.new_zeros(w.shape), "shift": w.new_zeros(w.shape)}

    def start(self, party: Party) -> Tensor:
        """No difference to the posterior: of the means first, then of the logarithms of the deviations."""
        return party.received["shift"].new_zeros(2 * party.task.size)

    def gaussian(self, party: Party, w: Tensor) -> tuple[Tensor, Tensor]:
        """q_k, from what is trained: each weight's mean, and how many times as wide as the posterior it is."""
        precision = party.received["precision"]
        moved, widened = w[: len(precision)], w[len(precision) :]
        unit = (party.size / precision.clamp(min=party.size)).sqrt()
        return self.personal(party) + unit * moved, widened.exp()

    def cavity(self, party: Party) -> tuple[Tensor, Tensor]:
        """Precision and shift of the posterior without the party's own factor."""
        posterior, own = party.received, party.state
        return posterior["precision"] - own["precision"], posterior["shift"] - own["shift"]

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The loss of weights drawn from q_k, and the divergence of q_k from the cavity."""
        mean, width = self.gaussian(party, w)
        precision, shift = self.cavity(party)
        posterior = party.received["precision"]
        drawn = mean + width / posterior.sqrt() * batch.normal(len(mean))
        spread = precision / posterior * width**2  # the variance of q_k, in units of the cavity's
        divergence = (precision * (mean - shift / precision) ** 2 + spread - 1 - spread.log()).sum() / 2
        return party.task.loss(drawn, batch) + divergence / party.size

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The new factor is q_k divided by the cavity; part of the way to it is gone."""
        mean, width = self.gaussian(party, w)
        precision, shift = self.cavity(party)
        found = (party.received["precision"] / width**2).maximum(precision)
        factor = {"precision": found - precision, "shift": found * mean - shift}
        changes = {key: self.damping * (value - party.state[key]) for key, value in factor.items()}
        return changes, {key: party.state[key] + change for key, change in changes.items()}

    def personal(self, party: Party) -> Tensor:
        """The mean of the posterior, the same for everybody."""
        return party.received["shift"] / party.received["precision"]

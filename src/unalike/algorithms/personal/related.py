"""Parties that are alike pull each other: the server has every party's model and sends each a pull of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Algorithm, ByParty, Party, Payload, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task

MOST_NUMBERS = 2**28
"""How many numbers all models may have together: 1 GB in float32, in memory and in each checkpoint."""

_TINY = 1e-300
"""What a square in float64 is at least where something is divided by it."""


@dataclass(frozen=True)
class Related(Algorithm):
    """Each party minimises F_i(w) + mu_i/2 ||w - u_i||^2, where u_i is made of the models of parties like it.

    The server keeps the last model of every party that it has seen, absent ones too. Only these are mixed and
    count as parties: one that never took part, such as a newcomer, is sent their plain mean, which is its model
    and where it starts from. The server must see single models, and learns who is like whom.
    """

    needs_each: ClassVar[bool] = True
    lam: float = 0.1

    def __post_init__(self) -> None:
        _check(self, "lam", self.lam >= 0, ">= 0", "0 is training alone.")

    def pulls(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """(u, mu) of the parties that were seen, whose models are the rows of ``w``."""
        raise NotImplementedError

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """A model for each party, all the same, and nobody was seen."""
        if task.population * len(w) > MOST_NUMBERS:
            raise UserError(
                f"{type(self).__name__} keeps all models at the server, at most {MOST_NUMBERS:,} numbers, got "
                f"{task.population:,} parties x {len(w):,} weights. Choose a smaller --model, or ditto."
            )
        return {"w": w.expand(task.population, -1).clone(), "seen": w.new_zeros(task.population)}

    def send(self, task: Task, server: Vectors) -> Payload:
        """To each party its own pull, and how strong it is."""
        import torch

        w, seen = server["w"], server["seen"] > 0
        known = w[seen]
        u = (known if len(known) else w).mean(dim=0).expand(w.shape).clone()
        mu = w.new_full((len(w),), self.lam)
        if len(known):
            u[seen], mu[seen] = self.pulls(known)
        everybody = torch.arange(len(w), device=w.device)
        return {"u": ByParty(u, everybody), "mu": ByParty(mu, everybody)}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Models that came replace those that were there."""
        w, seen = server["w"].clone(), server["seen"].clone()
        for number, upload in replies.each.items():
            w[number], seen[number] = upload["w"], 1
        return {"w": w, "seen": seen}

    def global_model(self, task: Task, server: Vectors) -> None:
        """There is no model for all."""

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's own model, and that it never trained it."""
        return {"w": w, "trained": w.new_zeros(())}

    def start(self, party: Party) -> Tensor:
        """Training goes on from the party's own model."""
        return self.personal(party)

    def proximal(self, party: Party) -> tuple[float | Tensor, Tensor]:
        """The party is held near what it was sent."""
        return party.received["mu"], party.received["u"]

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The whole model goes to the server and stays here too."""
        return {"w": w}, {"w": w, "trained": party.state["trained"] * 0 + 1}

    def personal(self, party: Party) -> Tensor:
        """The party's own model, or what it was sent where it never trained one."""
        import torch

        return torch.where(party.state["trained"] > 0, party.state["w"], party.received["u"])


class _Mixed(Related):
    """A pull towards a mixture of models, which is as strong for everybody."""

    def mixture(self, w: Tensor) -> Tensor:
        """xi: how much of every party's model is in each party's mixture, rows that sum to 1."""
        raise NotImplementedError

    def pulls(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """u_i = sum_j xi_ij w_j, as strong for everybody."""
        return self.mixture(w) @ w, w.new_full((len(w),), self.lam)


@algorithm("fedamp", paper="Huang et al. 2021 (arXiv:2007.03797), Algorithm 1")
class FedAmp(_Mixed):
    """A model for each party, pulled towards those of the parties whose models are near it.

    The paper minimises sum_i F_i(w_i) + lambda sum_{i<j} A(||w_i - w_j||^2) with A(x) = 1 - exp(-x / sigma). The
    server mixes u_i = sum_j xi_ij w_j with xi_ij = alpha A'(||w_i - w_j||^2) for j != i, and xi_ii is what a row
    lacks of 1; party i then minimises F_i(w) + lambda / (2 alpha) ||w - u_i||^2, from its own w_i.

    The paper's three numbers depend on the net and on the number N of parties: xi_ii is below 0 where
    alpha (N-1) / sigma is above 1, and where sigma is far from the squared distances, all pull or nobody. So here

    - ``lam`` is lambda / alpha, the strength of the pull;
    - ``share`` is alpha (N-1) / sigma, from 0 to 1: what all others together weigh in u_i where they are equal to
      w_i. So xi_ij = share / (N-1) exp(-||w_i - w_j||^2 / sigma), and N counts the parties seen so far;
    - ``sigma`` is in units of the mean of ||w_i - w_j||^2 over all pairs (``unit="mean"``): the objective moves
      with the models, which is a departure. With ``unit="one"`` it is the paper's.

    The paper's numbers are alpha = share sigma / (N-1) and lambda = lam alpha; here they do not change with the
    rounds. Every party does the run's local work, it does not find the exact minimum.
    """

    lam: float = 0.3
    share: float = 0.9
    sigma: float = 0.5
    unit: Literal["mean", "one"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, "share", 0 <= self.share <= 1, "in [0, 1]", "It is alpha (N-1) / sigma: above 1, xi_ii < 0.")
        _check(self, "sigma", self.sigma > 0, "above 0", "Small: only the nearest pull; large: all the same.")

    def mixture(self, w: Tensor) -> Tensor:
        """Of the others by how near they are; the rest of each row is the party's own."""
        import torch

        others = max(len(w) - 1, 1)
        products = _products(w - w.mean(dim=0))
        squares = products.diagonal()
        gaps = (squares[:, None] + squares - 2 * products).clamp(min=0).fill_diagonal_(0)
        unit = gaps.sum() / (len(w) * others) if self.unit == "mean" else gaps.new_ones(())
        return _with_own(self.share / others * torch.exp(-gaps / (self.sigma * unit.clamp(min=_TINY)))).to(w)


@algorithm("heurfedamp", paper="Huang et al. 2021 (arXiv:2007.03797), HeurFedAMP")
class HeurFedAmp(_Mixed):
    """FedAMP whose parties are alike by the angle between their models, with a fixed share of one's own.

    xi_ii = ``own``, and xi_ij = (1 - own) exp(sigma cos(w_i, w_j)) / sum_{h != i} exp(sigma cos(w_i, w_h)) for
    j != i: in a large net all distances are alike, angles less so. ``lam`` is the paper's lambda / alpha, the
    strength of the pull. Where a party is the only one seen, its mixture is its own model.
    """

    own: float = 0.5
    sigma: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, "own", 0 <= self.own <= 1, "in [0, 1]", "1 mixes nothing in.")
        _check(self, "sigma", self.sigma >= 0, ">= 0", "0 is the plain mean of the others.")

    def mixture(self, w: Tensor) -> Tensor:
        """A softmax of the cosines to all others; the rest of each row is the party's own."""
        import torch

        products = _products(w)
        norms = products.diagonal().clamp(min=_TINY).sqrt()
        alike = torch.exp(self.sigma * (products / norms / norms[:, None] - 1)).fill_diagonal_(0)
        return _with_own((1 - self.own) * alike / alike.sum(dim=1, keepdim=True).clamp(min=_TINY)).to(w)


@algorithm("mocha", paper="Smith et al. 2017 (arXiv:1705.10467), equation 1")
class Mocha(Related):
    """Multi-task learning: a model for each party, and which parties are related is learnt with them.

    Minimises sum_t l_t(w_t) + lam / (2N) tr(W Omega W^T) over the models W = [w_1 ... w_N] and Omega, the inverse
    of Sigma = (W^T W)^(1/2) / trace, of the N parties seen so far. Sigma has trace 1: of parties that have nothing
    to do with each other it is I / N, and lam is then a weight decay, whatever N is (the paper's lambda is lam /
    N). In turns: the parties train for a given Omega, and Omega has this closed form for given models.

    - ``relation``: "learnt", or "mean": Omega = N I - 1 1^T, fixed, which pulls everybody to the mean of all.
    - ``ridge``: Sigma + ridge I / N, divided by its trace, is what is inverted: with more parties than weights, or
      parties that agree, Sigma is singular. No pull is stronger than lam (1 + ridge) / ridge, and local steps are
      stable where lr times that is below 2. Omega is computed in float64.

    Departures: the paper takes steps in the dual, which needs linear models. Here party t trains its part of the
    primal, l_t(w) + lam / N (Omega_tt / 2 ||w||^2 + w . sum_{j != t} Omega_tj w_j), which has the same optimum and
    suits any net. l_t is the mean over a party's rows, where the paper has their sum: parties count the same. As a
    square that is a pull of lam Omega_tt / N towards -sum_{j != t} Omega_tj w_j / Omega_tt. A
    party that was not seen yet is held with strength lam at the mean of those seen.
    """

    lam: float = 0.03
    relation: Literal["learnt", "mean"] = "learnt"
    ridge: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, "ridge", self.ridge > 0, "above 0", "The default is 0.1.")

    def omega(self, w: Tensor) -> Tensor:
        """How the parties whose models are the rows of ``w`` are related, in float64."""
        import torch

        count = len(w)
        if self.relation == "mean":
            return count * torch.eye(count, dtype=torch.float64, device=w.device) - 1
        squares, directions = torch.linalg.eigh(_products(w))
        roots = squares.clamp(min=_TINY).sqrt()
        spectrum = (roots / roots.sum() + self.ridge / count) / (1 + self.ridge)
        omega: Tensor = directions / spectrum @ directions.T
        return omega

    def pulls(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """The party's row of Omega as a square: where it is centred, and how strong it is."""
        omega = self.omega(w)
        own = omega.diagonal().clamp(min=1e-12)
        others = -(omega / own[:, None]).fill_diagonal_(0)
        return others.to(w) @ w, (self.lam / len(w) * own).to(w)


def _products(w: Tensor) -> Tensor:
    """The products of all pairs of rows in float64, some columns at a time."""
    import torch

    products = w.new_zeros((len(w), len(w))).double()
    for part in torch.split(w, 2**16, dim=1):
        products += part.double() @ part.double().T
    return products


def _with_own(xi: Tensor) -> Tensor:
    """The weights of the others, and what is missing from 1 as each party's own."""
    others = xi.clone().fill_diagonal_(0)
    return others + (1 - others.sum(dim=1)).clamp(min=0).diag()


def _check(part: Algorithm, name: str, holds: bool, rule: str, remedy: str) -> None:
    """Refuse a value that means nothing, with the rule, the value and a remedy."""
    if not holds:
        raise UserError(f"{type(part).__name__}.{name} must be {rule}, got {getattr(part, name)}. {remedy}")

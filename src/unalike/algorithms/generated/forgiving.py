"""F2U and F2A: a generator at the server is to pass with the most forgiving of the judges that parties train."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Party, Payload, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.algorithms.generated.gan import Gan
    from unalike.models.batch import Batch
    from unalike.models.task import Task


@dataclass(frozen=True)
class ForgiverFirst(Algorithm):
    """What both share (Yonetani et al. 2019, arXiv:1905.09684).

    Party k keeps a judge V_k (the paper's discriminator before its sigmoid) and trains it, in its local work, to
    tell its own rows from those of the received generator; it sends V_k. The server then takes ``steps`` steps of
    Adam at rate ``lr`` with the generator, whose made rows are to pass, -log sigmoid(V(x)), with a V that gives
    the judges of this round's parties more say, the more real they take a row for. So a row that looks like
    those of one party passes, however strange it is to all others: the generator may make what anybody has.

    No label is used, and there is no other net: the run has no model, its generator is in the server's state. The
    server sees each judge by itself. V's form was checked in what others write of the paper and in public code of
    F2U, not in the paper's text. Departures: in the paper judges and generator take one step each in turn.
    """

    needs_each: ClassVar[bool] = True
    noise: int = 16
    steps: int = 20
    lr: float = 0.001

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.noise < 1:
            raise UserError(f"{name}.noise must be at least 1, got {self.noise}. Use 16.")
        if self.steps < 1:
            raise UserError(f"{name}.steps must be at least 1, got {self.steps}. Use 20.")
        if not 0 < self.lr < float("inf"):
            raise UserError(f"{name}.lr must be above 0, got {self.lr}. Use 0.001.")

    @abstractmethod
    def together(self, scores: Tensor) -> Tensor:
        """One score for each row, from those of all judges [judges, rows]."""

    def nets(self, task: Task) -> Gan:
        """The generator and the judges' structure, which know no labels."""
        from unalike.algorithms.generated.gan import Gan

        return Gan.of(task, self.noise, classes=0)

    # --- server ---
    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The generator, and how many rounds there were."""
        return {"generator": self.nets(task).generator.initial(), "rounds": w.new_zeros(())}

    def send(self, task: Task, server: Vectors) -> Payload:
        """The generator, for the rows that judges learn to tell."""
        return {"generator": server["generator"]}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The generator learns to pass."""
        import torch

        from unalike.algorithms.generated.learning import learnt, noise

        judges, stream = list(replies.each.values()), task.generator(1 + int(server["rounds"]))

        def loss(g: Tensor, step: int) -> Tensor:
            z = noise(task, stream, 64, self.noise)
            return self.passing(task, g, torch.stack([each["judge"] for each in judges]), z).mean()

        generator = learnt(task, server["generator"], loss, self.steps, self.lr)
        return {"generator": generator, "rounds": server["rounds"] + 1}

    def passing(self, task: Task, g: Tensor, judges: Tensor, z: Tensor) -> Tensor:
        """The generator's loss on each row that it makes of the noise: -log sigmoid(V)."""
        import torch

        gan = self.nets(task)
        none = torch.zeros(len(z), dtype=torch.int64, device=z.device)
        made = gan.made(g, z, none)
        scores = torch.stack([gan.score(judge, made, none) for judge in judges])
        return torch.nn.functional.softplus(-self.together(scores))

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """None: no net is trained to predict anything."""
        return None

    # --- party ---
    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's judge, which is the same for all at first."""
        return {"judge": self.nets(task).judge.initial()}

    def start(self, party: Party) -> Tensor:
        """The party's own judge, as it left it."""
        return party.state["judge"]

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The judge is to tell the party's rows from made ones."""
        gan = self.nets(party.task)
        made = gan.made(party.received["generator"], gan.noise_of(batch), batch.y)
        return batch.mean(gan.telling(w, batch.x, made, batch.y))

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The judge goes out whole, and is kept."""
        return {"judge": w}, {"judge": w}


@algorithm("f2u", paper="Yonetani et al. 2019 (arXiv:1905.09684), forgiver-first update")
class F2u(ForgiverFirst):
    """A generator learns from all parties' judges: each row is to pass with the one that forgives it most.

    V(x) = max_k V_k(x).
    """

    def together(self, scores: Tensor) -> Tensor:
        """The most forgiving judge of each row."""
        return scores.max(dim=0).values


@algorithm("f2a", paper="Yonetani et al. 2019 (arXiv:1905.09684), forgiver-first aggregation")
class F2a(ForgiverFirst):
    """A generator learns from all parties' judges at once, of whom the forgiving ones have the more say.

    V(x) = sum_k softmax_k(lam V_k(x)) V_k(x). With lam = 0 all judges count the same; the larger it is, the nearer
    this is to F2U. lam stays as it is given (in the paper it is learnt with the generator).
    """

    lam: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.lam < float("inf"):
            raise UserError(f"F2a.lam must be at least 0, got {self.lam}. Use 1.")

    def together(self, scores: Tensor) -> Tensor:
        """The judges' mean for each row, forgiving ones counting more."""
        return ((self.lam * scores).softmax(dim=0) * scores).sum(dim=0)

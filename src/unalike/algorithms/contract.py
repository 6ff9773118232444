"""The contract: a federated algorithm is one small frozen dataclass whose methods are pure.

Its fields are its hyper-parameters. The base class *is* FedAvg; a subclass overrides only what its paper
changes. The engine owns steps, batches, cohorts, the local optimiser, seeds and evaluation, so that every
algorithm is compared on the same stream; it may call a method once per party or once for a whole stack of
parties (under ``vmap``), so a method never assigns to ``self``, never branches on a tensor's value and never
changes what it was given. All numbers of a party (``size``, ``steps``, ``number``) are 0-d tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeVar, dataclass_transform

from unalike.algorithms.exchange import (
    Ask,
    ByParty,
    Kind,
    MeasuredRows,
    Payload,
    Phase,
    parts_of,
    sent_to,
)
from unalike.algorithms.replies import Replies, Vectors
from unalike.algorithms.terms import Ahead, declared_fit
from unalike.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

__all__ = [
    "ALGORITHMS",
    "Ahead",
    "Algorithm",
    "Ask",
    "ByParty",
    "Kind",
    "MeasuredRows",
    "Optimiser",
    "Party",
    "Payload",
    "Phase",
    "Replies",
    "Sends",
    "Vectors",
    "algorithm",
    "parts_of",
    "sent_to",
]

Sends = Literal["nothing", "updates", "scores on public rows", "scores by label", "features", "mean rows", "rows"]
C = TypeVar("C", bound=type)

ALGORITHMS: Registry[Algorithm] = Registry("algorithm")


@dataclass_transform(frozen_default=True)
def algorithm(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make a subclass of Algorithm a frozen dataclass and register it under ``name``."""
    return ALGORITHMS.register(name, paper=paper)


class Optimiser(Protocol):
    """What an algorithm may know of the local optimiser."""

    def step_sum(self, steps: Tensor) -> Tensor:
        """How far ``steps`` unit gradients move the weights, in units of the learning rate."""
        ...


@dataclass(frozen=True, eq=False)
class Party:
    """A party's side of an exchange, as its algorithm sees it."""

    task: Task
    received: Vectors
    state: Vectors
    number: Tensor
    size: Tensor
    """training rows"""
    steps: Tensor
    """local steps in this round"""
    lr: float
    optimiser: Optimiser
    key: Tensor
    """what ``normal`` derives from"""
    round: int = 0
    phase: str = ""
    measured: Vectors = field(default_factory=dict)
    trained: Tensor | None = None
    """the weights after local training, for ``measure`` in an exchange that trains first"""

    @property
    def step_sum(self) -> Tensor:
        """||a_i||_1 of FedNova: ``steps`` for plain SGD, more with momentum."""
        return self.optimiser.step_sum(self.steps)

    def normal(self, count: int, which: int = 0) -> Tensor:
        """Standard normal numbers of this party in this exchange; ``which`` tells several draws apart."""
        from unalike.models.noise import normal

        return normal(self.key, count, which, self.task.dtype)


@dataclass(frozen=True)
class Algorithm:
    """FedAvg: the server adds the weighted mean of the parties' updates."""

    needs_each: ClassVar[bool] = False
    """True: the server must see single uploads, so no summing channel can be used."""
    plain: ClassVar[frozenset[str]] = frozenset()
    """The uploaded keys that are summed as they are; every other key is weighted by ``weight``."""
    needs_sgd: ClassVar[bool] = False
    """True: local steps must be fixed multiples of gradients (``Party.step_sum``), which Adam's are not."""
    needs_features: ClassVar[bool] = False
    """True: the loss looks at the features, so a net whose body has no weights makes no sense."""
    needs_exact: ClassVar[bool] = False
    """True: the server divides by what parties add up, which noise could make zero or less."""
    needs_whole: ClassVar[bool] = False
    """True: what parties send are rows, labels or counts, of which a channel must leave nothing out."""
    measures_personal: ClassVar[bool] = False
    """True: before ``personal`` a party passes over its training rows with ``measure`` (``party.measured``)."""
    keeps_statistics: ClassVar[bool] = False
    """True: every party keeps its own running statistics of batch norm, as with ``--batch-norm local``."""
    sends: ClassVar[Sends] = "updates"
    """What leaves a party, in the words that a real site consents to before it takes part.

    Where it is "nothing", parties have nothing to do with each other: newcomers train as all others do."""
    pools: ClassVar[bool] = False
    """True: one party has the training rows of all, which only a simulation can give it."""

    # --- server ---
    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The server's state before round 1."""
        return {"w": w}

    def prepare(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Exchanges with all parties, once before round 1; written like ``round``. What they cost counts there."""
        yield from ()
        return server

    def send(self, task: Task, server: Vectors) -> Payload:
        """What the cohort is sent."""
        return {"w": server["w"]}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The server's new state, made of its old one and what came of the exchange."""
        return server | {"w": server["w"] + replies.mean["delta"]}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """One round: each ``yield`` is one exchange; the server's new state is returned."""
        replies = yield Ask("train", self.send(task, server))
        return self.fold(task, server, replies)

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """The weights that the global test set is tried on; None where there is no one global model.

        Several of them, [k, d], are an ensemble, as those of ``personal`` are.
        """
        return server["w"]

    # --- party ---
    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """The parts of a party's local training in a round (0: in ``prepare``); each begins at ``start``.

        A public function of the round and of nothing else: a real site works it out itself, so that no server can
        make it train longer.
        """
        return (Phase(),)

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """Phases that a party trains, from ``personal``, before it evaluates or deploys. None of it is kept."""
        return ()

    def adapts(self, known: bool) -> bool:
        """Whether a party trains the phases of ``adapt``; ``known``: it has taken part in a round before.

        That is known by the state that it keeps: where ``init_party`` gives none, nobody is known.
        """
        return True

    def keeps_statistics_of(self, task: Task) -> bool:
        """Whether the parties keep running statistics to themselves with this net (``keeps_statistics``: any)."""
        return self.keeps_statistics

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """What a party keeps between rounds; ``w`` are the run's initial weights."""
        return {}

    def weight(self, party: Party) -> Tensor:
        """The party's weight in ``Replies.mean``."""
        return party.size

    def start(self, party: Party) -> Tensor:
        """The weights that local training starts from; of several phases, each one of them (``party.phase``)."""
        return party.received["w"]

    def proximal(self, party: Party) -> tuple[float | Tensor, Tensor] | None:
        """(mu, centre) of a term mu/2 ||w - centre||^2 in the local objective, or None.

        With one mu for each weight it is sum_i mu_i/2 (w_i - centre_i)^2.
        """
        return None

    def linear(self, party: Party) -> Tensor | None:
        """A vector that is added to every local gradient, or None."""
        return None

    def beside(self, party: Party) -> float | Tensor | None:
        """The share a of a model v of the party's own that is trained beside w, or None.

        ``start`` then gives both in one vector, w first. In every step v moves by a times the gradient at
        a v + (1-a) w, with w as the step found it, and w as if there were no v.
        """
        return None

    def labels(self, party: Party) -> Tensor | None:
        """Labels in place of those that rows have, or None: that of a row is at ``batch.index``."""
        return None

    def near(self, party: Party) -> tuple[float | Tensor, Tensor] | None:
        """(lam, target) of a term lam ||mean feature of the batch - target||^2 in the local objective, or None."""
        return None

    def teach(self, party: Party) -> tuple[float, float, Tensor] | None:
        """(lam, heat, teacher) of a term lam heat^2 KL(teacher || w) over the batch's scores, or None.

        Both scores are softmax(logits / heat). The teacher is a model, by its weights, or a table of logits, of
        which row ``batch.index`` is a row's own. It stays as it is.
        """
        return None

    def contrast(self, party: Party) -> tuple[float, float, Tensor, Tensor] | None:
        """(mu, heat, near, far) of a term mu log(1 + exp((cos(z, z_far) - cos(z, z_near)) / heat)), or None.

        z are a row's features under w, z_near and z_far those under two models that stay as they are.
        """
        return None

    def ahead(self, party: Party) -> Ahead | None:
        """Where the gradient of each local step is taken, if not at w. No other term is on the rows."""
        return None

    def pace(self, party: Party) -> float | Tensor | None:
        """What every local gradient is multiplied by in the end, or None."""
        return None

    @property
    def all_declared(self) -> bool:
        """Whether ``loss`` and ``correct`` do what is declared and nothing else: no engine has to call them."""
        return not self.overrides("loss", "correct")

    def scales(self, party: Party) -> Tensor | None:
        """What each class's logit is multiplied by before the task's loss looks at it, or None."""
        return None

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The local objective on one batch. Where all of it is declared above, an engine need not call it."""
        fit, near = declared_fit(self, party, w, batch), self.proximal(party)
        if near is None:
            return fit
        mu, centre = near
        drift = w - centre
        if getattr(mu, "ndim", 0):
            return fit + (mu * drift).dot(drift) / 2
        return fit + mu / 2 * drift.dot(drift)

    def correct(self, party: Party, w: Tensor, grad: Tensor) -> Tensor:
        """The gradient that the local optimiser uses; ``grad`` has the weight decay in it already."""
        added, factor = self.linear(party), self.pace(party)
        grad = grad if added is None else grad + added
        return grad if factor is None else grad * factor

    def keep(self, party: Party, w: Tensor) -> Vectors:
        """The party's state after a phase that another one follows; ``w`` is what the phase came to."""
        return party.state

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """What leaves the party after training, and the state it keeps."""
        return {"delta": w - party.received["w"]}, party.state

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """Means over one batch; the engine averages them over all training rows into ``party.measured``."""
        return {}

    def report(self, party: Party) -> tuple[Vectors, Vectors]:
        """What leaves the party after ``measure``, and the state it keeps."""
        return party.measured, party.state

    def offer(self, party: Party, batch: Batch) -> tuple[Vectors, Vectors]:
        """What leaves the party in an exchange that offers, and the state it keeps; the batch has all of its rows.

        For what is made of whole rows, such as means of groups of them: no average over parts is taken on the way.
        """
        return {}, party.state

    def personal(self, party: Party) -> Tensor:
        """The weights that this party evaluates and deploys (``received`` is what ``send`` gives).

        Several of them, [k, d], are an ensemble: it is evaluated by the mean of what its nets predict.
        """
        return party.received["w"]

    @classmethod
    def overrides(cls, *methods: str) -> bool:
        """Whether this algorithm has its own version of one of these (the engine skips what changes nothing)."""
        return any(getattr(cls, method) is not getattr(Algorithm, method) for method in methods)

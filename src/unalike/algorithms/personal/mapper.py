"""Mapper and Dapper: how much of the model, or of the rows, is a party's own is chosen on validation rows."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Literal

from unalike.algorithms.contract import Algorithm, Ask, Party, Phase, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

PAPER = "Mansour et al. 2020 (arXiv:2002.10619)"
SHARED = "shared"
"""The phase that trains the shared model; those before it have the number of a share in the grid."""
ADAPT = "adapt"
"""The phase before a model is used."""


def _check_grid(name: str, grid: tuple[float, ...]) -> None:
    if not grid or not all(0 <= share <= 1 for share in grid) or len(set(grid)) < len(grid):
        raise UserError(f"{name}.grid must be different shares from 0 to 1, got {grid}. Try 0.25, 0.5, 0.75.")


def _best(party: Party) -> Tensor:
    """1 where the loss on the validation rows is least, 0 elsewhere."""
    from torch.nn.functional import one_hot

    losses = party.measured["losses"]
    return one_hot(losses.argmin(), len(losses)).to(losses)


def _with_row(rows: Tensor, number: int, row: Tensor) -> Tensor:
    """The rows with another one in a place."""
    import torch

    return torch.cat([rows[:number], row[None], rows[number + 1 :]])


@algorithm("mapper", paper=f"{PAPER}, model interpolation")
class Mapper(Algorithm):
    """A shared model mixed with one's own; each party chooses the share from a grid on its validation rows.

    min over w, v_k and lam_k of the sum of the f_k(lam_k v_k + (1 - lam_k) w). In each round and for each lam of
    the grid a party trains a v of that lam with w fixed; keeps the lam whose mixture has the least loss on its
    *validation* rows; and then trains w through that mixture, v fixed, where w's gradient is (1 - lam) grad f. A
    grid of 0 alone is FedAvg, of 1 alone is training alone. As the choice needs the trained v, a round has two
    exchanges, and w is sent twice. A party needs validation rows, unless the grid has one value.

    Departures: the paper takes one gradient step for w in a round; here the cohort takes the run's local work
    and is averaged by rows, as in FedAvg (``--steps 1`` is one step). Where the paper minimises over v, each v
    goes on from where it was for ``steps`` steps (none given: the run's local work). The paper mixes hypotheses;
    here weights are mixed, which is the same for models that are linear in them, so that a party has one net to
    deploy. A party that never took part, such as a newcomer, trains w for the run's local work before it uses it.
    """

    grid: tuple[float, ...] = (0.0, 0.5, 1.0)
    steps: int | None = None

    def __post_init__(self) -> None:
        _check_grid("Mapper", self.grid)
        if self.steps is not None and self.steps < 1:
            raise UserError(f"Mapper.steps must be 1 or more, got {self.steps}. Leave it out for the run's work.")

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """A newcomer trains the shared model for the run's local work."""
        return (Phase(ADAPT),)

    def adapts(self, known: bool) -> bool:
        """Newcomers alone do: all others have a mixture."""
        return not known

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """An own model for each share, which share is chosen, and whether the party ever trained."""
        chosen = w.new_zeros(len(self.grid))
        return {"v": w.expand(len(self.grid), -1).clone(), "chosen": chosen, "known": w.new_zeros(())}

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """The own models one after the other; at a share of 0 there is nothing to train."""
        own = tuple(Phase(str(number), steps=self.steps) for number, share in enumerate(self.grid) if share)
        return own or (Phase(SHARED),)

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """First the own models are trained; then the share is chosen, and the shared model trained."""
        if any(self.grid):
            yield Ask("train", self.send(task, server))
        kind: Literal["measure+train", "train"] = "measure+train" if len(self.grid) > 1 else "train"
        replies = yield Ask(kind, self.send(task, server), phase=SHARED, rows="validation")
        return self.fold(task, server, replies)

    def start(self, party: Party) -> Tensor:
        """The model that is trained in this phase."""
        return party.received["w"] if party.phase == SHARED else self._own(party)[int(party.phase)]

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The mixture's loss, of which one model moves and the other is fixed."""
        if party.phase == ADAPT:
            return party.task.loss(w, batch)
        if party.phase == SHARED:
            return party.task.loss(self._mixture(party, self._choice(party), w), batch)
        share = self.grid[int(party.phase)]
        return party.task.loss(share * w + (1 - share) * party.received["w"], batch, track=False)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The loss of each share's mixture."""
        import torch

        own, shared = self._own(party), party.received["w"]
        mixtures = [share * v + (1 - share) * shared for share, v in zip(self.grid, own, strict=True)]
        return {"losses": torch.stack([party.task.loss(w, batch, track=False) for w in mixtures])}

    def keep(self, party: Party, w: Tensor) -> Vectors:
        """The own model of this phase's share is kept."""
        own = _with_row(self._own(party), int(party.phase), w)
        return {**party.state, "v": own, "known": party.state["known"] * 0 + 1}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The shared model's update, and the share that was chosen; of own models nothing leaves the party."""
        if party.phase != SHARED:
            return {}, self.keep(party, w)
        state = {"v": self._own(party), "chosen": self._choice(party), "known": party.state["known"] * 0 + 1}
        return {"delta": w - party.received["w"]}, state

    def personal(self, party: Party) -> Tensor:
        """The mixture with the share that was chosen; the shared model where the party never trained."""
        import torch

        shared = party.received["w"]
        return torch.where(party.state["known"] > 0, self._mixture(party, party.state["chosen"], shared), shared)

    def _own(self, party: Party) -> Tensor:
        """The own models: where they were never trained, the shared one."""
        import torch

        return torch.where(party.state["known"] > 0, party.state["v"], party.received["w"])

    def _choice(self, party: Party) -> Tensor:
        """1 for the share that this round chooses."""
        return _best(party) if len(self.grid) > 1 else party.state["chosen"] * 0 + 1

    def _mixture(self, party: Party, chosen: Tensor, shared: Tensor) -> Tensor:
        """The own model of the chosen share, mixed with the shared one."""
        share = chosen.dot(chosen.new_tensor(self.grid))
        return share * (chosen @ self._own(party)) + (1 - share) * shared


@algorithm("dapper", paper=f"{PAPER}, data interpolation")
class Dapper(Algorithm):
    """FedAvg, tuned by each party on its own rows mixed with public ones; the mixture is chosen from a grid.

    Before a party uses the shared model w, it trains it for the run's local work on lam D_k + (1 - lam) C, where
    D_k are its rows and C are public ones (``--public``). lam is that of the grid whose model, trained from w in
    the same way, has the least loss on the party's *validation* rows; in each round that a party takes part in
    it chooses anew, which costs as many trainings more as the grid has values. With one value there is nothing
    to choose. lam = 1 is fine-tuning. w is FedAvg's.

    Departures: the paper personalises a w that is given; here a party chooses lam in the rounds it takes part
    in, and what it deploys is trained from the newest w with the lam that it chose last. A party that never took
    part takes the grid's middle value. Each step takes lam times the loss of its own rows and 1 - lam times that
    of ``rows`` public rows, which come in their order. C is a sample of everybody's rows in the paper; here it
    is whatever rows are public.
    """

    grid: tuple[float, ...] = (0.25, 0.5, 0.75)
    rows: int = 32

    def __post_init__(self) -> None:
        _check_grid("Dapper", self.grid)
        if self.rows < 1:
            raise UserError(f"Dapper.rows must be 1 or more, got {self.rows}. Try 32 public rows in each step.")

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The share of the own rows, and the models that it was chosen from."""
        models = {"models": w.expand(len(self.grid), -1).clone()} if len(self.grid) > 1 else {}
        return {"lam": w.new_tensor(self.grid[len(self.grid) // 2]), **models}

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """A training for each share, where there is a choice; then FedAvg's."""
        tried = range(len(self.grid) if len(self.grid) > 1 else 0)
        return (*(Phase(str(number)) for number in tried), Phase(SHARED))

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """The same training from the shared model, with the share that was chosen."""
        return (Phase(ADAPT),)

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """One exchange; where there is a choice, it ends with a pass over the validation rows."""
        kind: Literal["train+measure", "train"] = "train+measure" if len(self.grid) > 1 else "train"
        replies = yield Ask(kind, self.send(task, server), rows="validation")
        return self.fold(task, server, replies)

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The loss on the mixture of own and public rows; FedAvg's for the shared model."""
        own = party.task.loss(w, batch, track=party.phase in (SHARED, ADAPT))
        if party.phase == SHARED:
            return own
        share = party.state["lam"] if party.phase == ADAPT else self.grid[int(party.phase)]
        return share * own + (1 - share) * party.task.loss(w, self._public(party.task, batch), track=False)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The loss of each share's model."""
        import torch

        return {"losses": torch.stack([party.task.loss(w, batch, track=False) for w in party.state["models"]])}

    def keep(self, party: Party, w: Tensor) -> Vectors:
        """The model of this phase's share, until the choice is made."""
        return {**party.state, "models": _with_row(party.state["models"], int(party.phase), w)}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """FedAvg's update; the choice stays at home."""
        state = party.state
        if len(self.grid) > 1:
            state = {**state, "lam": _best(party).dot(w.new_tensor(self.grid))}
        return {"delta": w - party.received["w"]}, state

    def _public(self, task: Task, batch: Batch) -> Batch:
        """The public rows of a step: the next ones in each, and the first ones again after the last."""
        from dataclasses import replace

        import torch

        rows = task.public
        which = (batch.step * self.rows + torch.arange(self.rows, device=rows.y.device)) % len(rows.y)
        return replace(batch, x=rows.x[which], y=rows.y[which], mask=None, index=which)

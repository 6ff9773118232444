"""Federated transfer learning in numbers: one party's labels, seen through what two nets have in common.

The net of the label holder makes u^A of its rows, its partner's net u^B of theirs, both vectors of ``width``
numbers. The translator F = mean_i y_i u^A_i, over all rows of the label holder with y_i = -1 or 1, one line for
each class against the rest, gives the score of a partner's row: F u^B. Torch is needed to import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from unalike.vertical.block_net import chosen, digest, fill, float_array, int_array
from unalike.vertical.block_training import Place, SgdStep, TrainedPart
from unalike.vertical.net_part import NetPart, in_blocks, own_tensor, whole_lines
from unalike.vertical.objectives import ScoreLoss, loss_of

if TYPE_CHECKING:
    from unalike.models.mlp import Mlp

Array = NDArray[Any]


def representation(model: Mlp, columns: int, width: int, random: np.random.Generator | None = None) -> NetPart:
    """The net that makes ``width`` numbers of a row, from -1 to 1: the model's hidden layers, and one more."""
    random = np.random.default_rng(0) if random is None else random
    return NetPart(lambda: _whole(model, columns, width), random, torch.float64)


def _whole(model: Mlp, columns: int, width: int) -> torch.nn.Module:
    net = model.build((columns,), width)
    return torch.nn.Sequential(net.body, net.head, torch.nn.Tanh())


def signs_of(y: Array, classes: int) -> Array:
    """Each class against the rest as 1 and -1, float64 [rows, outputs]; of two classes, the second alone."""
    asked = np.array([1]) if classes == 2 else np.arange(classes)
    return np.where(y[:, None] == asked, 1.0, -1.0)


def shares_of(signs: Array, balanced: bool) -> Array:
    """What each row counts in the translator: y / rows, or ``balanced`` both sides of a class half each."""
    if not balanced:
        return np.asarray(signs / len(signs))
    own, rest = np.maximum((signs > 0).sum(axis=0), 1), np.maximum((signs < 0).sum(axis=0), 1)
    return np.asarray(np.where(signs > 0, 0.5 / own, -0.5 / rest))


@dataclass(frozen=True)
class TransferObjective:
    """What both nets lower together: mean label loss + ``alignment`` times the mean distance of common rows.

    The label loss of a score f is log(1 + exp(-y f)), or with ``taylor`` log 2 - y f / 2 + f^2 / 8. The distance
    of u^A and u^B is |u^A - u^B|^2, or with ``product`` -u^A u^B.
    """

    alignment: float
    taylor: bool
    product: bool
    balanced: bool

    def label_loss(self, scores: Tensor, signs: Tensor) -> Tensor:
        """The loss of all classes against the rest, as a mean of rows."""
        agree = scores * signs
        losses = log(2.0) - agree / 2 + scores**2 / 8 if self.taylor else functional.softplus(-agree)
        return losses.sum() / len(scores)

    def distance(self, ours: Tensor, theirs: Tensor) -> Tensor:
        """How far apart two parties see the same people, as a mean of rows."""
        apart = -(ours * theirs) if self.product else (ours - theirs) ** 2
        return apart.sum() / len(ours)

    def total(self, translator: Tensor, ours: Tensor, theirs: Tensor, signs: Tensor) -> Tensor:
        """All that is lowered, penalties on weights aside, on common rows."""
        return self.label_loss(theirs @ translator.T, signs) + self.alignment * self.distance(ours, theirs)

    def components(self, translator: Array, ours: Array, signs: Array) -> dict[str, Array]:
        """What the partner needs for its derivatives under ``taylor``, before it has said anything.

        In the paper's words 1/8 D(y) F'F, 1/2 C(y) F with C(y) = -y, and gamma kappa u^A.
        """
        kappa = -1.0 if self.product else -2.0
        return {
            "square": translator.T @ translator / 8,
            "linear": -signs @ translator / 2,
            "aligned": self.alignment * kappa * ours,
        }

    def by_components(self, made: Array, told: Mapping[str, Array]) -> Array:
        """The derivatives of what is lowered by the partner's u^B, from the label holder's components."""
        own = 0.0 if self.product else 2 * self.alignment * made
        found: Array = (told["linear"] + 2 * made @ told["square"] + told["aligned"] + own) / len(made)
        return found


class LabelSide:
    """The label holder's side of transfer: its net, all of its rows and their labels."""

    def __init__(self, objective: TransferObjective, net: NetPart, rows: Array, signs: Array) -> None:
        self.objective, self._signs = objective, own_tensor(signs)
        self._shares = own_tensor(shares_of(signs, objective.balanced)).T
        self.part = TrainedPart(net, lambda part, x: part.module(x), rows)

    def _seen(self, weights: Array, place: Place, batch: Array) -> tuple[Tensor, Tensor, Tensor]:
        """The translator, and u^A and the signs of the batch; the rows that all know are the first."""
        made, places = self.part.made(weights, place, None), torch.from_numpy(batch)
        return self._shares @ made, made[places], self._signs[places]

    def translator(self, weights: Array) -> Array:
        """The translator under these weights."""
        with torch.no_grad():
            self.part.use(weights)
            return (self._shares @ self.part.whole()).numpy()

    def components(self, weights: Array, place: Place, batch: Array) -> dict[str, Array]:
        """What the partner is told of a batch under ``taylor``."""
        found = [tensor.detach().numpy() for tensor in self._seen(weights, place, batch)]
        return self.objective.components(*found)

    def back(
        self, weights: Array, place: Place, batch: Array, theirs: Array | None, descent: SgdStep
    ) -> tuple[Array, float, Array]:
        """The weights after a step, what was lowered, and its derivatives by the partner's u^B.

        Without a partner, ``theirs`` None, the label holder's own u^A is what is scored.
        """
        translator, ours, signs = self._seen(weights, place, batch)
        if theirs is None:
            loss, grad = self.objective.label_loss(ours @ translator.T, signs), None
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            told = own_tensor(theirs).requires_grad_()
            loss = self.objective.total(translator, ours, told, signs)
            loss.backward()  # type: ignore[no-untyped-call]
            grad = told.grad
        stepped, _ = self.part.stepped(descent, None)
        return stepped, float(loss.detach()), np.zeros((0, 0)) if grad is None else grad.numpy()


def label_side(
    objective: TransferObjective, model: Mlp, width: int, rows: Array, y: Array, classes: int
) -> LabelSide:
    """The label holder's side, for its rows and labels."""
    return LabelSide(objective, representation(model, rows.shape[1], width), rows, signs_of(y, classes))


def partner_side(model: Mlp, width: int, rows: Array) -> TrainedPart:
    """The net of the party without labels, for the rows that both know."""
    return TrainedPart(representation(model, rows.shape[1], width), lambda part, x: part.module(x), rows)


def translated(made: Array, translator: Array) -> Array:
    """The scores of rows by what a net makes of them, float64 [rows, outputs]."""
    turned = own_tensor(translator).T
    return in_blocks(lambda rows: whole_lines(rows) @ turned, torch.from_numpy(np.array(made)))


@dataclass(frozen=True, eq=False)
class TransferredNet:
    """A trained net of the partner with the translator, ready for rows: no other columns are read."""

    net: NetPart
    columns: Array
    translator: Array
    objective: ScoreLoss
    sha256: str
    trees: int = 0
    """It is no sum of trees."""

    @classmethod
    def of(
        cls, arrays: Mapping[str, Array], model: Mlp, classes: int, target: tuple[float, float] = (0.0, 1.0)
    ) -> TransferredNet:
        """The net in such arrays, which may be a stranger's: ValueError where they are none."""
        columns, translator = int_array(arrays, "columns"), float_array(arrays, "translator", np.float64)
        objective = loss_of(classes, target)
        width = len(translator) // objective.outputs
        sound = width and len(translator) == width * objective.outputs and np.isfinite(translator).all()
        if not sound or not len(columns) or columns.min() < 0:
            raise ValueError("these arrays are no net with a translator")
        net = representation(model, len(columns), width)
        fill([net], float_array(arrays, "weights", np.float64))
        return cls(net, columns, translator.reshape(-1, width), objective, digest(arrays))

    def margins(self, x: Any, first: int = 0, last: int | None = None) -> Array:
        """The scores of rows [rows, all columns], float64 [rows, outputs]; all of them, whatever the range."""
        return translated(self.net.in_blocks(chosen(x, self.columns)), self.translator)

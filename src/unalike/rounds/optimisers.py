"""Local optimisers on flat vectors.

Each is a frozen dataclass without state of its own: ``init`` makes the slots for one weight vector or a
stack of them, ``step`` updates weights and slots in place. A party starts every round with fresh slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar, dataclass_transform

from unalike.errors import UserError
from unalike.own_code import called, check_signature, is_own, place
from unalike.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

C = TypeVar("C", bound=type)

Slots = dict[str, "Tensor"]

LARGEST = 1e20
"""The most that a learning rate or a weight decay may be; the least learning rate is 1 / LARGEST.

A step multiplies by them in float32, which ends at 3e38, and Adam first divides the rate by 1 - beta, which may be
1e-16. Below the least rate no step moves a weight.
"""
USUAL_RATE = 0.1
"""The learning rate where none is given, unless the optimiser has one of its own (docs/defaults.md)."""


def usual_rate(optimiser: object) -> float:
    """The learning rate for an optimiser where none is given."""
    return float(getattr(optimiser, "usual_rate", USUAL_RATE))


class LocalOptimiser(Protocol):
    """How a party turns gradients into weights."""

    def init(self, w: Tensor) -> Slots:
        """Fresh slots for the weights ``w`` (a vector, or a stack of vectors)."""
        ...

    @property
    def weight_decay(self) -> float:
        """What the engine adds to the gradient, times the weights, before the algorithm corrects it."""
        ...

    def step(self, w: Tensor, grad: Tensor, slots: Slots, lr: float, step: int) -> None:
        """Update ``w`` and ``slots`` in place; ``step`` counts from 0 in each round."""
        ...

    def step_sum(self, steps: Tensor) -> Tensor:
        """How far ``steps`` unit gradients move the weights, in units of the learning rate."""
        ...


OPTIMISERS: Registry[LocalOptimiser] = Registry("optimiser")


@dataclass_transform(frozen_default=True)
def register_optimiser(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a local optimiser."""
    return OPTIMISERS.register(name, paper=paper)


def build_optimiser(text: str) -> LocalOptimiser:
    """The optimiser that ``text`` describes; one of the user's own is first tried on two weights."""
    optimiser = OPTIMISERS.build(text)
    if is_own(optimiser):
        _try(optimiser)
    return optimiser


def _try(optimiser: LocalOptimiser) -> None:
    import torch

    name = type(optimiser).__name__
    if not isinstance(getattr(optimiser, "weight_decay", None), int | float):
        raise UserError(f"{name} needs weight_decay, a number. Write weight_decay: float = 0.0.")
    w = torch.zeros(2)
    slots = called(optimiser, "init", LocalOptimiser.init, w, returns=dict)
    if not all(isinstance(slot, torch.Tensor) and slot.shape[:1] == w.shape for slot in slots.values()):
        raise UserError(f"{place(optimiser, 'init')} must return tensors like the weights, one for each slot.")
    arguments = (w, torch.ones(2), slots, 0.1, 0)
    called(optimiser, "step", LocalOptimiser.step, *arguments, returns=type(None))
    check_signature(optimiser, "step_sum", LocalOptimiser.step_sum)


def _check(name: str, **values: tuple[float, float, float]) -> None:
    for key, (value, low, high) in values.items():
        if not low <= value < high:
            raise UserError(f"{name}'s {key} must be at least {low} and below {high}, got {value}.")


@register_optimiser("sgd", paper="Robbins and Monro 1951; momentum: Polyak 1964")
class Sgd:
    """Stochastic gradient descent, with momentum and weight decay as in torch.optim.SGD."""

    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check("sgd", momentum=(self.momentum, 0, 1), weight_decay=(self.weight_decay, 0, LARGEST))

    def init(self, w: Tensor) -> Slots:
        """The velocity, where there is momentum."""
        return {"velocity": w.new_zeros(w.shape)} if self.momentum else {}

    def step(self, w: Tensor, grad: Tensor, slots: Slots, lr: float, step: int) -> None:
        """w <- w - lr v, with v <- rho v + g."""
        if self.momentum:
            grad = slots["velocity"].mul_(self.momentum).add_(grad)
        w.sub_(grad, alpha=lr)

    def step_sum(self, steps: Tensor) -> Tensor:
        """Tau without momentum, else (tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho).

        The velocity after step t of unit gradients is (1 - rho^t) / (1 - rho); this is its sum over
        t = 1..tau. (FedNova, Wang et al. 2020, arXiv:2007.07481, section 4.)
        """
        rho = self.momentum
        if not rho:
            return steps
        return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)


class _Adaptive:
    """Optimisers whose step is not linear in the gradients: it is about as long as the learning rate."""

    usual_rate: ClassVar[float] = 0.001

    def step_sum(self, steps: Tensor) -> Tensor:
        """Not defined: the step is not a fixed multiple of the gradients."""
        raise UserError(
            f"This algorithm needs to know how far the local steps go, which {type(self).__name__.lower()} "
            "cannot tell. Use --optimiser sgd."
        )


@register_optimiser("rmsprop", paper="Tieleman and Hinton 2012; as in torch.optim.RMSprop")
class RmsProp(_Adaptive):
    """Gradient divided by a running root mean square, as in torch.optim.RMSprop."""

    alpha: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check("rmsprop", alpha=(self.alpha, 0, 1), weight_decay=(self.weight_decay, 0, LARGEST))
        _check("rmsprop", epsilon=(self.epsilon, 1e-12, LARGEST))

    def init(self, w: Tensor) -> Slots:
        """The running mean of squared gradients."""
        return {"square": w.new_zeros(w.shape)}

    def step(self, w: Tensor, grad: Tensor, slots: Slots, lr: float, step: int) -> None:
        """w <- w - lr g / (sqrt(s) + eps), with s <- alpha s + (1 - alpha) g^2."""
        square = slots["square"].mul_(self.alpha).addcmul_(grad, grad, value=1 - self.alpha)
        w.addcdiv_(grad, square.sqrt().add_(self.epsilon), value=-lr)


@register_optimiser("adam", paper="Kingma and Ba 2015 (arXiv:1412.6980), Algorithm 1")
class Adam(_Adaptive):
    """Adam with bias correction, as in torch.optim.Adam."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check("adam", beta1=(self.beta1, 0, 1), beta2=(self.beta2, 0, 1))
        _check("adam", weight_decay=(self.weight_decay, 0, LARGEST), epsilon=(self.epsilon, 1e-12, LARGEST))

    def init(self, w: Tensor) -> Slots:
        """The running means of gradients and of their squares."""
        return {"first": w.new_zeros(w.shape), "second": w.new_zeros(w.shape)}

    def step(self, w: Tensor, grad: Tensor, slots: Slots, lr: float, step: int) -> None:
        """w <- w - lr m^ / (sqrt(v^) + eps)."""
        first = slots["first"].mul_(self.beta1).add_(grad, alpha=1 - self.beta1)
        second = slots["second"].mul_(self.beta2).addcmul_(grad, grad, value=1 - self.beta2)
        scale = (1 - self.beta2 ** (step + 1)) ** 0.5
        w.addcdiv_(first, (second.sqrt() / scale).add_(self.epsilon), value=-lr / (1 - self.beta1 ** (step + 1)))

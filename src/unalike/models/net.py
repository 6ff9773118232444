"""What a net is to all who train it: a body that makes features, and a head that turns them into logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from unalike.errors import UserError


class Net(nn.Module):
    """A net in two parts: ``body`` makes the features, ``head`` turns them into logits."""

    place: str | None = None
    """Where the head was in a module of the user's own, by its names; None: the net was not made of one."""
    begins_alike: bool = False
    """Whether all nets that are made of it begin with the same weights, because these were given."""
    mixes_rows: bool = False
    """Whether what it says of a row depends on the other rows of the batch, normalising layers aside."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and features of a batch."""
        features = self.body(x)
        return self.head(features), features


def no_head() -> UserError:
    """The error for an algorithm that needs a head, where the net was said to have none."""
    return UserError(
        "This algorithm reads features or splits the net, but the net has no head (head=none). Name its last "
        "linear layer with head=..., or choose another algorithm, such as fedavg."
    )


class NoFeatures:
    """Stands where features would be: whoever touches them is told in one line that there are none."""

    def __getattr__(self, name: str) -> Any:
        raise no_head()

    @classmethod
    def __torch_function__(cls, *given: Any, **more: Any) -> Any:
        """Any function of torch that gets it: an error."""
        raise no_head()


class WholeNet(Net):
    """A module that is not taken apart: all of it is the body, and there are no features."""

    place = ""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, nn.Identity())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and what stands for features."""
        return self.body(x), NoFeatures()  # type: ignore[return-value]  # it raises when it is used as one


class Tap(nn.Module):
    """Stands where the head was: calls it, and remembers what it was given. The net itself owns the head."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self._whose = [head]  # in a list, so that its weights are not the body's too
        self._seen: Tensor | None = None

    def forward(self, features: Tensor) -> Any:
        """What the head makes of the features."""
        self._seen = features
        return self._whose[0](features)

    def taken(self) -> Tensor:
        """The features of the last call, which are then forgotten."""
        seen, self._seen = self._seen, None
        if seen is None:
            raise UserError(
                "The head of this net was not called. Give the layer that makes the logits as head=..."
            )
        return seen


class TappedNet(Net):
    """A module that goes on after its head, such as to scale the logits: its forward is run as a whole."""

    def __init__(self, module: nn.Module, head: nn.Module, tap: Tap) -> None:
        super().__init__(module, head)
        self._tap = [tap]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the features that the head was given."""
        logits = self.body(x)
        return logits, self._tap[0].taken()


def own_names(net: Net) -> dict[str, str]:
    """By the names of a net's tensors, those that they have in the user's own module; no change in other nets."""
    names = [name for name, _ in net.named_parameters(remove_duplicate=False)]
    names += [name for name, _ in net.named_buffers(remove_duplicate=False)]
    return {name: own_name(net, name) for name in names}


def own_name(net: Net, name: str) -> str:
    """The name that a tensor or a layer of the net has in the user's own module."""
    part, _, rest = name.partition(".")
    if net.place is None:
        return name
    if part == "body":
        return rest
    return ".".join(filter(None, (net.place, rest)))


def whole_module(net: Net) -> nn.Module:
    """The user's own module again, with its own names, from the net that was made of it; other nets as they are.

    The net is taken apart for it, and must not be used any more.
    """
    for layer in net.modules():
        vars(layer).pop("train", None)  # what kept a frozen part in evaluation mode
    if net.place is None or isinstance(net, WholeNet):
        return net if net.place is None else net.body
    if not net.place:
        return net.head
    put(net.body, net.place, net.head)
    return net.body


def loaded_module(net: Net, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A net with these tensors by its own names, in evaluation mode: the user's own module, where it is of one.

    The net is used up by it.
    """
    held = net.state_dict(keep_vars=True)
    given = {id(held[name]) for name in tensors if name in held}  # a tied weight has one of its names
    wrong = [name for name in tensors if name not in held]
    wrong += [name for name, value in held.items() if id(value) not in given]
    if wrong:
        raise UserError(f"These are not the tensors of this net: {', '.join(wrong[:5])} do not fit.")
    kinds = {value.dtype for value in tensors.values() if value.is_floating_point()}
    net = net.to(kinds.pop()) if len(kinds) == 1 else net
    try:
        net.load_state_dict(dict(tensors), strict=False)
    except RuntimeError as error:
        raise UserError(f"These are not the tensors of this net: {' '.join(str(error).split())}") from None
    return whole_module(net).eval()


def put(module: nn.Module, name: str, layer: nn.Module) -> None:
    """Set a layer of a module by its dotted name."""
    parent, _, last = name.rpartition(".")
    setattr(module.get_submodule(parent), last, layer)

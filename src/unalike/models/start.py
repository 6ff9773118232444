"""What a net begins with: weights from a file, and layers that stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from unalike.errors import UserError, unknown
from unalike.models.net import Net, own_name

_MOST = 5
"""Names in a message."""


def started(net: Net, tensors: Mapping[str, Tensor], source: str) -> Net:
    """The net with the weights of a file, which may lack the head, or have one of another width.

    Their names are those of the user's own module, where the net is one, or those of a run's weights. A name that
    is missing, or too many, or a layer of another shape, is an error that lists them.
    """
    held = net.state_dict(keep_vars=True)
    names = {own_name(net, name): name for name in held}, {name: name for name in held}
    by_name = max(names, key=lambda known: sum(name in known for name in tensors))  # whose names these are
    found = {by_name[name]: value for name, value in tensors.items() if name in by_name}
    extra = [name for name in tensors if name not in by_name and not _of_head(net, name)]
    given = {id(held[name]) for name in found}  # a tied weight has one of its names
    missing = [
        own_name(net, name)
        for name, value in held.items()
        if id(value) not in given and not name.startswith("head.") and value.is_floating_point()
    ]
    if extra or missing:
        parts = [f"the net has no {_listed(extra)}"] * bool(extra) + [f"it has no {_listed(missing)}"] * bool(
            missing
        )
        raise UserError(f"{source} does not fit the net: {'; '.join(parts)}. Give the weights of such a net.")
    shaped = {name: value for name, value in found.items() if value.shape == held[name].shape}
    other = [name for name in found if name not in shaped and not name.startswith("head.")]
    if other:
        name = other[0]
        raise UserError(
            f"{source} does not fit the net: {own_name(net, name)} is {tuple(found[name].shape)} there, but "
            f"{tuple(held[name].shape)} in the net. Give the weights of such a net."
        )
    if not any(name.startswith("head.") and name not in shaped for name in held):
        net.begins_alike = True
    elif any(name.startswith("head.") for name in shaped):  # half a head would be no head
        shaped = {name: value for name, value in shaped.items() if not name.startswith("head.")}
    net.load_state_dict(shaped, strict=False)
    return net


def frozen(net: Net, names: Sequence[str]) -> Net:
    """The net with these layers or parameters frozen: neither trained nor sent.

    They are named as in the user's own module, or as in the net. Batch norm of a frozen layer stays in evaluation
    mode, so its statistics stay, too.
    """
    layers = dict(net.named_modules())
    parameters = dict(net.named_parameters(remove_duplicate=False))
    known = {name: name for name in [*layers, *parameters] if name}
    known |= {own_name(net, name): name for name in known if name not in ("body", "head") or own_name(net, name)}
    for name in names:
        if name not in known:
            raise unknown("layer to freeze", name, sorted(known))
        if known[name] in parameters:
            parameters[known[name]].requires_grad_(False)
        else:
            _freeze(layers[known[name]])
    return net


def _freeze(layer: nn.Module) -> None:
    layer.requires_grad_(False)
    for each in layer.modules():
        if isinstance(each, nn.modules.batchnorm._NormBase):
            each.eval()
            vars(each)["train"] = _stays


def _stays(mode: bool = True) -> None:
    """In place of ``train``: the layer stays in evaluation mode, whatever mode the net is put into."""


def _of_head(net: Net, name: str) -> bool:
    """Whether a name that the net does not have is one of its head, such as a bias that this one lacks."""
    return name.startswith(("head.", f"{net.place}." if net.place else "head."))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"

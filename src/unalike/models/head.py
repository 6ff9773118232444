"""The head of a module of the user's own, found by looking: the layer whose output is what ``forward`` returns."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from unalike.errors import UserError, unknown
from unalike.models.net import Net, Tap, TappedNet, WholeNet, put

NO_HEAD = "none"
"""What ``head`` says where the module is not to be taken apart."""
_ROWS = 2


@dataclass(frozen=True)
class Anatomy:
    """How a module is taken apart: where its head is (None: nowhere), and what else was seen of it.

    ``ends``: the head's output is what the module returns. ``mixes``: rows of a batch depend on each other.
    """

    head: str | None
    ends: bool = True
    mixes: bool = False


@dataclass
class _Seen:
    """What a forward pass showed: the layers with weights in the order of their calls, and linear outputs."""

    answer: Any = None
    called: list[str] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)


def copied(module: object, who: str) -> nn.Module:
    """A copy to take apart: the one that was given is never changed."""
    if not isinstance(module, nn.Module):
        raise UserError(f"{who} must give a torch.nn.Module, got {type(module).__name__}. Return a net.")
    try:
        return copy.deepcopy(module)
    except Exception as error:  # whatever the attributes of a stranger's module raise
        raise UserError(f"{who} cannot be copied: {in_one_line(error)} Give its class, or a function.") from error


def examine(module: nn.Module, rows: Tensor, outputs: int, head: str, who: str) -> Anatomy:
    """Run the module on rows of zeros and say where its head is; refuse what cannot be trained as it is.

    Nothing of the module changes by it, and no random stream moves.
    """
    seen = _look(module, rows, who)
    _check_answer(seen.answer, outputs, rows, who)
    where, ends = _head(module, seen, head, outputs, who)
    found = Anatomy(where, ends)
    _check_parts(module, found, rows, who)
    return Anatomy(where, ends, _mixes(module, rows))


def take_apart(module: nn.Module, found: Anatomy, rows: Tensor) -> Net:
    """The net that a module is, which is used up by it."""
    if any(map(is_lazy, module.parameters())):
        _look(module, rows, type(module).__name__)
    net: Net
    if found.head is None:
        net = WholeNet(module)
    elif not found.head:  # a linear layer is its own head
        net = Net(nn.Identity(), module)
    else:
        head = module.get_submodule(found.head)
        tap = Tap(head)
        put(module, found.head, nn.Identity() if found.ends else tap)
        net = Net(module, head) if found.ends else TappedNet(module, head, tap)
    net.place, net.mixes_rows = found.head or "", found.mixes
    return net


@contextmanager
def untouched(module: nn.Module, training: bool = False) -> Iterator[None]:
    """In here a module is in that mode; afterwards its modes, statistics and all random streams are as before."""
    modes = [(layer, layer.training) for layer in module.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers() if not is_lazy(buffer)]
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            module.train(training)
            yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for layer, mode in modes:
            layer.training = mode


def _look(module: nn.Module, rows: Tensor, who: str) -> _Seen:
    seen = _Seen()

    def watch(name: str) -> Any:
        def after(layer: nn.Module, given: Any, output: Any) -> None:
            seen.called.append(name)
            if isinstance(layer, nn.Linear):
                seen.made[name] = output

        return after

    hooks = [
        layer.register_forward_hook(watch(name))
        for name, layer in module.named_modules()
        if list(layer.parameters(recurse=False))
    ]
    try:
        with untouched(module):
            seen.answer = module(_typed(rows, module))
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{who} fails on {len(rows)} rows of zeros, a tensor of shape {tuple(rows.shape)}: "
            f"{in_one_line(error)} Its forward must take such a tensor alone, and return logits."
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _check_answer(answer: Any, outputs: int, rows: Tensor, who: str) -> None:
    if not isinstance(answer, Tensor):
        kind = type(answer).__name__
        inside = f" with {', '.join(map(str, answer))}" if isinstance(answer, dict) and answer else ""
        raise UserError(
            f"{who} returns a {kind}{inside}, not a tensor. Return the logits alone: forward(x) -> logits."
        )
    if tuple(answer.shape) != (len(rows), outputs):
        raise UserError(
            f"{who} returns {tuple(answer.shape)} for {len(rows)} rows, but must return {outputs} logits each, "
            f"{(len(rows), outputs)}. Give its last layer {outputs} outputs."
        )
    if not answer.is_floating_point():
        raise UserError(f"{who} returns {answer.dtype}, not logits: return the last layer's output as it is.")


def _head(module: nn.Module, seen: _Seen, wanted: str, outputs: int, who: str) -> tuple[str | None, bool]:
    """The name of the head, and whether its output is what the module returns."""
    if wanted == NO_HEAD:
        return None, True
    ends = next((name for name, output in seen.made.items() if output is seen.answer), None)
    if wanted and wanted != ends:
        _check_named(module, seen, wanted, ends, outputs, who)
        _check_own(module, seen, wanted, who)
        return wanted, False
    if ends is None:
        raise UserError(f"{who}: no linear layer's output is what its forward returns. {_remedy(seen.answer)}")
    _check_own(module, seen, ends, who)
    return ends, True


def _remedy(answer: Tensor) -> str:
    sums = answer.sum(dim=1)
    if answer.shape[1] > 1 and bool((answer >= 0).all()) and torch.allclose(sums, torch.ones_like(sums)):
        return "It returns probabilities: return logits, so leave the softmax out."
    return (
        "Return logits as a last nn.Linear gives them, name that layer with head=NAME, or say head=none for "
        "algorithms that neither read features nor split the net."
    )


def _check_named(module: nn.Module, seen: _Seen, name: str, ends: str | None, outputs: int, who: str) -> None:
    """Refuse a head that the user named, where it cannot be the one."""
    layers = dict(module.named_modules())
    if name not in layers:
        raise unknown(f"layer of {who}", name, [each for each, layer in layers.items() if each])
    layer = layers[name]
    if not isinstance(layer, nn.Linear):
        raise UserError(f"{who}: {name} is a {type(layer).__name__}, but a head is one nn.Linear. Name that.")
    if ends is not None:
        raise UserError(
            f"{who}: the logits are what {ends} makes, not {name}. Use head={ends}, or leave head out."
        )
    if name not in seen.called:
        raise UserError(f"{who}: its forward does not call {name}. Name the linear layer that makes the logits.")
    later = [each for each in seen.called[seen.called.index(name) + 1 :] if each != name]
    if later:
        raise UserError(f"{who}: {later[0]} comes after {name}, which cannot be the head then. Name the last one.")
    if layer.out_features != outputs:
        raise UserError(f"{who}: {name} has {layer.out_features} outputs, but {outputs} are needed of a head.")
    if "probabilities" in (remedy := _remedy(seen.answer)):
        raise UserError(f"{who}: {remedy[0].lower()}{remedy[1:]}")


def _check_own(module: nn.Module, seen: _Seen, name: str, who: str) -> None:
    """Refuse a head that is called twice, or whose weights another layer has too."""
    if seen.called.count(name) > 1:
        raise UserError(
            f"{who}: {name} makes the logits, but is called {seen.called.count(name)} times. Give the logits a "
            "layer of their own, or say head=none."
        )
    own = {id(parameter) for parameter in module.get_submodule(name).parameters()}
    shared = [
        other
        for other, parameter in module.named_parameters(remove_duplicate=False)
        if id(parameter) in own and other.rpartition(".")[0] != name
    ]
    if shared:
        raise UserError(
            f"{who}: {name} makes the logits, but shares its weights with {shared[0]}: it cannot be trained or "
            "kept apart. Say head=none."
        )


def _check_parts(module: nn.Module, found: Anatomy, rows: Tensor, who: str) -> None:
    """Refuse a module that, taken apart, is another function: one that uses its head otherwise than by a call."""
    net = take_apart(copy.deepcopy(module), found, rows)
    trial = _drawn(rows)
    try:
        with untouched(module), untouched(net):
            before = _repeated(module, _typed(trial, module))
            logits = _repeated(net, _typed(trial, module))[0]
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{who} does more with its head {found.head} than to call it: {in_one_line(error)} Say head=none."
        ) from error
    if not torch.equal(torch.nan_to_num(before), torch.nan_to_num(logits)):
        raise UserError(f"{who} does more with its head {found.head} than to call it. Say head=none.")


def _mixes(module: nn.Module, rows: Tensor) -> bool:
    """Whether a further row in the batch changes what the module says of the others."""
    norm = any(isinstance(layer, nn.modules.batchnorm._NormBase) for layer in module.modules())
    more = torch.cat([trial := _drawn(rows), 3 * trial[:1] + (not rows.is_floating_point())])
    for training in (False, not norm):
        try:
            with untouched(module, training):
                alone = _repeated(module, _typed(trial, module))
                if torch.default_generator.get_state().ne(_seeded()).any():
                    continue  # it draws: dropout, which engines know of
                beside = _repeated(module, _typed(more, module))[: len(trial)]
        except Exception:  # such as of a token that there is not: then it cannot be tried
            continue
        if not torch.allclose(alone, beside, rtol=1e-3, atol=1e-4, equal_nan=True):
            return True
    return False


def _repeated(module: nn.Module, rows: Tensor) -> Any:
    """What a module says; what it draws are the same numbers each time."""
    torch.default_generator.manual_seed(0)
    return module(rows)


def _seeded() -> Tensor:
    return torch.Generator().manual_seed(0).get_state()


def _drawn(rows: Tensor) -> Tensor:
    """Rows that are not all zeros, from a stream of their own; tokens stay the first one."""
    if not rows.is_floating_point():
        return rows
    return torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))


def _typed(rows: Tensor, module: nn.Module) -> Tensor:
    """The rows in the precision of the module's weights, and where these are."""
    weights = [p for p in module.parameters() if p.is_floating_point() and not is_lazy(p)]
    if not weights:
        return rows
    return rows.to(weights[0].device, weights[0].dtype if rows.is_floating_point() else None)


def in_one_line(error: Exception) -> str:
    """An error of somebody else's code in one line, with its place where that is not inside a package."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f for f in frames if "site-packages" not in f.filename and "unalike" not in Path(f.filename).parts[-3:-1]
    ]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{reason[:300].rstrip('.')}{where}."

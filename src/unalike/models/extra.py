"""A further net that an algorithm brings along, such as a generator, as a function of a flat vector of its own."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.func import functional_call

from unalike.errors import UserError
from unalike.models.layout import WeightLayout

if TYPE_CHECKING:
    import numpy as np

    from unalike.models.task import Task


class _Template(threading.local):
    """The net's structure, one for every thread: a call puts its weights into it for as long as it lasts."""

    def __init__(self, net: nn.Module) -> None:
        self.net = copy.deepcopy(net)


class Extra:
    """A net beside the task's own: ``extra(w, *inputs)`` is its output under the weights ``w``.

    Its template is made when the extra is, never inside a stacked call, where nothing may be drawn. Layers with
    running statistics or dropout are refused: an engine does not carry statistics or random numbers for extras.
    """

    def __init__(
        self, make: Callable[[], nn.Module], stream_of: Callable[[int], np.random.Generator], task: Task
    ) -> None:
        self._make, self._stream_of = make, stream_of
        self._dtype, self._device = task.dtype, task.device
        net = self._fresh(0)
        if list(net.buffers()):
            raise UserError(
                "An extra net cannot have buffers, such as the statistics of batch norm. Use nn.LayerNorm."
            )
        if any(isinstance(module, nn.modules.dropout._DropoutNd) for module in net.modules()):
            raise UserError("An extra net cannot have dropout. Leave it out, or draw with batch.normal.")
        self._layout = WeightLayout(dict(net.named_parameters()))
        self._templates = _Template(net.to("meta"))

    @property
    def size(self) -> int:
        """The number of its weights."""
        return self._layout.size

    def initial(self, which: int = 0) -> Tensor:
        """Its ``which``-th independent random initial weight vector."""
        net = self._fresh(which)
        return self._layout.flatten(dict(net.named_parameters()), self._dtype).to(self._device)

    def __call__(self, w: Tensor, *inputs: Any) -> Any:
        """What the net makes of the inputs under the weights ``w``."""
        return functional_call(self._templates.net, self._layout.unflatten(w), inputs)

    def _fresh(self, which: int) -> nn.Module:
        from unalike.models.streams import own_torch_stream

        with own_torch_stream(self._stream_of(which)):
            return self._make()

"""A task: a net, its loss, and the map between its layers and ONE FLAT VECTOR of weights."""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.models.byte_scale import ByteScale
from unalike.models.channels_last import gains, innermost
from unalike.models.derivatives import Derivatives, NetOperation, RowJudge
from unalike.models.extra import Extra
from unalike.models.layout import Places, WeightLayout, slices_of, tensors_digest
from unalike.models.loss import CrossEntropy, Loss
from unalike.models.net import Net, WholeNet, loaded_module, no_head
from unalike.models.parts import Parts
from unalike.models.streams import own_torch_stream
from unalike.randomness import stream


def without_running_statistics(net: Net) -> Net:
    """The net with its batch norm layers always using the batch at hand, in evaluation too."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return net


class _Templates(threading.local):
    """The net's structure in training and in evaluation, one of each for every thread.

    A call puts its weights into the net for as long as it lasts: two threads would see each other's.
    """

    def __init__(self, template: Net) -> None:
        self.training = copy.deepcopy(template).train()
        self.evaluating = copy.deepcopy(template).eval()


class Task(Derivatives):
    """A net and its loss on a kind of data, as functions of a flat weight vector.

    ``objective`` is the loss, ``shape`` that of a row, ``classes`` how many classes there are (0 where the task is
    regression; then ``batch.y`` are standardised numbers, and the net has one output).

    ``slices`` maps a layer's or parameter's name ("head", "body.0", "head.weight") to its slice of the
    vector; the body comes first and the head last. A frozen parameter (``requires_grad`` is False) is no part of
    the vector, and its slice is empty: it is a constant of the net, which nothing can train, send or average.
    ``public`` holds rows that the server itself owns, ``population`` is the number of parties, ``nets`` the tasks
    of all nets of the run, this one among them: party k has the k-th, counted round and round.
    ``least_opened`` is how many parties there must be in any part of a sum for it to be opened: 1, unless the
    channel hides single uploads. ``rehearsing`` says that nothing will be made of what the server learns now.
    ``byte_scale`` is how rows became numbers that are bytes in memory, else None. Where the engine has something
    faster than the net, ``operation`` computes (w, x) -> logits, features in its place, and ``judge`` tells how
    well models do on rows as they are kept.
    """

    def __init__(
        self,
        make_net: Callable[[], Net],
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        public: Batch | None = None,
        population: int = 0,
        objective: Loss | None = None,
        shape: tuple[int, ...] = (),
        classes: int = 0,
        byte_scale: ByteScale | None = None,
    ) -> None:
        self._make_net = make_net
        self.objective: Loss = objective or CrossEntropy()
        self.shape = shape
        self.classes = classes
        self.byte_scale = byte_scale
        self.seed = seed
        self.dtype = dtype
        self.device = torch.device(device)
        self._public = public
        self.population = population
        self.nets: tuple[Task, ...] = (self,)
        self.least_opened = 1
        self.rehearsing = False
        self.operation: NetOperation | None = None
        self.judge: RowJudge | None = None
        self._extras: dict[str, Extra] = {}
        net = self._fresh_net(0).train()
        named = dict(net.named_parameters())
        self.parameters = WeightLayout({n: p for n, p in named.items() if p.requires_grad})
        if not self.parameters.size:
            raise UserError("The net has nothing to train: no weights, or all are frozen. Leave its head free.")
        # A frozen layer's slice is empty, and so is that of a body or a head without weights.
        ends = {"body": slice(0, 0), "head": slice(self.size, self.size)}
        sizes = {n: p.numel() if p.requires_grad else 0 for n, p in named.items()}
        self.slices = Places(ends | slices_of(sizes), headless=isinstance(net, WholeNet))
        self._sort_buffers(net)
        self.parts = Parts(net, self.slices, self.buffers.names)
        # Looking for tied weights takes longer than a small layer: only where there are any.
        self._tied = len(named) < len(list(net.named_parameters(remove_duplicate=False)))
        # Every parameter is replaced at every call, so the templates hold none: they live on the meta device
        # (moving there would untie tied weights).
        template = net if self._tied else net.to("meta")
        self._templates = _Templates(template)
        self._channels_last = gains(template, dtype, self.device)

    def _sort_buffers(self, net: Net) -> None:
        """Tell running statistics, which training changes, from what never changes.

        Constants are frozen parameters, buffers that are no part of the state (``persistent=False``), and the
        statistics of layers that stay in evaluation mode although the net is in training mode.
        """
        state = net.state_dict().keys()
        still = {id(b) for module in net.modules() if not module.training for b in module.buffers(recurse=False)}
        buffers = dict(net.named_buffers())
        self.buffers = WeightLayout(
            {n: b for n, b in buffers.items() if b.is_floating_point() and n in state and id(b) not in still}
        )
        self._initial_buffers = self.buffers.flatten(buffers, self.dtype).to(self.device)
        others = {n: b for n, b in buffers.items() if n not in self.buffers.names}
        # Counters, such as of batches: the net changes them, nobody reads them.
        self._counters = {
            n: b.to(self.device) for n, b in others.items() if n in state and not b.is_floating_point()
        }
        frozen = {n: p.detach() for n, p in net.named_parameters() if not p.requires_grad}
        self._constants = {
            n: v.to(self.device, self.dtype if v.is_floating_point() else v.dtype)
            for n, v in (frozen | others).items()
            if n not in self._counters
        }
        self._kept_constants = {n: v for n, v in self._constants.items() if n in state}

    @property
    def public(self) -> Batch:
        """Rows that the server owns."""
        if self._public is None:
            raise UserError("This algorithm uses public rows, of which there are none. Give some: --public 0.1.")
        return self._public

    @public.setter
    def public(self, rows: Batch) -> None:
        self._public = rows

    @property
    def size(self) -> int:
        """The number of weights that are trained."""
        return self.parameters.size

    @cached_property
    def constants_digest(self) -> str:
        """SHA-256 of what the net computes with but never trains, or nothing where there is no such thing."""
        return tensors_digest(self._constants) if self._constants else ""

    @property
    def net(self) -> Net:
        """The net's structure, without values: for those who must look at its layers."""
        return self._templates.evaluating

    @property
    def feature_size(self) -> int:
        """How many numbers the body makes of a row."""
        if isinstance(self.net, WholeNet):
            raise no_head()
        layer = next((m for m in self.net.head.modules() if isinstance(m, nn.Linear)), None)
        if layer is None:
            raise UserError("This algorithm needs a net whose head is a linear layer. Choose another --model.")
        return layer.in_features

    @property
    def has_batch_norm(self) -> bool:
        """Whether a layer normalises by statistics of the batch."""
        return any(isinstance(module, nn.modules.batchnorm._NormBase) for module in self.net.modules())

    @cached_property
    def rows_are_apart(self) -> bool:
        """Whether a row is evaluated by itself; not so by batch norm without running statistics."""
        return not self.net.mixes_rows and (self.buffers.size > 0 or not self.has_batch_norm)

    def initial(self, which: int = 0) -> Tensor:
        """The ``which``-th independent random initial weight vector of this run (0 is the run's own)."""
        net = self._fresh_net(which)
        if which and net.begins_alike:
            raise UserError(
                "This algorithm begins with several models that differ, but the weights to begin with were given. "
                "Leave init out, or give a file without the head."
            )
        return self.parameters.flatten(dict(net.named_parameters()), self.dtype).to(self.device)

    def initial_buffers(self) -> Tensor:
        """The running statistics of a fresh net."""
        return self._initial_buffers.clone()

    def positions(self, *parts: str) -> Tensor:
        """Where the weights of some parts are in the flat vector: "head", "body", "norm", or layers' names."""
        found = [torch.arange(span.start, span.stop) for span in self.parts.spans(*parts)]
        return torch.cat([torch.zeros(0, dtype=torch.int64), *found]).to(self.device)

    def extra(self, name: str, make: Callable[[], nn.Module]) -> Extra:
        """A further net of an algorithm's own, such as a generator or a judge, with a flat vector of its own.

        It is made once for a run and a name, from the run's seed: its weights are concatenated by ``start``.
        """
        if name not in self._extras:
            place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
            self._extras[name] = Extra(make, lambda which: stream(self.seed, "extra", place, which), self)
        return self._extras[name]

    def join(self, body: Tensor, head: Tensor) -> Tensor:
        """A whole weight vector from its body and its head."""
        return torch.cat([body, head])

    def forward(self, w: Tensor, batch: Batch, track: bool = True) -> tuple[Tensor, Tensor]:
        """Logits and features of the batch under the weights ``w``.

        In training, ``track=False`` leaves the running statistics alone: for a second model in the same loss, such
        as MOON's frozen ones.
        """
        if self.operation is not None:
            return self.operation(w, batch.x)
        tensors, x = self.parameters.unflatten(w) | self._constants, batch.x
        if self._channels_last and not torch._C._are_functorch_transforms_active():
            tensors, x = {name: innermost(value) for name, value in tensors.items()}, innermost(x)
        if self.buffers.size or self._counters:
            # On a copy: a layer updates its statistics in place, which a second forward's gradient would notice.
            statistics = (self._initial_buffers if batch.buffers is None else batch.buffers).clone()
            tensors |= self.buffers.unflatten(statistics)
            tensors |= {name: value.clone() for name, value in self._counters.items()}
        net = self._templates.training if batch.training else self._templates.evaluating
        try:
            logits, features = functional_call(net, tensors, (x,), tie_weights=self._tied)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise UserError(
                "Batch norm cannot take a batch of one row. Use --drop-last, or another --batch-size or --model."
            ) from None
        if batch.training and track and batch.buffers is not None and self.buffers.size:
            batch.buffers.copy_(statistics.detach())
        return logits, features

    def logits(self, w: Tensor, batch: Batch, track: bool = True) -> Tensor:
        """The logits of the batch."""
        return self.forward(w, batch, track)[0]

    def features(self, w: Tensor, batch: Batch, track: bool = True) -> Tensor:
        """What the body makes of the batch: the layer before the head."""
        if isinstance(self.net, WholeNet):
            raise no_head()
        return self.forward(w, batch, track)[1]

    def loss(self, w: Tensor, batch: Batch, track: bool = True) -> Tensor:
        """The mean of the task's loss over the batch's real rows: cross-entropy, unless another was chosen."""
        return self.loss_of(self.logits(w, batch, track), batch)

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The same, where the logits are at hand (an algorithm that also needs the features has both)."""
        if batch.mask is None:
            return self.objective.mean(logits, batch.y)
        return batch.mean(self.objective.losses(logits, batch.y))

    def named(self, w: Tensor, buffers: Tensor) -> dict[str, Tensor]:
        """Weights, frozen ones too, and buffers by layer name, as an ordinary PyTorch state dict."""
        return self.trained(w, buffers) | self._kept_constants | self._counters

    def trained(self, w: Tensor, buffers: Tensor) -> dict[str, Tensor]:
        """The same without what training never changes."""
        return self.parameters.unflatten(w) | self.buffers.unflatten(buffers)

    def module(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """The module with these tensors, which have the names that :meth:`named` gives them, in evaluation mode.

        A net of the user's own is the user's own module again, with its own names: it maps rows to logits.
        """
        return loaded_module(self._fresh_net(0), tensors)

    def generator(self, *place: int) -> torch.Generator:
        """A random stream of the server's own; ``place`` (a round, say) tells streams apart."""
        return torch.Generator().manual_seed(int(stream(self.seed, "server", *place).integers(2**63)))

    def public_part(self, round: int, share: float) -> Tensor:
        """Which public rows a round is about, where that is a share of them: drawn anew, the same for all."""
        count = len(self.public.y)
        order = stream(self.seed, "public part", round).permutation(count)[: max(1, int(share * count + 0.5))]
        return torch.from_numpy(np.sort(order)).to(self.device)

    def _fresh_net(self, which: int) -> Net:
        with own_torch_stream(stream(self.seed, "model", which)):
            return self._make_net()

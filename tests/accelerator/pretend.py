"""A pretend accelerator: a device of PyTorch's, made in Python, that holds real values in the processor's memory.

Tensors on ``pretend:0`` are computed with by the processor's own operations, so that a run on it has the bits of
a run on the processor. But they refuse what a real accelerator refuses: to be mixed with the processor's tensors
(0-d ones excepted), and to be read as NumPy arrays; and what is drawn on it comes from a stream of its own. What
needs the processor's memory must ask for it (``.cpu()``, ``.to(...)``), as on a real one.

It is stricter than CUDA in one place: rows are not picked by the processor's numbers (``x[index]``), which CUDA
carries over without a word, one transfer each time.

PyTorch counts devices at the first backward pass of a process, so ``install`` comes before it.
"""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
KEY = "PrivateUse1"
aten = torch.ops.aten

OTHERS = ("sparse", "quantized", "cudnn", "mkldnn", "nested", "_make_dep_token", "from_file")
"""Parts of the names of operations that make kinds of tensors which this device does not have."""

_kept = []  # registrations last as long as the library


class Pretend(Tensor):
    """A tensor of the pretend device: ``held`` has its values, in the processor's memory."""

    @staticmethod
    def __new__(cls, held):
        return Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )

    def __init__(self, held):
        self.held = held

    def __repr__(self):
        return f"pretend({self.held})"

    def tolist(self):
        return self.held.tolist()

    def numpy(self, *, force=False):
        if force:
            return self.held.numpy(force=True)
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def __array__(self, dtype=None):
        return self.numpy()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation, types, given=(), named=None):
        return computed(operation, given, named or {})


class Plan:
    """What must be known of an operation, found out once."""

    def __init__(self, operation):
        arguments, returns = operation._schema.arguments, operation._schema.returns
        self.draws = torch.Tag.nondeterministic_seeded in operation.tags
        written = {frozenset(a.alias_info.before_set): (i, a.name) for i, a in enumerate(arguments) if _writes(a)}
        self.written = [written.get(frozenset(r.alias_info.before_set)) if _writes(r) else None for r in returns]


def _writes(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


@functools.cache
def plan_of(operation):
    return Plan(operation)


def computed(operation, given, named):
    """What the operation makes of the values, on the device that it should be on."""
    if operation is aten._local_scalar_dense.default:
        backend.waits += 1
    if operation is aten.copy_.default:
        backend.waits += not isinstance(given[0], Pretend)
        _plain(given[0]).copy_(_plain(given[1]))
        return given[0]
    if operation is aten._copy_from.default:
        _plain(given[1]).copy_(_plain(given[0]))
        return given[1]
    tensors = []
    plain = [_opened(value, tensors) for value in given]
    there = {key: _opened(value, tensors) for key, value in named.items()}
    if operation is not aten._to_copy.default:
        _refuse_mixtures(operation, tensors)
    leaves = there.get("device") is not None and torch.device(there["device"]).type != NAME
    if there.get("device") is not None and not leaves:
        there["device"] = torch.device("cpu")
    backend.waits += leaves and torch.device(there["device"]).type == "cpu"
    plan = plan_of(operation)
    with backend.drawing() if plan.draws else nullcontext():
        found = operation(*plain, **there)
    if torch.Tag.inplace_view in operation.tags:
        with no_dispatch():
            operation(*given, **named)  # the tensor itself gets the new shape, too
    return _placed(found, plan.written, given, named, leaves)


def _opened(value, tensors):
    """A value that an operation is given, as the processor may use it; ``tensors`` collects those in it."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _plain(value)
    return [_opened(each, tensors) for each in value] if type(value) in (list, tuple) else value


def _placed(found, written, given, named, leaves):
    """Results as tensors of the device; what was changed in place is the tensor that was given."""
    if len(written) == 1:
        if written[0] is not None:
            place, name = written[0]
            return given[place] if place < len(given) else named[name]
        return _on_device(found, leaves)
    made = [_on_device(each, leaves) for each in found]
    for i, place in enumerate(written):
        if place is not None:
            made[i] = given[place[0]] if place[0] < len(given) else named[place[1]]
    return tuple(made) if written else None


def _on_device(value, leaves):
    if isinstance(value, Tensor):
        return value if leaves else Pretend(value)
    return type(value)(_on_device(each, leaves) for each in value) if type(value) in (list, tuple) else value


def _refuse_mixtures(operation, tensors):
    """Raise as an accelerator does where tensors of the processor come along; single numbers may."""
    strange = next((each for each in tensors if not isinstance(each, Pretend) and each.dim()), None)
    if strange is not None and any(isinstance(each, Pretend) for each in tensors):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and "
            f"{strange.device}! ({operation}, {tuple(strange.shape)})"
        )


def _plain(value):
    return value.held if isinstance(value, Pretend) else value


class Backend:
    """What ``torch.pretend`` is: the device's own random numbers, and whether it is there."""

    def __init__(self):
        self.generator, self.there = torch.Generator(), True
        self.default_generators = (self.generator,)
        self.waits = 0
        """how often something was carried to the processor, which waits for it"""
        self._one_at_a_time = threading.Lock()

    def init(self):
        pass

    @contextmanager
    def drawing(self):
        """What is drawn in here comes from the device's stream: the processor's operation knows its own alone."""
        with self._one_at_a_time:
            before = torch.default_generator.get_state()
            torch.default_generator.set_state(self.generator.get_state())
            try:
                yield
            finally:
                self.generator.set_state(torch.default_generator.get_state())
                torch.default_generator.set_state(before)

    def is_available(self):
        return self.there

    def is_initialized(self):
        return True

    def device_count(self):
        return 1

    def current_device(self):
        return 0

    def _is_in_bad_fork(self):
        return False

    def manual_seed(self, seed):
        self.generator.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device=None):
        return self.generator.get_state()

    def set_rng_state(self, state, device=None):
        self.generator.set_state(state)


backend = Backend()


def install():
    """Make it a device of this process, until its end."""
    if _kept:
        return
    _setup_privateuseone_for_python_backend(NAME, backend_module=backend)
    library = torch.library.Library("aten", "IMPL")
    for name, operation in _makers():
        library.impl(name, _made_by(operation), KEY)
    library.impl("lstm.input", lstm, f"Autograd{KEY}")
    library.impl("_copy_from", lambda *given, **named: computed(aten._copy_from.default, given, named), KEY)
    _kept.append(library)


def lstm(rows, state, weights, biases, layers, dropout, training, both_ways, batch_first):
    """An LSTM cell by cell: for devices PyTorch has a fused cell, which the processor has not."""
    assert biases
    assert not both_ways
    assert not dropout
    steps = rows.transpose(0, 1) if batch_first else rows
    ends = []
    for layer in range(layers):
        from_rows, from_state, one, other = weights[4 * layer : 4 * layer + 4]
        h, c = (each[layer] for each in state)
        seen = []
        for row in steps:
            i, f, g, o = (row @ from_rows.T + one + h @ from_state.T + other).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            seen.append(h)
        steps = torch.stack(seen)
        ends.append((h, c))
    out = steps.transpose(0, 1) if batch_first else steps
    return (out, *(torch.stack(each) for each in zip(*ends, strict=True)))


def _made_by(operation):
    if operation is aten._efficientzerotensor.default:  # it has no values, and those who know that are not asked
        operation = aten.zeros.default
    return lambda *given, **named: computed(operation, given, named)


def _makers():
    """Every operation that makes tensors from none, such as ``zeros`` and ``arange``."""
    for full in torch._C._dispatch_get_all_op_names():
        space, _, name = full.partition("::")
        if space != "aten" or any(part in name for part in OTHERS):
            continue
        base, _, overload = name.partition(".")
        operation = getattr(getattr(aten, base), overload or "default", None)
        arguments = operation._schema.arguments if operation is not None else []
        if any(each.name == "device" for each in arguments) and not any(
            "Tensor" in str(a.type) for a in arguments
        ):
            yield name, operation

"""Further nets of an algorithm: functions of flat vectors, alone, in stacks and on threads."""

import time

import pytest
import torch
from torch import nn
from torch.func import vmap

from unalike.errors import UserError
from unalike.models import Mlp, Task
from unalike.rounds.threads import on_threads


def extra(make, **options):
    return Task(lambda: Mlp((5,)).build((6,), 4), **options).extra("further", make)


class _Waits(nn.Module):
    """Lets other threads in while the weights are in place."""

    def forward(self, x):
        time.sleep(0.002)
        return x


def two_layers():
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_the_ordinary_module_alone_and_in_a_stack(dtype):
    further, net = extra(two_layers, dtype=dtype), two_layers().to(dtype)
    w, x = torch.randn(4, further.size, dtype=dtype), torch.randn(4, 7, 3, dtype=dtype)
    expected = []
    for own, rows in zip(w, x, strict=True):
        nn.utils.vector_to_parameters(own, net.parameters())
        expected.append(net(rows).detach())
        assert torch.equal(further(own, rows), expected[-1])
    assert torch.allclose(vmap(further)(w, x), torch.stack(expected), rtol=0, atol=1e-6)
    assert further.initial().dtype == dtype
    assert not torch.equal(further.initial(), further.initial(1))


def test_threads_do_not_see_each_others_weights():
    further, x = extra(lambda: nn.Sequential(_Waits(), nn.Linear(3, 2))), torch.randn(4, 3)
    vectors = [further.initial(which) for which in range(12)]
    alone = [further(w, x) for w in vectors]
    together = on_threads(4, lambda w: further(w, x), vectors)
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize(
    ("layer", "what"), [(nn.BatchNorm1d(3), "cannot have buffers"), (nn.Dropout(), "cannot have dropout")]
)
def test_layers_that_an_engine_does_not_carry_along_are_refused(layer, what):
    with pytest.raises(UserError, match=what):
        extra(lambda: nn.Sequential(nn.Linear(2, 3), layer))

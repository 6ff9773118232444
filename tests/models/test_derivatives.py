import torch
from torch import nn

from unalike.models import Batch, Net, Task


def test_a_gradient_alone_and_in_a_stack_are_the_same():
    """And so are the Hessian times a vector, and descent on one batch: nothing is differentiated through them."""
    task = Task(lambda: Net(nn.Linear(6, 5), nn.Sequential(nn.Tanh(), nn.Linear(5, 4))), dtype=torch.float64)
    batch = Batch(torch.randn(8, 6, dtype=torch.float64), torch.randint(0, 4, (8,)))
    w = torch.stack([task.initial(k) for k in range(3)])
    hessian = torch.func.hessian(lambda v: task.loss(v, batch))
    for k in range(3):
        (expected,) = torch.autograd.grad(task.loss(leaf := w[k].clone().requires_grad_(), batch), leaf)
        assert torch.allclose(task.gradient(w[k], batch), expected)
        assert not task.gradient(leaf, batch).requires_grad
        assert torch.allclose(task.curvature(w[k], w[0], batch), hessian(w[k]) @ w[0])
        assert torch.allclose(task.descend(w[k], batch, 0.1), w[k] - 0.1 * expected)
    for method in (
        lambda v: task.gradient(v, batch),
        lambda v: task.curvature(v, w[0], batch),
        lambda v: task.descend(v, batch, 0.1, 3, 0.5),
    ):
        assert torch.allclose(torch.func.vmap(method)(w), torch.stack([method(row) for row in w]))
    with torch.no_grad():
        assert torch.allclose(task.gradient(w[0], batch), task.descend(w[0], batch, -1.0) - w[0])

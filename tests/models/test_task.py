import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from unalike.errors import UserError
from unalike.models import MODELS, Batch, Mlp, Net, SimpleCnn, Task


def make(model=None, shape=(6,), classes=4, **options):
    model = model or Mlp((5, 3))
    return Task(lambda: model.build(shape, classes), **options)


def test_slices_name_layers_and_cover_the_vector():
    task = make()
    assert task.size == 6 * 5 + 5 + 5 * 3 + 3 + 3 * 4 + 4
    assert task.slices["body"] == slice(0, 53)
    assert task.slices["head"] == slice(53, 69)
    assert task.slices["body.2.bias"] == slice(50, 53)
    assert task.slices["head.weight"] == slice(53, 65)
    w = task.initial()
    assert torch.equal(task.join(w[task.slices["body"]], w[task.slices["head"]]), w)


@pytest.mark.parametrize(
    ("model", "shape"),
    [(Mlp(), (13,)), (Mlp((7,)), (1, 4, 4)), (SimpleCnn(), (3, 32, 32)), (SimpleCnn(), (1, 28, 28))],
)
def test_equals_the_ordinary_module(model, shape):
    task = make(model, shape)
    net = model.build(shape, 4)
    w = torch.randn(task.size) * 0.1
    net.load_state_dict(task.named(w, torch.zeros(0)))
    x, y = torch.randn(9, *shape), torch.randint(0, 4, (9,))
    logits, features = net(x)
    batch = Batch(x, y, training=True)
    assert torch.allclose(task.logits(w, batch), logits, atol=1e-6)
    assert torch.allclose(task.features(w, batch), features, atol=1e-6)
    assert torch.allclose(net.head(features), logits, atol=1e-6)
    loss = functional.cross_entropy(logits, y)
    loss.backward()
    leaf = w.clone().requires_grad_()
    (grad,) = torch.autograd.grad(task.loss(leaf, batch), leaf)
    expected = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
    assert torch.allclose(grad, expected, atol=1e-6)


def test_simple_cnn_is_the_papers():
    """Counted by hand: two 5x5 convolutions with 6 and 16 channels, then 120 and 84 units."""
    assert make(SimpleCnn(), (3, 32, 32), 10).size == 62_006
    assert make(SimpleCnn(), (1, 28, 28), 10).size == 44_426


@given(st.integers(1, 6), st.integers(0, 5))
def test_padding_changes_nothing(real, padding):
    task = make(dtype=torch.float64)
    w = task.initial()
    x, y = torch.randn(real, 6, dtype=torch.float64), torch.randint(0, 4, (real,))
    padded = Batch(
        torch.cat([x, 100 * torch.randn(padding, 6, dtype=torch.float64)]),
        torch.cat([y, torch.zeros(padding, dtype=torch.int64)]),
        torch.cat([torch.ones(real), torch.zeros(padding)]).double(),
    )
    assert torch.allclose(task.loss(w, padded), task.loss(w, Batch(x, y)))
    values = torch.randn(real + padding, 2, 3, dtype=torch.float64)
    assert torch.allclose(padded.mean(values), values[:real].mean(dim=0))


def test_initial_weights_depend_on_seed_and_number_only():
    torch.manual_seed(1)
    first = make(seed=7).initial()
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    again = make(seed=7).initial()
    assert torch.equal(torch.random.get_rng_state(), state)  # the user's stream is left alone
    assert torch.equal(first, again)
    others = [make(seed=8).initial(), make(seed=7).initial(1), make(seed=6).initial(1), make(seed=8).initial(1)]
    for i, one in enumerate([first, *others]):
        for other in [first, *others][i + 1 :]:
            assert not torch.equal(one, other)


class WithNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))


def test_buffers_are_a_second_vector_that_training_updates():
    def build():
        return Net(WithNorm(), nn.Linear(5, 4))

    task = Task(build)
    assert task.buffers.size == 5 + 5  # the counter of batches is a whole number, and no statistic
    w, buffers = task.initial(), task.initial_buffers()
    net = build().train()
    net.load_state_dict(task.named(w, buffers))
    x, y = torch.randn(8, 6) * 3 + 1, torch.randint(0, 4, (8,))
    for _ in range(3):
        net(x)
        task.loss(w, Batch(x, y, buffers=buffers, training=True))
    expected = torch.cat([b.reshape(-1) for b in net.buffers() if b.is_floating_point()])
    assert torch.allclose(buffers, expected, atol=1e-6)
    before = buffers.clone()
    net.eval()
    logits = task.logits(w, Batch(x, y, buffers=buffers))
    assert torch.allclose(logits, net(x)[0], atol=1e-5)
    assert torch.equal(buffers, before)  # evaluation does not
    task.features(w, Batch(x * 9, y, buffers=buffers, training=True), track=False)
    assert torch.equal(buffers, before)  # nor does a second model


def test_two_models_in_one_loss_have_gradients():
    task = Task(lambda: Net(WithNorm(), nn.Linear(5, 4)))
    w, buffers = task.initial().requires_grad_(), task.initial_buffers()
    batch = Batch(torch.randn(8, 6), torch.randint(0, 4, (8,)), buffers=buffers, training=True)
    both = task.loss(w, batch) + task.features(2 * w, batch, track=False).square().mean()
    (grad,) = torch.autograd.grad(both, w)
    assert torch.isfinite(grad).all()


def test_constant_buffers_are_kept_as_they_are():
    class WithIndex(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("order", torch.tensor([2, 0, 1]))

        def forward(self, x):
            return x[:, self.order]

    task = Task(lambda: Net(WithIndex(), nn.Linear(3, 2, bias=False)))
    w, x = task.initial(), torch.randn(4, 3)
    assert torch.allclose(task.logits(w, Batch(x, torch.zeros(4))), x[:, [2, 0, 1]] @ w.view(2, 3).T, atol=1e-6)
    assert task.buffers.size == 0


@pytest.mark.parametrize("text", ["mlp(0)", "mlp(8,-1)", "mlp(1.5)", "mlp(a)"])
def test_bad_widths(text):
    with pytest.raises(UserError):
        MODELS.build(text)


@pytest.mark.parametrize("shape", [(8,), (1, 8, 8), (3, 32)])
def test_simple_cnn_needs_images(shape):
    with pytest.raises(UserError, match="16x16"):
        SimpleCnn().build(shape, 10)


def test_tied_weights_are_one_slice():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(5, 5, bias=False)
            self.two = nn.Linear(5, 5, bias=False)
            self.two.weight = self.one.weight

        def forward(self, x):
            return self.two(torch.relu(self.one(x)))

    task = Task(lambda: Net(Tied(), nn.Linear(5, 2, bias=False)))
    assert task.size == 25 + 10
    w = torch.randn(task.size)
    x = torch.randn(3, 5)
    matrix, head = w[:25].view(5, 5), w[25:].view(2, 5)
    expected = torch.relu(x @ matrix.T) @ matrix.T @ head.T
    assert torch.allclose(task.logits(w, Batch(x, torch.zeros(3))), expected, atol=1e-5)


def test_pooling_before_relu_is_the_papers_function():
    torch.manual_seed(0)
    x = torch.randn(4, 3, 20, 20, requires_grad=True)
    grads = []
    for order in ((nn.ReLU(), nn.MaxPool2d(2)), (nn.MaxPool2d(2), nn.ReLU())):
        out = nn.Sequential(*order)(x)
        grads.append(
            (out.detach(), torch.autograd.grad((out * torch.arange(out.numel()).view_as(out)).sum(), x)[0])
        )
    assert torch.equal(grads[0][0], grads[1][0])
    assert torch.equal(grads[0][1], grads[1][1])

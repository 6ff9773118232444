import pytest
import torch
from torch.nn import functional

from unalike.engines.vectorised import cannot_vectorise
from unalike.errors import UserError
from unalike.models import MODELS, Batch, Task


def make(text, shape=(3, 12, 12), classes=10, **options):
    return Task(lambda: MODELS.build(text).build(shape, classes), **options)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize(
    ("text", "size", "features"), [("resnet18", 11_173_962, 512), ("resnet50", 23_520_842, 2048)]
)
def test_number_of_weights_is_the_known_one(text, norm, size, features):
    task = make(f"{text}(norm={norm})", (3, 32, 32))
    assert task.size == size
    w, x = task.initial(), torch.randn(1, 3, 9, 9)
    logits, found = task.forward(w, Batch(x, torch.zeros(1), buffers=task.initial_buffers(), training=True))
    assert found.shape == (1, features)
    head = w[task.slices["head"]]
    expected = functional.linear(found, head[: 10 * features].view(10, features), head[10 * features :])
    assert torch.allclose(logits, expected, atol=1e-5)


def test_depth_is_in_the_name():
    """Layers with weights on the longest path: the stem, the residual branches, the head."""
    for text, depth in (("resnet18", 18), ("resnet50", 50)):
        layout = make(text).parameters
        convolutions = [n for n, shape in zip(layout.names, layout.shapes, strict=True) if len(shape) == 4]
        assert sum("shortcut" not in name for name in convolutions) + 1 == depth


def test_a_block_by_hand():
    """Equation 2 of the paper, on the second stage's first block: stride 2 and a projection."""
    task = make("resnet18", (3, 16, 16), dtype=torch.float64)
    body = MODELS.build("resnet18").build((3, 16, 16), 10).double().eval().body
    body.load_state_dict(
        {n.removeprefix("body."): v for n, v in task.named(task.initial(), task.initial_buffers()).items()
         if n.startswith("body.")}
    )  # fmt: skip
    block = body[5]
    x = torch.randn(2, 64, 16, 16, dtype=torch.float64)

    def norm(value, layer):
        shape = (1, -1, 1, 1)
        scaled = (value - layer.running_mean.view(shape)) / torch.sqrt(layer.running_var.view(shape) + layer.eps)
        return scaled * layer.weight.view(shape) + layer.bias.view(shape)

    first, one, _, second, two = block.residual
    inner = torch.relu(norm(functional.conv2d(x, first.weight, stride=2, padding=1), one))
    residual = norm(functional.conv2d(inner, second.weight, padding=1), two)
    project, three = block.shortcut
    shortcut = norm(functional.conv2d(x, project.weight, stride=2), three)
    assert torch.allclose(block(x), torch.relu(residual + shortcut))
    assert block(x).shape == (2, 128, 8, 8)


def test_with_group_norm_rows_do_not_see_each_other_with_batch_norm_they_do():
    x = torch.randn(4, 3, 12, 12, dtype=torch.float64)
    order = torch.tensor([2, 0, 3, 1])
    for norm, alone in (("group", True), ("batch", False)):
        task = make(f"resnet18({norm})", dtype=torch.float64)
        w = task.initial()

        def features(rows, task=task, w=w):
            batch = Batch(rows, torch.zeros(len(rows)), buffers=task.initial_buffers(), training=True)
            return task.features(w, batch)

        whole = features(x)
        assert torch.allclose(features(x[order]), whole[order])
        assert torch.allclose(features(x[1:2]), whole[1:2]) == alone


def test_which_can_be_vectorised():
    assert cannot_vectorise(make("resnet18(group)")) is None
    assert "BatchNorm2d" in cannot_vectorise(make("resnet18"))


def test_groups_are_normalised():
    """Right after the stem's norm every group of channels of a row has mean 0 and variance 1."""
    for groups in (2, 32):
        net = MODELS.build(f"resnet18(norm=group, groups={groups})").build((3, 12, 12), 10)
        out = net.body[:2](5 * torch.randn(2, 3, 12, 12) + 3).reshape(2, groups, -1)
        assert out.mean(dim=2).abs().max() < 1e-4
        assert (out.var(dim=2, unbiased=False) - 1).abs().max() < 1e-2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet18(norm=layer)", "must be one of batch, group"),
        ("resnet50(norm=group, groups=3)", "groups must be 1, 2, 4"),
        ("resnet18(norm=group, groups=0)", "groups must be"),
        ("resnet18(groups=4)", "groups are for group norm"),
    ],
)
def test_bad_options(text, message):
    with pytest.raises(UserError, match=message) as caught:
        MODELS.build(text)
    assert "\n" not in str(caught.value)

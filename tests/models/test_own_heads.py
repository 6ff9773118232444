"""The head of a module of the user's own is the layer whose output is returned; what is not that is noticed."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from unalike.errors import UserError
from unalike.models.head import copied, examine, take_apart
from unalike.models.layout import tensors_digest
from unalike.models.net import Net, TappedNet, WholeNet, loaded_module

ROWS = torch.zeros(2, 5)


def split(module, head="", rows=ROWS, outputs=3):
    made = copied(module, "Mine")
    return take_apart(made, examine(made, rows, outputs, head, "Mine"), rows)


class HeadFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)
        self.one = nn.Linear(5, 4)
        self.other = nn.Linear(4, 3)  # of the same shape, called, and not the head

    def forward(self, x):
        hidden = torch.relu(self.one(x))
        self.other(hidden)
        return self.out(hidden)


class Scaled(HeadFirst):
    def forward(self, x):
        return super().forward(x) / 3


class Softmax(HeadFirst):
    def forward(self, x):
        return super().forward(x).softmax(dim=1)


class Tuple(HeadFirst):
    def forward(self, x):
        return super().forward(x), x


class Dictionary(HeadFirst):
    def forward(self, x):
        return {"logits": super().forward(x), "loss": None}


class TakesDictionary(HeadFirst):
    def forward(self, x):
        return super().forward(x["rows"])


class TakesMore(HeadFirst):
    def forward(self, x, mask):
        return super().forward(x * mask)


class Twice(HeadFirst):
    def forward(self, x):
        hidden = torch.relu(self.one(x))
        self.out(hidden)
        return self.out(2 * hidden)


class Shared(HeadFirst):
    def __init__(self):
        super().__init__()
        self.other.weight = self.out.weight

    def forward(self, x):
        return self.out(torch.relu(self.one(x)) + self.other.weight.sum(dim=0))


class ReadsHead(HeadFirst):
    def forward(self, x):
        hidden = torch.relu(self.one(x)) * self.out.weight.mean()
        return self.out(hidden)


def convolution():
    return nn.Sequential(
        nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Sequential(nn.Linear(8, 3))
    )


@pytest.mark.parametrize(
    ("module", "place", "features"),
    [(HeadFirst(), "out", 4), (convolution(), "4.0", 8), (nn.Linear(5, 3), "", 5), (nn.LazyLinear(3), "", 5)],
    ids=["defined first", "behind convolutions", "a linear layer", "a lazy one"],
)
def test_the_head_is_found_and_ends_the_vector(module, place, features):
    net = split(module)
    assert net.place == place
    assert [name for name, _ in net.named_parameters()][-2:] == ["head.weight", "head.bias"]
    x = torch.randn(7, 5)
    logits, seen = net(x)
    assert seen.shape == (7, features)
    assert torch.equal(net.head(seen), logits)
    if not isinstance(module, nn.LazyLinear):
        assert torch.equal(module(x), logits)


def test_a_chain_is_a_plain_net_which_the_kernels_can_read():
    assert type(split(convolution())) is Net


def test_the_module_that_was_given_is_left_alone():
    module = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    module[1].eval()
    before, modes = copy.deepcopy(module.state_dict()), [layer.training for layer in module.modules()]
    state = torch.random.get_rng_state()
    net = split(module)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [layer.training for layer in module.modules()] == modes
    assert tensors_digest(module.state_dict()) == tensors_digest(before)
    assert isinstance(module[3], nn.Linear)
    assert net.head is not module[3]


def test_looking_moves_neither_statistics_nor_streams_nor_modes():
    class Counts(nn.Module):
        """Counts its calls in a buffer, in evaluation too, and draws."""

        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.out = nn.Linear(5, 3)

        def forward(self, x):
            self.calls += 1
            return self.out(functional.dropout(x))

    module = Counts().train()
    module.out.eval()
    state = torch.random.get_rng_state()
    found = examine(module, ROWS, 3, "", "Mine")
    assert found.head == "out"
    assert module.calls == 0
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (module.training, module.out.training) == (True, False)
    assert not any(layer._forward_hooks for layer in module.modules())


MISTAKES = {
    "scaled": (Scaled, "", "no linear layer's output is what its forward returns. Return logits .* head=NAME"),
    "probabilities": (Softmax, "", "It returns probabilities: return logits"),
    "probabilities, named": (Softmax, "out", "it returns probabilities: return logits"),
    "a tuple": (Tuple, "", "returns a tuple, not a tensor. Return the logits alone"),
    "a dictionary": (Dictionary, "", "returns a dict with logits, loss, not a tensor"),
    "takes a dictionary": (TakesDictionary, "", r"fails on 2 rows of zeros, .*\(2, 5\): .*forward must take such"),
    "takes more": (TakesMore, "", "missing 1 required positional argument: 'mask'"),
    "twice": (Twice, "", "out makes the logits, but is called 2 times"),
    "shared": (Shared, "", "out makes the logits, but shares its weights with other"),
    "reads its head": (ReadsHead, "", "does more with its head out than to call it"),
    "a wrong head": (HeadFirst, "other", "the logits are what out makes, not other. Use head=out"),
    "an earlier layer": (Scaled, "one", "comes after one, which cannot be the head"),
    "an earlier layer of the right width": (Scaled, "other", "out comes after other"),
    "no such layer": (HeadFirst, "ouut", "Unknown layer of Mine 'ouut'. Did you mean 'out'"),
    "no linear layer": (lambda: nn.Sequential(nn.Linear(5, 3), nn.Softplus()), "1", "a head is one nn.Linear"),
    "no module": (lambda: 3, "", "must give a torch.nn.Module, got int"),
    "other classes": (lambda: nn.Linear(5, 2), "", r"returns \(2, 2\) for 2 rows, but must return 3 logits each"),
    "other rows": (lambda: nn.Linear(4, 3), "", "fails on 2 rows of zeros.*mat1 and mat2"),
    "no copy": (lambda: _uncopied(), "", "Mine cannot be copied"),
}


def _uncopied():
    module = nn.Linear(5, 3)
    module.scale = module.weight * 2
    return module


@pytest.mark.parametrize(("make", "head", "message"), MISTAKES.values(), ids=MISTAKES)
def test_what_has_no_head_is_told_in_one_line(make, head, message):
    with pytest.raises(UserError, match=message) as caught:
        split(make(), head)
    assert "\n" not in str(caught.value)


def test_a_module_that_goes_on_after_its_head_is_run_as_a_whole():
    module = Scaled()
    net = split(module, "out")
    x = torch.randn(6, 5)
    logits, features = net(x)
    assert type(net) is TappedNet
    assert torch.equal(module(x), logits)
    assert torch.equal(features, torch.relu(module.one(x)))
    assert [name for name, _ in net.named_parameters()][-2:] == ["head.weight", "head.bias"]
    assert len(list(net.parameters())) == len(list(module.parameters()))
    again = copy.deepcopy(net)
    with torch.no_grad():
        again.head.weight.zero_()
    assert torch.equal(net(x)[0], logits)  # a copy has its own head
    assert not torch.equal(again(x)[0], logits)


def test_a_net_without_a_head_says_so_to_whoever_wants_features():
    module = Softmax()
    net = split(module, "none")
    assert type(net) is WholeNet
    logits, features = net(torch.randn(2, 5))
    assert logits.shape == (2, 3)
    for use in (lambda: features.shape, lambda: features - logits, lambda: torch.relu(features)):
        with pytest.raises(UserError, match=r"the net has no head \(head=none\)"):
            use()


@pytest.mark.parametrize(
    ("module", "head"),
    [(HeadFirst(), ""), (Scaled(), "out"), (Shared(), "none"), (convolution(), ""), (nn.Linear(5, 3), "")],
    ids=["a head", "tapped", "whole", "a chain", "a linear layer"],
)
def test_the_users_own_module_comes_back_with_its_names(module, head):
    trained = split(module, head)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(1.0)
    names = dict(trained.named_parameters())
    back = loaded_module(split(module, head), names)
    assert type(back) is type(module)
    assert list(back.state_dict()) == list(module.state_dict())
    assert not back.training
    x = torch.randn(4, 5)
    assert torch.equal(back(x), trained(x)[0])
    module_like = copy.deepcopy(module)
    module_like.load_state_dict(back.state_dict())
    with pytest.raises(UserError, match=r"not the tensors of this net: body.more"):
        loaded_module(split(module, head), names | {"body.more": torch.zeros(1)})


@settings(max_examples=25, deadline=None)
@given(st.permutations(["a", "b", "c", "d"]), st.integers(1, 3), st.integers(0, 3))
def test_the_head_is_the_layer_that_ends_the_call_whatever_the_order_of_definition(order, depth, unused):
    class Any(nn.Module):
        def __init__(self):
            super().__init__()
            for name in order:
                self.add_module(name, nn.Linear(3, 3))

        def forward(self, x):
            for name in "abcd"[:depth]:
                x = getattr(self, name)(x)
            getattr(self, "abcd"[unused])(x)  # its output is not used
            return getattr(self, "abcd"[depth])(x) if unused != depth else x

    rows = torch.zeros(2, 3)
    wanted = "abcd"[depth] if unused != depth else "abcd"[depth - 1]
    if unused == ord(wanted) - ord("a"):
        with pytest.raises(UserError, match="is called 2 times"):
            split(Any(), "", rows)
    else:
        assert split(Any(), "", rows).place == wanted


def test_rows_that_see_each_other_are_noticed():
    class Centred(HeadFirst):
        def forward(self, x):
            return super().forward(x - x.mean(dim=0))

    class InTrainingAlone(HeadFirst):
        def forward(self, x):
            return super().forward(x - x.mean(dim=0) if self.training else x)

    assert split(Centred()).mixes_rows
    assert split(InTrainingAlone()).mixes_rows
    assert not split(HeadFirst()).mixes_rows
    assert not split(nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 3))).mixes_rows

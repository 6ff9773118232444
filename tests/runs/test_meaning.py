"""Which options mean something to a protocol: the others are refused in one line, and left out of the spec."""

import pytest

from tests.runs.toy_protocol import ToyPerceptron
from unalike.errors import UserError
from unalike.runs.differences import differences, field_told
from unalike.runs.meaning import EVERYWHERE, brief_model, check_given, protocol_of
from unalike.runs.run import run
from unalike.runs.small import small_dataset
from unalike.runs.spec import RunSpec

TREES = {"algorithm": "histogram", "model": "trees(depth=3)"}


def test_what_decides_nothing_is_neither_in_the_file_nor_in_the_key():
    spec = RunSpec(**TREES)
    assert set(spec.to_dict()) <= EVERYWHERE
    assert {"lr", "epochs", "optimiser", "sample"} <= spec.left_out
    assert RunSpec.from_mapping(spec.to_dict()) == spec
    assert spec.same_run(spec.to_toml())
    assert RunSpec.from_mapping(spec.to_dict()).key == spec.key
    assert RunSpec().left_out == frozenset()
    assert "lr" in RunSpec().to_dict()


def test_what_a_protocol_uses_stays(monkeypatch):
    monkeypatch.setattr(ToyPerceptron, "uses", frozenset({"lr"}))
    spec = RunSpec(algorithm="toy-perceptron", model="toy-linear", lr=0.5)
    assert spec.to_dict()["lr"] == 0.5
    assert spec.key != RunSpec(algorithm="toy-perceptron", model="toy-linear").key


def test_a_record_of_a_protocol_is_not_filled_up_with_options_of_nets():
    told = RunSpec(**TREES).to_dict()
    del told["threads"]  # as in a record of a time when this option was not there
    whole = RunSpec.complete(told)
    assert whole["threads"] == 1
    assert "batch_size" not in whole
    assert "batch_size" not in RunSpec.complete({**told, "algorithm": "local"})
    assert "batch_size" in RunSpec.complete({"dataset": "digits", "algorithm": "local", "model": "mlp(4)"})
    assert "batch_size" in RunSpec.complete({**told, "algorithm": "of-a-plugin-that-is-not-here"})
    kept = RunSpec.as_recorded(told, "abc")
    assert (kept.key, kept.batch_size, kept.model) == ("abc", 32, told["model"])


REFUSED = {
    "lr": (0.2, "--lr has no meaning for trees: the shrinkage is trees[(]eta=0.3[)]"),
    "lr_decay": (0.9, "--lr-decay has no meaning"),
    "epochs": (3, "--epochs has no meaning for trees: a round is one tree"),
    "steps": (3, "--steps has no meaning"),
    "batch_size": (8, "--batch-size has no meaning"),
    "drop_last": (True, "--drop-last has no meaning"),
    "optimiser": ("adam", "--optimiser has no meaning"),
    "sample": (0.5, "--sample has no meaning for trees: every tree is grown by all parties"),
    "public": (0.1, "--public has no meaning"),
    "loss": ("squared-error", "--loss has no meaning for trees: the loss is trees"),
    "fine_tune": (1, "--fine-tune has no meaning"),
    "freeze": ("body.0", "--freeze has no meaning"),
    "batch_norm": ("local", "--batch-norm has no meaning"),
    "augment": ("crop-flip", "--augment has no meaning"),
    "dtype": ("float64", "--dtype has no meaning"),
    "device": ("cuda", "--device has no meaning"),
    "cohort": ("label-balanced", "--cohort has no meaning"),
    "engine": ("vectorised", "--engine vectorised stacks nets, and trees are none"),
    "channel": ("clip(1.0)", "--channel clip.1.0. is for the weights of nets"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_of_nets_is_refused_in_one_line(name):
    value, message = REFUSED[name]
    with pytest.raises(UserError, match=message) as raised:
        RunSpec(**TREES, **{name: value})
    assert "\n" not in str(raised.value)


def test_every_option_has_a_meaning_or_a_refusal():
    options = {field.name for field in RunSpec.options()}
    assert options - EVERYWHERE - {"init"} == REFUSED.keys() - {"engine", "channel"}


def test_given_as_by_default_is_still_given():
    """``--lr 0.1`` says something, and trees would not do it."""
    with pytest.raises(UserError, match="--lr has no meaning for trees"):
        run(data=small_dataset(), **TREES, rounds=1, lr=0.1)
    check_given(RunSpec(), ["lr"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "trees"}, "^trees are not averaged. Use --algorithm histogram.$"),
        ({"model": "trees", "algorithm": "scaffold"}, "trees are not averaged"),
        ({"algorithm": "histogram", "model": "mlp"}, "histogram trains trees, not mlp. Use --model trees"),
        ({"algorithm": "histogram"}, "histogram trains trees, not mlp"),
        ({"algorithm": "histogram", "model": "trees|mlp(3)"}, "trees cannot be one of several nets"),
        ({**TREES, "channel": "masked+masked"}, "."),
        ({**TREES, "channel": "quantise(8)"}, "is for the weights of nets"),
        ({**TREES, "channel": "clip(1.0)+masked"}, "is for the weights of nets"),
        ({**TREES, "channel": "encrypted"}, "is for the weights of nets"),
        ({**TREES, "channel": "masked(range=4)"}, "masked.range=4. is for the weights of nets"),
        ({"algorithm": "bagging", "model": "trees", "channel": "masked"}, "bagging sends trees, which no sum can"),
    ],
)
def test_what_does_not_go_together_is_refused(fields, message):
    with pytest.raises(UserError, match=message):
        RunSpec(**fields)


def test_masks_need_three_parties_and_all_of_them(monkeypatch):
    with pytest.raises(UserError, match="needs three or more, 2 are asked"):
        run(data=small_dataset(), **TREES, rounds=1, channel="masked", parties=2)
    monkeypatch.setattr(ToyPerceptron, "uses", frozenset({"sample"}))
    with pytest.raises(UserError, match=r"--sample 0\.5 with --channel masked"):
        RunSpec(algorithm="toy-perceptron", model="toy-linear", sample=0.5, channel="masked")


def test_baselines_have_their_protocols():
    assert protocol_of("fedavg", "mlp(4)") is None
    assert type(protocol_of("local", "trees")).__name__ == type(protocol_of("local-trees", "trees")).__name__
    assert protocol_of("pooled", "trees") == protocol_of("histogram", "trees")
    RunSpec(model="trees", algorithm="local", channel="masked")  # as with nets, there is nothing to carry


def test_trees_are_told_without_what_is_as_by_default():
    spec = RunSpec(**TREES)
    assert brief_model(str(spec.model)) == "trees(3)"
    assert brief_model("mlp(64)") == "mlp(64)"
    assert brief_model("trees(nonsense=1)") == "trees(nonsense=1)"
    assert field_told("model", spec.model) == "model trees(3)"
    assert field_told("rounds", 3) == "rounds 3"


def test_runs_do_not_differ_in_what_one_of_them_lacks():
    nets, trees = RunSpec().to_dict(), RunSpec(**TREES).to_dict()
    differing, common = differences([nets, trees])
    assert {"model", "algorithm"} <= set(differing)
    assert not {"batch_size", "optimiser", "sample"} & set(differing)
    assert common["rounds"] == 50
    assert "batch_size" in differences([nets, trees, nets | {"batch_size": 8}])[0]
    assert "channel" in differences([trees, trees | {"channel": "masked"}])[0]

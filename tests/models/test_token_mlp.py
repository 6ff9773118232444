import numpy as np
import pytest
import torch

from unalike.data import Dataset
from unalike.errors import UserError
from unalike.models import MODELS, Batch, Task, TokenMlp
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset
from unalike.runs.spec import RunSpec


def test_equals_looking_vectors_up_by_hand():
    model = TokenMlp(words=9, width=3, hidden=4)
    task = Task(lambda: model.build((5,), 2))
    w = task.initial()
    layers = task.parameters.unflatten(w)
    x = torch.tensor([[0, 3, 8, 1, 2], [4, 4, 100, 5, 6]])
    known = torch.where(x < 9, x, 1)
    vectors = layers["body.0.vectors.weight"][known].reshape(2, 15)
    hidden = torch.relu(vectors @ layers["body.1.weight"].T + layers["body.1.bias"])
    expected = hidden @ layers["head.weight"].T + layers["head.bias"]
    assert torch.allclose(task.logits(w, Batch(x, torch.zeros(2))), expected, atol=1e-6)


def tokens():
    data = small_dataset()
    x = np.random.default_rng(0).integers(0, 20, (data.size, 6)).astype(np.int32)
    return Dataset("text", x, data.y, x[:40], data.y[:40], data.classes, group=data.group,
                   group_names=data.group_names, kind="tokens")  # fmt: skip


def test_engines_agree_on_tokens():
    fields = {
        "partition": "natural",
        "model": "token-mlp(20, 4, 8)",
        "epochs": 1,
        "batch_size": 8,
        "dtype": "float64",
    }
    states = [
        play(Simulation(RunSpec.from_mapping({**fields, "engine": engine}), data=tokens()), 2).state.tensors()
        for engine in ("sequential", "vectorised")
    ]
    assert distance(*states)[0] < 1e-10


def test_models_and_data_must_fit():
    with pytest.raises(UserError, match="reads numbers, but the rows of text are tokens"):
        Simulation(RunSpec(partition="natural"), data=tokens())
    with pytest.raises(UserError, match="reads tokens"):
        Simulation(RunSpec(partition="natural", model="token-mlp"), data=small_dataset())


@pytest.mark.parametrize("text", ["token-mlp(1)", "token-mlp(width=0)", "token-mlp(hidden=-1)"])
def test_bad_sizes(text):
    with pytest.raises(UserError, match="must be from"):
        MODELS.build(text)

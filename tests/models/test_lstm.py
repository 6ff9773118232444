import dataclasses

import numpy as np
import pytest
import torch

from unalike.data import Dataset
from unalike.engines.vectorised import cannot_vectorise
from unalike.errors import UserError
from unalike.models import MODELS, Batch, Lstm, Task
from unalike.runs.build import build_federation
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_dataset
from unalike.runs.spec import RunSpec

WORDS = ("<pad>", "<unknown>", "good", "bad", "it", "'s", "day")
SMALL = "lstm(hidden=6, width=3, features=5)"


def make(text=SMALL, words=WORDS, length=8, **options):
    model = MODELS.build(text).with_vocabulary(words)
    return Task(lambda: model.build((length,), 2), dtype=torch.float64, **options)


def features(task, w, rows):
    return task.features(w, Batch(torch.tensor(rows), torch.zeros(len(rows)), training=True))


def tweets(words=WORDS, length=8):
    data = small_dataset()
    rng = np.random.default_rng(0)
    x = rng.integers(1, len(words), (data.size, length)).astype(np.int32)
    x[np.arange(length) >= rng.integers(0, length + 1, data.size)[:, None]] = 0
    return Dataset("tweets", x, data.y % 2, x[:40], data.y[:40] % 2, ("negative", "positive"), features=words,
                   group=data.group, group_names=data.group_names, kind="tokens")  # fmt: skip


def by_hand(layers, x, stack=2):
    """Hochreiter and Schmidhuber's cell with a forget gate, written out; PyTorch's order of gates: i, f, g, o."""

    def sigmoid(value):
        return 1 / (1 + np.exp(-value))

    at = {name.removeprefix("body.0."): value.numpy() for name, value in layers.items()}
    sequence = [at["embed.weight"][token] for token in x]
    for layer in range(stack):
        w_in, w_state = at[f"lstm.weight_ih_l{layer}"], at[f"lstm.weight_hh_l{layer}"]
        bias = at[f"lstm.bias_ih_l{layer}"] + at[f"lstm.bias_hh_l{layer}"]
        h = c = np.zeros(w_state.shape[1])
        states = []
        for value in sequence:
            i, f, g, o = np.split(w_in @ value + w_state @ h + bias, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        sequence = states
    return np.maximum(at["body.1.weight"] @ h + at["body.1.bias"], 0)


@pytest.mark.parametrize("stack", [1, 2, 3])
def test_equals_the_cells_by_hand(stack):
    task = make(f"lstm(hidden=6, width=3, features=5, layers={stack})")
    w = task.initial()
    layers = task.parameters.unflatten(w)
    rows = [[2, 3, 4, 5, 6, 1, 2, 2], [3, 6, 2, 0, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0, 0, 0]]
    expected = [by_hand(layers, [token for token in row if token], stack) for row in rows]
    assert np.allclose(features(task, w, rows).numpy(), expected)
    logits, found = task.forward(w, Batch(torch.tensor(rows), torch.zeros(3)))
    assert torch.allclose(found @ layers["head.weight"].T + layers["head.bias"], logits)


def test_padding_changes_nothing():
    task, other = make(length=3), make(length=20)
    w = task.initial()
    assert torch.equal(w, other.initial())
    rows = [[2, 3, 4], [5, 1, 0], [6, 0, 0], [0, 0, 0]]
    longer = [row + 17 * [0] for row in rows]
    assert torch.allclose(features(task, w, rows), features(other, w, longer), atol=1e-14)
    batch = Batch(torch.tensor(longer), torch.tensor([0, 1, 1, 0]), training=True)
    short = Batch(torch.tensor(rows), batch.y, training=True)
    leaf = w.clone().requires_grad_()
    (first,), (second,) = (torch.autograd.grad(task.loss(leaf, b), leaf) for b in (short, batch))
    assert torch.allclose(first, second, atol=1e-14)
    padding_vector = first[task.slices["body.0.embed.weight"]].view(7, 3)[0]
    assert not padding_vector.any()


def test_a_vocabulary_without_padding_has_none():
    """Shakespeare's 0 is a character as any other."""
    task = make(words=tuple("\n abc"))
    w = task.initial()
    one, other = features(task, w, [[2, 3, 0, 0, 0, 0, 0, 0], [2, 3, 0, 0, 0, 0, 0, 1]])
    layers = task.parameters.unflatten(w)
    assert np.allclose(one.numpy(), by_hand(layers, [2, 3, 0, 0, 0, 0, 0, 0]))
    assert not torch.allclose(one, other)


def test_the_papers_widths():
    """Summed by hand: vectors, two layers with two biases each, 256 units, the head."""
    task = make("lstm", words=WORDS[:2] + tuple(map(str, range(5000))), length=25)
    gates = 4 * 256
    layers = gates * (50 + 256 + 2) + gates * (256 + 256 + 2)
    assert task.size == 5002 * 50 + layers + 256 * 256 + 256 + 256 * 2 + 2
    assert task.slices["head"].start == task.size - 514


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("good 1 2 3\nthe 9 9 9\nbad -1 -2.5 5e-1\n. . 0 0\nday 0 0 1\ngood 7 7 7\n")
    return path


def test_vectors_are_those_of_the_file(vectors):
    frozen = make(f"lstm(hidden=6, width=3, features=5, vectors='{vectors}')")
    trained = make(f"lstm(hidden=6, width=3, features=5, vectors='{vectors}', train_vectors=true)")
    assert trained.size - frozen.size == len(WORDS) * 3
    assert frozen.buffers.size == 0  # no statistics: not averaged, not sent
    table = trained.parameters.unflatten(trained.initial())["body.0.embed.weight"]
    mean = torch.tensor([0, -0.5 / 3, 4.5 / 3], dtype=torch.float64)
    expected = {"good": [1, 2, 3], "bad": [-1, -2.5, 0.5], "day": [0, 0, 1], "<pad>": [0, 0, 0]}
    for word, row in zip(WORDS, table, strict=True):
        assert torch.allclose(row, torch.tensor(expected[word]).double() if word in expected else mean, atol=1e-6)
    rows = [[2, 3, 4, 1, 0, 0, 0, 0], [6, 5, 0, 0, 0, 0, 0, 0]]
    w = trained.initial()
    same = torch.cat([w[trained.slices["body.0.lstm"]], w[trained.slices["body.1"].start :]])
    assert same.numel() == frozen.size
    assert torch.allclose(features(frozen, same, rows), features(trained, w, rows))


def test_a_first_line_with_the_size_is_skipped(vectors):
    before = Lstm(width=3, vectors=str(vectors)).with_vocabulary(WORDS).table
    vectors.write_text("6 3\n" + vectors.read_text())
    assert torch.equal(Lstm(width=3, vectors=str(vectors)).with_vocabulary(WORDS).table, before)


def test_state_dict_takes_the_weights_of_frozen_vectors(vectors):
    model = Lstm(6, 3, 5, vectors=str(vectors)).with_vocabulary(WORDS)
    task = Task(lambda: model.build((8,), 2))
    net = model.build((8,), 2)
    w = torch.randn(task.size)
    net.load_state_dict(task.named(w, task.initial_buffers()))
    x = torch.randint(0, 7, (4, 8))
    assert torch.allclose(net(x)[0], task.logits(w, Batch(x, torch.zeros(4))), atol=1e-6)


def test_the_key_depends_on_the_content_of_the_file(vectors, tmp_path, monkeypatch):
    text = f"lstm(width=3, vectors='{vectors}')"
    first = RunSpec(model=text)
    assert first.model == MODELS.describe(MODELS.build(text))
    assert RunSpec(model=text).key == first.key
    vectors.write_text(vectors.read_text().replace("9 9 9", "9 9 8"))
    assert RunSpec(model=text).key != first.key
    assert RunSpec(model="lstm").code is None
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    assert RunSpec(model="lstm(width=3, vectors='glove.txt')").code == RunSpec(model=text).code


def test_trains_in_a_run(vectors):
    for text in (SMALL, f"lstm(6, 3, 5, vectors='{vectors}')"):
        spec = RunSpec(
            partition="natural", model=text, epochs=1, batch_size=8, dtype="float64", engine="vectorised", lr=0.1
        )
        said = []
        simulation = Simulation(spec, data=tweets(), say=said.append)
        assert said == ["body.0.lstm (LSTM) has no vmap rule: this net runs on the sequential engine instead."]
        assert cannot_vectorise(simulation.task)
        start = simulation.state.server["w"]
        _, figures = simulation.play_round()
        assert 0 <= figures["accuracy"] <= 1
        assert not torch.equal(play(simulation, 1).state.server["w"], start)


def test_learns_what_only_the_order_tells():
    """The label is whether the last word is 'good': a bag of words cannot tell."""
    rng = np.random.default_rng(0)
    length = rng.integers(2, 7, 300)
    x = np.zeros((300, 6), np.int32)
    for row, count in enumerate(length):
        x[row, :count] = rng.permutation([2, 3] * 3)[:count]
    y = (x[np.arange(300), length - 1] == 2).astype(np.int64)
    data = Dataset("order", x, y, x, y, ("bad", "good"), features=WORDS, kind="tokens")
    spec = RunSpec(parties=2, model="lstm(16, 8, 16)", epochs=3, batch_size=16, optimiser="adam", lr=0.01)
    simulation = Simulation(spec, data=data)
    for _ in range(4):
        simulation.state, figures = simulation.play_round()
    assert figures["accuracy"] > 0.95


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lstm(hidden=0)", "hidden must be from 1 to"),
        ("lstm(width=-3)", "width must be from"),
        ("lstm(features=0)", "features must be from"),
        ("lstm(layers=99)", "layers must be from 1 to 16"),
        ("lstm(train_vectors=true)", "for a file of vectors"),
        ("lstm(vectors=3.5)", "vectors must be text"),
    ],
)
def test_bad_options(text, message):
    with pytest.raises(UserError, match=message) as caught:
        MODELS.build(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no file of word vectors"),
        (b"good 1 2\n", "line 1 has 2 number.s., but width is 3"),
        (b"the 1 2\nof 1 2\n", "line 1 has 2"),
        (b"2 4\nthe 1 2 3 4\n", "line 2 has 4"),
        (b"the 1 2 3\nof 1 2 3\nit 1 2 3\ngood 1 2\n", "line 4 has 2"),
        (b"good 1 two 3\n", "line 1 has a value that is not a number"),
        (b"good 1 nan 3\n", "line 1 has a value that is not a number"),
        (b"gut 1 2 3\n", "for none of the 7 words"),
        (b"", "for none of the 7 words"),
        (b"good\xff\xfe 1 2 3\n", "Cannot read the word vectors"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "vectors.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        Lstm(width=3, vectors=str(path)).with_vocabulary(WORDS)
    assert "\n" not in str(caught.value)
    if content is None:
        with pytest.raises(UserError, match=message):
            RunSpec(model=f"lstm(width=3, vectors='{path}')")


def test_data_that_do_not_fit():
    spec = RunSpec(partition="natural", model="lstm")
    with pytest.raises(UserError, match="reads tokens, but the rows of small are numbers"):
        build_federation(spec, small_dataset())
    with pytest.raises(UserError, match="needs the word of every token"):
        build_federation(spec, dataclasses.replace(tweets(), features=()))
    with pytest.raises(UserError, match="needs the word of every token"):
        Lstm().build((8,), 2)
    with pytest.raises(UserError, match="rows of tokens, got rows of shape"):
        Lstm().with_vocabulary(WORDS).build((8, 8), 2)

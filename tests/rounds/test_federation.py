from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from unalike.data import Dataset
from unalike.errors import UserError
from unalike.models import Mlp, Task
from unalike.partition import PARTITIONS, Partition, hold_out, make_partition
from unalike.partition.partition import register_partition
from unalike.randomness import stream
from unalike.rounds import federation as federations
from unalike.rounds.federation import Federation, SplitRows, take_public
from unalike.rounds.rows import Rows
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset, small_simulation
from unalike.runs.spec import RunSpec

CPU = torch.device("cpu")
SMALL = {"partition": "natural", "model": "mlp(6,4)", "epochs": 1, "batch_size": 8, "held_out": 0, "validation": 0}


def rows_of(data, dtype=torch.float32):
    return Rows(data.x, data.y, data, dtype, CPU)


def test_bytes_become_numbers_in_the_batch_whatever_the_size(monkeypatch):
    x = np.arange(24, dtype=np.uint8).reshape(6, 4)
    data = Dataset("d", x, np.zeros(6, int), x, np.zeros(6, int), ("a",), shift=np.float32(2), scale=np.float32(4))
    expected = torch.from_numpy((x.astype(np.float32) - 2) / 4)
    once = rows_of(data)
    monkeypatch.setattr("unalike.rounds.rows.PREPARED_BYTES", 0)
    each = rows_of(data)
    assert each._x.dtype == torch.uint8  # stays bytes in memory
    for rows in (once, each):
        index = torch.tensor([[5, 0], [2, 2]])
        taken, labels = rows.take(index)
        assert torch.equal(taken, expected[index])
        assert labels.shape == (2, 2)


def test_sparse_rows_are_dense_only_in_the_batch():
    dense = np.random.default_rng(0).random((20, 7)).astype(np.float32) * (
        np.random.default_rng(1).random((20, 7)) > 0.7
    )
    y = np.arange(20) % 2
    matrix = sparse.csr_array(dense)
    kept = Dataset("s", matrix, y, matrix, y, ("a", "b"))
    assert kept.is_sparse
    assert kept.shape == (7,)
    index = torch.tensor([[3, 19], [0, 3]])
    assert torch.equal(rows_of(kept).take(index)[0], torch.from_numpy(dense)[index])
    assert rows_of(kept)._x.numel() == 0


def test_training_on_sparse_rows_equals_training_on_dense_ones():
    data = small_dataset()
    thin = replace(data, x=np.where(data.x > 0, data.x, 0), x_test=np.where(data.x_test > 0, data.x_test, 0))
    kept = replace(thin, x=sparse.csr_matrix(thin.x), x_test=sparse.csr_matrix(thin.x_test))
    for engine in ("sequential", "vectorised"):
        one, other = (play(Simulation(RunSpec(**SMALL, engine=engine), data=d), 2) for d in (thin, kept))
        assert torch.equal(one.state.server["w"], other.state.server["w"])
        assert one.play_round()[1]["accuracy"] == other.play_round()[1]["accuracy"]


def test_tokens_stay_whole_numbers():
    x = np.array([[1, 300], [2, 0]], dtype=np.int32)
    data = Dataset("t", x, np.array([0, 1]), x, np.array([0, 1]), ("a", "b"), kind="tokens")
    taken, _ = rows_of(data).take(torch.tensor([1, 0]))
    assert taken.dtype == torch.int64
    assert taken.tolist() == [[2, 0], [1, 300]]


def test_the_servers_rows_are_nobody_elses():
    data = small_dataset()
    left, x, y = take_public(data, 0.2, seed=1)
    assert len(y) == round(0.2 * data.size)
    together = np.concatenate([np.c_[left.x, left.y], np.c_[x, y]])
    assert np.array_equal(np.unique(together, axis=0), np.unique(np.c_[data.x, data.y], axis=0))
    assert len(left.group) == left.size


@pytest.mark.parametrize(("fraction", "what"), [(0.001, "is not one of the 125 rows"), (1.0, "no rows of small")])
def test_the_servers_rows_are_some_and_not_all(fraction, what):
    with pytest.raises(UserError, match=what):
        take_public(small_dataset(), fraction, seed=1)


def drifting(rounds_per_season=2):
    data = small_dataset()
    rows = tuple(np.flatnonzero(data.group == k) for k in range(6))
    seasons = tuple(np.arange(len(r)) * 3 // len(r) for r in rows)
    partition = Partition("drift", rows, data.group_names, seasons=seasons, rounds_per_season=rounds_per_season)
    return data, partition, Federation(data, partition, Task(lambda: Mlp((4,)).build((5,), 3)))


def test_rows_follow_the_seasons():
    _, partition, federation = drifting()
    for number in range(6):
        for round_number, season in ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (99, 2)):
            expected = partition.rows[number][partition.seasons[number] == season]
            assert np.array_equal(federation.train_rows(number, round_number), expected)


def test_a_party_without_rows_of_a_season_keeps_those_before():
    data, partition, _ = drifting(1)
    seasons = (np.array([0, 0, 2]), np.full(8, 1), *partition.seasons[2:])
    federation = Federation(data, replace(partition, seasons=seasons), Task(lambda: Mlp((4,)).build((5,), 3)))
    assert len(federation.train_rows(0, 2)) == 2  # season 1 has none: season 0 stays
    assert len(federation.train_rows(0, 3)) == 1
    assert len(federation.train_rows(1, 1)) == 8  # nothing yet: the first that comes


@register_partition("test-drift")
class Drift:
    """Three seasons by row order."""

    def split(self, dataset, parties, rng):
        natural = PARTITIONS.build("natural").parts[0].split(dataset, parties, rng)
        seasons = tuple(np.arange(len(r)) * 3 // len(r) for r in natural.rows)
        return replace(natural, seasons=seasons, rounds_per_season=1)


@register_partition("test-shift")
class Shift:
    """Adds the party's number."""

    def distort(self, dataset, partition, rng):
        return self

    changes_features = True

    def apply(self, party, x, y):
        return x + party, y


def test_both_engines_train_on_the_phase_of_the_round():
    states = []
    for engine in ("sequential", "vectorised"):
        simulation = small_simulation("fedavg", partition="test-drift", engine=engine, dtype="float64", public=0)
        states.append(play(simulation, 3).state.tensors())
    assert distance(*states)[0] < 1e-10
    still = play(small_simulation("fedavg", partition="natural", dtype="float64", public=0), 3).state.tensors()
    assert distance(states[0], still)[0] > 1e-3


def test_training_sees_the_distortion():
    data = small_dataset()
    shifted = replace(data, x=data.x + data.group[:, None].astype(np.float32))
    one = play(Simulation(RunSpec.from_mapping({**SMALL, "partition": "natural+test-shift"}), data=data), 2)
    other = play(Simulation(RunSpec(**SMALL), data=shifted), 2)
    # as_seen lays rows out party by party, which is how small_dataset has them already
    assert torch.equal(one.state.server["w"], other.state.server["w"])


def test_vertical_splits_are_refused():
    @register_partition("test-vertical")
    class Vertical:
        """Attributes."""

        def split(self, dataset, parties, rng):
            everything = np.arange(dataset.size)
            columns = (np.arange(2), np.arange(2, 5))
            return Partition("v", (everything, everything), ("a", "b"), columns=columns, shares_rows=True)

    with pytest.raises(UserError, match="splits columns, but fedavg needs whole rows"):
        Simulation(RunSpec.from_mapping({**SMALL, "partition": "test-vertical"}), data=small_dataset())


def test_augmentation_needs_images():
    with pytest.raises(UserError, match="needs images"):
        Simulation(RunSpec(**SMALL, augment="crop-flip"), data=small_dataset())


def images():
    data = small_dataset()
    x = np.random.default_rng(0).integers(0, 255, (data.size, 1, 16, 16)).astype(np.uint8)
    return replace(data, x=x, x_test=x[:40], scale=np.float32(255))


def test_augmentation_is_the_same_on_both_engines_and_repeatable():
    fields = {**SMALL, "model": "simple-cnn", "dtype": "float64", "lr": 0.1}
    states = {}
    for engine in ("sequential", "vectorised"):
        for augment in ("crop-flip", "none"):
            spec = RunSpec.from_mapping({**fields, "engine": engine, "augment": augment})
            states[engine, augment] = play(Simulation(spec, data=images()), 2).state.tensors()
    assert distance(states["sequential", "crop-flip"], states["vectorised", "crop-flip"])[0] < 1e-10
    assert distance(states["sequential", "crop-flip"], states["sequential", "none"])[0] > 1e-4


def test_data_of_a_users_file_are_in_the_key(tmp_path):
    path = tmp_path / "split.txt"

    @register_partition("test-from-file")
    class FromFile:
        """Reads a file."""

        def fingerprint(self):
            return path.read_text()

        def split(self, dataset, parties, rng):
            raise AssertionError

    keys = set()
    for text in ("one", "two"):
        path.write_text(text)
        keys.add(RunSpec(partition="test-from-file").key)
    assert len(keys) == 2


def test_testing_by_labels_needs_classes_and_says_so_before_training():
    with pytest.raises(UserError, match=r"--test-by labels needs classes.*Leave it out"):
        Simulation(RunSpec(dataset="diabetes", parties=3, test_by="labels"))


SPLITS = (
    *("iid", "natural", "label-dirichlet(0.5)", "label-count(2)", "shards", "quantity-dirichlet(0.5)", "temporal"),
    *("label-dirichlet(0.5)+quantity-power(1)", "iid+feature-noise(0.3)", "copies(2)", "similarity(50)"),
)


@pytest.mark.parametrize("text", SPLITS)
def test_parties_are_split_when_asked_for_as_if_all_had_been_split_at_once(text, monkeypatch):
    monkeypatch.setattr(federations, "MOST_SPLIT", 2)  # so that most are split more than once
    data = small_dataset()
    partition = make_partition(text, data, None if text == "natural" else 4, 3)
    made = SplitRows(data, partition, seed=5, validation=0.15, held_out=0.25)
    expected = [
        hold_out(np.array(rows), data.labels[rows], 0.15, 0.25, stream(5, "holdout", number))
        for number, rows in enumerate(partition.rows)
    ]
    assert made.population.rows.tolist() == [len(train) for train, _, _ in expected]
    assert made.population.most_rows == max(len(train) for train, _, _ in expected)
    for number in [*reversed(range(partition.parties)), *range(partition.parties)]:
        own = made.parties[number]
        for part, rows in zip((own.train, own.validation, own.held_out), expected[number], strict=True):
            assert np.array_equal(part, rows)
    assert len(made.parties) == len(list(made.parties)) == partition.parties


def test_nobody_is_split_who_is_not_asked(monkeypatch):
    split: list[int] = []

    plain = SplitRows._split

    def counted(self, number):
        split.append(number)
        return plain(self, number)

    monkeypatch.setattr(SplitRows, "_split", counted)
    spec = {**SMALL, "partition": "iid", "parties": 40, "sample": 0.1, "rounds": 3, "evaluate_every": 9}
    simulation = Simulation(RunSpec(**spec), data=small_dataset())
    assert split == []
    play(simulation, 2)
    assert set(split) == {*simulation.cohort(1), *simulation.cohort(2)}
    assert len(split) == len(set(split))

"""What holds for all distortions and their sums: rows conserved, test rows untouched, arguments left alone."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import PARTITIONS, as_seen, make_partition, seen_by, seen_label_counts
from unalike.partition.distorted import prepared

Make = Callable[..., Dataset]
OF_FEATURES = ["feature-noise(0.5)", "feature-shift(rotation, 20)", "feature-shift(impulse, 0.4)"]
OF_LABELS = ["label-noise(0.4)", "label-preference(0.6)", "label-noise(0.5, rising=true)"]
SPLITS = ["iid", "label-dirichlet(0.3, minimum=1)"]


def pictures(rows: int = 90, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 200, (rows, 1, 5, 5)).astype(np.uint8), rng.integers(0, 4, rows)
    return Dataset("pictures", x, y, x[:7], y[:7], tuple("abcd"), scale=np.float32(200) * np.ones((), np.float32))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    split=st.sampled_from(SPLITS),
    added=st.lists(st.sampled_from(OF_FEATURES + OF_LABELS), min_size=1, max_size=3),
    parties=st.integers(1, 6),
    seed=st.integers(0, 2**40),
)
def test_rows_are_conserved_and_the_test_set_untouched(
    split: str, added: list[str], parties: int, seed: int
) -> None:
    data = pictures(seed=seed % 100)
    copies = data.x.copy(), data.y.copy(), data.x_test.copy()
    plain = make_partition(split, data, parties, seed)
    partition = make_partition("+".join([split, *added]), data, parties, seed)
    for a, b in zip(plain.rows, partition.rows, strict=True):
        np.testing.assert_array_equal(a, b)  # a distortion does not change who has which rows
    seen, laid = as_seen(data, partition)
    assert seen.size == data.size
    assert [len(rows) for rows in laid.rows] == [len(rows) for rows in partition.rows]
    assert sorted(np.concatenate(laid.rows)) == list(range(data.size))
    order = np.concatenate(partition.rows)
    if not set(added) & set(OF_LABELS):
        np.testing.assert_array_equal(seen.y, data.y[order])
    if not set(added) & set(OF_FEATURES):
        np.testing.assert_array_equal(seen.x, data.x[order])
        assert seen.x.dtype == data.x.dtype
    np.testing.assert_array_equal(seen.y_test, data.y_test)
    np.testing.assert_array_equal(prepared(seen.x_test, seen), prepared(data.x_test, data))
    for array, copy in zip((data.x, data.y, data.x_test), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    again, _ = as_seen(data, make_partition(partition.recipe, data, parties, seed))
    np.testing.assert_array_equal(again.x, seen.x)
    np.testing.assert_array_equal(again.y, seen.y)


@pytest.mark.parametrize("text", OF_FEATURES + OF_LABELS)
def test_apply_is_the_same_each_time_and_leaves_its_arguments(text: str) -> None:
    data = pictures()
    (distortion,) = make_partition(text, data, 3, 5).distortions
    x, y = prepared(data.x, data), data.y.copy()
    x.flags.writeable = y.flags.writeable = False
    for party in (2, 0, 1):
        first, again = (distortion.apply(party, x, y) for _ in range(2))
        np.testing.assert_array_equal(first[0], again[0])
        np.testing.assert_array_equal(first[1], again[1])
        assert first[1].dtype == y.dtype
        assert first[0].dtype == x.dtype
        assert (first[0] is x) or distortion.changes_features


def test_each_of_two_equal_distortions_draws_anew_and_order_matters() -> None:
    data = load_dataset("digits")
    one, two = (as_seen(data, make_partition(text, data, 2, 0))[0].x for text in ("feature-noise(1)",) * 2)
    np.testing.assert_array_equal(one, two)
    twice = as_seen(data, make_partition("feature-noise(1)+feature-noise(1)", data, 2, 0))[0].x
    plain = data.x[np.concatenate(make_partition("iid", data, 2, 0).rows)] / 16
    assert (twice - plain).var() == pytest.approx(2 * (one - plain).var(), rel=0.05)  # independent noise
    turned = as_seen(data, make_partition("feature-noise(1)+feature-shift(rotation, 90)", data, 2, 0))[0].x
    assert not np.allclose(turned, as_seen(data, make_partition(
        "feature-shift(rotation, 90)+feature-noise(1)", data, 2, 0))[0].x)  # fmt: skip


def test_nothing_to_do_gives_the_same_objects(made: Make) -> None:
    data = made(np.arange(20) % 2, 2)
    partition = make_partition("iid", data, 2, 0)
    assert as_seen(data, partition) == (data, partition)


def test_seen_labels_are_counted() -> None:
    data = pictures()
    partition = make_partition("iid+label-noise(1)", data, 3, 0)
    seen, laid = as_seen(data, partition)
    np.testing.assert_array_equal(seen_label_counts(data, partition), laid.label_counts(seen))
    assert (seen_label_counts(data, partition) != partition.label_counts(data)).any()


def test_group_becomes_the_party(made: Make) -> None:
    data = made(np.arange(20) % 2, 2)
    seen, laid = as_seen(data, make_partition("label-noise(0.5)", data, 3, 0))
    assert seen.group is not None
    assert seen.group_names == laid.names
    for party, rows in enumerate(laid.rows):
        assert (seen.group[rows] == party).all()


def sparse_rows() -> Dataset:
    x, y = sparse.csr_matrix(np.eye(8, dtype=np.float32)), np.arange(8) % 2
    return Dataset("sparse", x, y, x, y, ("a", "b"))


def tokens() -> Dataset:
    x, y = np.arange(40).reshape(8, 5), np.arange(8) % 2
    return Dataset("words", x, y, x, y, ("a", "b"), kind="tokens")


@pytest.mark.parametrize("data", [sparse_rows(), tokens()], ids=["sparse", "tokens"])
def test_sparse_rows_and_tokens_keep_their_features_but_not_their_labels(data: Dataset) -> None:
    for text in ("feature-noise(0.1)", "feature-shift(scale, 1)"):
        with pytest.raises(
            UserError, match=r"^feature-\w+\(.*\) changes features, which .* do not allow\. Leave it"
        ):
            make_partition(text, data, 2, 0)
    partition = make_partition("label-noise(1)", data, 2, 0)
    seen, laid = as_seen(data, partition)
    order = np.concatenate(partition.rows)
    np.testing.assert_array_equal(seen.y, 1 - data.y[order])
    assert (seen.x != data.x[order]).sum() == 0
    assert seen.is_sparse == data.is_sparse
    np.testing.assert_array_equal(seen_by(data, partition, 1)[1], seen.y[laid.rows[1]])


@pytest.fixture
def plugin() -> Iterator[None]:
    class Bad:
        changes_features = True

        def apply(self, party: int, x: Any, y: Any) -> tuple[Any, Any]:
            return x[1:], y[1:]

    @PARTITIONS.register("loses-rows-for-tests")
    class Loses:
        """A distortion with a fault."""

        def distort(self, dataset: Dataset, partition: Any, rng: Any) -> Bad:
            return Bad()

    yield
    del PARTITIONS._entries["loses-rows-for-tests"]


def test_faulty_distortions_are_refused(plugin: None) -> None:
    data = pictures()
    with pytest.raises(UserError, match=r"returned 44 rows for 45\. Mend"):
        as_seen(data, make_partition("loses-rows-for-tests", data, 2, 0))
    with pytest.raises(UserError, match="changes features, which tokens"):
        as_seen(tokens(), make_partition("loses-rows-for-tests", tokens(), 2, 0))


@pytest.mark.parametrize("text", ["feature-noise(0.1)", "feature-shift(rotation, 20)", "feature-shift(colour, 1)"])
def test_memory_is_the_result_and_a_few_parties(text: str) -> None:
    x, y = np.zeros((4000, 3, 32, 32), np.uint8), np.arange(4000) % 10
    data = Dataset(
        "many", x, y, x[:10], y[:10], tuple("0123456789"), scale=np.float32(255) * np.ones((), np.float32)
    )
    partition = make_partition(text, data, 20, 0)
    result = 4 * x.size
    tracemalloc.start()
    try:
        as_seen(data, partition)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.6 * result  # whole copies would make it three times as much

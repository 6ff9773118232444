"""What a party has where columns are split: its own block of the table, and whom all parties know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.data.dataset import Array, Dataset, Units
from unalike.errors import UserError
from unalike.partition.disagreement import Inconsistency
from unalike.partition.distorted import changes_features, prepared, seen_by
from unalike.partition.partition import Partition

Places = NDArray[np.int64]


def common_rows(partition: Partition) -> Places:
    """The training rows that all parties know, ascending: those that can be trained on together."""
    common: Places = reduce(np.intersect1d, partition.rows).astype(np.int64)
    return common


def apart_rows(partition: Partition, party: int) -> Places:
    """The training rows that this party knows and not all others do, ascending."""
    apart: Places = np.setdiff1d(partition.rows[party], common_rows(partition)).astype(np.int64)
    return apart


def columns_of(
    dataset: Dataset, partition: Partition, party: int, rows: Places | None = None, *, test: bool = False
) -> Any:
    """A party's own block: its columns, as it knows them, of rows of the training set, or of the test set.

    [rows, columns of the party], in the order of ``rows`` (None: all) and of ``partition.columns[party]``. Numbers
    are as the data set has them: float32 and float64 stay, others become float32; sparse rows stay a CSR matrix,
    and a missing value NaN. Where a distortion changes features, numbers are prepared (shifted and scaled), of
    the test set too, which no distortion changes. Inconsistency in shared columns are in both.
    """
    if partition.columns is None:
        raise UserError(f"{partition.recipe} splits no columns. Use vertical(2).")
    size = len(dataset.y_test) if test else dataset.size
    places = np.arange(size, dtype=np.int64) if rows is None else np.asarray(rows, np.int64)
    columns = partition.columns[party]
    if not partition.distortions:
        source = dataset.x_test if test else dataset.x
        block = _cut(source, places, columns)
    elif test:
        x = dataset.x_test
        block = _cut(prepared(x, dataset) if changes_features(partition) else x, places, columns)
    else:
        block = _cut(seen_by(dataset, partition, party)[0], _within(partition, party, places), columns)
    if partition.disagreement is not None:
        scaled = changes_features(partition)
        block = _mistaken(block, dataset, partition, party, places, test=test, scaled=scaled)
    return block


def labels_of(dataset: Dataset, partition: Partition, rows: Places) -> Array:
    """The labels of rows of the training set as the label holder has them: perhaps distorted."""
    if not partition.distortions:
        return dataset.y[rows]
    holder = partition.label_holder
    labels: Array = seen_by(dataset, partition, holder)[1][_within(partition, holder, rows)]
    return labels


def as_held(dataset: Dataset, partition: Partition) -> tuple[Dataset, Partition]:
    """The data set and partition with the parties' own blocks side by side; the same two where all agree.

    Where parties have something else in a column than the data set has (inconsistent values, or a distortion of
    features), it becomes a column of each: "age at party 1". So the parties' columns no longer overlap, and the
    test set has what the parties have of the test people. Images become tables. Labels are the label holder's.
    """
    if partition.columns is None or not (partition.disagreement or partition.distortions):
        return dataset, partition
    parts = [_held(dataset, partition, party) for party in range(partition.parties)]
    tests = [columns_of(dataset, partition, party, test=True) for party in range(partition.parties)]
    ends = np.cumsum([len(columns) for columns in partition.columns])
    y, holder = dataset.y.copy(), partition.rows[partition.label_holder]
    y[holder] = labels_of(dataset, partition, holder)
    places = np.concatenate(partition.columns)
    numbers = {"shift": dataset.shift, "scale": dataset.scale}
    if changes_features(partition):
        numbers = {"shift": np.zeros((), np.float32), "scale": np.ones((), np.float32)}
    made = replace(
        dataset,
        x=_side_by_side(parts),
        x_test=_side_by_side(tests),
        y=y,
        features=_names_held(dataset, partition),
        schema=None,
        units=Units(*(_by_column(part, dataset)[places] for part in dataset.units)),
        **{name: _by_column(part, dataset)[places] for name, part in numbers.items()},
    )
    columns = tuple(np.split(np.arange(ends[-1]), ends[:-1]))
    return made, replace(partition, columns=columns, distortions=(), disagreement=None)


def _held(dataset: Dataset, partition: Partition, party: int) -> Any:
    """A party's columns of all training rows; of people whom it does not know, as the data set has them."""
    known = partition.rows[party]
    if not partition.distortions or len(known) == dataset.size:
        return columns_of(dataset, partition, party)
    assert partition.columns is not None
    x = prepared(dataset.x, dataset) if changes_features(partition) else dataset.x
    block = _cut(x, np.arange(dataset.size), partition.columns[party])
    own = columns_of(dataset, partition, party, known)
    if not hasattr(block, "indptr"):
        block[known] = own
        return block
    from scipy import sparse

    others = np.setdiff1d(np.arange(dataset.size), known)
    order = np.argsort(np.concatenate([known, others]))
    return sparse.vstack([own, block[others]], format="csr")[order]


def _side_by_side(blocks: Sequence[Any]) -> Any:
    if not hasattr(blocks[0], "indptr"):
        return np.concatenate(blocks, axis=1)
    from scipy import sparse

    return sparse.hstack(blocks, format="csr")


def _by_column(part: Array, dataset: Dataset) -> Array:
    """A number for each flattened column, of shift or scale of any shape that fits a row."""
    spread: Array = np.broadcast_to(part, dataset.shape).reshape(-1)
    return spread


def _names_held(dataset: Dataset, partition: Partition) -> tuple[str, ...]:
    """A name for each column of the blocks side by side; none where the data set has none."""
    assert partition.columns is not None
    width = int(np.prod(dataset.shape))
    if len(dataset.features) != width:
        return ()
    times = np.bincount(np.concatenate(partition.columns), minlength=width)
    return tuple(
        f"{dataset.features[column]} at {name}" if times[column] > 1 else dataset.features[column]
        for name, columns in zip(partition.names, partition.columns, strict=True)
        for column in columns
    )


def _within(partition: Partition, party: int, rows: Places) -> Places:
    """The places of these rows among those that the party knows."""
    known = partition.rows[party]
    places: Places = np.searchsorted(known, rows).astype(np.int64)
    if (places >= len(known)).any() or (known[places] != rows).any():
        raise UserError(f"{partition.names[party]} does not know all of these rows. Ask for its own.")
    return places


def _cut(x: Any, places: Places, columns: Places) -> Any:
    """Some rows and columns, sparse where they were; whole numbers become float32."""
    if hasattr(x, "indptr"):
        return x[places][:, columns].tocsr()
    block = x.reshape(len(x), -1)[np.ix_(places, columns)]
    return block if block.dtype in (np.float32, np.float64) else block.astype(np.float32)


def _mistaken(
    block: Any, dataset: Dataset, partition: Partition, party: int, places: Places, *, test: bool, scaled: bool
) -> Any:
    """The block with other people's values where the party is mistaken."""
    wrong_of: Inconsistency | None = partition.disagreement
    assert wrong_of is not None
    assert partition.columns is not None
    own, sparse = partition.columns[party], hasattr(block, "indptr")
    changed = block.tocsc() if sparse else block
    pieces: dict[int, Any] = {}
    for number, attribute in enumerate(wrong_of.attributes):
        whose = wrong_of.whose(party, number, places, test=test, label_holder=partition.label_holder)
        wrong = np.flatnonzero(whose >= 0)
        if not len(wrong):
            continue
        within = np.searchsorted(own, attribute)
        x = prepared(dataset.x[whose[wrong]], dataset) if scaled else dataset.x[whose[wrong]]
        others = _cut(x, np.arange(len(wrong)), attribute)
        if not sparse:
            changed[np.ix_(wrong, within)] = others
            continue
        for place, column in enumerate(within):
            dense = changed[:, [column]].toarray()
            dense[wrong] = others[:, [place]].toarray()
            pieces[int(column)] = dense
    return _with_columns(changed, pieces) if sparse else changed


def _with_columns(block: Any, pieces: dict[int, Any]) -> Any:
    """The sparse block with some of its columns replaced."""
    from scipy import sparse

    columns = [sparse.csc_matrix(pieces[k]) if k in pieces else block[:, [k]] for k in range(block.shape[1])]
    joined = sparse.hstack(columns, format="csr", dtype=block.dtype)
    joined.eliminate_zeros()
    joined.sort_indices()
    return joined

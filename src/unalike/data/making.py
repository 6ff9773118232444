"""``unalike.dataset``: arrays, tensors, sparse matrices, data frames, bunches, torch data sets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from unalike.data.answers import numbered
from unalike.data.arrays import as_array, check_rows
from unalike.data.dataset import Array, Dataset
from unalike.data.frames import is_frame, of_frame
from unalike.data.pixels import is_image, pixels
from unalike.data.roles import Missing, check_test, natural_parties, some_test_rows
from unalike.data.targets import check_targets, strata
from unalike.errors import UserError, shown
from unalike.tallies import Kind

_UNLIKE = 100  # times that the standard deviation of a column may be that of another before it is said
_SINGLE = 1e-6  # a column that varies by less of its mean is constant to a net, which computes in float32


def dataset(
    x: Any,
    y: Any = None,
    *,
    label: str | None = None,
    parties: Any = None,
    test: Any = 0.2,
    classes: Sequence[Any] | None = None,
    name: str = "mine",
    kind: Literal["numbers", "tokens"] | None = None,
    task: Kind | None = None,
    standardise: bool = False,
    missing: Missing = "error",
    ignore: Sequence[str] = (),
    categories: Sequence[str] = (),
    types: str = "",
) -> Dataset:
    """A data set for ``unalike.run(dataset=...)`` of rows that a Python program has.

    ``x`` is an array or torch tensor of rows, a scipy sparse matrix, a data frame (pandas, polars or Arrow), a
    scikit-learn Bunch, or a torch data set of (row, label) pairs, which is read through once. ``y`` has a label
    for each row, text or number, or, with ``task="regression"``, a number to predict. ``parties`` says whose each
    row is, for ``partition="natural"``. ``test`` is the fraction of rows to test on (fixed, stratified by label,
    spread over the parties), or the test rows themselves, ``(x_test, y_test)``, perhaps with their parties as a
    third, or None: then there is no score on a global test set.

    Numbers are taken as they are; with ``standardise`` a net sees them minus the mean of the training rows,
    divided by their standard deviation. Images are [rows, channels, height, width]; of bytes, a net sees them
    divided by 255. ``classes`` names the labels 0, 1, ...; rows of ``kind="tokens"`` are whole numbers that mean
    words.

    Of a data frame, ``label`` and ``parties`` may be names of columns, ``ignore`` are columns to leave out,
    ``categories`` are columns whose numbers are codes, ``types`` say the kinds of others (``"born:date"``), and
    ``missing`` says what becomes of gaps; its columns are coded as those of ``csv:FILE`` are: categories, dates
    and standardised numbers. Of an array, too, ``missing="keep"`` lets NaN be a missing value, for trees.
    """
    _check_test(test)
    names: tuple[str, ...] = ()
    if isinstance(x, Mapping) and "data" in x and "target" in x:  # scikit-learn's Bunch
        names = tuple(map(str, x.get("feature_names", ())))
        x, y, classes = _of_bunch(x, y if label is None else None, classes, task)
    if is_frame(x):
        if classes is not None or kind is not None:
            raise UserError("A data frame tells its own classes and kind. Leave classes and kind out.")
        said = (types, tuple(categories))
        return of_frame(x, y, label, parties, test, name, missing, tuple(ignore), task or "classification", *said)
    if label is not None or ignore or categories or types or missing not in ("error", "keep"):
        raise UserError(
            "label, ignore, categories, types and missing are for data frames, whose columns have names. "
            "Give x and y; of arrays, missing may be 'keep', for trees."
        )
    rows, y = _rows(x, y, name)
    keep = missing == "keep"
    made = _of_arrays(rows, y, parties, test, classes, name, kind or "numbers", task or "classification", keep)
    made = replace(made, features=names) if (len(names),) == made.shape else made
    return _scaled(made, standardise)


def _check_test(test: Any) -> None:
    if isinstance(test, int | float) and not isinstance(test, bool):
        check_test("dataset", test)
    elif not (test is None or is_frame(test) or (isinstance(test, tuple | list) and len(test) in (2, 3))):
        raise UserError(f"test must be a fraction such as 0.2, (x_test, y_test), or None, got {_brief(test)}.")


def _brief(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, tuple | list) else shown(value)


def _of_bunch(bunch: Mapping[str, Any], y: Any, classes: Any, task: Kind | None) -> tuple[Any, Any, Any]:
    """Rows, labels and names of classes of scikit-learn's Bunch; in a data frame the labels are the names."""
    y = bunch["target"] if y is None else y
    names, places = bunch.get("target_names"), np.asarray(y)
    if classes is not None or names is None or task == "regression" or places.dtype.kind not in "iu":
        return bunch["data"], y, classes
    if places.min() < 0 or places.max() >= len(names):
        return bunch["data"], y, None
    return (
        (bunch["data"], np.asarray(names)[places], None) if is_frame(bunch["data"]) else (bunch["data"], y, names)
    )


def _rows(x: Any, y: Any, name: str) -> tuple[Any, Any]:
    """The rows as an array or sparse matrix, and their labels; a torch data set is read through for both."""
    plain = isinstance(x, list | tuple) or any(hasattr(x, way) for way in ("__array__", "detach", "tocsr"))
    if plain or x is None:
        rows = as_array(x, f"{name}'s x")
        return (rows.astype(np.uint8) if rows.dtype.kind == "b" else rows), y
    if not (hasattr(x, "__getitem__") and hasattr(x, "__len__")) or y is not None or isinstance(x, Mapping | str):
        told = f"a {type(x).__name__}" + ("" if y is None else " and labels")
        raise UserError(
            f"{name}'s x is {told}. Give an array, a data frame, a Bunch, or a torch data set of pairs."
        )
    pairs = [x[place] for place in range(len(x))]
    if not pairs or any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
        raise UserError(f"{name}'s x, a {type(x).__name__}, must hold (row, label) pairs. Give x and y instead.")
    each = [pixels(row) if is_image(row) else as_array(row, f"{name}'s x") for row, _ in pairs]
    odd = next((place for place, row in enumerate(each) if row.shape != each[0].shape), None)
    if odd is not None:
        raise UserError(
            f"Row {odd} of {name} has the shape {each[odd].shape}, the first {each[0].shape}. Make them alike."
        )
    return np.stack(each), np.asarray([as_array(label, f"{name}'s labels") for _, label in pairs])


def _of_arrays(
    x: Any,
    y: Any,
    parties: Any,
    test: Any,
    classes: Any,
    name: str,
    kind: Literal["numbers", "tokens"],
    task: Kind,
    gaps: bool,
) -> Dataset:
    check_rows(x, f"{name}'s rows", gaps=gaps)
    if y is None:
        raise UserError(f"{name} has no labels. Give them as y: unalike.dataset(x, y).")
    apart = isinstance(test, tuple | list)
    x_test, y_test, parties_test = (*test, None)[:3] if apart else (None, None, None)
    if apart:
        x_test = _rows(x_test, (), name)[0]
        check_rows(x_test, f"{name}'s test rows", gaps=gaps)
    names: tuple[str, ...] = ()
    given, counts = ([y, y_test], [x.shape[0], x_test.shape[0]]) if apart else ([y], [x.shape[0]])
    if task == "regression":
        answers = [as_array(part, f"{name}'s targets") for part in given]
        for part, count in zip(answers, counts, strict=True):
            check_targets(part, f"{name}'s targets", count)
    else:
        answers, names = numbered(name, given, counts, classes)
    whose, party = _parties([parties, parties_test], counts)
    if apart:
        more = natural_parties(whose, party, np.arange(len(party)) >= counts[0]) if parties is not None else {}
        if parties_test is None:
            more.pop("group_test", None)
        return Dataset(name, x, answers[0], x_test, answers[1], names, kind=kind, task=task, gaps=gaps, **more)
    y = answers[0]
    chosen = some_test_rows(name, strata(y) if task == "regression" else y, party, test)
    more = natural_parties(whose, party, chosen) if parties is not None else {}
    held: tuple[Any, Any] = (x[chosen], y[chosen]) if chosen.any() else (None, None)
    more |= {"kind": kind, "task": task, "gaps": gaps}
    return Dataset(name, x[~chosen], y[~chosen], held[0], held[1], names, **more)


def _parties(each: Sequence[Any], counts: Sequence[int]) -> tuple[Array, Array]:
    """The names of the parties, sorted, and each row's place among them; party 0 where nobody says."""
    found = []
    for given, count in zip(each, counts, strict=False):
        own = np.zeros(count, np.int64) if given is None else as_array(given, "parties")
        if own.shape != (count,):
            raise UserError(
                f"parties has the shape {own.shape}, but there are {count} rows. Give one for each row."
            )
        if own.dtype.kind == "f" or any(value is None or value != value for value in own.tolist()):
            raise UserError("parties must be whole numbers or names, one for each row, and none may be missing.")
        found.append(own if own.dtype.kind in "iub" else own.astype(str))
    names, places = np.unique(np.concatenate(found), return_inverse=True)
    return names, places


def _scaled(data: Dataset, standardise: bool) -> Dataset:
    """The data set with the shift and scale that its rows need before a net sees them."""
    if data.kind == "tokens":
        if standardise:
            raise UserError(f"{data.name}'s rows are tokens, which mean words. Leave standardise out.")
        return data
    image = len(data.shape) == 3
    if not standardise:
        if image and data.x.dtype == np.uint8:
            return replace(data, scale=np.full((), 255, np.float32))
        _look_at_scales(data)
        return data
    mean, deviation = _moments(data.x, (0, 2, 3) if image else 0)
    shape = (-1, 1, 1) if image else data.shape
    scale = np.where(deviation > _SINGLE * np.abs(mean), deviation, 1.0)
    return replace(
        data, shift=mean.astype(np.float32).reshape(shape), scale=scale.astype(np.float32).reshape(shape)
    )


def _moments(x: Any, axes: Any) -> tuple[Array, Array]:
    """Mean and standard deviation; of a sparse matrix, whose rows are never made dense all at once, too."""
    if hasattr(x, "indptr"):
        mean, squares = (np.asarray(part.mean(axis=0)).ravel() for part in (x, x.multiply(x)))
        return mean, np.sqrt(np.maximum(squares - mean**2, 0))
    if np.isnan(x).any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of columns that have no value at all
            known = np.nanmean(x, axis=axes, dtype=np.float64), np.nanstd(x, axis=axes, dtype=np.float64)
        return np.nan_to_num(known[0]), np.nan_to_num(known[1])
    return x.mean(axis=axes, dtype=np.float64), x.std(axis=axes, dtype=np.float64)


def _look_at_scales(data: Dataset) -> None:
    """Say so where columns are on scales so different that a net hardly sees the smaller ones."""
    if data.is_sparse or len(data.shape) != 1 or data.gaps:  # trees do not mind
        return
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = _moments(data.x, 0)[1]
    varying = np.flatnonzero(deviations > 0)
    if not len(varying):
        return
    low, high = varying[deviations[varying].argmin()], varying[deviations[varying].argmax()]
    if not deviations[high] <= _UNLIKE * deviations[low]:
        named = [data.features[place] if data.features else f"column {place}" for place in (high, low)]
        told = f"{deviations[high]:.3g} and {deviations[low]:.3g}"
        warnings.warn(
            f"{data.name}: the standard deviations of {named[0]} and {named[1]} are {told}, so that a net hardly "
            "sees the smaller one (trees do not mind). standardise=True makes them alike.",
            stacklevel=4,
        )

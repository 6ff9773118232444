"""Rows and labels that a user hands over: made numpy arrays or sparse matrices, and looked at before use."""

from __future__ import annotations

from typing import Any

import numpy as np

from unalike.errors import UserError

_CHANNELS = (1, 3, 4)  # of an image: grey, colour, colour with transparency


def as_array(value: Any, what: str) -> Any:
    """The numpy array (of a torch tensor or a list, too) or the CSR matrix (of any scipy sparse one)."""
    if value is None:
        test = " of rows that are not trained on, such as a fifth of yours" if what.endswith("_test") else ""
        raise UserError(f"{what} is None. Give an array{test}.")
    if hasattr(value, "tocsr"):
        return value.tocsr()
    if np.ma.is_masked(value):
        raise UserError(
            f"{what} has {np.count_nonzero(value.mask)} masked values. Fill them in first: x.filled(0)."
        )
    try:
        # A torch tensor may be on an accelerator or have gradients; torch itself is not needed to ask it.
        return _plain(np.asarray(value.detach().cpu() if hasattr(value, "detach") else value))
    except (ValueError, TypeError, RuntimeError) as error:
        shown, reason = type(value).__name__, str(error).split(".")[0].splitlines()[0]
        raise UserError(
            f"{what} is a {shown} that numpy cannot take ({reason}). Make it an array first."
        ) from None


def _plain(array: Any) -> Any:
    """The array as PyTorch can take it: in this machine's byte order, and not read backwards."""
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return array.copy() if min(array.strides, default=0) < 0 else array


def check_rows(rows: Any, what: str, fewest: int = 1, gaps: bool = False) -> None:
    """Refuse rows that are too few, not numbers, not finite, or images whose channels come last.

    With ``gaps`` NaN is a missing value, as trees can read it in the columns of a table.
    """
    if rows.ndim < 2 or rows.shape[0] < fewest:
        remedy = "Check where they come from." if rows.ndim > 1 else "Give (rows, columns), such as x[:, None]."
        raise UserError(f"{what} have the shape {rows.shape}: there are no rows of numbers. {remedy}")
    if rows.dtype.kind not in "iuf":
        raise UserError(f"{what} are of type {rows.dtype}, not numbers. Encode them first, as np.float32.")
    if rows.ndim == 4 and rows.shape[3] in _CHANNELS and min(rows.shape[1:3]) > max(_CHANNELS):
        raise UserError(
            f"{what} have the shape {rows.shape}: images must have their channels first. "
            "Use x.transpose(0, 3, 1, 2), and so for the test rows."
        )
    if gaps and (rows.ndim != 2 or hasattr(rows, "indptr") or rows.dtype.kind != "f"):
        raise UserError(f"{what} are no dense table of float numbers, so no NaN can be kept. Leave missing out.")
    bad = np.isinf(rows).any(axis=1).sum() if gaps else _not_finite(rows)
    if bad:
        held = "infinite values" if gaps else "NaN or infinite values"
        table = not gaps and rows.ndim == 2 and not hasattr(rows, "indptr") and not np.isinf(rows).any()
        keep = ' Trees can read NaN: missing="keep".' if table else ""
        raise UserError(f"{what} hold {held} in {bad} row(s). Remove or fill them first.{keep}")


def check_one_each(labels: Any, what: str, rows: int) -> None:
    """Refuse labels that are not one for each row."""
    if labels.ndim != 1:
        remedy = "y.ravel()" if labels.size == rows else "y.argmax(axis=1)"
        raise UserError(f"{what} have the shape {labels.shape}, not one number for each row. Use {remedy}.")
    if len(labels) != rows:
        raise UserError(f"{what} are {len(labels)}, but there are {rows} rows. Every row needs a label.")


def check_labels(labels: Any, what: str, rows: int, classes: int) -> None:
    """Refuse labels that are not one whole number for each row, numbered from 0."""
    check_one_each(labels, what, rows)
    if labels.dtype.kind not in "iu":
        raise UserError(f"{what} are of type {labels.dtype}, not whole numbers. Number the classes from 0.")
    if len(labels) and (labels.min() < 0 or labels.max() >= classes):
        raise UserError(
            f"{what} are from {labels.min()} to {labels.max()}, but there are {classes} classes. "
            "Labels are numbered from 0."
        )


def check_groups(groups: Any, what: str, rows: int) -> None:
    """Refuse groups that are not one whole number for each row."""
    if groups.dtype.kind not in "iu":
        raise UserError(
            f"{what} is of type {groups.dtype}, not whole numbers. Use group_names, group = np.unique(group, "
            "return_inverse=True)."
        )
    if groups.shape != (rows,):
        raise UserError(f"{what} has the shape {groups.shape}, but there are {rows} rows. Give one for each row.")


def check_scaling(values: Any, what: str, shape: tuple[int, ...]) -> None:
    """Refuse a shift or scale that does not fit a row of that shape."""
    try:
        fits = values.dtype.kind in "iuf" and np.broadcast_shapes(values.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits or not np.isfinite(values).all():
        raise UserError(
            f"{what} ({values.dtype}, shape {values.shape}) must be one finite number, or as many as a row of "
            f"shape {shape} has."
        )
    if what.endswith("scale") and not values.all():
        raise UserError(f"{what} must not be 0: rows are divided by it. Use 1 where all rows are the same.")


def _not_finite(rows: Any) -> int:
    """How many rows hold NaN or an infinity."""
    if rows.dtype.kind != "f":
        return 0
    if hasattr(rows, "indptr"):  # a sparse matrix: what it does not store is zero
        wrong = np.flatnonzero(~np.isfinite(rows.data))
        return len(np.unique(np.searchsorted(rows.indptr, wrong, side="right")))
    return int((~np.isfinite(rows).all(axis=tuple(range(1, rows.ndim)))).sum())

"""Whole numbers for models of split columns: sums that are exact, and so the same however columns are split.

A column's number is a whole multiple of 2^-20, a weight or a residual one of 2^-24, and a score or a gradient, a
sum of products of two of them, one of 2^-44. Nothing is rounded after the products are made: so masks and
ciphertexts can carry the sums, and who holds which column does not matter to a single bit.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError

COLUMNS: Final = 20
"""Bits after the point of a number in a column."""
STEPS: Final = 24
"""Bits after the point of a weight, and of a residual."""
PRODUCTS: Final = COLUMNS + STEPS
"""Bits after the point of a score, and of a gradient."""
GREATEST: Final = 2**61
"""The sum of all parties' scores must stay below, so that 64 bits hold it."""
GREATEST_RESIDUAL: Final = 2.0**20
"""A residual must stay below: beyond, training has diverged."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_EXACT: Final = 2.0**53


def whole(values: Any, bits: int, what: str) -> Floats:
    """The nearest multiples of 2^-bits, as whole numbers in float64; numbers that are too large are refused."""
    found: Floats = np.rint(np.ldexp(values, bits))
    if not found.size:
        return found
    most = float(np.abs(found).max())
    if not most < _EXACT:
        greatest = float(np.ldexp(_EXACT, -bits))
        raise UserError(
            f"{what} reach {np.ldexp(most, -bits):.3g}, but whole numbers of 2^-{bits} hold {greatest:.3g}. "
            "Standardise columns, or lower --lr."
        )
    return found


def exact_product(left: Any, right: Floats, most_left: float, most: int, what: str) -> Ints:
    """The matrix product of whole numbers in float64, without rounding; entries beyond ``most`` are refused.

    ``left`` may be a scipy CSR matrix; ``most_left`` is at least its greatest entry. As long as no partial sum
    passes 2^53, float64 is exact in any order: so the inner dimension is cut into parts for which that holds.
    """
    inner = left.shape[1]
    bound = most_left * (float(np.abs(right).max()) if right.size else 0.0)
    if bound * inner < _EXACT:
        return check_within(_ints(left @ right), most, what)
    if bound * inner >= 2.0**62:
        reach = float((abs(left) @ np.abs(right)).max())
        if reach >= 2.0**62:
            raise _too_large(reach, what)
    part = int(_EXACT / bound) if bound < _EXACT else 0
    if part < 8:
        return check_within(_ints(left.astype(np.int64) @ right.astype(np.int64)), most, what)
    found = np.zeros((left.shape[0], right.shape[1]), np.int64)
    for at in range(0, inner, part):
        found += _ints(left[:, at : at + part] @ right[at : at + part])
    return check_within(found, most, what)


def check_within(found: Ints, most: int, what: str) -> Ints:
    """The same whole numbers, none of which is beyond ``most`` either way."""
    if found.size and (found.max() > most or found.min() < -most):
        raise _too_large(max(float(found.max()), -float(found.min())), what)
    return found


def decoded(found: Ints) -> Floats:
    """Scores or gradients as plain numbers."""
    plain: Floats = np.ldexp(found.astype(np.float64), -PRODUCTS)
    return plain


def _ints(found: Any) -> Ints:
    ints: Ints = np.asarray(found).astype(np.int64)
    return ints


def _too_large(reach: float, what: str) -> UserError:
    return UserError(
        f"{what} reach {np.ldexp(reach, -PRODUCTS):.3g}, more than whole numbers of 2^-{PRODUCTS} in 64 bits "
        "hold. Standardise columns, or lower --lr."
    )

"""How many categories or classes a column of texts may have."""

from __future__ import annotations

from unalike.errors import UserError
from unalike.part_text import as_text

MOST_CATEGORIES = 1000
FEW_CATEGORIES = 20  # so many are never too many
FEWEST_ROWS = 5  # of a category, on average: of fewer little can be learnt, and much told of single rows


def too_many(values: int, rows: int) -> bool:
    """Whether a column with so many different texts in so many rows is none of categories or classes."""
    return values > MOST_CATEGORIES or values > max(FEW_CATEGORIES, rows / FEWEST_ROWS)


def check_few(column: str, values: int, rows: int) -> None:
    """Refuse a column of texts with too many different ones, such as names, identifiers or free text.

    Each would become a column of its own that is nearly always 0; and sites would tell each other these values.
    """
    if too_many(values, rows):
        raise UserError(
            f"column {column}: {values} different texts in {rows} rows are too many for categories (at most "
            f"{MOST_CATEGORIES}, and {FEWEST_ROWS} rows of each on average). Group them, "
            f"or set ignore={as_text(column)}."
        )

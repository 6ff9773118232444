"""What sites with other columns of the same people tell of their tables, and what all of them agree on.

No coding is agreed on: each site codes its own columns alone. It tells how many numbers that makes of a person,
how many people are matched, and whether it has the label.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from unalike.data.schema import MOST_COLUMNS
from unalike.data.sites.description import MOST_ROWS
from unalike.data.sites.people import label_holder
from unalike.errors import UserError
from unalike.federation.envelope import Refused, shown

MOST_CLASSES = 10_000


@dataclass(frozen=True)
class ColumnOffer:
    """What one site tells of its part: the size of its coded columns, and the people that were matched."""

    columns: int
    classes: int
    """how many different labels it has; 0 where it has no labels"""
    people: int
    """that all sites know, to train on and to select and report by"""
    test: int
    """that all sites know, to test on"""
    matched: str
    """SHA-256 of the matching"""

    @classmethod
    def read(cls, told: Any) -> Self:
        """The offer in a message; Refused where it is none."""
        known = set(cls.__dataclass_fields__)
        if not isinstance(told, dict) or set(told) != known:
            raise Refused("what it tells of its columns is malformed")
        most = {"columns": MOST_COLUMNS, "classes": MOST_CLASSES, "people": MOST_ROWS, "test": MOST_ROWS}
        for name, limit in most.items():
            least = 0 if name in ("classes", "test") else 1
            if (
                type(told[name]) is not int
                or not least <= told[name] <= limit
                or (name, told[name]) == ("classes", 1)
            ):
                raise Refused(f"it cannot have {shown(told[name], 20)} {name}")
        if not isinstance(told["matched"], str) or len(told["matched"]) > 64:
            raise Refused("it does not say which matching it follows")
        return cls(**told)

    def to_dict(self) -> dict[str, Any]:
        """The offer as a header holds it."""
        return asdict(self)


@dataclass(frozen=True)
class ColumnsAgreed:
    """What all sites agree on before they train: who has the label, and sizes."""

    columns: tuple[int, ...]
    label_holder: int
    classes: int
    people: int
    test: int
    matched: str

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON holds it."""
        return {**asdict(self), "columns": list(self.columns)}

    @classmethod
    def read(cls, told: Any) -> Self:
        """What is proposed in a message, or kept in a file; Refused where it is nothing of that kind."""
        try:
            columns, holder = tuple(told["columns"]), told["label_holder"]
            rest = {name: told[name] for name in ("classes", "people", "test", "matched")}
            for count in columns:
                ColumnOffer.read({**rest, "columns": count})
        except (TypeError, KeyError):
            raise Refused("what it proposes that sites agree on is malformed") from None
        if type(holder) is not int or not 0 <= holder < len(columns):
            raise Refused("it does not say who has the label")
        return cls(columns, holder, **rest)

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def check(self, offer: ColumnOffer, number: int, name: str) -> None:
        """Refuse what does not go with a site's own part."""
        holds = (self.label_holder == number) == bool(offer.classes)
        mine = (offer.columns, offer.classes or self.classes, offer.people, offer.test, offer.matched)
        if not holds or mine != (self.columns[number], self.classes, self.people, self.test, self.matched):
            raise Refused(f"what was agreed on does not go with the table or the matching of {name}")


def columns_agreed(offers: Mapping[str, ColumnOffer], label: str) -> ColumnsAgreed:
    """What these sites, in order, can agree on; a UserError names who does not go with the others."""
    names = list(offers)
    holder = label_holder({name: bool(offers[name].classes) for name in names}, label)
    first = offers[names[0]]
    for name in names:
        if offers[name].matched != first.matched:
            raise UserError(
                f"{name} and {names[0]} follow different matchings of their people. Match again: "
                "unalike federation match DIR."
            )
        if (offers[name].people, offers[name].test) != (first.people, first.test):
            raise UserError(f"{name} has other people than {names[0]} after the matching. Match again.")
    return ColumnsAgreed(
        tuple(offers[name].columns for name in names),
        holder,
        offers[names[holder]].classes,
        first.people,
        first.test,
        first.matched,
    )

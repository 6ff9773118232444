"""What a server gets of an exchange: sums over those who answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

Vectors = dict[str, "Tensor"]
"""Named tensors: a payload, an upload, a party's state or the server's."""


class _Combined(dict[str, "Tensor"]):
    """Combined uploads that explain a key which was combined the other way."""

    def __init__(self, how: str, items: Iterable[tuple[str, Tensor]], others: Iterable[str]) -> None:
        super().__init__(items)
        self._how, self._others = how, set(others)

    def __missing__(self, key: str) -> Tensor:
        if key in self._others:
            rule = "is listed in" if self._how == "weighted" else "is not listed in"
            raise KeyError(f"{key!r} was not combined {self._how}: it {rule} the algorithm's `plain` set")
        there = ", ".join(map(repr, [*self, *self._others])) or "nothing"
        raise KeyError(f"no party uploaded {key!r}: upload or report returned {there}")


@dataclass(frozen=True, eq=False)
class Replies:
    """What the server gets of an exchange: sums over the cohort, never a single upload.

    Each uploaded key is combined in one way, known before it is sent, because the party scales and the
    channel only adds: keys in the algorithm's ``plain`` set as they are (``sum``, ``plain_mean``), all others
    times the party's weight (``mean``). ``size`` parties answered out of ``population``; they hold the fraction
    ``share`` of all training rows. ``buffers`` are the running statistics after this exchange.
    """

    weighted_sums: Vectors
    plain_sums: Vectors
    weight: float
    size: int
    population: int
    buffers: Tensor
    share: float = 1.0
    uploads: Mapping[int, Vectors] | None = None

    @property
    def mean(self) -> Mapping[str, Tensor]:
        """Weighted means: sum of weight x value / sum of weights."""
        items = ((k, v / self.weight) for k, v in self.weighted_sums.items())
        return _Combined("weighted", items, self.plain_sums)

    @property
    def sum(self) -> Mapping[str, Tensor]:
        """The sums of keys that are added as they are, without weights."""
        return _Combined("plainly", self.plain_sums.items(), self.weighted_sums)

    @property
    def plain_mean(self) -> Mapping[str, Tensor]:
        """Plain sums divided by the number of parties that answered."""
        items = ((k, v / self.size) for k, v in self.plain_sums.items())
        return _Combined("plainly", items, self.weighted_sums)

    @property
    def each(self) -> Mapping[int, Vectors]:
        """The single uploads by party number, ascending: only for an algorithm that says ``needs_each``."""
        if self.uploads is None:
            raise UserError("Replies.each needs an algorithm that says needs_each = True; this one does not.")
        return self.uploads

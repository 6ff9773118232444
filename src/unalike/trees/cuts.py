"""Where the columns are cut into bins: public, and equal for all parties."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Cuts:
    """The cuts of every column, one after another.

    Column ``j`` has ``values[starts[j]:starts[j + 1]]``, ascending. A value's bin is the number of cuts that are
    not above it, so ``m`` cuts make ``m + 1`` bins; one more, the last, is for missing values.
    """

    values: NDArray[np.float32]
    starts: NDArray[np.int64]

    @property
    def features(self) -> int:
        """The number of columns that are cut."""
        return len(self.starts) - 1

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each column's bins begin in a histogram; the last is the number of all slots."""
        widths = np.diff(self.starts) + 2
        return np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)

    @property
    def slots(self) -> int:
        """The number of bins of all columns together: the length of a histogram."""
        return int(self.offsets[-1])

    def of_feature(self, feature: int) -> NDArray[np.float32]:
        """The cuts of one column, ascending."""
        return self.values[self.starts[feature] : self.starts[feature + 1]]

    def threshold(self, feature: int, bin: int) -> np.float32:
        """The value below which rows go left when ``bin`` is the last that does.

        Behind the last cut it is the greatest float32: all values go left, and only missing ones may go right.
        """
        return np.float32(self.thresholds(np.array([feature]), np.array([bin]))[0])

    def thresholds(
        self, features: NDArray[np.integer[Any]], bins: NDArray[np.integer[Any]]
    ) -> NDArray[np.float32]:
        """The :meth:`threshold` of each of several splits."""
        place = self.starts[features] + bins
        return self._and_most[np.where(place < self.starts[features + 1], place, len(self.values))]

    @cached_property
    def _and_most(self) -> NDArray[np.float32]:
        return np.append(self.values, np.finfo(np.float32).max).astype(np.float32)

    def arrays(self) -> Arrays:
        """The cuts as arrays, for states, messages and files."""
        return {"values": self.values, "starts": self.starts}

    @classmethod
    def of(cls, arrays: Arrays) -> Cuts:
        """The cuts that :meth:`arrays` has written."""
        return cls(arrays["values"].astype(np.float32), arrays["starts"].astype(np.int64))

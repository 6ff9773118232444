"""One party of each of as many groups of like parties as are asked."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from unalike.errors import UserError
from unalike.rounds.cohorts.cohort import Array, CohortRule, KnownParties, declared_counts, register_cohort

MOST_CLUSTERED = 10_000
"""Parties that are compared by their labels, each with each, at most: that takes 8 bytes for every pair."""


@register_cohort("clustered", paper="Fraboni et al. 2021, arXiv:2105.05883, Algorithms 1 and 2")
class Clustered(CohortRule):
    """Puts parties that are alike side by side, cuts the row into equal stretches, and asks one of each.

    ``by=labels``: alike by their shares of labels, in the order of the leaves of Ward's hierarchical clustering
    (Algorithm 2, which knows parties by their last updates in place of their labels). ``by=rows``: in the order
    of their sizes (Algorithm 1). No cohort is then of one kind alone, and it is unbiased: every party is asked in
    the fraction m / N of the rounds, m of N being asked, as with uniform cohorts.

    In the paper a party is drawn in proportion to its rows, perhaps several times, and the models are averaged
    plainly; here every party has the same chance, none is asked twice, and who is asked counts by its rows. The
    expectation is that of uniform cohorts here, and the gain the same: draws of one stretch replace each other.
    Among parties that are equally alike chance decides in each round: where all are, cohorts are uniform.
    Label counts, and sizes with them, may be ``declared``, as under label-balanced.
    """

    needs_rows: ClassVar[bool] = True
    by: Literal["labels", "rows"] = "labels"
    declared: str = ""

    def __post_init__(self) -> None:
        if self.declared:
            declared_counts(self.declared)

    @property
    def needs_labels(self) -> bool:  # type: ignore[override]
        """Whether parties are told apart by their labels."""
        return self.by == "labels"

    @property
    def reveals(self) -> str:
        """The table of labels, or the sizes."""
        each = " of each label" if self.by == "labels" else ""
        return f"how many training rows{each} every party {'declared to have' if self.declared else 'has'}"

    def check(self, known: KnownParties, size: int) -> None:
        """Refuse what is not known, sizes too."""
        super().check(known, size)
        if self.by == "labels" and known.parties > MOST_CLUSTERED:
            raise UserError(
                f"clustered compares the labels of each two parties: at most {MOST_CLUSTERED:,} can be asked, got "
                f"{known.parties:,}. Use clustered(by=rows), or label-balanced."
            )
        if self.by == "rows" and known.rows is None:
            raise UserError(
                "clustered(by=rows) needs the parties' sizes, which are not known here. Declare label counts: "
                'declared="30 10|5 40", party by party, or use --cohort uniform.'
            )

    def draw(self, random: np.random.Generator, known: KnownParties, size: int) -> list[int]:
        """A random start and equal steps along the row: each place is met with the same chance, and none twice."""
        mixed = random.permutation(known.parties)
        row = mixed[self._order(known, mixed)]
        stretches = np.array_split(row, size)
        row = np.concatenate([random.permutation(stretch) for stretch in stretches])
        step = known.parties / size
        places = np.floor((np.arange(size) + random.random()) * step).astype(int)
        return [int(party) for party in row[np.minimum(places, known.parties - 1)]]

    def _order(self, known: KnownParties, mixed: Array) -> Array:
        """The parties, given in a random order, so that those that are alike are neighbours."""
        if self.by == "rows":
            assert known.rows is not None
            sizes: Array = np.argsort(known.rows[mixed], kind="stable")
            return sizes
        from scipy.cluster.hierarchy import leaves_list, linkage

        assert known.labels is not None
        counts = known.labels[mixed]
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        leaves: Array = leaves_list(linkage(shares, "ward"))
        return leaves

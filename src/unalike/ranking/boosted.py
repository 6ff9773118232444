"""Whether boosted trees are worth a try: from runs made with this package on tables, beside FedAvg's nets.

The evidence is ``tables/trees.csv`` (docs/trees.md says how it was made): a line for each data set, split of rows
and way to train, with the mean scores on the global test set over seeds. All lines are of splits of rows: parties
that hold different columns solve another task, and their scores stand beside none of these.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from unalike.data.dataset import Dataset
from unalike.measure.situation import Kind
from unalike.ranking.splits import kinds_beside
from unalike.ranking.standing import REFERENCE, Standing, standings

TREES = "histogram"
"""The way to train trees whose model does not depend on who holds which row."""
NET, LINEAR = "fedavg mlp(32,16)", "fedavg logistic"
"""What trees are compared with: FedAvg with a net of two layers, and with logistic regression."""
COLUMNS = (
    *("dataset", "partition", "parties", "kind", "method"),
    *("accuracy", "auroc", "brier", "calibration_error", "worst_auroc", "seeds"),
)
"""Of the table of the package."""
COMMAND = '--model "trees(eta=0.1)" --algorithm histogram --rounds 100'


@dataclass(frozen=True)
class TreeRow:
    """One way to train in one setting: mean scores over seeds; accuracy and calibration error in percent.

    Of models that parties train alone, scores are means over parties, and ``worst_auroc`` is the worst party's.
    """

    dataset: str
    partition: str
    parties: int
    kind: str
    method: str
    accuracy: float
    auroc: float
    brier: float
    calibration_error: float
    worst_auroc: float | None
    seeds: int

    @property
    def setting(self) -> tuple[str, str, int]:
        """What lines that may be compared have in common."""
        return self.dataset, self.partition, self.parties


@cache
def tree_rows() -> tuple[TreeRow, ...]:
    """The lines of the table that comes with the package."""
    text = (resources.files("unalike.ranking") / "tables" / "trees.csv").read_text(encoding="utf-8")
    return tuple(_row(line) for line in csv.DictReader(text.splitlines()))


def _row(line: Mapping[str, str]) -> TreeRow:
    return TreeRow(
        line["dataset"],
        line["partition"],
        int(line["parties"]),
        line["kind"],
        line["method"],
        float(line["accuracy"]),
        float(line["auroc"]),
        float(line["brier"]),
        float(line["calibration_error"]),
        float(line["worst_auroc"]) if line["worst_auroc"] else None,
        int(line["seeds"]),
    )


def trees_beside(net: str, kind: Kind) -> Standing | None:
    """How trees stand against a net of FedAvg's by accuracy, over the settings of a kind of skew."""
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in tree_rows():
        if row.kind in kinds_beside(kind) and row.method in (TREES, net):
            found.setdefault(row.setting, {})[row.method] = row.accuracy
    gains = [{TREES: both[TREES] - both[net]} for both in found.values() if len(both) == 2]
    return next((one for one in standings(gains) if one.algorithm != REFERENCE), None)


def is_table(data: Dataset) -> bool:
    """Whether trees can read the rows: columns of numbers, not images or words."""
    return data.kind == "numbers" and len(data.shape) == 1


def words_on_trees(data: Dataset, kind: Kind) -> tuple[str, ...]:
    """What there is to say about trees for these rows; nothing where they are no table."""
    if not is_table(data):
        return ()
    said = []
    if data.gaps:
        said.append("Missing values were kept (missing=keep): only trees can read these rows, no net can.")
    one, other = (trees_beside(net, kind) if data.task == "classification" else None for net in (NET, LINEAR))
    if one is not None and other is not None:
        kinds = [each for each in kinds_beside(kind) if any(row.kind == each for row in tree_rows())]
        tables = ", ".join(sorted({row.dataset for row in tree_rows() if row.kind in kinds}))
        said.append(
            f"These rows are a table, and for tables there are boosted trees: {TREES} was better than FedAvg with "
            f"mlp(32,16) in {one.better} and worse in {one.worse} of {one.comparisons} settings with parties of "
            f"this kind ({' or '.join(kinds)}; {tables}), by {one.median_gain:+.1f} points of accuracy in the "
            f"median and {one.worst_gain:+.1f} at worst; than FedAvg with logistic regression in "
            f"{other.better} and {other.worse}, by {other.median_gain:+.1f} and {other.worst_gain:+.1f} "
            "(docs/trees.md)."
        )
    else:
        said.append("These rows are a table: boosted trees are worth a try, and no comparisons are at hand.")
    said.append("Whoever holds which row, histogram grows the same trees: uneven parties do not change them.")
    return tuple(said)

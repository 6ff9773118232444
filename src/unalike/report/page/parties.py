"""What only the data can show: who holds which labels, and how one model sees the parties' rows.

Both are made anew from the spec, where the data set (and for the features a finished run's weights) is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data import load_dataset
from unalike.data.dataset import Array, Dataset
from unalike.data.sql import check_no_database
from unalike.errors import UserError
from unalike.partition import Partition, make_partition, seen_by, seen_label_counts
from unalike.partition.distorted import changes_features, prepared
from unalike.report.page.content import folder_of
from unalike.report.page.numbers import short
from unalike.runs.record import WEIGHTS
from unalike.runs.results import Line, Setting

MOST_PARTIES = 60
MOST_LABELS = 40
MOST_ROWS = 1500
_ALL_ROWS = 12_000  # of all settings of a page together
_PROBLEMS = (UserError, OSError, KeyError, ValueError, RuntimeError, MemoryError)
"""A chart that cannot be made is a sentence: it must not cost the page."""
_SHOWN_GROUPS = 10  # parties or labels with a colour of their own


@dataclass(frozen=True)
class Look:
    """What could be made of one setting; ``problem`` says why not all."""

    heat: dict[str, Any] | None = None
    features: dict[str, Any] | None = None
    problem: str = ""
    feature_problem: str = ""


class Looker:
    """Looks at one setting after the other; a data set that several share is loaded once."""

    def __init__(self, settings: int, use_data: bool = True) -> None:
        self._rows = max(300, min(MOST_ROWS, _ALL_ROWS // max(settings, 1)))
        self._use_data = use_data
        self._loaded: tuple[str, Dataset] | None = None

    def look(self, setting: Setting) -> Look:
        """The heat map and the features, or why they are missing."""
        if not self._use_data:
            said = "The data were not asked for when this page was made (--no-data)."
            return Look(problem=said, feature_problem=said)
        record = next((one for line in setting.lines for one in line.records), None)
        if record is None:
            return Look(problem="There are no runs.", feature_problem="There are no runs.")
        try:
            data, partition = self._split(record.spec)
            heat = heat_map(seen_label_counts(data, partition), partition.names, data.label_names)
        except _PROBLEMS as error:
            said = f"The data are not at hand: {_one_line(error)}"
            return Look(problem=said, feature_problem=said)
        heat["seed"] = record.seed
        try:
            return Look(heat, self._features(setting, data))
        except _PROBLEMS as error:
            return Look(heat, feature_problem=_one_line(error))

    def _split(self, spec: Mapping[str, Any]) -> tuple[Dataset, Partition]:
        """The data as the run had them, between its parties."""
        from unalike.rounds.federation import take_public

        name = str(spec["dataset"])
        if self._loaded is None or self._loaded[0] != name:
            check_no_database(name)
            self._loaded = None  # two large sets need not be in memory together
            self._loaded = (name, load_dataset(name))
        data = self._loaded[1]
        if spec.get("public"):
            data, _, _ = take_public(data, float(spec["public"]), int(spec["seed"]))
        partition = make_partition(str(spec["partition"]), data, spec.get("parties"), int(spec["seed"]))
        if partition.columns is not None:
            raise UserError("the parties hold columns, not rows.")
        return data, partition

    def _features(self, setting: Setting, data: Dataset) -> dict[str, Any]:
        line, folder = _best(setting)
        record = next(one for one in line.finished if one.folder == folder)
        from unalike.runs.extractor import run_extractor  # loads torch
        from unalike.runs.model_file import is_trees

        if is_trees(str(record.spec.get("model"))):
            raise UserError("Trees make no features of their own: they go by the columns as they are.")
        data, partition = self._split(record.spec)
        extract = run_extractor(folder, data)
        party, label, seen = self._sample(data, partition)
        with np.errstate(all="ignore"):
            flat = np.concatenate([extract(rows).reshape(len(rows), -1) for rows in seen]).astype(np.float64)
        if not np.isfinite(flat).all():
            raise UserError(f"The model of {line.algorithm} has features that are not numbers.")
        places, explained = principal_components(flat)
        return {
            "algorithm": line.algorithm,
            "seed": record.seed,
            "x": [short(float(value), 3) for value in places[:, 0]],
            "y": [short(float(value), 3) for value in places[:, 1]],
            "explained": [round(100 * float(value), 1) for value in explained],
            "party": _few(party, partition.names),
            "label": _few(label, data.label_names),
            "dimensions": flat.shape[1],
        }

    def _sample(self, data: Dataset, partition: Partition) -> tuple[Array, Array, list[Array]]:
        """About as many rows as may be shown, in proportion to the parties' sizes, as the parties see them."""
        rng = np.random.default_rng(0)
        sizes = np.array([len(rows) for rows in partition.rows])
        shares = np.maximum(1, np.floor(sizes * min(1.0, self._rows / sizes.sum()))).astype(int)
        chosen = range(partition.parties)
        if partition.parties > self._rows:  # one row each would be too many
            chosen = sorted(rng.choice(partition.parties, self._rows, replace=False).tolist())  # type: ignore[assignment]
        parties, labels, seen = [], [], []
        for number in chosen:
            x, y = seen_by(data, partition, number)
            if data.task == "regression":
                y = data.labels[
                    partition.rows[number]
                ]  # the range that the number is in; no distortion changes it
            take = np.sort(rng.choice(len(y), min(int(shares[number]), len(y)), replace=False))
            x, y = x[take], y[take]
            x = x.toarray() if data.is_sparse else x
            if data.kind != "tokens" and not changes_features(partition):
                x = prepared(x, data)
            seen.append(np.asarray(x))
            labels.append(y)
            parties.append(np.full(len(y), number))
        return np.concatenate(parties), np.concatenate(labels), seen


def heat_map(counts: Array, parties: Sequence[str], labels: tuple[str, ...]) -> dict[str, Any]:
    """Labels by party. Many parties are sorted by their main label and put together, rare labels summed up."""
    said = []
    if counts.shape[1] > MOST_LABELS:
        order = np.argsort(-counts.sum(axis=0), kind="stable")
        kept = np.sort(order[: MOST_LABELS - 1])
        rest = np.setdiff1d(np.arange(counts.shape[1]), kept)
        counts = np.concatenate([counts[:, kept], counts[:, rest].sum(axis=1, keepdims=True)], axis=1)
        labels = (*(labels[place] for place in kept), f"{len(rest)} others")
        said.append(f"The {len(rest)} rarest labels are summed up.")
    names = list(parties)
    if len(parties) > MOST_PARTIES:
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        main = shares.argmax(axis=1)
        order = np.lexsort((-shares.max(axis=1), main))
        groups = np.array_split(order, MOST_PARTIES)
        counts = np.stack([counts[group].sum(axis=0) for group in groups])
        names = [f"{len(group)} parties" if len(group) > 1 else str(parties[group[0]]) for group in groups]
        said.append(
            f"The {len(parties)} parties are sorted by their most frequent label and put together in "
            f"{MOST_PARTIES} groups, so the differences between single parties are greater than shown."
        )
    return {
        "parties": names,
        "labels": [str(label) for label in labels],
        "counts": counts.astype(int).tolist(),
        "said": " ".join(said),
    }


def principal_components(rows: Array) -> tuple[Array, Array]:
    """The rows on their first two principal components, and the share of the variance of each."""
    centred = rows - rows.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    variance = singular**2
    scores = left * singular
    if scores.shape[1] < 2:
        scores = np.pad(scores, ((0, 0), (0, 2 - scores.shape[1])))
        variance = np.pad(variance, (0, 2 - len(variance)))
    # The sign is arbitrary: the largest value on each axis points up, so that the page is the same every time.
    signs = np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(scores.shape[1])])
    scores = scores * np.where(signs == 0, 1, signs)
    return scores[:, :2], variance[:2] / max(float(variance.sum()), 1e-300)


def _few(values: Array, names: Sequence[str]) -> dict[str, Any]:
    """The group of each row: the most frequent ones by name, the others as one (-1)."""
    counts = np.bincount(values, minlength=len(names))
    present = np.flatnonzero(counts)
    if len(present) <= _SHOWN_GROUPS:
        kept = present
    else:
        kept = np.sort(np.argsort(-counts, kind="stable")[:_SHOWN_GROUPS])
    place = {int(number): index for index, number in enumerate(kept)}
    return {
        "names": [names[number] for number in kept.tolist()],
        "others": int(len(present) - len(kept)),
        "of": [place.get(int(value), -1) for value in values],
    }


def _best(setting: Setting) -> tuple[Line, Path]:
    """The line with the best mean score whose weights are kept."""
    lines = [(line, value) for line in setting.lines if (value := line.value) is not None]
    for line, _ in sorted(lines, key=lambda each: -setting.scale.goodness(each[1].mean)):
        folder = folder_of(line)
        if folder is not None and (folder / WEIGHTS).is_file():
            return line, folder
    raise UserError("No finished run with one global model is kept here.")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

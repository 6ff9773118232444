"""The grid that the defaults of a run were chosen from: nets, learning rates, momentum and local work.

python -m benchmarks.defaults RESULTS.jsonl [--data-dir FOLDER] [--only digits heart] [--write]

Plays what RESULTS.jsonl does not have yet, smallest data first, one line for each run; stop it and it goes on.
Then prints the tables, and with ``--write`` puts them into docs/defaults.md. Settings are compared by the parties'
validation rows alone; test rows are only reported.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import ROOT, put, table
from unalike.data import Dataset, load_dataset
from unalike.data.folder import VARIABLE
from unalike.models import MODELS
from unalike.rounds.optimisers import OPTIMISERS
from unalike.runs.rules import Diverged
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

PAGE = ROOT / "docs" / "defaults.md"

SKEWED = "label-dirichlet(0.1)"
TABLES = ("logistic", "mlp(32)", "mlp(64)", "mlp(32,16,8)")
RATES = (0.01, 0.03, 0.1, 0.3)
MOMENTUM = (0.0, 0.5, 0.9)
NIID = (10, 64, 0.01, 0.9)
"""NIID-Bench's epochs, batch size, learning rate and momentum (arXiv:2102.02079, section 5)."""
FEW = ("wine", "fcube", "covtype", "cifar10", "sent140", "shakespeare")
"""Left out of the wide tables: almost every line of the first two is 100, the others have but a few lines."""


@dataclass(frozen=True)
class Case:
    """One data set, how it is split, and which part of the grid is played on it."""

    dataset: str
    partitions: Sequence[str] = ("iid", SKEWED)
    models: Sequence[str] = TABLES
    epochs: Sequence[int] = (1, 2, 5, 10)
    batches: Sequence[int] = (32,)
    rates: Sequence[float] = RATES
    momentum: Sequence[float] = MOMENTUM
    seeds: int = 2
    part: float = 1.0
    """how much of the training rows is played with"""

    def runs(self) -> Iterator[dict[str, Any]]:
        """The fields of every run; NIID-Bench's values are always among them."""
        axes = product(self.models, self.epochs, self.batches, self.rates, self.momentum)
        values = list(dict.fromkeys([*axes, (self.models[-1], *NIID)]))
        for seed, partition, cell in product(range(self.seeds), self.partitions, values):
            model, epochs, batch, lr, momentum = cell
            yield {
                "dataset": self.dataset,
                "partition": partition,
                "model": model,
                "epochs": epochs,
                "batch_size": batch,
                "lr": lr,
                "optimiser": f"sgd(momentum={momentum})",
                "seed": seed,
                **({} if self.part == 1 else {"public": 1 - self.part}),
            }


def cases(own_table: Path) -> list[Case]:
    """The grid; ``own_table`` is a user's file. Less of it is played on larger data."""
    own = f"csv:{own_table}(label=outcome, party=hospital)"
    few: dict[str, Any] = {"epochs": (1, 2), "rates": (0.03, 0.1, 0.3), "seeds": 1}
    least: dict[str, Any] = {**few, "epochs": (2,)}
    token_mlp = "token-mlp(words=82, width=8, hidden=128)"
    return [
        Case("breast-cancer"),
        Case("heart", ("natural", "iid", SKEWED), seeds=3),
        Case(own, ("natural", "iid", SKEWED)),
        Case("digits"),
        Case("wine", seeds=1),
        Case("fcube", ("iid", "fcube"), seeds=1),
        Case("synthetic", ("iid", "natural")),
        Case("adult", epochs=(1, 2, 5), rates=(0.03, 0.1, 0.3), seeds=1, part=0.25),
        Case("mnist", models=("simple-cnn",), **few, part=0.1),
        Case("covtype", models=("mlp(64)", "mlp(32,16,8)"), **least, part=0.02),
        Case("cifar10", ("iid",), ("simple-cnn",), **least, part=0.1),
        Case("sent140", ("iid",), ("token-mlp(words=5002)",), **least, part=0.1),
        Case("shakespeare", ("iid",), (token_mlp,), **least, part=0.02),
    ]


def write_table(path: Path) -> Path:
    """A user's own table: 2,400 patients of three unlike hospitals, numbers and categories, a bent boundary."""
    rng = np.random.default_rng(14)
    hospital = rng.choice(3, 2400, p=(0.5, 0.3, 0.2))
    age = rng.normal(55 + 6 * hospital, 12).clip(20, 95)
    pressure = rng.normal(120 + 0.4 * (age - 55), 14)
    sugar = rng.lognormal(1.7, 0.3, 2400)
    smokes = rng.random(2400) < 0.35
    ward = rng.choice(["A", "B", "C", "D"], 2400)
    risk = 0.06 * (age - 60) + 0.03 * np.abs(pressure - 125) + 1.2 * smokes * (sugar > 5.5) - 0.8 * (ward == "B")
    ill = risk + rng.logistic(0, 0.5, 2400) > 0.6
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["age", "pressure", "sugar", "smokes", "ward", "hospital", "outcome"])
        for row in zip(age, pressure, sugar, smokes, ward, hospital, ill, strict=True):
            lines.writerow([f"{row[0]:.0f}", f"{row[1]:.0f}", f"{row[2]:.2f}", "yes" if row[3] else "no", row[4],
                            f"H{row[5]}", "ill" if row[6] else "well"])  # fmt: skip
    return path


def play(fields: dict[str, Any], data: Dataset) -> dict[str, Any]:
    """The final round's accuracy on the parties' validation rows and on the test rows."""
    spec = RunSpec.from_mapping({**fields, "engine": "compiled", "evaluate_every": RunSpec.rounds})
    simulation = Simulation(spec, data=data, say=lambda line: None)
    start = time.perf_counter()
    row: dict[str, Any] = {}
    try:
        while simulation.state.round < spec.rounds:
            simulation.state, row = simulation.play_round()
    except Diverged:
        row = {}
    seconds = round(time.perf_counter() - start, 3)
    return {"validation": row.get("validation_accuracy"), "test": row.get("accuracy"), "seconds": seconds}


def play_all(results: Path, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Play every run that the file has no line of; the lines of the whole grid."""
    done = {json.dumps(line["fields"]): line for line in read(results)}
    grid = []
    for case in cases(write_table(results.with_suffix(".csv"))):
        runs = {json.dumps(fields): fields for fields in case.runs()}
        missing = {key: fields for key, fields in runs.items() if key not in done}
        if missing and (not wanted or name_of(case.dataset) in wanted):
            print(f"{name_of(case.dataset)}: {len(missing)} runs", flush=True)
            data = load_dataset(case.dataset)
            for key, fields in missing.items():
                done[key] = {"fields": fields, **play(fields, data)}
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[key]) + "\n")
        grid += [done[key] for key in runs if key in done]
    return grid


def read(results: Path) -> list[dict[str, Any]]:
    """The lines of the file, one for each run that was played."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return [json.loads(line) for line in lines]


def name_of(dataset: str) -> str:
    """A data set without its parameters."""
    return "own table" if dataset.startswith("csv:") else dataset


@dataclass(frozen=True)
class Score:
    """Accuracies in percent, means over the seeds; a run that diverged counts as 0."""

    validation: float
    test: float


Place = tuple[str, str]
"""A data set and how it is split."""
Cell = tuple[str, int, int, float, float]
"""A net, epochs, batch size, learning rate and momentum."""
Found = dict[Place, dict[Cell, Score]]


def scores(lines: Sequence[dict[str, Any]]) -> Found:
    """What was found."""
    runs: dict[Place, dict[Cell, list[dict[str, Any]]]] = {}
    for line in lines:
        fields = line["fields"]
        place = fields["dataset"], fields["partition"]
        runs.setdefault(place, {}).setdefault(_cell(fields), []).append(line)

    def mean(found: Sequence[dict[str, Any]], name: str) -> float:
        return 100 * statistics.fmean(line[name] or 0.0 for line in found)

    return {
        place: {cell: Score(mean(found, "validation"), mean(found, "test")) for cell, found in cells.items()}
        for place, cells in runs.items()
    }


def default_cell(dataset: str) -> Cell:
    """What a run takes where nothing is said."""
    return _cell(RunSpec.defaults(dataset))


def _cell(fields: Mapping[str, Any]) -> Cell:
    momentum = getattr(OPTIMISERS.build(fields["optimiser"]), "momentum", 0.0)
    model = MODELS.describe(MODELS.build(fields["model"]))
    return model, fields["epochs"], fields["batch_size"], fields["lr"], momentum


def _best(cells: Mapping[Cell, Score]) -> Cell:
    """The cell with the best validation accuracy; of equals the one that trains least."""
    return max(cells, key=lambda cell: (cells[cell].validation, -cell[1]))


def _text(cell: Cell) -> str:
    model, epochs, batch, lr, momentum = cell
    return f"`{model.split('(words')[0]}`, {epochs} x {batch}, {lr:g}, {momentum:g}"


def verdict(found: Found) -> str:
    """The default beside the best of the grid, in test accuracy."""
    rows = []
    for (dataset, partition), cells in found.items():
        own, best = cells[default_cell(dataset)], _best(cells)
        niid = next(score for cell, score in cells.items() if cell[1:] == NIID)
        rows.append(
            [
                f"{name_of(dataset)}, `{partition}`",
                f"**{own.test:.1f}**",
                f"{cells[best].test:.1f} ({_text(best)})",
                f"{cells[best].test - own.test:+.1f}",
                f"{max(score.test for score in cells.values()):.1f}",
                f"{niid.test:.1f}",
            ]
        )
    head = ["data", "default", "best on validation rows", "ahead by", "highest test of any", "NIID-Bench's values"]
    return table(head, rows)


def choice(found: Found) -> str:
    """The cells that lose least in validation accuracy where they lose most, among those played on all tables."""
    places = [cells for place, cells in found.items() if place[0] not in FEW and len({c[0] for c in cells}) > 1]
    best = [max(score.validation for score in cells.values()) for cells in places]
    losses = {
        cell: [top - cells[cell].validation for top, cells in zip(best, places, strict=True)]
        for cell in places[0]
        if all(cell in cells for cells in places)
    }
    ranked = sorted(losses, key=lambda cell: max(losses[cell]))[:8]
    rows = [[_text(cell), f"{max(losses[cell]):.1f}", f"{statistics.fmean(losses[cell]):.1f}"] for cell in ranked]
    return table(["net, epochs x batch, rate, momentum", "most", "mean"], rows)


def by_net(found: Found) -> str:
    """Every net for tables with the default's epochs, batches, learning rate and momentum."""
    learning = default_cell("digits")[1:]
    places = [place for place in found if place[0] not in FEW and (TABLES[0], *learning) in found[place]]
    rows = [[f"`{model}`", *(_figure(found[place][model, *learning]) for place in places)] for model in TABLES]
    return table(["net", *map(_place, places)], rows)


def by_learning(found: Found) -> str:
    """Everything but the net, with the default's net."""
    nets = {place: default_cell(place[0])[0] for place in found if place[0] not in FEW}
    default = default_cell("digits")[1:]
    rows = []
    for learning in sorted({cell[1:] for place, net in nets.items() for cell in found[place] if cell[0] == net}):
        epochs, batch, lr, momentum = learning
        name = f"{epochs} x {batch}, {lr:g}, {momentum:g}"
        each = [_figure(found[place].get((net, *learning))) for place, net in nets.items()]
        rows.append([f"**{name}**" if learning == default else name, *each])
    return table(["epochs x batch, rate, momentum", *map(_place, nets)], rows)


def _place(place: Place) -> str:
    return f"{name_of(place[0])} {'skewed' if place[1] == SKEWED else place[1]}"


def _figure(score: Score | None) -> str:
    return "–" if score is None else f"{score.validation:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", type=Path, help="file of the runs that were played; new ones are added")
    parser.add_argument("--data-dir", help="folder of the downloads")
    parser.add_argument("--only", nargs="*", default=[], help="data sets to play; no tables then")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/defaults.md")
    given = parser.parse_args()
    if given.data_dir:
        os.environ[VARIABLE] = given.data_dir
    found = scores(play_all(given.results, given.only))
    if given.only:
        return
    for name, make in (("choice", choice), ("verdict", verdict), ("nets", by_net), ("learning", by_learning)):
        text = make(found)
        print(f"\n{text}")
        if given.write:
            put(PAGE, name, text)


if __name__ == "__main__":
    main()

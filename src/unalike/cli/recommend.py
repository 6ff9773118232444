"""``unalike recommend``: which algorithm fits parties that are this unalike, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli import complete
from unalike.cli.options import (
    DEFAULT_RUNS,
    AsJson,
    DataDir,
    DatasetName,
    PartiesNumber,
    PartitionText,
    Plugins,
    RunsFolder,
    Seed,
)
from unalike.cli.plugin import load_plugins
from unalike.cli.program import program
from unalike.cli.show import Paragraph, draw, paragraphs, print_json, table
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.cli.table import Table
    from unalike.data.dataset import Dataset
    from unalike.measure.situation import Situation
    from unalike.ranking.advice import Advice
    from unalike.ranking.standing import Standing
    from unalike.tallies import Kind as Task


def recommend_algorithm(
    dataset: DatasetName = "digits",
    partition: PartitionText = "iid",
    parties: PartiesNumber = None,
    seed: Seed = 0,
    protect: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="none, fhe or fhe+masks [none]",
            show_default=False,
            autocompletion=complete.choices("none", "fhe", "fhe+masks"),
        ),
    ] = "none",
    measurement: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.json",
            help='use this instead: what "unalike measure --json" printed; once for labels, once for features',
        ),
    ] = None,
    own_rows: Annotated[
        bool, typer.Option("--own-rows", help="each party is to use a model of its own, on its own rows")
    ] = False,
    runs: RunsFolder = DEFAULT_RUNS,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Recommend an algorithm for parties that are this unalike, with the evidence.

    \b
    Examples:
      unalike recommend --dataset heart --partition natural
      unalike recommend --dataset heart --partition natural --own-rows
      unalike measure --partition "label-count(1)" --json > labels.json
      unalike recommend --measurement labels.json

    Labels and features are measured first. The ranking is from NIID-Bench's published table and this project's
    runs of its cells, or from your own runs once there are enough with similar parties: of regression there are no
    tables. Where each party is judged on its own rows (--own-rows), or gives the same rows other labels, models of
    the parties' own are compared, from runs made with this package. "unalike run --algorithm auto" takes the
    first. For rows of a table, it says how boosted trees compare with nets.
    """
    from unalike.ranking.evidence import advise

    load_plugins(plugin)
    task: Task = "classification"  # a stored measurement does not say
    data = None
    if measurement:
        situation = _read(measurement)
    else:
        situation, data = _measure(dataset, partition, parties, seed, protect)
        task = data.task
    advice = advise(situation, runs, task, own_rows=own_rows, data=data)
    if as_json:
        print_json(advice.to_dict())
    else:
        _print(advice, None if measurement else (dataset, partition, parties, seed))


def _measure(
    dataset: str, partition: str, parties: int | None, seed: int, protect: Any
) -> tuple[Situation, Dataset]:
    from unalike.data import load_dataset
    from unalike.measure import measure, party_features, party_labels
    from unalike.measure.situation import simulated_situation, situation_of, with_concept
    from unalike.partition import make_partition

    data = load_dataset(dataset)
    made = make_partition(partition, data, parties, seed)
    if made.parties < 3 and protect != "none":
        raise UserError(f"With {made.parties} parties there is nobody to hide among. Use --protect none.")
    if made.parties == 1:
        return simulated_situation(data, made), data
    two = protect == "none"  # in a simulation there is nobody to be protected from
    labels = measure(party_labels(data, made), protect=protect, allow_two=two)
    features = measure(party_features(data, made), of="features", protect=protect, allow_two=two)
    situation = situation_of(labels, features)
    return with_concept(situation, data, made) if protect == "none" else situation, data


def _read(files: Sequence[Path]) -> Situation:
    from unalike.measure.situation import situation_from

    found: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"Cannot read the measurement {file}: {error}. Make it with: measure --json") from None
        of = content.get("of") if isinstance(content, dict) else None
        if of not in ("labels", "features"):
            raise UserError(f"{file} is not a measurement. Make one with: {program()} measure --json > {file}")
        found[of] = content
    return situation_from(found.get("labels"), found.get("features"))


def _print(advice: Advice, where: tuple[str, str, int | None, int] | None) -> None:
    from unalike.ranking.advice import UNTRIED, text_of
    from unalike.ranking.boosted import COMMAND

    draw(
        f"{text_of(advice.ranking[0].algorithm)}, {advice.confidence} confidence ({_situation(advice)})",
        "",
        *paragraphs(advice.reasons),
        "",
        *([] if advice.ranking[0] is UNTRIED else _evidence(advice)),
        *paragraphs((*advice.trees, "") if advice.trees else ()),
        "What would change this:",
        *paragraphs(f"- {doubt}" for doubt in [*advice.doubts, *_other_question(advice)]),
    )
    if where is not None:
        dataset, partition, parties, seed = where
        count = "" if parties is None else f" --parties {parties}"
        rows = f'--dataset "{dataset}" --partition "{partition}"{count} --seed {seed}'
        chosen = " ".join(f'--{name} "{value}"' for name, value in advice.options.items())
        draw(
            "",
            f"Next: {program()} run {rows} {chosen}",
            *([f"Trees: {program()} run {rows} {COMMAND}"] if advice.trees else []),
        )


def _situation(advice: Advice) -> str:
    if advice.situation.wishes == "differ":
        return "parties give the same rows other labels"
    return f"{advice.kind}, each party on its own rows" if advice.own_models else advice.kind


def _other_question(advice: Advice) -> list[str]:
    if advice.own_models:
        return []
    return [
        "If each party is to be judged on its own rows, models of their own may be better: ask with --own-rows."
    ]


def _evidence(advice: Advice) -> list[str | Table | Paragraph]:
    from unalike.ranking.advice import PLACES, text_of
    from unalike.ranking.ranking import ALPHA
    from unalike.ranking.standing import DRAW, REFERENCE

    rows = [
        [
            str(place),
            text_of(one.algorithm),
            str(one.better),
            str(one.worse),
            str(one.comparisons),
            f"{one.median_gain:+.1f}",
            f"{one.worst_gain:+.1f}",
            "" if one.algorithm == advice.reference else f"{one.p:.3f}",
            *(_alone(found, one.algorithm) for found in advice.by_source.values()),
        ]
        for place, one in enumerate(advice.ranking, start=1)
    ]
    columns = ["", "algorithm", "better", "worse", "of", "median gain", "worst", "p"]
    columns += [PLACES[name] for name in advice.by_source]
    right = [column for column in columns if column != "algorithm"]
    name = "FedAvg" if advice.reference == REFERENCE else f"{advice.reference!r}"
    note = Paragraph(
        f"Against {name}, in percentage points, or in percent of it where a score is a plain number; up to {DRAW} "
        f"is a draw. p: how likely chance gives such gains; what is below {ALPHA} goes before {name}. "
        f"From {advice.source}."
        + " Published, ours: better, worse, of, and median gain, in each of them alone."
        * bool(advice.by_source)
    )
    return [table(columns, rows, right=right, spare=["worst", "of"]), note, ""]


def _alone(found: Sequence[Standing], algorithm: str) -> str:
    """How an algorithm stands by one source: better, worse, of, and the median gain."""
    one = next((one for one in found if one.algorithm == algorithm), None)
    return "" if one is None else f"{one.better}, {one.worse}, {one.comparisons}: {one.median_gain:+.1f}"

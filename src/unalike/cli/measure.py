"""``unalike measure``: how unlike the parties are, measured by the federated CDF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli import complete
from unalike.cli.columns import MEASURED_KINDS, check_of_columns, measure_columns
from unalike.cli.options import (
    DEFAULT_RUNS,
    AsJson,
    DataDir,
    DatasetName,
    FirstDegree,
    PartiesNumber,
    PartitionText,
    Plugins,
    RunsFolder,
    Seed,
)
from unalike.cli.plugin import load_plugins
from unalike.cli.show import Paragraph, draw, duration, paragraphs, print_json, size, table
from unalike.cli.store import find_run, read_runs
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.data import Dataset
    from unalike.measure import Degree, LabelSkew, Measurement
    from unalike.measure.extract import Extractor
    from unalike.partition import Partition

_MOST_LINES = 40
"""Parties up to which each has a line; of more, the most and the least unlike."""


def measure(
    dataset: DatasetName = "digits",
    partition: PartitionText = "iid",
    parties: PartiesNumber = None,
    of: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="labels or features [labels]",
            show_default=False,
            autocompletion=complete.choices("labels", "features"),
        ),
    ] = "labels",
    protect: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="none, fhe or fhe+masks [fhe+masks]",
            show_default=False,
            autocompletion=complete.choices("none", "fhe", "fhe+masks"),
        ),
    ] = "fhe+masks",
    weighting: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="who weighs the same in the global CDF: rows or parties [rows]",
            show_default=False,
        ),
    ] = "rows",
    degree: FirstDegree = None,
    model_of: Annotated[
        str | None,
        typer.Option(
            "--model-of",
            metavar="RUN",
            help="features are those of this finished run's model [columns, or a random projection]",
            autocompletion=complete.runs,
        ),
    ] = None,
    runs: RunsFolder = DEFAULT_RUNS,
    bins: Annotated[int, typer.Option(help="bins of each feature [64]", show_default=False)] = 64,
    noise: Annotated[
        float, typer.Option(help="sigma of the noise that each party adds to its counts [0]", show_default=False)
    ] = 0.0,
    publish: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="what leaves a party: its degrees, rounded, or only the mean of all [degrees]",
            show_default=False,
        ),
    ] = "degrees",
    allow_two: Annotated[
        bool, typer.Option("--allow-two", help="take two parties, who then learn each other's distribution")
    ] = False,
    seed: Seed = 0,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="draw it: FILE.svg, .png or .pdf; svg and png without suffix"),
    ] = None,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Measure how unlike the parties are, without anybody seeing a party's data.

    \b
    Examples:
      unalike measure --dataset heart --partition natural
      unalike measure --partition "label-dirichlet(0.1)" --figure degrees.png
      unalike measure --partition "feature-noise(0.5)" --of features
      unalike measure --partition "label-dirichlet(0.1)" --degree cdf

    Each party learns how far its distribution is from that of all rows, from 0 (alike) to 1. Where columns are
    split, as by vertical(3): who has which, what they tell about the label, and how they go together.
    """
    from unalike.data import load_dataset
    from unalike.measure import dimension_names, label_skew, party_features, party_labels
    from unalike.measure import measure as measure_parties
    from unalike.partition import make_partition, seen_label_counts

    load_plugins(plugin)
    _check_figure(figure)
    data = load_dataset(dataset)
    made = make_partition(partition, data, parties, seed)
    if made.columns is not None:
        check_of_columns(made, of=of, model_of=model_of, noise=noise, publish=publish)
        measure_columns(data, made, seed, figure, as_json=as_json)
        return
    features = of == "features"
    if model_of is not None and not features:
        raise UserError("--model-of tells which features to measure. Add --of features, or leave it out.")
    extract = _extractor(model_of, runs, data) if features else None
    values: Any = party_features(data, made, extract) if features else party_labels(data, made)
    if made.parties == 2 and not allow_two:
        raise UserError("With two parties each learns the other's distribution. To accept that, add --allow-two.")
    found = measure_parties(
        values,
        of=of,  # type: ignore[arg-type]  # what it is not, it refuses
        protect=protect,  # type: ignore[arg-type]
        weighting=weighting,  # type: ignore[arg-type]
        bins=bins,
        noise=noise,
        names=dimension_names(data, extract) if features else (),
        allow_two=allow_two,
        publish=publish,  # type: ignore[arg-type]
        degree=degree,
        seed=seed,
    )
    plain = None if features else label_skew(seen_label_counts(data, made))
    recipe = f"{made.recipe}, seed {seed}"
    files = [str(path) for path in _draw(found, data, recipe, figure)]
    if as_json:
        print_json(to_dict(found, data, made, seed, plain) | {"files": files})
    else:
        _print(found, data, recipe, plain, files)


def _extractor(run: str | None, runs: Path, data: Dataset) -> Extractor | None:
    if run is None:
        return None
    from unalike.runs.extractor import run_extractor

    return run_extractor(find_run(read_runs(runs), run, runs).path, data)


def to_dict(
    found: Measurement, data: Dataset, made: Partition, seed: int, plain: LabelSkew | None
) -> dict[str, Any]:
    """The measurement ready for JSON; ``plain`` are figures that only a simulation can know."""
    names = (
        "jensen_shannon",
        "hellinger",
        "earth_mover",
        "label_entropy",
        "quantity_entropy",
        "quantity_imbalance",
    )
    return {
        "dataset": data.name,
        "partition": made.recipe,
        "seed": seed,
        **found.to_dict(),
        "plain": None if plain is None else {name: getattr(plain, name) for name in names},
    }


def _check_figure(path: Path | None) -> None:
    """Before anything is measured: a slip of the pen must not cost the measurement."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise UserError(f"--figure {path}: there is no folder {path.parent}. Make it first, or check the path.")
    if path.is_dir():
        raise UserError(f"--figure must be a file, but {path} is a folder. Write {path / 'measure'}.")
    if path.suffix.lower() in (".jpg", ".jpeg", ".gif", ".eps", ".webp", ".html"):
        raise UserError(f"--figure must end in .svg, .png or .pdf, or have no suffix, got {path}.")


def _draw(found: Measurement, data: Dataset, recipe: str, path: Path | None) -> list[Path]:
    if path is None:
        return []
    from unalike.report.figures import save
    from unalike.report.measure_picture import measure_picture

    kind = path.suffix.lower()[1:]
    made = measure_picture(found, data.name, recipe)
    return save(made, path.with_suffix(""), [kind]) if kind in MEASURED_KINDS else save(made, path)


def _print(found: Measurement, data: Dataset, recipe: str, plain: LabelSkew | None, files: Sequence[str]) -> None:
    draw(Paragraph(f"{data.name}, {found.policy.of} of {len(found.kept)} parties: {recipe}"), "")
    if found.published:
        draw(_table(found), "")
    draw(*paragraphs([*_summary(found, plain), _costs(found)]))
    if files:
        draw("", f"Saved {' and '.join(files)}.")


def _table(found: Measurement) -> Any:
    from unalike.measure.degree import SHORT, shown

    features = found.policy.of == "features"
    metrics = shown(found.policy.of, found.headline)
    worst = [f"worst {SHORT[found.headline]} in"] if features else []
    columns = ["party", "share", *metrics, "random split", *worst, "quantity"]
    exact = {one.party: one.degrees for one in found.kept}
    rows = []
    for one in _some(found):
        if one is None:
            rows.append(["...", *[""] * (len(columns) - 1)])
            continue
        degrees = [f"{getattr(one.mean, name):.2f}" for name in metrics.values()]
        at = [degree.at(found.headline) for degree in exact[one.party].dimensions]
        where = [f"{max(at):.2f} {found.names[at.index(max(at))]}"] if features else []
        chance = f"{one.expected.at(found.headline):.2f}"
        rows.append([one.party, f"{100 * one.share:.2g}%", *degrees, chance, *where, f"{one.quantity:.2f}"])
    right = [column for column in columns if column not in ("party", *worst)]
    return table(columns, rows, right=right, spare=["CvM", "area", "quantity", "share", *worst])


def _some(found: Measurement) -> list[Any]:
    """All parties, or the most and the least unlike with a gap between."""
    if len(found.published) <= _MOST_LINES:
        return list(found.published)
    order = sorted(found.published, key=lambda one: -one.mean.at(found.headline))
    return [*order[: _MOST_LINES // 2], None, *order[-_MOST_LINES // 4 :]]


def _summary(found: Measurement, plain: LabelSkew | None) -> list[str]:
    from unalike.measure.degree import SHORT, meaning

    whole, first = found.federation, found.headline
    worst = f" Worst party: {SHORT[first]} {whole.worst.at(first):.2f}." if whole.worst else ""
    lines = [
        f"Mean over rows: {_named(whole.mean, found)}; a random split would show {SHORT[first]} "
        f"{whole.expected.at(first):.3f}.{worst} Quantity: {whole.quantity:.2f}.",
        meaning(found.policy.of, first, whole.mean.at(first), whole.expected.at(first)),
    ]
    if not found.published:
        lines.append("Only the mean was published: each party's degrees stay with it, and nobody knows the worst.")
    elif found.policy.of == "features":
        lines.append("Which feature is a party's worst is seen only in a simulation.")
    if found.noise:
        lines.append(
            f"Noise of sigma {found.noise.sigma:g} on each count: the sum is ({found.noise.epsilon:.2f}, "
            f"{found.noise.delta:g})-differentially private for a row, the degrees are not."
        )
    if plain is not None:
        lines.append(
            f"Seen in the open, only in a simulation: mean distance of two parties' labels Jensen-Shannon "
            f"{plain.jensen_shannon:.2f}, Hellinger {plain.hellinger:.2f}, earth mover's {plain.earth_mover:.2f}."
        )
    return lines


def _named(degree: Degree, found: Measurement) -> str:
    from unalike.measure.degree import shown

    metrics = shown(found.policy.of, found.headline)
    return ", ".join(f"{name} {getattr(degree, field):.3f}" for name, field in metrics.items())


def _costs(found: Measurement) -> str:
    count = len(found.bytes_up)
    up, down = (size(sum(sent.values()) / count) for sent in (found.bytes_up, found.bytes_down))
    return (
        f"Protection {found.protect}: each party sent {up} and received {down}; "
        f"{duration(sum(found.seconds.values()))} for all parties in one process."
    )

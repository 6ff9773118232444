"""``unalike partition``: split a data set between parties, look at the split, measure it, draw it, save it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli.options import AsJson, DataDir, DatasetName, PartiesNumber, PartitionText, Plugins, Seed
from unalike.cli.plugin import load_plugins
from unalike.cli.show import Paragraph, draw, paragraphs, print_json
from unalike.cli.table import Table, table
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.data import Dataset
    from unalike.data.dataset import Array
    from unalike.measure import LabelSkew
    from unalike.partition import Partition
    from unalike.report.partition_picture import Portrait

_MOST_LABELS = 20
"""Labels up to which each has a column; of more, a party's largest are named."""
_TOP_LABELS = 5
_LARGEST = "largest labels"
_KINDS = (".svg", ".png")


def partition(
    dataset: DatasetName = "digits",
    partition: PartitionText = "iid",
    parties: PartiesNumber = None,
    seed: Seed = 0,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw it: FILE.svg, FILE.png, or without suffix both")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="save who has which rows, to be used again: --partition file:FILE"),
    ] = None,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Split a data set between parties, and see how unalike they are.

    \b
    Examples:
      unalike partition --dataset heart --partition natural
      unalike partition --partition "label-dirichlet(0.1)+label-noise(0.1)"

    See "unalike list partitions" for all of them. Labels are counted as the parties see them.
    """
    from unalike.data import load_dataset
    from unalike.measure import column_skew, label_skew
    from unalike.partition import make_partition, seen_label_counts
    from unalike.report.partition_picture import Portrait

    load_plugins(plugin)
    data = load_dataset(dataset)
    made = make_partition(partition, data, parties, seed)
    counts = seen_label_counts(data, made)
    columns = None if made.columns is None else column_skew(data, made, search=False)
    portrait = Portrait(data, made, seed, counts, label_skew(counts), columns)
    files = [str(path) for path in (*_draw(portrait, figure), *_save(portrait, save))]
    if as_json:
        print_json({**to_dict(portrait), "files": files})
    else:
        _print(portrait, files)


def to_dict(portrait: Portrait) -> dict[str, Any]:
    """All that is known of the partition, ready for JSON."""
    data, made = portrait.dataset, portrait.partition
    parties = [
        {
            "name": name,
            "size": int(line.sum()),
            "label_counts": dict(zip(data.label_names, line.tolist(), strict=True)),
            **({} if made.columns is None else {"columns": made.columns[place].tolist()}),
        }
        for place, (name, line) in enumerate(zip(made.names, portrait.counts, strict=True))
    ]
    return {
        "dataset": data.name,
        "partition": made.recipe,
        "seed": portrait.seed,
        "rows": conserved(data, made),
        "parties": parties,
        "skew": {
            field.name: _plain(getattr(portrait.skew, field.name)) for field in dataclasses.fields(portrait.skew)
        },
        **_of_columns(portrait),
    }


def _of_columns(portrait: Portrait) -> dict[str, Any]:
    """What there is to say where parties have other columns."""
    made, columns = portrait.partition, portrait.columns
    if columns is None:
        return {}
    return {"label_holder": made.names[made.label_holder], "column_skew": columns.to_dict()}


def conserved(data: Dataset, made: Partition) -> dict[str, Any]:
    """How many training rows have one party, several or none; ``conserved``: each has exactly one."""
    import numpy as np

    times = np.bincount(np.concatenate(made.rows), minlength=data.size)
    several, none = int((times > 1).sum()), int((times == 0).sum())
    return {"training": data.size, "several": several, "none": none, "conserved": several == none == 0}


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _draw(portrait: Portrait, path: Path | None) -> list[Path]:
    if path is None:
        return []
    from unalike.report.figures import save
    from unalike.report.partition_picture import partition_picture

    _check_folder("--figure", path)
    if path.suffix.lower() in (".pdf", ".jpg", ".jpeg", ".gif", ".eps", ".webp", ".html"):
        raise UserError(f"--figure must end in .svg or .png, or have no suffix for both, got {path}.")
    if path.suffix.lower() in _KINDS:
        return save(partition_picture(portrait), path.with_suffix(""), [path.suffix.lower()[1:]])
    if path.is_dir():
        raise UserError(f"--figure must be a file, but {path} is a folder. Write {path / 'partition'}.")
    return save(partition_picture(portrait), path)


def _check_folder(flag: str, path: Path) -> None:
    """A folder that is not there is a slip of the pen."""
    if not path.parent.is_dir():
        raise UserError(f"{flag} {path}: there is no folder {path.parent}. Make it first, or check the path.")


def _save(portrait: Portrait, path: Path | None) -> list[Path]:
    if path is None:
        return []
    from unalike.partition import save_partition

    _check_folder("--save", path)
    save_partition(path, portrait.partition, portrait.dataset, portrait.seed)
    return [path]


def _print(portrait: Portrait, files: Sequence[str]) -> None:
    data, made, skew = portrait.dataset, portrait.partition, portrait.skew
    draw(Paragraph(f"{data.name}, {data.size:,} training rows: {made.recipe}, seed {portrait.seed}"), "")
    if portrait.columns is not None:
        from unalike.cli.columns import columns_lines, columns_table

        parts = data, made, portrait.columns
        draw(columns_table(*parts), "", *paragraphs([*columns_lines(*parts), _how_to_train(data, made)]))
    else:
        draw(_table(portrait), "", *paragraphs([*_rows(data, made), *_figures(portrait.counts, skew)]))
    if files:
        draw("", f"Saved {' and '.join(files)}.")


def _how_to_train(data: Dataset, made: Partition) -> str:
    """A command that trains on columns: the usual algorithms need whole rows."""
    from unalike.partition import PARTITIONS

    brief = PARTITIONS.brief(PARTITIONS.build(made.recipe))
    model = "linear" if data.task == "regression" else "logistic"
    how = f'--dataset {data.name} --partition "{brief}" --algorithm vertical --model {model}'
    return f"To train on it: unalike run {how}"


def _table(portrait: Portrait) -> Table:
    """How many rows a party has of each label; where these are too many, its largest labels."""
    data, made, counts = portrait.dataset, portrait.partition, portrait.counts
    columns = ["party", "rows"]
    places = [[name, f"{line.sum():,}"] for name, line in zip(made.names, counts, strict=True)]
    largest = table(
        [*columns, _LARGEST],
        [[*cells, _largest(line, data.label_names)] for cells, line in zip(places, counts, strict=True)],
        right=["rows"],
        text=[_LARGEST],
    )
    if len(data.label_names) > _MOST_LABELS:
        return largest
    return table(
        [*columns, *data.label_names],
        [
            [*cells, *(f"{count:,}" if count else "·" for count in line)]
            for cells, line in zip(places, counts, strict=True)
        ],
        right=["rows", *data.label_names],
        narrow=largest,
    )


def _largest(line: Array, classes: Sequence[str]) -> str:
    order = [int(label) for label in (-line).argsort(kind="stable") if line[label]]
    named = ", ".join(f"{classes[label]} {line[label]:,}" for label in order[:_TOP_LABELS])
    rest = len(order) - _TOP_LABELS
    return f"{named}, and {rest} more" if rest > 0 else named


def _rows(data: Dataset, made: Partition) -> list[str]:
    found = conserved(data, made)
    if found["conserved"]:
        return [f"Each of the {data.size:,} rows has exactly one party."]
    return [f"Of the {data.size:,} rows, {found['several']:,} have several parties and {found['none']:,} none."]


def _figures(counts: Array, skew: LabelSkew) -> list[str]:
    """The figures of skew in words, with the range in which each lies."""
    labels, parties = math.log2(counts.shape[1]), math.log2(len(counts))
    pairs = f"{skew.pairs:,} {'random ' if skew.estimated else ''}pair{'' if skew.pairs == 1 else 's'} of parties"
    return [
        f"Label entropy: {skew.entropy.mean():.2f} bits in the mean party, {skew.label_entropy:.2f} of all rows, "
        f"at most {labels:.2f}.",
        f"Quantity entropy: {skew.quantity_entropy:.2f} bits of at most {parties:.2f}; "
        f"imbalance {skew.quantity_imbalance:.2f}.",
        f"Mean distance of labels over {pairs}, from 0 to 1: Jensen-Shannon {skew.jensen_shannon:.2f}, "
        f"Hellinger {skew.hellinger:.2f}, earth mover's {skew.earth_mover:.2f}.",
    ]

"""What ``unalike partition`` and ``unalike measure`` say of parties that know the same people by other columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unalike.cli.show import Paragraph, draw, paragraphs, print_json
from unalike.cli.table import Table, table
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.data import Dataset
    from unalike.measure import ColumnSkew
    from unalike.partition import Partition

_MOST_NAMES = 5
_TELLS = "tells of the label"
MEASURED_KINDS = ("svg", "png", "pdf")


def columns_table(data: Dataset, made: Partition, skew: ColumnSkew) -> Table:
    """A line for each party: whom it knows, what it has, and how much that tells about the label."""
    rows = []
    for place, name in enumerate(made.names):
        held = " + label" if place == made.label_holder else ""
        told = f"{100 * skew.importance[place]:.0f}%"
        counts = [skew.known[place], skew.attributes[place], skew.columns[place]]
        rows.append([f"{name}{held}", *(f"{count:,}" for count in counts), told, _names(data, made, place)])
    columns = ["party", "people", "attributes", "columns", _TELLS, "has"]
    right = ["people", "attributes", "columns", _TELLS]
    return table(columns, rows, right=right, text=["has"], spare=["has", "columns"])


def _names(data: Dataset, made: Partition, party: int) -> str:
    """The first of a party's columns by name, or by number."""
    assert made.columns is not None
    own, named = made.columns[party], len(data.features) == math.prod(data.shape)
    told = ", ".join(data.features[column] if named else str(column) for column in own[:_MOST_NAMES])
    rest = len(own) - _MOST_NAMES
    return f"{told}, and {rest} more" if rest > 0 else told


def columns_lines(data: Dataset, made: Partition, skew: ColumnSkew) -> list[str]:
    """The figures of the whole partition in sentences."""
    from unalike.measure.columns import alpha_words

    if skew.common == data.size:
        lines = [f"All parties know all {data.size:,} people."]
    else:
        lines = [f"All parties know {skew.common:,} of the {data.size:,} people together: these are trained on."]
    alike = f", and {100 * skew.disagree:.0f}% of the others' values differ from the label holder's"
    lines.append(
        f"{skew.shared} attribute(s) are shared, {100 * skew.overlap:.0f}% of all{alike if skew.disagree else ''}."
        if skew.shared
        else "No attribute is shared."
    )
    lines.append(
        f"Importance (mutual information with the label): alpha {alpha_words(skew.alpha)}. Small is uneven: one "
        f"party's attributes tell most; from {made.parties} parties it is a rough estimate."
    )
    if skew.icor is None:
        lines.append("Correlation between parties (Icor): not computed of so many columns.")
    else:
        where = "" if skew.beta is None else f", beta {skew.beta:.2f} between the least (0) and the most (1) found"
        lines.append(
            f"Correlation between parties less that within them (Icor): {skew.icor:.3f}{where}. High: what goes "
            "together is spread over parties."
        )
    return lines


def columns_dict(data: Dataset, made: Partition, seed: int, skew: ColumnSkew) -> dict[str, Any]:
    """The measurement of columns ready for JSON."""
    assert made.columns is not None
    parties = [
        {"name": name, "columns": own.tolist(), "people": len(rows)}
        for name, own, rows in zip(made.names, made.columns, made.rows, strict=True)
    ]
    return {
        "dataset": data.name,
        "partition": made.recipe,
        "seed": seed,
        "parties": parties,
        "label_holder": made.names[made.label_holder],
        "column_skew": skew.to_dict(),
    }


def check_of_columns(made: Partition, of: str, model_of: str | None, noise: float, publish: str) -> None:
    """Refuse what has no meaning where parties have no column in common."""
    given = {"--of": of != "labels", "--model-of": model_of, "--noise": noise, "--publish": publish != "degrees"}
    if any(given.values()):
        flag = next(name for name, there in given.items() if there)
        raise UserError(
            f"{made.recipe} gives the parties different columns of the same people, so there is no common "
            f"variable and {flag} has no meaning. Leave it out."
        )


def measure_columns(data: Dataset, made: Partition, seed: int, figure: Path | None, *, as_json: bool) -> None:
    """Measure who has which columns: in the open, as in a simulation everything is seen."""
    from unalike.measure import column_skew

    skew = column_skew(data, made)
    files = [str(path) for path in _draw_columns(data, made, seed, skew, figure)]
    if as_json:
        print_json(columns_dict(data, made, seed, skew) | {"files": files})
        return
    draw(Paragraph(f"{data.name}, columns of {made.parties} parties: {made.recipe}, seed {seed}"), "")
    draw(columns_table(data, made, skew), "", *paragraphs(columns_lines(data, made, skew)))
    draw(
        "", *paragraphs(["Seen in the open, only in a simulation: between sites, columns and people are counted."])
    )
    if files:
        draw("", f"Saved {' and '.join(files)}.")


def _draw_columns(data: Dataset, made: Partition, seed: int, skew: ColumnSkew, path: Path | None) -> list[Path]:
    if path is None:
        return []
    from unalike.measure import label_skew
    from unalike.partition import seen_label_counts
    from unalike.report.figures import save
    from unalike.report.partition_picture import Portrait, partition_picture

    counts = seen_label_counts(data, made)
    picture = partition_picture(Portrait(data, made, seed, counts, label_skew(counts), skew))
    kind = path.suffix.lower()[1:]
    return save(picture, path.with_suffix(""), [kind]) if kind in MEASURED_KINDS else save(picture, path)

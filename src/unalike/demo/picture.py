"""The picture of the demonstration: for hospitals and for digits, who holds what, how training went, who gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unalike.demo.hospitals import ALL, ALONE, FEDAVG, NEIGHBOUR, OWN, POOLED, Hospitals
from unalike.demo.noise import OverSeeds
from unalike.demo.uneven_digits import FIVE, METHODS, SPLITS, UnevenDigits
from unalike.report.figures import FAINT, INK, Style, drawing, label_heat_map, new_figure, quiet, training_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

# Blue and vermilion are what taking part gives; purple and amber what one has now; dark grey is not allowed.
STYLES = {
    NEIGHBOUR: Style("#E69F00", marker="v"),
    ALONE: Style("#CC79A7", (0, (1.2, 1.2)), "s"),
    FEDAVG: Style("#0072B2", "-", "o"),
    OWN: Style("#D55E00", (0, (4, 1.6)), "D"),
    POOLED: Style("#4d4d4d", (0, (1.2, 1.2)), "^"),
}
LONG_NAMES = {
    NEIGHBOUR: "another hospital's model",
    ALONE: "own model, trained alone",
    FEDAVG: "one for all: FedAvg",
    OWN: "own + shared: Ditto",
    POOLED: "pooled (not allowed)",
}
SHOWN = 10
"""Parties of the digits that the picture and the tables list."""
_SMALL = 9.0
_SPACING = 0.15  # of the dots of one line, in heights of a line
_OVER_NAMES = -0.29  # where the names of a dot chart's lines begin, in widths of the chart


def demo_picture(hospitals: Hospitals, digits: UnevenDigits) -> Figure:
    """Both parts of the demonstration, a line of three charts each."""
    with drawing(9.5):
        figure = new_figure(11, 8)
        grid = figure.add_gridspec(
            2,
            5,
            width_ratios=(1.2, 0.24, 1, 0.46, 1.2),  # the second and fourth columns stay empty, for labels
            height_ratios=(1, 1.15),
            left=0.088,
            right=0.97,
            top=0.895,
            bottom=0.095,
            wspace=0,
            hspace=0.66,
        )
        cells = [[figure.add_subplot(grid[line, column]) for column in (0, 2, 4)] for line in range(2)]
        _hospital_charts(cells[0], hospitals)
        _digit_charts(cells[1], digits)
        patients = int(hospitals.counts.sum()) + len(hospitals.test_hospital)
        _heading(cells[0][0], f"Four hospitals, {patients} heart patients who may not leave them")
        _heading(cells[1][0], f"Handwritten digits at {len(digits.names)} parties that each have a few of the ten")
        figure.text(0.012, 0.018, _footnote(hospitals, digits), fontsize=_SMALL, color="#666666")
    return figure


def _footnote(hospitals: Hospitals, digits: UnevenDigits) -> str:
    spread = f"Bands, whiskers: ± 1 std over {len(hospitals.seeds)} seeds. "
    return (
        spread if len(hospitals.seeds) > 1 else ""
    ) + f"Digits: seed {digits.seeds[0]}'s first {SHOWN} parties."


def _heading(leftmost: Axes, text: str) -> None:
    """A headline above a line of charts, flush with the left edge of the picture."""
    figure = leftmost.get_figure(root=True)
    assert figure is not None
    top = leftmost.get_position().y1
    figure.text(0.012, top + 0.07, text, fontsize=13, fontweight="bold", color=INK, va="bottom")


def _hospital_charts(cells: Sequence[Axes], found: Hospitals) -> None:
    names = [name.capitalize() if len(name) > 2 else name.upper() for name in found.names]
    label_heat_map(cells[0], found.counts, names, found.classes)
    _title(cells[0], "Who has which patients")
    curves = {name: found.methods[name].curves for name in (ALONE, FEDAVG, OWN, POOLED)}
    training_curves(cells[1], curves, styles=STYLES)
    _finish_curves(cells[1], "While training")
    tested = [int(found.tested(place).sum()) for place in found.places]
    lines = [f"{name}\n{count} patients" for name, count in zip([*names, "All"], tested, strict=True)]
    rows = {name: [found.score(name, place) for place in found.places] for name in LONG_NAMES}
    _dots(cells[2], rows, lines, LONG_NAMES)
    guesses = [found.guess(place) for place in found.places]
    cells[2].scatter(guesses, range(len(lines)), marker="|", s=330, color=FAINT, linewidth=1.3, zorder=1,
                     label="always the commoner answer")  # fmt: skip
    _title(cells[2], "Accuracy on each hospital's own test patients", _OVER_NAMES)
    assert found.places[-1] == ALL
    cells[2].axhline(len(lines) - 1.5, color="#d0d0d0", linewidth=0.8)
    _legend(cells[2])


def _digit_charts(cells: Sequence[Axes], found: UnevenDigits) -> None:
    label_heat_map(cells[0], found.counts[:SHOWN], found.names[:SHOWN], found.classes)
    _title(cells[0], f"Who has which digits: {FIVE.split()[0]} each")
    curves = {name: method.curves for name, method in found.methods[FIVE].items()}
    training_curves(cells[1], curves, styles=STYLES)
    _finish_curves(cells[1], f"While training, {FIVE}")
    rows: dict[str, list[OverSeeds]] = {name: [] for name in METHODS}
    for methods in found.methods.values():
        for name, method in methods.items():
            rows[name] += [method.accuracy, method.worst]
    lines = [f"{split.capitalize()}\n{what}" for split in SPLITS for what in ("all parties", "worst tenth")]
    _dots(cells[2], rows, lines, LONG_NAMES)
    cells[2].axhline(1.5, color="#d0d0d0", linewidth=0.8)
    _title(cells[2], "Accuracy on each party's own test images", _OVER_NAMES)
    _legend(cells[2])


def _title(axes: Axes, text: str, x: float = 0.0) -> None:
    # A fixed height, because titles would else sit higher above a heat map, whose labels are on top.
    axes.set_title(text, loc="left", fontsize=10, fontweight="bold", x=x, y=1.0, pad=22)


def _finish_curves(axes: Axes, title: str) -> None:
    _title(axes, title)
    axes.legend(frameon=False, fontsize=_SMALL, loc="lower right", handlelength=2.6, borderaxespad=0.1)
    axes.yaxis.set_major_formatter(_percent())
    axes.margins(x=0)


def _dots(axes: Axes, rows: dict[str, list[OverSeeds]], lines: Sequence[str], names: Mapping[str, str]) -> None:
    """A line for each place, a dot for each method in it, and a whisker of one standard deviation."""
    for number, (name, scores) in enumerate(rows.items()):
        style = STYLES[name]
        axes.errorbar(
            [score.mean for score in scores],
            [line + (number - (len(rows) - 1) / 2) * _SPACING for line in range(len(scores))],
            xerr=[score.std or 0.0 for score in scores],
            fmt=style.marker,
            color=style.colour,
            markersize=5.5,
            elinewidth=1.2,
            label=names[name],
            zorder=3,
        )
    axes.set_yticks(range(len(lines)), lines, fontsize=_SMALL)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    quiet(axes)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(_percent())


def _legend(axes: Axes) -> None:
    from matplotlib.collections import PathCollection

    legend = axes.legend(
        frameon=False, fontsize=_SMALL, ncols=2, loc="upper left", bbox_to_anchor=(_OVER_NAMES - 0.03, -0.09),
        handletextpad=0.3, columnspacing=1.0,
    )  # fmt: skip
    for handle in legend.legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_sizes([80])  # the stroke for the commoner answer is longer than a line of text


def _percent() -> PercentFormatter:
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1.0, decimals=0)

"""Figures that anyone may draw: who holds which labels, and how training went.

Each function draws on axes that it is given and sets what it needs there. Nothing here imports pyplot or
leaves a mark on the user's matplotlib settings; matplotlib itself is imported when the first figure is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.runs.files import atomic_write, make_folder
from unalike.scores import key_of, score_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#222222"
FAINT = "#8a8a8a"
MOST_NUMBERED = 30
"""Parties, or labels, up to which the heat map has the counts written into its cells."""
_MOST_TICKS = 12  # names beside a heat map that has too many parties for one each
_PNG_DPI = 200
_NEUTRAL_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine draws the same letters
    "svg.fonttype": "path",
    "svg.hashsalt": "unalike",
    "pdf.fonttype": 42,  # letters stay letters (TrueType), which publishers ask for
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Style:
    """How one method looks in every chart: colour, line and marker, so that colour is never the only sign."""

    colour: str
    line: str | tuple[int, tuple[float, ...]] = "-"
    marker: str = "o"


# Okabe & Ito's colours, which people with any kind of colour blindness can tell apart.
PALETTE = (
    Style("#0072B2", "-", "o"),
    Style("#D55E00", (0, (4, 1.6)), "D"),
    Style("#009E73", (0, (1.2, 1.2)), "s"),
    Style("#CC79A7", (0, (6, 1.5, 1.2, 1.5)), "^"),
    Style("#E69F00", (0, (8, 2)), "v"),
    Style("#56B4E9", (0, (3, 3)), "P"),
)


@contextmanager
def drawing(font_size: float = 10.0) -> Iterator[None]:
    """Matplotlib's own defaults and our few changes for the time of drawing; the user's settings come back."""
    from matplotlib import style

    with style.context(["default", {**_NEUTRAL_STYLE, "font.size": font_size}]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure, in inches, that no pyplot keeps a list of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="white")


def label_heat_map(
    axes: Axes,
    counts: Array,
    party_names: Sequence[str],
    class_names: Sequence[str],
    *,
    scale_bar: bool = True,
    darkest: float = 0.0,
) -> None:
    """Who holds which labels: a line for each party, a column for each label (NIID-Bench, figure 3).

    The number in a cell is the count; the colour is its share of the party's rows, so that small parties show
    as clearly as large ones. The greatest share is darkest, or ``darkest`` where no share is so great. Beyond
    ``MOST_NUMBERED`` parties or labels the numbers would be unreadable: they are left out, a colour bar
    (``scale_bar``) takes their place, and only some parties are named.
    """
    counts = np.asarray(counts)
    if counts.shape != (len(party_names), len(class_names)) or 0 in counts.shape:
        raise UserError(
            f"The table of counts has the shape {counts.shape}, but there are {len(party_names)} party names and "
            f"{len(class_names)} labels. Give one line for each party and one column for each label."
        )
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)  # a party without rows is all white
    numbered = max(counts.shape) <= MOST_NUMBERED
    top = max(float(shares.max()), darkest, 1e-9)
    mesh = axes.pcolormesh(
        shares,
        cmap=blues(),
        vmin=0,
        vmax=top,
        edgecolors="white" if numbered else "none",
        linewidth=1.2 if numbered else 0,
        rasterized=not numbered,  # ten thousand cells as vectors would make an SVG of megabytes
    )
    axes.invert_yaxis()  # the first party on top, as in a table
    axes.xaxis.tick_top()
    name_ticks(axes.set_yticks, party_names)
    name_ticks(axes.set_xticks, class_names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if numbered:
        _write_counts(axes, counts, shares / top)
    elif scale_bar:
        bar = axes.figure.colorbar(mesh, ax=axes, fraction=0.05, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label("share of the party's rows")


def size_bars(axes: Axes, sizes: Array) -> None:
    """A bar for each party's number of rows, in lines that fit those of a heat map beside it."""
    middles = np.arange(len(sizes)) + 0.5
    numbered = len(sizes) <= MOST_NUMBERED
    axes.barh(middles, sizes, height=0.62 if numbered else 1.0, color="#8fa6b8", linewidth=0)
    axes.set_xlim(0, max(int(sizes.max()), 1))
    axes.set_ylim(len(sizes), 0)
    axes.set_yticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if not numbered:
        axes.set_xticks([int(sizes.max())], [f"{sizes.max():,}"])
        return
    axes.set_xticks([])
    for middle, size in zip(middles, sizes, strict=True):
        axes.annotate(
            f"{size:,}", (size, middle), (3, 0), textcoords="offset points", va="center_baseline", fontsize=8.5
        )


def share_bars(axes: Axes, shares: Array) -> None:
    """A bar for each party's share in percent, in lines that fit a map of parties beside it."""
    size_bars(axes, np.round(100 * shares).astype(int))
    for text in axes.texts:
        text.set_text(f"{text.get_text()}%")


def blues() -> Any:
    """From nearly white to dark blue, evenly in lightness: it can be read in grey and without colour vision."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("unalike", ["#f4f6f8", "#c3d9ec", "#5f9fcf", "#0b5c98", "#08325c"])


def name_ticks(set_ticks: Any, names: Sequence[str], most: int = MOST_NUMBERED) -> None:
    """Name each line, or where there are more than ``most``, some of them."""
    step = 1 if len(names) <= most else -(-len(names) // _MOST_TICKS)
    places = range(0, len(names), step)
    set_ticks([place + 0.5 for place in places], [names[place] for place in places])


def _write_counts(axes: Axes, counts: Array, shares: Array) -> None:
    for (party, label), count in np.ndenumerate(counts):
        share = shares[party, label]
        axes.text(
            label + 0.5,
            party + 0.5,
            f"{count:,}",
            ha="center",
            va="center_baseline",
            fontsize=_number_size(counts),
            color="white" if share > 0.58 else (INK if count else "#b4b8bc"),
        )


def _number_size(counts: Array) -> float:
    """Points that let the longest number fit its cell in a chart of usual size."""
    room = 100 / (counts.shape[1] * max(2, len(f"{counts.max():,}")))
    return float(np.clip(2.5 * room, 4.0, 9.0))


def training_curves(
    axes: Axes,
    runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]],
    key: str | None = None,
    styles: Mapping[str, Style] | None = None,
) -> None:
    """A line for each name: the mean over its seeds in every round, and a band of one standard deviation.

    ``runs[name]`` holds the rows of each seed. ``key`` is the runs' score by default, and may reach inside, as in
    ``parties.worst``. Rounds that were not evaluated by all seeds are left out; a single seed has no band.
    """
    from matplotlib.ticker import MaxNLocator

    for number, (name, seeds) in enumerate(runs.items()):
        rounds, values = curve(seeds, key, name)
        style = (styles or {}).get(name, PALETTE[number % len(PALETTE)])
        mean = values.mean(axis=0)
        axes.plot(rounds, mean, color=style.colour, linestyle=style.line, linewidth=1.8, label=name, zorder=3)
        if len(values) > 1:
            deviation = values.std(axis=0, ddof=1)
            low, high = mean - deviation, mean + deviation
            axes.fill_between(rounds, low, high, color=style.colour, alpha=0.16, linewidth=0, zorder=2)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    quiet(axes)


def curve(
    seeds: Sequence[Sequence[Mapping[str, Any]]], key: str | None = None, name: str = "run"
) -> tuple[Array, Array]:
    """The rounds that every seed evaluated, and the figure ``key`` of each seed in them, [seeds, rounds]."""
    if key is None:
        key = key_of(score_of(next((row for rows in seeds for row in rows if "score" in row), {})))
    found = [{row["round"]: value for row in rows if (value := _reach(row, key)) is not None} for rows in seeds]
    rounds = sorted(set.intersection(*map(set, found))) if found else []
    if not rounds:
        raise UserError(f"{name!r} has no round with the figure {key!r}. Check the name, or evaluate more often.")
    return np.array(rounds), np.array([[values[number] for number in rounds] for values in found])


def _reach(row: Mapping[str, Any], key: str) -> Any:
    value: Any = row
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def quiet(axes: Axes) -> None:
    """Take away what carries no information: the box, the tick marks, all but faint lines for the eye."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


def save(figure: Figure, path: Path, kinds: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Write ``path``.svg and ``path``.png, each as a whole or not at all, and say where they are.

    The same figure gives the same bytes: no date, and ids that do not change.
    """
    make_folder(path.parent)
    saved = []
    for kind in kinds:
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        options: dict[str, Any] = {"dpi": _PNG_DPI, "metadata": dates.get(kind)}
        content = io.BytesIO()
        with drawing():
            figure.savefig(content, format=kind, **options)
        saved.append(path.with_name(f"{path.name}.{kind}"))
        atomic_write(saved[-1], content.getvalue())
    return saved

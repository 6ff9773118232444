"""Figures for a paper: SVG and PDF, one for each setting and kind, in the size of a column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unalike.report.figures import PALETTE, Style, drawing, new_figure, quiet, save, training_curves
from unalike.report.page.content import Page
from unalike.report.page.numbers import SCORE, curves, fairness
from unalike.runs.results import Line, Setting
from unalike.runs.scales import Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

_WIDTH, _HEIGHT = 3.5, 2.5  # inches: one column of two
_KINDS = ("svg", "pdf")


def camera_ready(page: Page, folder: Path) -> list[Path]:
    """Draw training curves, fairness and communication of every setting; say which files were written."""
    written: list[Path] = []
    styles = {name: _style(place) for name, place in page.places.items()}
    for name, setting in zip(file_names(page), page.settings, strict=True):
        lines = [line for line in setting.lines if line.curve()]
        if lines:
            written += save(_curves(lines, styles), folder / f"{name}-curves", _KINDS)
            written += save(_communication(lines, styles), folder / f"{name}-communication", _KINDS)
        if any((found := fairness(line)) and found.values for line in setting.lines):
            written += save(_fairness(setting, styles), folder / f"{name}-fairness", _KINDS)
    return written


def file_names(page: Page) -> list[str]:
    """A name for each setting's files: plain letters, and no two alike."""
    made: list[str] = []
    for dataset, rest in page.names:
        name = re.sub(r"[^a-z0-9.]+", "-", f"{dataset}-{rest}".lower()).strip("-.") or "setting"
        name = name[:80]
        number = 2
        while name in made:
            name = f"{name.removesuffix(f'-{number - 1}')}-{number}"
            number += 1
        made.append(name)
    return made


def _style(place: int) -> Style:
    """Beyond the palette's end the colours come again with another line."""
    style = PALETTE[place % len(PALETTE)]
    if place < len(PALETTE):
        return style
    return replace(style, line=PALETTE[(place + place // len(PALETTE)) % len(PALETTE)].line)


def _curves(lines: Sequence[Line], styles: dict[str, Style]) -> Figure:
    with drawing(8):
        figure = new_figure(_WIDTH, _HEIGHT)
        axes = figure.add_subplot()
        runs = {line.algorithm: [[dict(row) for row in one.rounds] for one in line.finished] for line in lines}
        scale = lines[0].scale
        training_curves(axes, runs, scale.score.key, styles)
        _name(axes, scale)
        _finish(figure, axes)
    return figure


def _communication(lines: Sequence[Line], styles: dict[str, Style]) -> Figure:
    with drawing(8):
        figure = new_figure(_WIDTH, _HEIGHT)
        axes = figure.add_subplot()
        for line in lines:
            found, style = curves(line)[SCORE], styles[line.algorithm]
            mean = np.array(found["mean"], float) / line.scale.factor
            axes.plot(
                found["sent"], mean, color=style.colour, linestyle=style.line, linewidth=1.6, label=line.algorithm
            )
            if found["std"]:
                band = np.array(found["std"], float) / line.scale.factor
                axes.fill_between(
                    found["sent"], mean - band, mean + band, color=style.colour, alpha=0.16, linewidth=0
                )
        axes.set_xlabel("megabytes sent, up and down")
        axes.set_xlim(left=0)
        quiet(axes)
        _name(axes, lines[0].scale)
        _finish(figure, axes)
    return figure


def _fairness(setting: Setting, styles: dict[str, Style]) -> Figure:
    found = [(line.algorithm, made) for line in setting.lines if (made := fairness(line)) and made.values]
    scale = setting.scale
    with drawing(8):
        figure = new_figure(_WIDTH, max(1.4, 0.7 + 0.28 * len(found)))
        axes = figure.add_subplot()
        for place, (name, one) in enumerate(found):
            colour = styles[name].colour
            lines = {"color": colour, "linewidth": 1}
            axes.boxplot(
                [np.array(one.values)],
                positions=[place],
                orientation="horizontal",
                widths=0.5,
                whis=(0, 100),
                boxprops=lines,
                whiskerprops=lines,
                capprops=lines,
                medianprops={"color": colour, "linewidth": 2},
            )
            axes.plot(one.worst_tenth.mean, place, "D", color="white", markeredgecolor=colour, markersize=4)
        axes.set_yticks(range(len(found)), [name for name, _ in found])
        axes.invert_yaxis()
        axes.set_xlabel(f"{scale.words} on a party's held-out rows")
        quiet(axes)
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
        axes.xaxis.set_major_formatter(_formatter(scale, 1.0))
        figure.tight_layout(pad=0.4)
    return figure


def _name(axes: Axes, scale: Scale) -> None:
    """Say what goes upwards, in its unit."""
    axes.yaxis.set_major_formatter(_formatter(scale, scale.factor))
    axes.set_ylabel(f"test {scale.words}")


def _formatter(scale: Scale, factor: float) -> FuncFormatter:
    """Writes what is drawn, times the factor, in the unit of the scale."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: scale.short(round(factor * value, 6)))


def _finish(figure: Figure, axes: Axes) -> None:
    """The names above the chart, where they hide no line."""
    columns = min(3, len(axes.lines))
    axes.legend(
        frameon=False,
        fontsize=7,
        handlelength=2.4,
        ncols=columns,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        borderaxespad=0.1,
    )
    figure.tight_layout(pad=0.4)

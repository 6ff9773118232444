"""A comparison as a notebook and as a terminal show it: the report's look in little, without script."""

from __future__ import annotations

import numpy as np

from unalike.notebook.chart import Trace, chart, sample
from unalike.notebook.comparison import OWN, OWN_MEAN, Comparison, rounds_of, told
from unalike.quantities import MISSING, duration, size
from unalike.report.figures import curve
from unalike.report.page.markup import Column, Html, join, tag, text
from unalike.report.page.summary import lead
from unalike.report.page.tables import mark
from unalike.runs.by_party import figure
from unalike.runs.results import Line
from unalike.runs.scales import Scale, Spread, spread

_COMMON = ("algorithm", "dataset", "partition", "parties", "model", "rounds", "epochs", "steps", "lr", "channel")
"""What is told where it is the same in all runs."""
_MOST_CURVES = 8
_OWN_ROWS = "on each party's own held-out rows, under the model that it would use"
_STYLE = """
.unalike-view{font:14px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}
.unalike-view p{margin:.3em 0;max-width:50em;opacity:.8;font-size:.92em}
.unalike-view.unalike-view.unalike-view table{border-collapse:collapse;margin:.5em 0;border:0;font-size:1em;
border-top:1.5px solid;border-bottom:1.5px solid}
.unalike-view.unalike-view.unalike-view tr{background:none;border:0}
.unalike-view.unalike-view.unalike-view :is(th,td){padding:.3em 1.2em .3em 0;text-align:left;font-weight:400;
border:0;background:none;vertical-align:baseline;white-space:nowrap}
.unalike-view.unalike-view.unalike-view thead th{font-weight:600;border-bottom:1px solid;vertical-align:bottom}
.unalike-view.unalike-view.unalike-view .n{text-align:right}
.unalike-view.unalike-view.unalike-view :is(th,td):last-child{padding-right:0}
.unalike-view .scroll{overflow-x:auto}
"""


def as_html(compared: Comparison) -> str:
    """A table and curves; colours follow the page around them, and all text is escaped."""
    columns, cells = _table(compared)
    several = len(compared.lines) > 1
    head = [
        tag("th", column.head, scope="col", class_="n" if column.number else None, title=column.hint)
        for column in columns
    ]
    body = []
    for place, row in enumerate(cells):
        first = join([sample(place), row[0]]) if several and place < _MOST_CURVES else text(row[0])
        rest = [
            tag("td", cell, class_="n" if column.number else None)
            for column, cell in zip(columns[1:], row[1:], strict=True)
        ]
        body.append(tag("tr", tag("th", first, scope="row"), *rest))
    made = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    said = [tag("p", note) for note in (_all(compared), *compared.notes) if note]
    parts = [tag("div", made, class_="scroll"), *_chart(compared), *said]
    return str(tag("div", tag("style", Html(_STYLE)), *parts, class_="unalike-view"))


def as_text(compared: Comparison) -> str:
    """The same table for a terminal, in columns as wide as they must be, and the notes."""
    columns, rows = _table(compared)
    heads = [str(column.head) for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if column.number else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in (heads, *rows)
    ]
    return "\n".join([*lines, *(note for note in (_all(compared), *compared.notes) if note)])


def _all(compared: Comparison) -> str:
    """What all runs share, as far as people ask for it."""
    alone = len(compared.lines) == 1  # then the algorithm stands in the table
    fields = [name for name in _COMMON[alone:] if compared.common.get(name) is not None]
    shared = ", ".join(f"{name} {told(name, compared.common[name])}" for name in fields)
    if not shared:
        return ""
    return f"{shared[:1].upper()}{shared[1:]}." if alone else f"All: {shared}."


def _table(compared: Comparison) -> tuple[list[Column], list[list[str]]]:
    """Heads and cells: who, how good, how the worst party fares, and what it took."""
    lines = compared.lines
    same = "score" not in compared.differing
    scale = lines[0].scale
    first = lead(compared.setting) if not compared.not_comparable else None
    seeds = any(len(line.records) > 1 for line in lines)
    columns = [
        Column("Algorithm" if set(compared.differing) <= {"algorithm"} else "Run", False),
        Column(f"Test {scale.column}" if same else "Test score"),
        Column("Selected round", hint="the round with the best score on validation rows, on test rows"),
        Column("Parties' mean", hint=_OWN_ROWS),
        Column("Worst party", hint=_OWN_ROWS),
        *([Column("Seeds")] if seeds else []),
        Column("Sent"),
        Column("Time"),
    ]
    signs = [mark(first) if first and line.algorithm in first.equals else "" for line in lines]
    return columns, [_cells(line, seeds, sign) for line, sign in zip(lines, signs, strict=True)]


def _cells(line: Line, seeds: bool, sign: str) -> list[str]:
    scale = line.scale
    sent = [line.mean(name) for name in ("bytes_up", "bytes_down")]
    took = line.mean("seconds")
    return [
        line.algorithm,
        _value(scale, line.value) + sign,
        _value(scale, figure(line, ("selected",), scale.score.key)),
        *(_value(scale, figure(line, OWN, name)) for name in ("mean", "worst")),
        *([str(len(line.records))] if seeds else []),
        MISSING if None in sent else size(sum(one or 0 for one in sent)),
        MISSING if took is None else duration(took),
    ]


def _value(scale: Scale, value: Spread | None) -> str:
    return MISSING if value is None else scale.text(value, unit="")


def _chart(compared: Comparison) -> list[Html]:
    """The score by round; nothing where the runs share none or fewer than two rounds have it."""
    key, scale = compared.usual, compared.lines[0].scale
    if key is None:
        return []
    factor = 1.0 if key == "train_loss" else scale.factor
    known = [_trace(line, key, factor) for line in compared.lines[:_MOST_CURVES]]
    if not any(len(trace.points) > 1 for trace in known):
        return []
    what = _what(scale, key)
    more = len(compared.lines) - _MOST_CURVES
    left = f"; {more} further lines are not drawn" if more > 0 else ""
    return [tag("p", f"{what[:1].upper()}{what[1:]}, by round{left}"), chart(known, f"{what}, by round")]


def _what(scale: Scale, key: str) -> str:
    """What the chart shows, in words."""
    if key == "train_loss":
        return "training loss"
    if key == OWN_MEAN:
        return f"{scale.column}, mean over parties {_OWN_ROWS}"
    return f"{'test' if key == scale.score.key else 'validation'} {scale.column}"


def _trace(line: Line, key: str, factor: float) -> Trace:
    """A figure of a line's runs by round, times a factor."""
    rounds, values = curve([rounds_of(record) for record in line.finished], key, line.algorithm)
    told = np.isfinite(values.astype(float)).all(axis=0)  # of a training that ran away, what can be drawn
    made = (spread(factor * values[:, place]) for place in np.flatnonzero(told))
    return Trace([(int(number), one) for number, one in zip(rounds[told], made, strict=True) if one])

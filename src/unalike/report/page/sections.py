"""The parts of the page that are about one setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unalike.report.page.content import Page
from unalike.report.page.markup import Column, Html, join, table, tag
from unalike.report.page.numbers import SCORE, curves, degrees, fairness, metrics, scales, strip
from unalike.report.page.parties import Look
from unalike.report.page.tables import (
    NONE,
    chart,
    cost_table,
    fairness_part,
    final_table,
    importance_table,
    others_table,
    target_table,
)
from unalike.runs.command import command
from unalike.runs.headline import gain_words
from unalike.runs.results import Setting

_MOST_BESIDE = 14
"""Labels up to which the heat map has room beside the degrees."""
_DEGREES = (
    ("label", "Labels", "total variation between a party's labels and all parties', mean by rows"),
    ("feature", "Features", "Kolmogorov-Smirnov distance of features, mean over dimensions and parties"),
    ("quantity", "Quantity", "share of rows that would have to move for equal sizes, of the largest possible"),
    ("one_label", "One label only", "share of the parties that hold a single label"),
)


def setting_section(page: Page, setting: Setting, number: int, look: Look) -> Html:
    """All about one setting, under an anchor of its own."""
    dataset, rest = page.names[number - 1]
    parts = [
        tag("h2", dataset, tag("span", rest, class_="split")),
        _unlike(setting, look),
        _training(setting),
        final_table(page, setting),
        others_table(page, setting),
        fairness_part(page, setting),
        _bytes(setting),
        target_table(page, setting),
        importance_table(page, setting),
        _features(look),
        cost_table(page, setting),
        _again(setting),
    ]
    return tag("section", *parts, id=f"s{number}", class_="setting", data_number=number)


def setting_data(page: Page, setting: Setting, look: Look) -> dict[str, Any]:
    """What the script draws in it."""
    strips = [strip(line.algorithm, found) for line in setting.lines if (found := fairness(line)) and found.values]
    return {
        "lines": [curves(line) for line in setting.lines if line.finished],
        "scales": scales(setting.scale, setting.lines),
        "target": page.goal(setting),
        "fair": strips,
        "heat": look.heat,
        "features": look.features,
    }


def _columns(setting: Setting) -> Html | None:
    """Where parties hold columns of the same people: who has how many; None where they hold rows."""
    records = [record for line in setting.lines for record in line.finished]
    told = next((found for one in records if isinstance(found := one.figures.get("columns"), Mapping)), None)
    if told is None:
        return None
    rows = [
        [join([name, tag("small", "has what is predicted") if name == told["label_holder"] else ""]), str(count)]
        for name, count in dict(told["parties"]).items()
    ]
    caption = f"Columns of each party, of {told['people']:,} people whom all of them know"
    words = [tag("p", f"{line.algorithm}: {said}", class_="caption") for line, said in _gains(setting)]
    made = table([Column("Party", False), Column("columns")], rows, caption)
    return tag("div", tag("h3", "Who has what"), made, *words)


def _gains(setting: Setting) -> list[tuple[Any, str]]:
    """Of each line with a finished run, what the label holder reaches alone and what the others add."""
    said = [(line, gain_words(line.finished[0].figures)) for line in setting.lines if line.finished]
    return [(line, words) for line, words in said if words]


def _unlike(setting: Setting, look: Look) -> Html:
    if (split := _columns(setting)) is not None:
        return split
    found = degrees(setting.lines)
    rows = []
    for name, title, meaning in _DEGREES:
        if name in found:
            chance = found.get(f"{name}_expected")
            here = found[name].mean
            rows.append(
                [
                    join([title, tag("small", meaning)]),
                    join([f"{here:.3f}", _bar(here)]),
                    NONE if chance is None else f"{chance.mean:.3f}",
                ]
            )
    columns = [Column("Degree, 0 to 1", False), Column("here"), Column("by chance")]
    degree = (
        table(
            columns, rows, "How unalike the parties are, and what a random even split of as many rows would show"
        )
        if rows
        else tag("p", "No degrees were recorded with these runs.", class_="none")
    )
    narrow = look.heat is None or len(look.heat["labels"]) <= _MOST_BESIDE
    if look.heat is None:
        heat = tag("p", "Who holds which labels is not shown. ", look.problem, class_="none")
    else:
        seed = look.heat["seed"]
        heat = tag(
            "div",
            chart("heat", "Labels by party"),
            tag(
                "p",
                f"Rows of each label (across) at each party (down), seed {seed}; the shade is the share of the "
                f"party's rows. {look.heat['said']}",
                class_="caption",
            ),
        )
    return tag(
        "div",
        tag("h3", "How unalike the parties are"),
        tag("div", tag("div", degree), heat, class_="pair" if narrow else "stack"),
    )


def _bar(value: float) -> Html:
    width = max(0.0, min(1.0, value))
    return tag("span", tag("i", style=f"width:{100 * width:.1f}%"), class_="bar", aria_hidden="true")


def _training(setting: Setting) -> Html:
    """The curves that there are: without a global model in any line, there are none of its score and loss."""
    there = {
        name: title
        for name, title in metrics(setting.scale).items()
        if any(line.curve(None if name == SCORE else name) for line in setting.lines if line.finished)
    }
    first = next(iter(there), "")
    radios = [
        tag("button", title, type="button", data_metric=name, aria_pressed="true" if name == first else "false")
        for name, title in there.items()
    ]
    return tag(
        "div",
        tag("h3", "Training"),
        tag("div", *radios, class_="switch", role="group", aria_label="What is shown"),
        chart("curves", "Training curves by round"),
        tag(
            "p",
            "Mean over seeds by round; the band is one standard deviation. Point, touch, or use the arrow keys to "
            "read values; press a name to hide or show it.",
            class_="caption",
        ),
    )


def _bytes(setting: Setting) -> Html:
    scale = setting.scale
    said = (
        f"{scale.title} against what was sent up and down until then, all parties together. Algorithms that send "
        "more in a round lie further to the right."
    )
    return tag(
        "div",
        tag("h3", f"Communication against {scale.words}"),
        chart("bytes", f"{scale.title} against megabytes sent"),
        tag("p", said, class_="caption"),
    )


def _features(look: Look) -> Html:
    title = tag("h3", "Features by party")
    if look.features is None:
        return tag("div", title, tag("p", "Features are not shown. ", look.feature_problem, class_="none"))
    found = look.features
    said = (
        f"{len(found['x']):,} training rows as the final global model of {found['algorithm']} (seed "
        f"{found['seed']}) sees them: its {found['dimensions']} features on their first two principal components. "
        "Where the colours of parties lie apart, the model still sees the parties as unalike. Press a name to "
        "bring it out."
    )
    return tag("div", title, chart("features", "Features by party and by label"), tag("p", said, class_="caption"))


def _again(setting: Setting) -> Html:
    lines = []
    for line in setting.lines:
        for record in line.records:
            lines.append(command(record.spec))
    return tag(
        "details",
        tag(
            "summary",
            f"Commands of the {len(lines)} runs of this setting" if len(lines) > 1 else "Command of this run",
        ),
        tag("pre", "\n".join(lines), tabindex="0"),
    )

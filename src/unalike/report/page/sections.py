"""The parts of the page that are about one setting."""

from __future__ import annotations

from typing import Any

from unalike.bench.comparison import Compared
from unalike.bench.results import Line, Setting, Spread
from unalike.report.page.content import Page, command
from unalike.report.page.markup import Column, Html, join, table, tag, text
from unalike.report.page.numbers import METRICS, curves, degrees, fairness, reached, strip
from unalike.report.page.parties import Look
from unalike.report.page.summary import lead

NONE = "–"
_DEGREES = (
    ("label", "Labels", "total variation between a party's labels and all parties', mean by rows"),
    ("feature", "Features", "Kolmogorov-Smirnov distance of features, mean over dimensions and parties"),
    ("quantity", "Quantity", "share of rows that would have to move for equal sizes, of the largest possible"),
    ("one_label", "One label only", "share of the parties that hold a single label"),
)


def setting_section(page: Page, setting: Setting, number: int, look: Look) -> Html:
    """All about one setting, under an anchor of its own."""
    parts = [
        tag("h2", f"{setting.dataset}", tag("span", setting.partition, class_="split")),
        _unlike(setting, look),
        _training(),
        _final(page, setting),
        _fairness(setting),
        _bytes(),
        _target(page, setting),
        _features(look),
        _costs(setting),
        _again(setting),
    ]
    return tag("section", *parts, id=f"s{number}", class_="setting", data_number=number)


def setting_data(page: Page, setting: Setting, look: Look) -> dict[str, Any]:
    """What the script draws in it."""
    strips = [strip(line.algorithm, found) for line in setting.lines if (found := fairness(line)) and found.values]
    return {
        "lines": [curves(line) for line in setting.lines if line.finished],
        "target": page.goal(setting),
        "fair": strips,
        "heat": look.heat,
        "features": look.features,
    }


def _chart(kind: str, label: str) -> Html:
    """A place for the script to draw in."""
    return tag("figure", tag("div", class_="chart", data_chart=kind, role="group", aria_label=label))


def _unlike(setting: Setting, look: Look) -> Html:
    found = degrees(setting.lines)
    rows = []
    for name, title, meaning in _DEGREES:
        if name in found:
            chance = found.get(f"{name}_expected")
            rows.append(
                [join([title, tag("small", meaning)]), _bar(found[name].mean), f"{found[name].mean:.3f}",
                 NONE if chance is None else f"{chance.mean:.3f}"]
            )  # fmt: skip
    columns = [Column("Degree, 0 to 1", False), Column("", False), Column("here"), Column("by chance")]
    degree = (
        table(columns, rows, "How unalike the parties are, and what a random even split of as many rows would show")
        if rows
        else tag("p", "No degrees were recorded with these runs.", class_="none")
    )
    if look.heat is None:
        heat = tag("p", "Who holds which labels is not shown. ", look.problem, class_="none")
    else:
        seed = look.heat["seed"]
        heat = join(
            [
                _chart("heat", "Labels by party"),
                tag(
                    "p",
                    f"Rows of each label (across) at each party (down), seed {seed}; the shade is the share of the "
                    f"party's rows. {look.heat['said']}",
                    class_="caption",
                ),
            ]
        )
    return tag("div", tag("h3", "How unalike the parties are"), tag("div", degree, heat, class_="pair"))


def _bar(value: float) -> Html:
    width = max(0.0, min(1.0, value))
    return tag("span", tag("i", style=f"width:{100 * width:.1f}%"), class_="bar", aria_hidden="true")


def _training() -> Html:
    radios = [
        tag("button", title, type="button", data_metric=name, aria_pressed="true" if name == "accuracy" else "false")
        for name, title in METRICS.items()
    ]
    return tag(
        "div",
        tag("h3", "Training"),
        tag("div", *radios, class_="switch", role="group", aria_label="What is shown"),
        _chart("curves", "Training curves by round"),
        tag(
            "p",
            "Mean over seeds by round; the band is one standard deviation. Point, touch, or use the arrow keys to "
            "read values; press a name to hide or show it.",
            class_="caption",
        ),
    )


def _final(page: Page, setting: Setting) -> Html:
    beside = [page.comparison(setting, line) for line in setting.lines]
    papers, notes = any(one.paper for one in beside), any(one.note for one in beside)
    first = lead(setting)
    columns = [Column("Algorithm", False), Column("Accuracy, %"), Column("Seeds")]
    columns += [Column("Published, %"), Column("Difference"), Column("Within 2 std", False)] if papers else []
    columns += [Column("Note", False)] if notes else []
    rows = []
    for line, one in zip(setting.lines, beside, strict=True):
        top = first is not None and line.algorithm == first.first
        row: list[Any] = [swatch(page, line.algorithm), _best(one.ours, top), str(len(line.finished))]
        row += [NONE if one.paper is None else str(one.paper), _difference(one), within(one)] if papers else []
        row += [one.note] if notes else []
        rows.append(row)
    said = "Accuracy of the final global model on the global test set, in percent: mean ± standard deviation."
    return tag(
        "div", tag("h3", "Final accuracy"), table(columns, rows, said), tag("p", *_reading(setting), class_="caption")
    )


def _reading(setting: Setting) -> list[str]:
    first = lead(setting)
    if first is None:
        return []
    if first.clear:
        return [f"▲ {first.first} leads {first.second} by {first.by:.1f} points: more than one standard deviation."]
    why = "one seed cannot tell" if first.accuracy.seeds < 2 else "less than one standard deviation, no clear win"
    return [f"▲ {first.first} is highest, {first.by:.1f} points above {first.second}: {why}."]


def _best(value: Spread | None, top: bool) -> Html:
    written = text(NONE if value is None else str(value))
    return tag("strong", written, " ▲") if top else written


def _difference(one: Compared) -> str:
    return NONE if one.difference is None else f"{one.difference:+.1f}".replace("-", "−")


def within(one: Compared) -> Html:
    """Whether ours agrees with the published number: a word, and a colour beside it."""
    if one.within is None:
        return text(NONE)
    return tag("span", "✓ yes", class_="yes") if one.within else tag("span", "✗ no", class_="no")


def swatch(page: Page, algorithm: str) -> Html:
    """The algorithm's name with its colour."""
    place = page.algorithms.index(algorithm)
    return join([tag("i", class_="swatch", style=f"--c:var(--c{place % 8})", aria_hidden="true"), algorithm])


def _fairness(setting: Setting) -> Html:
    title = tag("h3", "Fairness across parties")
    found = [(line, made) for line in setting.lines if (made := fairness(line))]
    if not found:
        said = "No rows of the parties were held out in these runs (held_out = 0), so nothing is known of single parties."
        return tag("div", title, tag("p", said, class_="none"))
    rows = [
        [line.algorithm, str(one.mean), str(one.std), str(one.worst), str(one.worst_tenth)] for line, one in found
    ]
    columns = [
        Column("Algorithm", False),
        Column("Mean"),
        Column("Std over parties"),
        Column("Worst party"),
        Column("Worst tenth", hint="mean over the lowest tenth of the parties"),
    ]
    personal = any(one.personal for _, one in found)
    model = "own model" if personal else "global model"
    said = f"Accuracy of the {model} on each party's own held-out rows, in percent; ± is over seeds."
    drawn = [_chart("fair", "Accuracy of each party")] if any(one.values for _, one in found) else []
    reading = (
        "Every dot is a party of one seed; the box spans the middle half with the median in it; the diamond is the "
        "mean of the worst tenth."
    )
    caption = [tag("p", reading, class_="caption")] if drawn else []
    return tag("div", title, *drawn, *caption, table(columns, rows, said))


def _bytes() -> Html:
    said = (
        "Accuracy against what was sent up and down until then, all parties together. Algorithms that send more in "
        "a round lie further to the right."
    )
    return tag(
        "div",
        tag("h3", "Communication against accuracy"),
        _chart("bytes", "Accuracy against megabytes sent"),
        tag("p", said, class_="caption"),
    )


def _target(page: Page, setting: Setting) -> Html:
    goal = page.goal(setting)
    if goal is None:
        return text("")
    rows = []
    for line in setting.lines:
        found = reached(line, goal)
        if found.rounds is None or found.megabytes is None:
            row = [NONE, NONE]
        else:
            row = [str(found.rounds), f"{found.megabytes.mean:,.1f}"]
        rows.append([swatch(page, line.algorithm), *row, f"{found.reached} of {found.seeds}"])
    own = "the study's target" if page.target is not None else "what the FedAvg line, or else the lowest, ends with"
    columns = [Column("Algorithm", False), Column("Rounds"), Column("Megabytes sent"), Column("Seeds that reach it")]
    said = f"First round with {goal:g} % test accuracy ({own}), over the seeds that reach it."
    return tag("div", tag("h3", "Rounds to target"), table(columns, rows, said))


def _features(look: Look) -> Html:
    title = tag("h3", "Features by party")
    if look.features is None:
        return tag("div", title, tag("p", "Features are not shown. ", look.feature_problem, class_="none"))
    found = look.features
    said = (
        f"{len(found['x']):,} training rows as the final global model of {found['algorithm']} (seed {found['seed']}) "
        f"sees them: its {found['dimensions']} features on their first two principal components. Where colours of "
        "parties lie apart, the model still sees the parties as unalike. Press a name to bring it out."
    )
    return tag("div", title, _chart("features", "Features by party and by label"), tag("p", said, class_="caption"))


def _costs(setting: Setting) -> Html:
    columns = [
        Column("Algorithm", False),
        Column("Up, MB"),
        Column("Down, MB"),
        Column("Seconds"),
        Column("Engine", False),
    ]
    rows = []
    for line in setting.lines:
        up, down, seconds = (line.mean(name) for name in ("bytes_up", "bytes_down", "seconds"))
        amounts = [NONE if value is None else f"{value / 1e6:,.1f}" for value in (up, down)]
        rows.append([line.algorithm, *amounts, NONE if seconds is None else f"{seconds:,.1f}", _engine(line)])
    return tag("div", tag("h3", "Cost"), table(columns, rows, "Cost of a whole run, mean over seeds."))


def _engine(line: Line) -> Html:
    engines = {
        str(record.figures["engine"]): str(record.figures.get("why_this_engine") or "")
        for record in line.finished
        if record.figures.get("engine")
    }
    return join([join([name, tag("small", why)]) for name, why in engines.items()]) if engines else text(NONE)


def _again(setting: Setting) -> Html:
    lines = []
    for line in setting.lines:
        for record in line.records:
            lines.append(command(record.spec))
    return tag(
        "details",
        tag("summary", f"Commands of the {len(lines)} runs of this setting"),
        tag("pre", "\n".join(lines), tabindex="0"),
    )

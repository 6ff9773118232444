"""The tables of one setting, and the marks that they share."""

from __future__ import annotations

from typing import Any

from unalike.ranking.comparison import Compared
from unalike.report.page.content import Page
from unalike.report.page.markup import Column, Html, join, table, tag, text
from unalike.report.page.numbers import fairness, reached
from unalike.report.page.summary import Lead, lead
from unalike.runs.by_party import over_parties
from unalike.runs.headline import importance
from unalike.runs.results import Line, Setting
from unalike.runs.scales import Scale, Spread, scale_of
from unalike.scores import scores_of

NONE = "–"
_MOST_COLUMNS = 12
"""Columns whose importance is shown."""


def chart(kind: str, label: str) -> Html:
    """A place for the script to draw in."""
    return tag("figure", tag("div", class_="chart", data_chart=kind, role="group", aria_label=label))


def final_table(page: Page, setting: Setting) -> Html:
    """Ours, and beside it the published number."""
    beside = [page.comparison(setting, line) for line in setting.lines]
    papers = any(one.paper for one in beside)
    first = lead(setting)
    scale = setting.scale
    columns = [Column("Algorithm", False), Column(_capital(scale.column)), Column("Seeds")]
    columns += [Column("Published, %"), Column("Difference"), Column("Within 2 std", False)] if papers else []
    rows = []
    for line, one in zip(setting.lines, beside, strict=True):
        row: list[Any] = [
            swatch(page, line.algorithm),
            _best(scale, one.ours, first, line.algorithm),
            str(len(line.finished)),
        ]
        row += [NONE if one.paper is None else str(one.paper), _difference(one), within(one)] if papers else []
        rows.append(row)
    percent = ", in percent" if scale.is_percent else ""
    said = (
        f"{scale.title} of the final global model on the global test set{percent}: mean ± standard deviation. "
        f"The {scale.best} is best."
    )
    # Not a column: sentences would make the lines tall, and on a phone push them out of sight.
    notes = [
        tag("p", swatch(page, line.algorithm), ": ", one.note, class_="caption")
        for line, one in zip(setting.lines, beside, strict=True)
        if one.note
    ]
    return tag(
        "div",
        tag("h3", f"Final {scale.words}"),
        table(columns, rows, said),
        tag("p", *reading(setting), class_="caption"),
        *notes,
    )


def others_table(page: Page, setting: Setting) -> Html:
    """The task's other scores of the final models, for who would have chosen another."""
    known = [scale_of(score.name) for score in scores_of(setting.scale.score.task) if score != setting.scale.score]
    rows = [(line.algorithm, [line.final(scale) for scale in known]) for line in setting.lines]
    shown = [place for place, _ in enumerate(known) if any(values[place] for _, values in rows)]
    if not shown:
        return text("")
    columns = [Column("Algorithm", False), *(Column(_capital(known[place].column)) for place in shown)]
    cells = [
        [
            swatch(page, name),
            *(NONE if (value := values[place]) is None else known[place].text(value, unit="") for place in shown),
        ]
        for name, values in rows
    ]
    best: dict[str, list[str]] = {}
    for place in shown:
        best.setdefault(known[place].best, []).append(known[place].words)
    ways = "; ".join(f"the {way} {', '.join(names)}" for way, names in best.items())
    said = f"The same models by other scores: mean ± standard deviation. Best is {ways}."
    return tag("div", tag("h3", "Other scores"), table(columns, cells, said))


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def reading(setting: Setting) -> list[str]:
    """Who leads and whether that is more than noise, in a sentence; nothing where there is nobody to lead."""
    first = lead(setting)
    if first is None:
        return []
    if first.tied:
        return [f"= {', '.join(first.equals)} are equally good."]
    if first.clear:
        return [f"▲ {first.first} leads {first.second} by {first.distance}: more than one standard deviation."]
    why = "one seed cannot tell" if first.value.seeds < 2 else "less than one standard deviation, no clear win"
    return [f"△ {first.first} is {first.scale.best}, {first.distance} {first.scale.ahead} {first.second}: {why}."]


def _best(scale: Scale, value: Spread | None, first: Lead | None, algorithm: str) -> Html:
    written = text(NONE if value is None else scale.text(value, unit=""))
    return tag("strong", written, mark(first)) if first and algorithm in first.equals else written


def mark(first: Lead) -> str:
    """What stands beside the best number: filled where the lead is clear, = where several are equal."""
    if first.tied:
        return " ="
    return " ▲" if first.clear else " △"


def _difference(one: Compared) -> str:
    return NONE if one.difference is None else f"{one.difference:+.1f}".replace("-", "−")


def within(one: Compared) -> Html:
    """Whether ours agrees with the published number: a word, and a colour beside it."""
    if one.within is None:
        return text(NONE)
    return tag("span", "✓ yes", class_="yes") if one.within else tag("span", "✗ no", class_="no")


def swatch(page: Page, algorithm: str) -> Html:
    """The algorithm's name with its colour."""
    place = page.places[algorithm]
    return join([tag("i", class_="swatch", style=f"--c:var(--c{place % 8})", aria_hidden="true"), algorithm])


def fairness_part(page: Page, setting: Setting) -> Html:
    """How the parties fare one by one."""
    title = tag("h3", "Fairness across parties")
    found = [(line, made) for line in setting.lines if (made := fairness(line))]
    if not found:
        said = "No rows were held out in these runs (held_out = 0), so nothing is known of single parties."
        return tag("div", title, tag("p", said, class_="none"))
    scale = setting.scale
    new = {line.algorithm: over_parties(line, "newcomers") for line, _ in found}
    some = any(new.values())
    rows = [
        [
            swatch(page, line.algorithm),
            *(
                value.text(scale.digits(one.mean.mean)) if value else NONE
                for value in (one.mean, one.std, one.worst, one.worst_tenth, *[new[line.algorithm]] * some)
            ),
        ]
        for line, one in found
    ]
    columns = [
        Column("Algorithm", False),
        Column("Mean"),
        Column("Std over parties"),
        Column("Worst party"),
        Column("Worst tenth", hint="mean over the tenth of the parties that fares worst"),
        *[Column("Newcomers", hint="mean over parties that never took part in training")] * some,
    ]
    personal = any(one.personal for _, one in found)
    model = "own model" if personal else "global model"
    percent = ", in percent" if scale.is_percent else ""
    said = f"{scale.title} of the {model} on each party's own held-out rows{percent}; ± is over seeds."
    drawn = [chart("fair", f"{scale.title} of each party")] if any(one.values for _, one in found) else []
    how_to_read = (
        "Every dot is a party of one seed; the box spans the middle half with the median in it; the diamond is "
        "the mean of the worst tenth."
    )
    caption = [tag("p", how_to_read, class_="caption")] if drawn else []
    return tag("div", title, *drawn, *caption, table(columns, rows, said))


def target_table(page: Page, setting: Setting) -> Html:
    """Rounds and bytes until the target."""
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
    own = "the study's target" if page.target is not None else f"what {page.measure(setting)} ends with"
    columns = [
        Column("Algorithm", False),
        Column("Rounds"),
        Column("Megabytes sent"),
        Column("Seeds that reach it"),
    ]
    scale = setting.scale
    said = (
        f"First round with a test {scale.words} of {scale.bound} {goal:g}{scale.unit} ({own}), over the seeds "
        "that reach it."
    )
    return tag("div", tag("h3", "Rounds to target"), table(columns, rows, said))


def importance_table(page: Page, setting: Setting) -> Html:
    """The columns that trees go by, where there are trees that all parties share."""
    found = {line.algorithm: shares for line in setting.lines if (shares := _shares(line))}
    if not found:
        return text("")
    most: dict[str, float] = {}
    for shares in found.values():
        most |= {name: max(share, most.get(name, 0.0)) for name, share in shares.items()}
    names = sorted(most, key=lambda name: (-most[name], name))[:_MOST_COLUMNS]
    rows = [[name, *(f"{shares.get(name, 0.0):.1%}" for shares in found.values())] for name in names]
    columns = [Column("Column", False), *(Column(swatch(page, algorithm)) for algorithm in found)]
    said = "Share of each column in what all splits gain, mean over seeds; what the trees use, not what causes."
    return tag("div", tag("h3", "What the trees go by"), table(columns, rows, said))


def _shares(line: Line) -> dict[str, float]:
    """By column, its share of the gain, mean over the runs that tell it."""
    told = [each for record in line.finished if (each := importance(record.figures))]
    names = dict.fromkeys(name for one in told for name in one)
    return {name: sum(one.get(name, 0.0) for one in told) / len(told) for name in names}


def cost_table(page: Page, setting: Setting) -> Html:
    """Bytes, seconds and the engine."""
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
        rows.append(
            [swatch(page, line.algorithm), *amounts, NONE if seconds is None else f"{seconds:,.1f}", _engine(line)]
        )
    return tag("div", tag("h3", "Cost"), table(columns, rows, "Cost of a whole run, mean over seeds."))


def _engine(line: Line) -> Html:
    engines = {
        str(record.figures["engine"]): str(record.figures.get("why_this_engine") or "")
        for record in line.finished
        if record.figures.get("engine")
    }
    return join([join([name, tag("small", why)]) for name, why in engines.items()]) if engines else text(NONE)

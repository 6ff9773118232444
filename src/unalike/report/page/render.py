"""The page as one HTML file that needs nothing else."""

from __future__ import annotations

from collections import Counter
from importlib import resources
from typing import Any

import unalike
from unalike.data import DATASETS
from unalike.report.page.content import Page
from unalike.report.page.markup import Column, Html, data, definitions, join, table, tag, text
from unalike.report.page.parties import Looker
from unalike.report.page.sections import setting_data, setting_section
from unalike.report.page.summary import lead, summary
from unalike.report.page.tables import NONE, mark, within
from unalike.runs.meaning import brief_model
from unalike.runs.results import Setting, brief
from unalike.runs.scales import Scale

_NAMES = {
    "dataset": "Data set",
    "partition": "Partition",
    "parties": "Parties",
    "model": "Model",
    "rounds": "Rounds",
    "epochs": "Local epochs",
    "steps": "Local steps",
    "batch_size": "Batch size",
    "drop_last": "Incomplete batches left out",
    "init": "Weights to begin with",
    "freeze": "Layers that stay as they are",
    "optimiser": "Local optimiser",
    "lr": "Learning rate",
    "lr_decay": "Learning rate decay",
    "sample": "Parties in a round",
    "cohort": "How they are chosen",
    "public": "Server's own rows",
    "validation": "Validation rows",
    "held_out": "Held-out rows",
    "evaluate_every": "Rounds between evaluations",
    "score": "Score",
    "loss": "Loss",
    "fine_tune": "Epochs of fine-tuning",
    "newcomers": "Newcomers",
    "test_by": "Parties are tried by",
    "evaluate_parties": "Parties that are tried",
    "channel": "Private channel",
    "batch_norm": "Batch norm statistics",
    "augment": "Augmentation",
    "dtype": "Numbers",
}
_FRACTIONS = ("sample", "public", "validation", "held_out", "newcomers")
_USUAL = {
    "drop_last": "no",
    "lr_decay": "1",
    "sample": "all",
    "cohort": "uniform",
    "public": "none",
    "evaluate_every": "1",
    "score": "accuracy",
    "fine_tune": "0",
    "newcomers": "none",
    "test_by": "held-out",
    "evaluate_parties": "all",
    "batch_norm": "average",
    "augment": "none",
    "dtype": "float32",
}
_MOST_VALUES = 8


def render(page: Page, use_data: bool = True) -> str:
    """The page as one HTML file: charts, tables, style and script are all in it."""
    looker = Looker(len(page.settings), use_data)
    sections, drawn = [], []
    for number, setting in enumerate(page.settings, start=1):
        look = looker.look(setting)
        sections.append(setting_section(page, setting, number, look))
        drawn.append(setting_data(page, setting, look))
    parts: dict[str, Any] = {
        "title": text(page.title),
        "about": tag("p", page.about, class_="about") if page.about else "",
        "summary": _summary(page),
        "setting": _setting(page),
        "overview": _overview(page),
        "chooser": _chooser(page),
        "sections": join(sections),
        "tuned": _tuned(page),
        "failures": _failures(page),
        "again": _again(page),
        "versions": _versions(page),
        "data": data({"places": page.places, "settings": drawn}),
        "style": _file("style.css"),
        "script": _file("charts.js") + _file("script.js"),
    }
    # One pass, so that a title such as "{{data}}" stays a title.
    pieces = _file("template.html").split("{{")
    made = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        made += [str(parts[name]), rest]
    return "".join(made)


def _file(name: str) -> str:
    return (resources.files("unalike.report.page") / name).read_text(encoding="utf-8")


def _summary(page: Page) -> Html:
    notes = [tag("p", note, class_="note") for note in page.notes]
    return join([*notes, tag("p", " ".join(summary(page)), class_="lead")])


def _setting(page: Page) -> Html:
    """What the runs share and differ in; what is as usual in one line at the end."""
    pairs: list[tuple[Any, Any]] = []
    usual = []
    for field, name in _NAMES.items():
        values = list(
            dict.fromkeys(_value(field, one) for one in page.settings if one.spec.get(field) is not None)
        )
        if field == "parties" and any(one.spec.get(field) is None for one in page.settings):
            values.append("as the data have")
        if values == [_USUAL.get(field)]:
            usual.append(f"{name.lower()}: {values[0]}")
        elif values:
            more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
            pairs.append((name, join([*_unbroken(values[:_MOST_VALUES]), more])))
    seeds = sorted({record.seed for record in page.finished})
    pairs += [("Algorithms", join(_unbroken(page.algorithms))), ("Seeds", ", ".join(map(str, seeds)) or NONE)]
    rest = [tag("p", f"As usual: {'; '.join(usual)}.", class_="caption usual")] if usual else []
    return join([definitions(pairs), *rest])


def _unbroken(values: list[str]) -> list[Html]:
    """Values with dots between, each of which stays on one line if it can."""
    return [
        join([" · " if place else "", tag("span", value, class_="whole")]) for place, value in enumerate(values)
    ]


def _value(field: str, setting: Setting) -> str:
    value = setting.spec[field]
    if field == "partition":
        return setting.partition
    if field == "dataset":
        return brief(DATASETS, value)
    if field == "model":
        return brief_model(str(value))
    if field in _FRACTIONS and isinstance(value, int | float):
        return {0.0: "none", 1.0: "all"}.get(float(value), f"{100 * value:g} %")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _overview(page: Page) -> Html:
    """Settings by algorithms: only where there are several settings."""
    if len(page.settings) < 2:
        return text("")
    families = sorted(set(page.families.values()))
    several = len(page.scales) > 1  # then each line says by which score
    heads = ["Data set", "Partition", *(["Score"] if several else [])]
    columns = [*(Column(head, False) for head in heads), *map(Column, families)]
    rows = []
    for number, setting in enumerate(page.settings, start=1):
        first = lead(setting)
        cells = []
        for name in families:
            line = next((one for one in setting.lines if page.families[one.algorithm] == name), None)
            if line is None or line.value is None:
                cells.append(text(NONE))
                continue
            one = page.comparison(setting, line)
            top = first is not None and line.algorithm in first.equals
            value = setting.scale.text(line.value, unit="")
            ours = tag("strong", f"{value}{mark(first)}") if first and top else text(value)
            below = [tag("small", f"{one.paper} ", within(one))] if one.paper else []
            tuned = [tag("small", line.algorithm)] if line.algorithm != name else []
            cells.append(join([ours, *below, *tuned]))
        dataset, rest = page.names[number - 1]
        score = [_arrow(setting.scale)] if several else []
        rows.append([tag("a", dataset, href=f"#s{number}"), rest, *score, *cells])
    beside = f" Below: {page.source}, and whether ours is within two of its deviations." if page.source else ""
    what = "scores (in percent where it says so)" if several else f"test {_arrow(page.scales[0])}"
    said = (
        f"Final {what}, mean ± standard deviation over seeds. ▲ best by at least one "
        f"standard deviation, △ best by less, = several equally good.{beside}"
    )
    return tag("section", tag("h2", "All results"), table(columns, rows, said), class_="overview")


def _arrow(scale: Scale) -> str:
    """The score, its unit, and which way is better."""
    return f"{scale.column} ({scale.best} is best)"


def _chooser(page: Page) -> Html:
    if len(page.settings) < 2:
        return text("")
    by_data: dict[str, list[Html]] = {}
    for number, (dataset, rest) in enumerate(page.names, start=1):
        by_data.setdefault(dataset, []).append(tag("a", rest, href=f"#s{number}", data_number=number))
    rows = [tag("div", tag("span", name), *links) for name, links in by_data.items()]
    return tag("nav", *rows, class_="chooser", aria_label="Settings")


def _tuned(page: Page) -> Html:
    if not page.tuned:
        return text("")
    names = ("Where", "Chosen", "Scores on validation rows", "From what")
    columns = [Column(name, False) for name in names]
    said = "Chosen on the parties' validation rows, never on test rows."
    return tag("section", tag("h2", "What was tuned"), table(columns, page.tuned, said))


def _failures(page: Page) -> Html:
    if not page.failures:
        return text("")
    rows = [
        [one.dataset, one.partition, one.algorithm, str(one.seed), one.problem or "no reason was recorded"]
        for one in page.failures
    ]
    heads = ("Data set", "Partition", "Algorithm", "Seed", "Why")
    columns = [Column(head, head == "Seed") for head in heads]
    said = "They are not in any figure above."
    return tag("section", tag("h2", "Runs that failed"), table(columns, rows, said))


def _again(page: Page) -> Html:
    if not page.commands:
        return text("")
    return tag("section", tag("h2", "Run it again"), tag("pre", "\n".join(page.commands), tabindex="0"))


def _versions(page: Page) -> Html:
    pairs = [("This page", f"unalike {unalike.__version__}")]
    for name, title in (
        ("version", "Runs made by unalike"),
        ("torch", "torch"),
        ("data_sha256", "Data (SHA-256)"),
    ):
        found = Counter(str(record.figures[name]) for record in page.finished if record.figures.get(name))
        if found:
            pairs.append((title, ", ".join(one[:16] for one in sorted(found))))
    return tag("section", tag("h2", "Versions"), definitions(pairs))

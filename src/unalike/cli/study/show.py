"""A study's report in the terminal: ours beside the paper's, or figures and costs where there is no paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unalike.cli.brief import brief
from unalike.cli.show import MISSING, Paragraph, draw, duration, indented, size, table
from unalike.ranking.comparison import Compared
from unalike.ranking.published import TABLES
from unalike.runs.by_party import FIGURES, figure, is_personal, on_test_set, over_parties
from unalike.runs.differences import differences
from unalike.runs.results import Line, Setting
from unalike.runs.scales import Scale, Spread, scale_of
from unalike.studies.study import StudyResults

MARK = {True: "yes", False: "NO", None: ""}
_WHERE = ("dataset", "partition")
_SENT = "sent a party and round"
_SCORE = "score"
_WORST = "worst party"


def print_report(results: StudyResults) -> None:
    """Everything that there is, on stdout."""
    study = results.study
    draw(Paragraph(study.title), f"{results.done} of {results.total} runs done, {len(results.failed)} failed.")
    if results.warning:
        draw(Paragraph(results.warning))
    draw("")
    if study.published:
        _print_compared(results)
    else:
        print_lines(results.settings, study.target, study.last)
    if results.tuned:
        draw("", "Tuned on validation rows:")
        for place, tuned in results.tuned.items():
            tried = "; ".join(
                f"{text} {MISSING if value is None else scale_of(tuned.score).text(value, unit='')}"
                for text, value in tuned.validation.items()
            )
            draw(indented(f"{place}: {tuned.chosen} (of {tried})"), *([indented(tuned.how)] if tuned.how else []))
    reasons: dict[str, int] = {}
    for record in results.failed:
        reasons[record.problem or "?"] = reasons.get(record.problem or "?", 0) + 1
    if reasons:
        draw("", "Failed:")
        for problem, count in reasons.items():
            draw(indented(f"{count} run(s): {problem}"))


def _print_compared(results: StudyResults) -> None:
    places, apart = _settings(results), differing(results.settings)
    cells = zip(results.compared, places, strict=True)
    named = [(cell, setting) for cell, setting in cells if cell.ours is not None]
    shown = [cell for cell, _ in named]
    notes = list(dict.fromkeys(cell.note for cell in shown if cell.note))
    figures = ["ours", "seeds", "paper", "difference", "within 2 std", "note"]
    if named:
        draw(
            table(
                [*_WHERE, *apart, "algorithm", *figures],
                [[*_place(setting, apart), *_compared_row(cell, setting.scale, notes)] for cell, setting in named],
                right=["ours", "seeds", "paper", "difference", "note"],
                text=["partition"],
                spare=["note", "seeds", "within 2 std", *reversed(apart)],
            )
        )
    judged = [cell.within for cell in shown if cell.within is not None]
    if judged:
        draw(f"{sum(judged)} of {len(judged)} are within two of the paper's standard deviations.")
    if len(shown) < len(results.compared):
        draw(f"{len(results.compared) - len(shown)} further cells have no finished run.")
    for number, note in enumerate(notes, 1):
        draw(indented(f"[{number}] {note}"))
    paper = TABLES[results.study.published or ""]
    draw(Paragraph(f"{_scores(results.settings)} on the test set after the last round. Paper: {paper}."))


def _scores(settings: Sequence[Setting]) -> str:
    """What the figures are: ``Accuracy in percent``; of settings that go by different scores, all of them."""
    scales = dict.fromkeys(setting.scale for setting in settings)
    said = ", ".join(f"{scale.words} in percent" if scale.is_percent else scale.words for scale in scales)
    return said[:1].upper() + said[1:]


def _settings(results: StudyResults) -> list[Setting]:
    """The setting of every compared cell."""
    return [setting for setting in results.settings for _ in setting.lines]


def _compared_row(cell: Compared, scale: Scale, notes: list[str]) -> list[str]:
    assert cell.ours is not None
    return [
        cell.algorithm,
        scale.text(cell.ours, unit=""),
        str(cell.ours.seeds),
        MISSING if cell.paper is None else str(cell.paper),
        MISSING if cell.difference is None else f"{cell.difference:+.1f}",
        MARK[cell.within],
        f"[{notes.index(cell.note) + 1}]" if cell.note else "",
    ]


def print_lines(settings: list[Setting], target: float | None = None, last: int = 1) -> None:
    """A line for each algorithm in each setting: its figures, means over the ``last`` rounds, and its costs."""
    apart = differing(settings)
    scales = {setting.scale for setting in settings}
    common = next(iter(scales)) if len(scales) == 1 else None
    by_party = _party_columns(settings, last)
    figures = [common.words if common else _SCORE, "seeds", *by_party, _SENT, "time"]
    costs = len(figures)
    if target is not None:
        figures.append(f"rounds to {common.short(common.factor * target) if common else target}")
    rows, waiting = [], 0
    for setting in settings:
        for line in setting.lines:
            if not line.finished:
                waiting += 1
                continue
            score = "" if common else line.scale.words
            row = [*_place(setting, apart), line.algorithm, *_figures(line, score, by_party, last)]
            if target is not None:
                reached = line.rounds_to(line.scale.factor * target)
                row.append(MISSING if reached is None else f"{reached.mean:.0f}")
            rows.append(row)
    if rows:
        draw(
            table(
                [*_WHERE, *apart, "algorithm", *figures],
                rows,
                right=[name for name in figures if name != _SENT],
                text=["partition", _SENT],
                spare=[_SENT, "time", "seeds", *reversed(apart), *figures[costs:], *reversed(by_party[3:])],
            )
        )
    if waiting:
        draw(f"{waiting} further lines have no finished run.")
    when = "after the last round" if last == 1 else f"as means over the last {last} rounds that were evaluated"
    draw(Paragraph(f"{_scores(settings)} {when}: {_explained(by_party)}"))


def _party_columns(settings: Sequence[Setting], last: int) -> list[str]:
    """What is told of single parties: the worst; where they have models of their own, all that there is."""
    lines = [line for setting in settings for line in setting.lines]
    if not any(map(is_personal, lines)):
        return [_WORST]
    return [name for name in FIGURES if any(over_parties(line, name, last) for line in lines)]


def _explained(by_party: Sequence[str]) -> str:
    """What the columns are, in a sentence."""
    if by_party == [_WORST]:
        return "on the test set, and of the worst party on its held-out rows."
    own = "the mean over parties on their own held-out rows, and over the tenth of them that fares worst"
    labels = "the same on rows of the test set that have a party's labels" * any(
        "labels" in one for one in by_party
    )
    new = "newcomers never took part in training" * any("newcomers" in one for one in by_party)
    said = "; ".join(filter(None, ["on the test set under the global model", own, labels, new]))
    return f"{said}. A party uses its own model where it has one, else the global one."


def _figures(line: Line, score: str, by_party: Sequence[str], last: int) -> list[str]:
    """The cells of a line; ``score`` is told with the value where lines go by different ones."""
    seconds, value = line.mean("seconds"), on_test_set(line, last)
    told = [_worst(line) if name == _WORST else over_parties(line, name, last) for name in by_party]
    return [
        MISSING if value is None else f"{score} {line.scale.text(value, unit='')}".strip(),
        str(len(line.finished)),
        *(MISSING if each is None else line.scale.text(each, unit="") for each in told),
        traffic(line),
        MISSING if seconds is None else duration(seconds),
    ]


def _worst(line: Line) -> Spread | None:
    """The score of the worst party, under the model that it would use."""
    return figure(line, ("personal", "parties"), "worst")


def _by_party(line: Line, last: int) -> dict[str, Any]:
    """All that is known of single parties, ready for JSON."""
    found = {name: over_parties(line, name, last) for name in FIGURES}
    return {name: each._asdict() for name, each in found.items() if each is not None}


def traffic(line: Line) -> str:
    """What the server sends to a party in a round, by what it carries, and what comes back where that is more."""
    record = line.finished[0]
    cohort = sum(int(row.get("cohort") or 0) for row in record.rounds)
    sent: Mapping[str, Any] = record.figures.get("traffic") or {}
    down, up = sent.get("down") or {}, sent.get("up") or {}
    if not cohort or not down:
        return MISSING
    told = ", ".join(f"{name} {size(count / cohort)}" for name, count in down.items())
    back = sum(up.values())
    return f"{told}; back {size(back / cohort)}" if back > 2 * sum(down.values()) else told


def differing(settings: list[Setting]) -> list[str]:
    """The fields in which settings differ that the data set and the partition do not decide."""
    names = dict.fromkeys(name for one in settings for name in one.spec if name not in ("dataset", "partition"))
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in settings:
        groups.setdefault((one.dataset, one.partition), []).append(one.spec)
    found = {name for specs in groups.values() for name in differences(specs)[0]}
    return [name for name in names if name in found]


def _place(setting: Setting, apart: list[str]) -> list[str]:
    """The cells that tell a setting from the others."""
    return [setting.dataset, setting.partition, *(_told(setting, name) for name in apart)]


def _told(setting: Setting, field: str) -> str:
    """A field of a setting for people; one without meaning in it (the learning rate of trees) is not there."""
    value = setting.spec.get(field)
    return MISSING if value is None else brief(field, value)


def report_dict(results: StudyResults) -> dict[str, Any]:
    """One object, ready for JSON."""
    apart = differing(results.settings)
    return {
        "study": results.study.name,
        "title": results.study.title,
        "scale": results.scale,
        "warning": results.warning,
        "done": results.done,
        "total": results.total,
        "lines": [
            {
                "dataset": one.dataset,
                "partition": one.partition,
                **{name: one.spec.get(name) for name in apart},
                "algorithm": line.algorithm,
                "score": line.scale.name,
                "value": value._asdict() if (value := on_test_set(line, results.study.last)) else None,
                "worst_party": worst._asdict() if (worst := _worst(line)) else None,
                "by_party": _by_party(line, results.study.last),
                "bytes_up": line.mean("bytes_up"),
                "bytes_down": line.mean("bytes_down"),
                "seconds": line.mean("seconds"),
                "keys": [record.key for record in line.finished],
            }
            for one in results.settings
            for line in one.lines
        ],
        "compared": [
            {
                "dataset": cell.dataset,
                "partition": cell.partition,
                **{name: setting.spec.get(name) for name in apart},
                "algorithm": cell.algorithm,
                "ours": cell.ours._asdict() if cell.ours else None,
                "paper": {"mean": cell.paper.mean, "std": cell.paper.std} if cell.paper else None,
                "difference": cell.difference,
                "within": cell.within,
                "note": cell.note,
            }
            for cell, setting in zip(results.compared, _settings(results), strict=True)
        ],
        "tuned": {
            name: {
                "chosen": each.chosen,
                "score": each.score,
                "validation": dict(each.validation),
                "how": each.how,
            }
            for name, each in results.tuned.items()
        },
        "failed": [
            {"key": record.key, "spec": dict(record.spec), "problem": record.problem} for record in results.failed
        ],
    }

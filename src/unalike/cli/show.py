"""How the command line writes numbers, tables and JSON. Results go to stdout, messages to stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unalike.cli.lines import say as say  # for the commands too
from unalike.cli.table import Table, fold
from unalike.cli.table import table as table
from unalike.quantities import MISSING as MISSING
from unalike.quantities import duration as duration
from unalike.quantities import number as number
from unalike.quantities import size as size
from unalike.scores import SCORES, SUMMARIES, key_of, score_of, shown

if TYPE_CHECKING:
    from rich.console import Console

    from unalike.runs.results import Record

_BLOCKS = "▁▂▃▄▅▆▇█"


def say_damaged(records: Iterable[Record]) -> None:
    """One line for every run that is left out because its files are not as they were written."""
    for record in records:
        if record.damaged:
            say(f"Left out, since it is damaged: {record.problem} Run it again.")


def print_json(value: Any) -> None:
    """Exactly one JSON value on stdout; NaN and infinities, which JSON lacks, become null."""
    value = json.loads(json.dumps(value), parse_constant=lambda _: None)
    print(json.dumps(value, indent=2, ensure_ascii=False))


def console() -> Console:
    """Where progress bars are drawn."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def screen_width() -> int | None:
    """How wide the screen is that stdout goes to; a pipe or a file has no width, so that nothing is cut there."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def draw(*parts: str | Table | Paragraph) -> None:
    """Print lines, paragraphs and tables on stdout. A line is never broken: it may be a command to copy."""
    width = screen_width()
    for part in parts:
        print(part if isinstance(part, str) else "\n".join(part.lines(width)))


@dataclass(frozen=True)
class Paragraph:
    """Text that is wrapped between words on a screen, and is one line in a pipe."""

    text: str
    indent: int = 0

    def lines(self, width: int | None) -> list[str]:
        """The text for a screen of that width."""
        folded = [self.text] if width is None else fold(self.text, max(20, width - self.indent))
        return [" " * self.indent + line for line in folded]


def paragraphs(sentences: Iterable[str]) -> list[Paragraph]:
    """Each of them as a paragraph."""
    return [Paragraph(sentence) for sentence in sentences]


def indented(text: str) -> Paragraph:
    """A paragraph that stands in from the margin."""
    return Paragraph(text, 4)


def percent(value: float | None) -> str:
    """A fraction as people read it: 0.8583 is 85.8%, and None is a dash."""
    return MISSING if value is None else f"{100 * value:.1f}%"


def age(seconds: float) -> str:
    """How long ago, in one short unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """A curve in one line of characters, from the lowest value to the highest."""
    if len(values) > width:  # the last value of each stretch, so that the curve ends where the values do
        values = [values[(i + 1) * len(values) // width - 1] for i in range(width)]
    low, high = min(values, default=0), max(values, default=0)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in values)


_FIGURES = (("mean", "mean"), ("worst 10%", "worst_10_percent"), ("worst", "worst"))


def figures_table(figures: Mapping[str, Any], last: str = "final round") -> Table:
    """The final round and, apart from it, the round selected on validation rows. Never the best test round."""
    selected = figures.get("selected")
    sources: list[Mapping[str, Any]] = [figures]
    columns = ["", f"{last} {figures['rounds']}"]
    if selected:
        sources.append(selected)
        columns.append(f"round {selected['round']}, selected on validation rows")
    chosen, key = score_of(figures), key_of(score_of(figures))
    rows = [
        [f"{chosen}, global test", *(shown(chosen, source.get(key)) for source in sources)],
        *_others(figures, sources),
        [f"{chosen}, validation", *(shown(chosen, source.get(f"validation_{key}")) for source in sources)],
    ]
    for kind, label in SUMMARIES.items():
        if figures.get(kind):
            for name, which in _FIGURES:
                told = (shown(chosen, (source.get(kind) or {}).get(which)) for source in sources)
                rows.append([f"{label}, {name}", *told])
    return table(columns, rows, right=columns[1:])  # on a narrow screen its headings take several lines


def _others(figures: Mapping[str, Any], sources: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A line for each score that the run has beside the one that it goes by, and for the loss.

    Where there is no global model they have no values, and one line of dashes, the chosen score's, is enough.
    """
    others = [score for score in SCORES.values() if figures.get(score.key) is not None]
    lines = [
        [f"{score.name}, global test", *(shown(score.name, source.get(score.key)) for source in sources)]
        for score in others
        if score.name != score_of(figures)
    ]
    loss = ["loss, global test", *(number(source.get("loss")) for source in sources)]
    return lines if figures.get("loss") is None else [*lines, loss]


def costs(figures: Mapping[str, Any]) -> str:
    """What the run took, in one line."""
    up, down = size(figures["bytes_up"]), size(figures["bytes_down"])
    return f"Sent {up} up, {down} down. Took {duration(figures['seconds'])} on the {figures['engine']} engine."


def privacy_line(figures: Mapping[str, Any]) -> list[str]:
    """What the noise of the run's channel hides, where it has any."""
    privacy = figures.get("privacy")
    if privacy is None:
        return []
    told = f"Privacy: epsilon {number(privacy['epsilon'])} at delta {privacy['delta']:g}, {privacy['neighbours']}"
    return [told + (", for each party's upload." if privacy["noise"] == "party" else ".")]


def sample_line(figures: Mapping[str, Any]) -> list[str]:
    """Whose own rows were tried, where it was not everybody's."""
    sample = figures.get("sample")
    if not sample:
        return []
    who = f"a sample of {sample['count']:,} of {sample['of']:,} parties"
    return [f"Parties and validation: of {who}, the same in every round (--evaluate-parties)."]


def stopped_line(figures: Mapping[str, Any]) -> list[str]:
    """Where and why training ended before its last round, if it did."""
    early = figures.get("stopped")
    return [f"Stopped after round {early['round']}: {early['why']}."] if early else []


def engine_line(figures: Mapping[str, Any]) -> list[str]:
    """Why it was this engine; runs of older versions do not say."""
    why = figures.get("why_this_engine")
    return [f"Engine: {figures['engine']} ({why})."] if why else []


def gain_line(figures: Mapping[str, Any]) -> list[str]:
    """Where columns are split: what the label holder reaches alone, and what the others add."""
    from unalike.runs.headline import gain_words

    words = gain_words(figures)
    return [words] if words else []


def importance_line(figures: Mapping[str, Any]) -> list[str]:
    """Of trees: the columns that they go by most."""
    from unalike.runs.headline import importance

    most = ", ".join(f"{name} {share:.0%}" for name, share in list(importance(figures).items())[:5])
    return [f"Goes by: {most} of the gain. All columns: unalike runs importance."] if most else []

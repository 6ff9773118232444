"""What a reader must know before believing a comparison: unlike settings, unlike seeds, and noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unalike.report.page.tables import reading

if TYPE_CHECKING:
    from unalike.notebook.comparison import Comparison


def notes(compared: Comparison) -> Iterator[str]:
    """The sentences, the gravest first."""
    lines = compared.lines
    if compared.not_comparable:
        names = " and ".join(compared.not_comparable)
        yield f"Not like for like: these runs differ in {names}, and a better figure is no better algorithm."
    if _other_rows(compared):
        yield "Not like for like: the rows behind the data set's name have changed between these runs."
    seeds = [{record.seed for record in line.records} for line in lines]
    if any(one != seeds[0] for one in seeds):
        yield "Not every line has the same seeds, so the parties and the starting weights differ between lines."
    if compared.left_out:
        yield f"Left out, since they are not finished: {compared.left_out} runs in the folders."
    if all(len(one) == 1 for one in seeds):
        yield "One seed tells nothing about noise."
    if not compared.not_comparable:
        yield from reading(compared.setting)


def _other_rows(compared: Comparison) -> bool:
    """Whether runs of one data set and seed have been on different rows; the seed may draw some of them."""
    found: dict[tuple[str, int], set[str]] = {}
    for record in compared.records:
        place = str(record.spec.get("dataset")), record.seed
        found.setdefault(place, set()).add(str(record.figures.get("data_sha256")))
    return any(len(each) > 1 for each in found.values())

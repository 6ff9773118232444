"""The figures in a few sentences, none of which says more than the figures do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from unalike.data import DATASETS
from unalike.report.page.content import Page
from unalike.report.page.numbers import degrees, fairness
from unalike.runs.results import Setting, Spread, brief

NOT_A_WIN = "A lead of less than one standard deviation over seeds (the larger of the two) is not called a win."

SAME = 1e-9
"""Percent: means that differ by less differ by rounding only."""


@dataclass(frozen=True)
class Lead:
    """Who ends highest in a setting, and by how much."""

    first: str
    accuracy: Spread
    second: str
    by: float
    std: float
    """The larger deviation of the two."""
    equals: tuple[str, ...] = ()
    """Who has the highest mean: one, or several that are equal."""

    @property
    def tied(self) -> bool:
        """Whether several algorithms share the best mean, so that nobody leads."""
        return len(self.equals) > 1

    @property
    def clear(self) -> bool:
        """Whether the lead is at least one standard deviation, over two seeds or more."""
        return self.accuracy.seeds > 1 and self.by > 0 and self.by >= self.std


def lead(setting: Setting) -> Lead | None:
    """The highest mean accuracy and the next; None of fewer than two algorithms."""
    known = [(line.algorithm, line.accuracy) for line in setting.lines if line.accuracy is not None]
    if len(known) < 2:
        return None
    (first, one), (second, two) = sorted(known, key=lambda each: -each[1].mean)[:2]
    seeds = Spread(one.mean, one.std, min(one.seeds, two.seeds))
    equals = tuple(name for name, each in known if one.mean - each.mean < SAME)
    return Lead(first, seeds, second, one.mean - two.mean, max(one.std, two.std), equals)


def summary(page: Page) -> list[str]:
    """Sentences for the top of the page."""
    said = [_what(page)]
    leads = [found for setting in page.settings if (found := lead(setting))]
    if len(page.settings) == 1 and leads:
        said.append(_one_lead(leads[0]))
    elif leads:
        said.append(_many_leads(page, leads))
    elif len(page.finished) == 1 and page.finished[0].accuracy is not None:
        rounds = page.finished[0].figures.get("rounds")
        said.append(
            f"The final global model is right for {page.finished[0].accuracy:.1f} % of the test rows after "
            f"{rounds} rounds. One seed tells nothing about noise."
        )
    return [*said, *_published(page), *_unlike(page), *_worst(page)]


def _what(page: Page) -> str:
    runs, settings, algorithms = len(page.finished), len(page.settings), len(set(page.families.values()))
    if not runs:
        return "No run is finished yet."
    counts = {len(line.finished) for one in page.settings for line in one.lines}
    seeds, each = max(counts, default=0), "up to " if len(counts) > 1 else ""
    return (
        f"{_count(runs, 'finished run')}: {_count(settings, 'setting')} (data set and partition), "
        f"{_count(algorithms, 'algorithm')}, {each}{_count(seeds, 'seed')} each."
    )


def _one_lead(found: Lead) -> str:
    if found.tied:
        return f"{_listed(list(found.equals))} end equally high, at {found.accuracy.mean:.1f} %: none leads."
    ends = f"{found.first} ends highest, at {found.accuracy} %, {found.by:.1f} points above {found.second}"
    if found.accuracy.seeds < 2:
        return f"{ends}; with one seed this may be chance."
    if found.clear:
        return f"{ends}, which is more than one standard deviation ({found.std:.1f})."
    return f"{ends}, which is less than one standard deviation ({found.std:.1f}) and not called a win."


def _many_leads(page: Page, leads: list[Lead]) -> str:
    first = Counter(page.families[one.first] for one in leads if not one.tied)
    tied = sum(one.tied for one in leads)
    equal = f"; in {tied} of {len(leads)} several are equal" if tied else ""
    if not first:
        return f"In all {len(leads)} settings several algorithms share the highest mean accuracy: none leads."
    clear = Counter(page.families[one.first] for one in leads if one.clear)
    parts = [
        f"{name} in {number} of {len(leads)}" + (f" ({clear[name]} clear)" if clear[name] else " (none clear)")
        for name, number in sorted(first.items(), key=lambda each: (-each[1], each[0]))
    ]
    return f"Highest mean accuracy: {_listed(parts)} settings{equal}. {NOT_A_WIN}"


def _published(page: Page) -> list[str]:
    known = [one for one in page.compared if one.within is not None]
    if not known:
        return []
    within = sum(bool(one.within) for one in known)
    far = max(known, key=lambda one: abs(one.difference or 0.0))
    return [
        f"Of {_count(len(known), 'published number')}, {within} "
        f"{'is' if within == 1 else 'are'} matched within two published standard deviations; the largest "
        f"difference is {far.difference:+.1f} points ({far.algorithm} on {far.dataset}, {far.partition})."
    ]


def _unlike(page: Page) -> list[str]:
    found = [(setting, made) for setting in page.settings if "label" in (made := degrees(setting.lines))]
    if not found:
        return []
    if len(found) == 1:
        made = found[0][1]
        chance = made.get("label_expected")
        by_chance = f"; chance alone would show {chance.mean:.3f}" if chance else ""
        return [f"The parties' labels differ from all parties' by {made['label'].mean:.2f} of 1{by_chance}."]
    low, high = (pick(found, key=lambda each: each[1]["label"].mean) for pick in (min, max))
    return [
        f"The parties' labels differ from all parties' by {low[1]['label'].mean:.2f} of 1 ({_place(low[0])}) to "
        f"{high[1]['label'].mean:.2f} ({_place(high[0])})."
    ]


def _worst(page: Page) -> list[str]:
    if len(page.settings) != 1:
        return []
    found = [(line.algorithm, made) for line in page.settings[0].lines if (made := fairness(line)) and made.values]
    if not found:
        return []
    found.sort(key=lambda each: -each[1].worst_tenth.mean)
    name, best = found[0]
    if len(found) == 1:
        return [
            f"The worst tenth of the parties is right for {best.worst_tenth.mean:.1f} % of its own held-out rows."
        ]
    top, next_ = best.worst_tenth, found[1][1].worst_tenth
    equals = [each for each, made in found if top.mean - made.worst_tenth.mean < SAME]
    if len(equals) > 1:
        return [f"The worst tenth of the parties fares equally with {_listed(equals)}: {top.mean:.1f} %."]
    clear = min(top.seeds, next_.seeds) > 1 and top.mean - next_.mean >= max(top.std, next_.std)
    doubt = "" if clear else ", which is no clear lead"
    return [f"The worst tenth of the parties fares best with {name}: {top} % of its own held-out rows{doubt}."]


def _place(setting: Setting) -> str:
    return f"{brief(DATASETS, setting.dataset)}, {setting.partition}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number:,} {thing}s"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

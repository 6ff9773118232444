"""The figures in a few sentences, none of which says more than the figures do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from unalike.algorithms.personal.baselines import POOLED
from unalike.data import DATASETS
from unalike.report.page.content import Page
from unalike.report.page.numbers import degrees, fairness
from unalike.runs.headline import gain_words
from unalike.runs.results import Setting, brief
from unalike.runs.scales import Scale, Spread

NOT_A_WIN = "A lead of less than one standard deviation over seeds (the larger of the two) is not called a win."


@dataclass(frozen=True)
class Lead:
    """Who ends best in a setting, and by how much; values are as they are told."""

    scale: Scale
    first: str
    value: Spread
    second: str
    by: float
    std: float
    """The larger deviation of the two."""
    equals: tuple[str, ...] = ()
    """Who has the best mean: one, or several that are equal."""

    @property
    def tied(self) -> bool:
        """Whether several algorithms share the best mean, so that nobody leads."""
        return len(self.equals) > 1

    @property
    def clear(self) -> bool:
        """Whether the lead is at least one standard deviation, over two seeds or more."""
        return self.value.seeds > 1 and self.by > 0 and self.by >= self.std

    @property
    def distance(self) -> str:
        """How far the second is behind."""
        return self.scale.difference(self.by, self.value.mean)


def lead(setting: Setting) -> Lead | None:
    """The best mean score and the next; None of fewer than two algorithms. Pooled rows are beyond comparison."""
    scale = setting.scale
    known = [
        (line.algorithm, line.value)
        for line in setting.lines
        if line.value is not None and line.algorithm != POOLED
    ]
    if len(known) < 2:
        return None
    (first, one), (second, two) = sorted(known, key=lambda each: -scale.goodness(each[1].mean))[:2]
    seeds = Spread(one.mean, one.std, min(one.seeds, two.seeds))
    equals = tuple(name for name, each in known if scale.same(one.mean, each.mean))
    return Lead(scale, first, seeds, second, abs(one.mean - two.mean), max(one.std, two.std), equals)


def summary(page: Page) -> list[str]:
    """Sentences for the top of the page."""
    said = [_what(page)]
    leads = [found for setting in page.settings if (found := lead(setting))]
    if len(page.settings) == 1 and leads:
        said.append(_one_lead(leads[0]))
    elif leads:
        said.append(_many_leads(page, leads))
    elif len(page.finished) == 1 and page.finished[0].value is not None:
        one, value = page.finished[0], page.finished[0].value
        said.append(
            f"The final global model has a test {one.scale.words} of {one.scale.text(value)} after "
            f"{one.figures.get('rounds')} rounds. One seed tells nothing about noise."
        )
        said += [words] if (words := gain_words(one.figures)) else []
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
    scale, std = found.scale, f"{found.std:.{found.scale.digits(found.value.mean)}f}"
    if found.tied:
        return (
            f"{_listed(list(found.equals))} end equally good, at {scale.words} "
            f"{scale.text(found.value.mean)}: none leads."
        )
    ends = (
        f"{found.first} ends with the {scale.best} test {scale.words}, {scale.text(found.value)}, "
        f"{found.distance} {scale.ahead} {found.second}"
    )
    if found.value.seeds < 2:
        return f"{ends}; with one seed this may be chance."
    if found.clear:
        return f"{ends}, which is more than one standard deviation ({std})."
    return f"{ends}, which is less than one standard deviation ({std}) and not called a win."


def _many_leads(page: Page, leads: list[Lead]) -> str:
    first = Counter(page.families[one.first] for one in leads if not one.tied)
    tied = sum(one.tied for one in leads)
    equal = f"; in {tied} of {len(leads)} several are equal" if tied else ""
    if not first:
        return f"In all {len(leads)} settings several algorithms share the {_top(page)}: none leads."
    clear = Counter(page.families[one.first] for one in leads if one.clear)
    parts = [
        f"{name} in {number} of {len(leads)}" + (f" ({clear[name]} clear)" if clear[name] else " (none clear)")
        for name, number in sorted(first.items(), key=lambda each: (-each[1], each[0]))
    ]
    top = _top(page)
    return f"{top[:1].upper()}{top[1:]}: {_listed(parts)} settings{equal}. {NOT_A_WIN}"


def _top(page: Page) -> str:
    scales = page.scales
    return f"{scales[0].best} mean {scales[0].words}" if len(scales) == 1 else "best mean score"


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
    least, most = (f"{each[1]['label'].mean:.2f}" for each in (low, high))
    if least == most:
        return [f"The parties' labels differ from all parties' by {least} of 1 in every setting."]
    return [
        f"The parties' labels differ from all parties' by {least} of 1 ({_place(low[0])}) to "
        f"{most} ({_place(high[0])})."
    ]


def _worst(page: Page) -> list[str]:
    if len(page.settings) != 1:
        return []
    found = [(line.algorithm, made) for line in page.settings[0].lines if (made := fairness(line)) and made.values]
    if not found:
        return []
    scale = page.settings[0].scale
    found.sort(key=lambda each: -scale.goodness(each[1].worst_tenth.mean))
    name, best = found[0]
    top = best.worst_tenth
    on = f"{scale.words} {scale.text(top)} on its own held-out rows"
    if len(found) == 1:
        return [f"The worst tenth of the parties ends with {on}."]
    next_ = found[1][1].worst_tenth
    equals = [each for each, made in found if scale.same(top.mean, made.worst_tenth.mean)]
    if len(equals) > 1:
        return [f"The worst tenth of the parties fares equally with {_listed(equals)}: {on}."]
    clear = min(top.seeds, next_.seeds) > 1 and abs(top.mean - next_.mean) >= max(top.std, next_.std)
    doubt = "" if clear else ", which is no clear lead"
    return [f"The worst tenth of the parties fares best with {name}: {on}{doubt}."]


def _place(setting: Setting) -> str:
    return f"{brief(DATASETS, setting.dataset)}, {setting.partition}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number:,} {thing}s"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

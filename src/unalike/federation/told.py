"""What the server hears of a round beside what is trained: figures of the sites' own rows, bytes and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from unalike.federation.envelope import Envelope, Refused
from unalike.federation.figures import checked_tallies, together, told_scores
from unalike.federation.replay import SITES
from unalike.federation.speaker import Speaker
from unalike.rounds.evaluation import summary, without_each
from unalike.scores import Figures, Score
from unalike.tallies import Tally


def site_figures(
    speaker: Speaker,
    ask: Callable[[], Iterable[tuple[str, Envelope]]],
    score: Score,
    classes: int,
    *,
    last: bool,
    shared: bool,
    own: bool,
) -> Figures:
    """The figures of all sites' own rows, each counted at its site; none where the plan says so.

    ``ask`` asks for them. ``shared``: whether all have one model, ``own``: whether each has its own.
    """
    few, scores = (told_scores(score, rows, last=last) for rows in ("validation", "test"))
    figures: Figures = {"score": score.name, **together({}, "test", scores)}
    figures |= {f"validation_{key}": None for key in together({}, "validation", few)}
    plan = speaker.plan
    if plan.figures == "none" or not (shared or own):
        return figures
    told: dict[str, dict[str, Tally]] = {}
    for party, message in ask():
        try:
            told[party] = checked_tallies(message, score, classes, last=last)
        except Refused as error:
            speaker.say(f"{party}'s figures are not used: {error}.")
    figures |= together(told, "test", scores)
    selecting = together(told, f"{'personal ' * own}validation", few)
    figures |= {f"validation_{key}": value for key, value in selecting.items()}
    for key, name in (("parties", "held_out"), ("personal", "personal held_out")):
        each = [together({party: told.get(party, {})}, name, [score]) for party in plan.parties]
        if own if key == "personal" else shared:
            figures[key] = summary([one[score.key] for one in each], score)
    return without_each(figures)


def wire_figures(speaker: Speaker, sent_by: Counter[str], sent_to: Counter[str]) -> Figures:
    """The bytes that went over the wire since these counts, in all and by site, with its slowest answer."""
    ups, downs = speaker.sent_by - sent_by, speaker.sent_to - sent_to
    up, down = ups.total(), downs.total()
    sites = {
        party: {"seconds": speaker.slowest.get(party), "bytes_up": ups[party], "bytes_down": downs[party]}
        for party in speaker.plan.parties
        if downs[party]
    }
    traffic = {"up": {"messages": up}, "down": {"messages": down}}
    return {"bytes_up": up, "bytes_down": down, "traffic": traffic, SITES: sites}

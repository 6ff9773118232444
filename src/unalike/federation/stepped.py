"""Hidden sums of a protocol in several trips: who vanishes once it has added does not spoil the sum.

In a turn each site says which integers it adds, by names and shapes, and keeps them. The five steps of
``unalike.secure`` then make their sum. All sites must be in it, as no conversation goes on without one; what a
smaller quorum buys is that the sum can be opened by those who stay. What a site was told until then is a part of
what it is asked, which is the same for all: one that was told something else refuses.
"""

from __future__ import annotations

from collections.abc import Callable

from unalike.channels.stage import Grid
from unalike.errors import UserError
from unalike.federation.asking import MOST_FAILURES, Asking
from unalike.federation.speaker import SAYS, WRONG, Outgoing
from unalike.federation.summing import Protection, ProtocolError, TooFewParties, secure_total


def stepped_total(
    asking: Asking, messages: Outgoing, length: int, bits: int, everybody_is_there: Callable[[], object]
) -> Grid:
    """The sum of what all sites add, made again until it is whole, under new masks each time.

    ``messages`` ask each site for what it said that it adds. ``everybody_is_there`` is called after a sum that
    failed, and returns once all sites have said that again.
    """
    speaker, everybody, failures = asking.speaker, len(messages), 0
    while True:
        try:
            return secure_total(speaker, messages, length, Protection(bits), everybody, everybody)[1]
        except TooFewParties:
            problems = {name: speaker.problems[name] for name in sorted(messages) if name in speaker.problems}
            if wrong := [f"{name} {said}" for name, said in problems.items() if said.startswith((SAYS, WRONG))]:
                failures += 1
            line = "; ".join(wrong or [f"{name} {said}" for name, said in problems.items()]) or "some did not stay"
        except ProtocolError as error:
            failures += 1
            known = error.party is not None and error.party >= 0
            line = f"{sorted(messages)[error.party or 0]}: {error}" if known else str(error)
        if failures >= MOST_FAILURES:
            raise UserError(line)
        speaker.say(f"A sum is made again: {line.removesuffix('.')}.")
        everybody_is_there()

"""Asking sites until enough have answered: those who are missing are asked again, and a line says who."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TypeVar

from unalike.errors import UserError
from unalike.federation.envelope import Envelope, Refused, shown
from unalike.federation.speaker import SAYS, WRONG, Outgoing, Speaker, Stopped

T = TypeVar("T")

PAUSE = 5.0
"""Seconds between looks at who is there, where too few answered."""
REMIND = 600.0
"""Seconds until the same line is said again: a site may be away for weeks."""
MOST_FAILURES = 3
"""How often in a row an answer of a site may be one that cannot be used, or a sum may fail because of it."""


class Asking:
    """Asks parties for answers that can be used, and waits for those that are missing."""

    def __init__(self, speaker: Speaker) -> None:
        self.speaker = speaker
        self._wrong: dict[str, int] = {}
        """how often in a row a party's answer could not be used"""
        self._told: dict[str, float] = {}
        """when a line was said last in this exchange"""
        self._paused = False

    def begin(self) -> None:
        """Begin a new exchange: what was said in the last one may be said again."""
        self._told = {}
        self._resume()

    def collect(
        self, messages: Outgoing, use: Callable[[str, Envelope], T], needed: int | None = None
    ) -> dict[str, T]:
        """Ask until enough have answered; ``use`` refuses an answer that cannot be used."""
        speaker, plan = self.speaker, self.speaker.plan
        needed = plan.needed(len(messages)) if needed is None else needed
        found: dict[str, T] = {}
        while True:
            missing = {party: message for party, message in messages.items() if party not in found}
            for party, message in speaker.ask(missing, plan.deadline):
                try:
                    found[party] = use(party, message)
                except Refused as error:
                    speaker.problems[party] = f"{WRONG} {shown(error)}"
            for party in messages:
                if party not in found:
                    problem = speaker.problems.get(party, "did not answer")
                    self._say(f"{party} {problem.removesuffix('.')}.")
            if len(found) >= needed:
                self._resume()
                return found
            self.pause(messages, found, needed)

    def everybody(self, messages: Outgoing, needed: int | None = None) -> dict[str, Envelope]:
        """Every party's answer: where nobody may be missing, or not more than leave ``needed`` answers."""
        return self.collect(messages, lambda party, message: message, len(messages) if needed is None else needed)

    def pause(self, messages: Outgoing, found: Collection[str], needed: int) -> None:
        """Wait a little before those who are missing are asked again; end where that would bring the same."""
        speaker = self.speaker
        said = {party: speaker.problems.get(party, "") for party in messages if party not in found}
        self._wrong = {party: self._wrong.get(party, 0) + 1 for party in said if said[party].startswith(WRONG)}
        if said and all(
            problem.startswith(SAYS) or self._wrong.get(party, 0) >= MOST_FAILURES
            for party, problem in said.items()
        ):
            first, problem = next(iter(said.items()))  # asking again would bring the same answer
            raise UserError(f"{first} {problem}")
        self._say(
            f"Paused: {len(found)} of {len(messages)} parties answered, {needed} are needed. Waiting for "
            f"{', '.join(said)}."
        )
        self._paused = True
        speaker.waits(list(said))
        end, there = time.monotonic() + PAUSE, set(speaker.transport.nodes())
        while time.monotonic() < end and not speaker.stopped() and set(speaker.transport.nodes()) <= there:
            time.sleep(0.1)  # somebody who comes is asked at once
        if speaker.stopped():
            raise Stopped("The run was stopped; the same command goes on from the last whole round.")

    def _resume(self) -> None:
        if self._paused:
            self.speaker.waits([])
            self._paused = False

    def _say(self, line: str) -> None:
        """To the log, but not what was just said in this exchange."""
        now = time.monotonic()
        if now - self._told.get(line, -REMIND) >= REMIND:
            self._told[line] = now
            self.speaker.say(line)

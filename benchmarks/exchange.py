"""Real sites on loopback: what an exchange costs beside the training, large messages, the tutorial's machine time.

python -m benchmarks.exchange                     # about three minutes
python -m benchmarks.exchange --quick             # a try with little work
python -m benchmarks.exchange --only messages
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.loopback.federation import CORES, Found, Trip, play
from benchmarks.loopback.messages import exchange_bytes
from benchmarks.loopback.tutorial import follow
from benchmarks.report import made, options, publish, table

SMALL, LARGE = "mlp(8)", "mlp(1000,1600)"
"""The small net, and one of 6.6 MB."""
TARGETS = {(3, SMALL): 30.0, (20, SMALL): 100.0}
"""Milliseconds that an exchange may take beyond the training itself, at most."""
BYTES, OF_PLAIN = 6_600_000, 0.5
MACHINE_SECONDS = 30.0


def exchanges(repeats: int, quick: bool) -> str:
    """What a trip to all sites and back costs, in real processes."""
    works = [(3, SMALL, 5 * repeats)] if quick else [(3, SMALL, 8 * repeats), (20, SMALL, 5 * repeats)]
    works += [] if quick else [(20, LARGE, repeats)]
    rows = []
    for sites, model, rounds in works:
        with tempfile.TemporaryDirectory() as folder:
            found = play(Path(folder), sites, rounds, model)
        target = TARGETS.get((sites, model))
        rows.append([f"{sites} sites, {model}", *_trips(found, target), f"{1000 * found.cpu:.0f}"])
        print(rows[-1], file=sys.stderr, flush=True)
    head = ["", "exchange", "of it the training", "overhead", "overhead of an evaluation", "of a round"]
    return "\n\n".join(
        [
            f"Milliseconds, medians over the rounds of one training; every site a process, {CORES} cores for all. "
            "The training itself is its CPU time, shared by the cores, or the slowest site's if that is more; the "
            "overhead of an exchange is the rest of it (targets in brackets). A round has an exchange, an "
            "evaluation and a checkpoint. Last column: CPU time of all processes in a round, but the sites' work.",
            table([*head, "CPU of a round"], rows),
        ]
    )


def _trips(found: Found, target: float | None) -> list[str]:
    def ms(trips: list[Trip], of: Callable[[Trip], float]) -> str:
        return f"{1000 * statistics.median(of(trip) for trip in trips):.1f}"

    def overhead(trip: Trip) -> float:
        return trip.overhead

    wanted = "" if target is None else f" ({target:.0f})"
    return [
        ms(found.exchanges, lambda trip: trip.seconds),
        ms(found.exchanges, lambda trip: trip.itself),
        ms(found.exchanges, overhead) + wanted,
        ms(found.evaluations, overhead),
        ms(found.rounds, overhead),
    ]


def messages(repeats: int, quick: bool) -> str:
    """Large messages through the transport alone, and the same bytes over plain uvicorn and httpx."""
    sites, size = (3, BYTES // 10) if quick else (20, BYTES)
    with tempfile.TemporaryDirectory() as folder:
        found = exchange_bytes(Path(folder), sites, size, repeats)
    rows = [
        [each.way, f"{each.rate(each.ours) / 1e6:.0f}", f"{each.rate(each.plain) / 1e6:.0f}", f"{each.ratio:.0%}"]
        for each in found
    ]
    rows[0][-1] += f" ({OF_PLAIN:.0%})"
    return "\n\n".join(
        [
            f"Messages of {size / 1e6:.1f} MB, {sites} sites in processes of their own: MB/s of all together, "
            f"medians of {repeats} interleaved turns. Plain: the same bytes over uvicorn and httpx as they are, "
            "with the same certificates.",
            table(["", "transport", "plain", "ratio"], rows),
        ]
    )


def tutorial(repeats: int, quick: bool) -> str:
    """The three hospitals, command by command."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        costs = follow(Path(folder))
        wall = time.perf_counter() - began
    total = sum(cost.cpu for cost in costs)
    rows = [[cost.name, f"{cost.cpu:.1f}"] for cost in costs]
    rows.append(["all", f"{total:.1f} ({MACHINE_SECONDS:.0f})"])
    about = f"The three hospitals of the tutorial, `init` to `run`, once: {wall:.0f} s by the clock."
    return "\n\n".join([about, table(["command", "CPU seconds of its processes"], rows)])


PARTS = {"exchanges": exchanges, "messages": messages, "tutorial": tutorial}


def main() -> None:
    """Measure, print, and write."""
    parser = options(__doc__, repeats=7)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), help="some of the tables; never writes")
    given = parser.parse_args()
    given.write &= not given.only
    load = os.getloadavg()[0]
    chosen = [part for name, part in PARTS.items() if not given.only or name in given.only]
    texts = [part(given.repeats, given.quick) for part in chosen]
    publish("exchange", "\n\n".join([f"{made()} Load before: {load:.1f}.", *texts]), given)


if __name__ == "__main__":
    main()

"""Seconds of a tree between three real sites on loopback, each with the rows of one area of covtype, under masks.

python -m benchmarks.tree_sites                        # 60,000 rows, depth 6, ten trees after the first two
python -m benchmarks.tree_sites --rows 3000 --channel none

Server and sites are processes of their own, as users would start them, and share this machine's cores. A round's
seconds are from its first message to the checkpoint; CPU seconds are of all processes together. Only the last
round evaluates the model, and is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.loopback.clocked import ANSWER, ROUND
from benchmarks.loopback.federation import Clocked, call, clocked, free_port, until
from unalike.data import load_dataset

AREAS = {"rawah": 10, "neota": 11, "comanche": 12}
"""The columns of covtype that are 1 where a row is of an area with at least 20,000 rows."""
WARM = 2
"""Rounds that come first and are not counted; the first also agrees on cuts."""


def write_tables(folder: Path, rows: int) -> None:
    """A table for each area, with its share of so many rows."""
    data = load_dataset("covtype")
    folder.mkdir(parents=True)
    for name, column in AREAS.items():
        here = np.flatnonzero(data.x[:, column] == 1)[: rows // len(AREAS)]
        lines = [",".join([*data.features, "cover"])]
        for place in here:
            lines.append(",".join([*map(str, data.x[place]), "pine" if data.y[place] else "other"]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def play(folder: Path, rows: int, trees: int, model: str, channel: str) -> None:
    """Train in real processes, as users would; their clocks are files in the folder."""
    write_tables(folder / "tables", rows)
    parties = [word for name in AREAS for word in ("--party", name)]
    run = ["--algorithm", "histogram", "--model", model, "--rounds", str(WARM + trees + 1)]
    run += ["--evaluate-every", str(10**6), *([] if channel == "none" else ["--channel", channel])]
    call(folder, "init", "server", *parties, "--label", "cover", "--address", f"127.0.0.1:{free_port()}", *run)
    with ExitStack() as stack:
        for name in AREAS:
            shutil.copytree(folder / "server" / "invitations" / name, folder / name)
            table = ["--data", f"csv:tables/{name}.csv", "--label", "cover", "--yes"]
            stack.enter_context(clocked(folder, folder / f"{name}.clock", "join", name, *table))
        stack.enter_context(clocked(folder, folder / "server.clock", "serve", "server"))
        cards = [folder / name / f"{name}.public.json" for name in AREAS]
        until(lambda: all(card.exists() for card in cards), "a site did not join")
        call(folder, "admit", "server", *map(str, cards))
        call(folder, "run", "server", "--quiet")


def measured(folder: Path) -> dict[str, float]:
    """What a round takes, as medians, and the CPU seconds of all processes for one."""
    clocks = {name: _lines(folder / f"{name}.clock") for name in ("server", *AREAS)}
    server = [each for each in clocks.pop("server") if each.what == ROUND]
    rounds = server[WARM:-1]
    first, last = rounds[0].began, rounds[-1].ended
    answers = {
        name: [a for a in own if a.what == ANSWER and first <= a.began <= last] for name, own in clocks.items()
    }
    cpu = server[-2].process - server[WARM - 1].process
    cpu += sum(own[-1].process - own[0].process for own in answers.values())
    counts = {name: len(own) / len(rounds) for name, own in answers.items()}
    spent = sum(a.cpu for own in answers.values() for a in own)
    return {
        "seconds of a round, median": median(each.seconds for each in rounds),
        "least": min(each.seconds for each in rounds),
        "CPU seconds of a round, all processes": cpu / len(rounds),
        "of which sites' answers": spent / len(rounds),
        "of which the server's thread": sum(each.cpu for each in rounds) / len(rounds),
        "trips": max(counts.values()),
    }


def _lines(path: Path) -> list[Clocked]:
    return [Clocked(*json.loads(line)) for line in path.open()]


def main() -> None:
    """Print the medians as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--model", default="trees(depth=6)")
    parser.add_argument("--channel", default="masked")
    parser.add_argument("--folder", type=Path, help="where to leave everything [nowhere]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as kept:
        folder = chosen.folder or Path(kept) / "run"
        play(folder, chosen.rows, chosen.trees, chosen.model, chosen.channel)
        found = measured(folder)
    print(f"{chosen.rows} rows, {chosen.channel}, load of the machine {os.getloadavg()[0]:.1f}:")
    for name, value in found.items():
        print(f"{name}: {value:.3f}")


if __name__ == "__main__":
    main()

"""CPU time of a tree of ``secureboost``, both sides added, on one core; and whether it is the joint table's tree.

python -m benchmarks.secureboost                     # random rows, and adult, which is downloaded
python -m benchmarks.secureboost --quick             # 1,000 rows, to try it
python -m benchmarks.secureboost --only 10k --write

Two parties: the label holder, and one with 20 columns of 32 bins (random rows, depth 5), or 62 of adult's 123
columns (depth 6). The first tree is outside the clock, as it compiles; cuts and binning are outside, too. A tree
counts only if its margins are those of a tree that is grown on the joint table in the clear.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.report import made, options, publish, table
from unalike.algorithms.protocol import SERVER, Arrays, Inbox, Me, Own, PublicTerms, Say, Turn
from unalike.algorithms.vertical.secureboost import SecureBoost
from unalike.data import load_dataset
from unalike.models.trees import Trees
from unalike.rounds.conversation import InProcess, Spoken, converse, role_random, role_secret
from unalike.secure.crypto.additive_keys import Cipher
from unalike.trees.agreed import own_agreement
from unalike.trees.bins import bin_rows
from unalike.trees.grow import grow
from unalike.trees.objective import objective_of

Block = np.ndarray


@dataclass(frozen=True)
class Case:
    """Rows (None: adult), and how many columns each side has."""

    rows: int | None
    widths: tuple[int, int]
    settings: Trees
    bits: int = 2048
    cipher: Cipher = "okamoto-uchiyama"

    @property
    def name(self) -> str:
        """What the table calls it."""
        rows = "adult" if self.rows is None else f"{self.rows:,} rows"
        return f"{rows}, {self.widths[1]} columns, depth {self.settings.depth}; {self.cipher}, {self.bits:,} bits"


RANDOM, ADULT = Trees(depth=5, bins=32), Trees(depth=6, bins=255)
CASES = {
    "10k": Case(10_000, (10, 20), RANDOM),
    "10k-3072": Case(10_000, (10, 20), RANDOM, 3072),
    "10k-paillier": Case(10_000, (10, 20), RANDOM, cipher="paillier"),
    "adult": Case(None, (61, 62), ADULT),
    "adult-3072": Case(None, (61, 62), ADULT, 3072),
    "100k": Case(100_000, (10, 20), RANDOM),
    "100k-3072": Case(100_000, (10, 20), RANDOM, 3072),
}
QUICK = {"quick": Case(1_000, (2, 4), Trees(depth=3, bins=16))}


class Timed(InProcess):
    """Adds up the CPU time of each role's steps."""

    def __init__(self, protocol: SecureBoost, roles: list[Me]) -> None:
        super().__init__(protocol, roles, {me.number: protocol.start(me) for me in roles})
        self.seconds: dict[int, float] = {}

    def step(self, number: int, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        since = time.process_time()
        found = super().step(number, turn, inbox)
        self.seconds[number] = self.seconds.get(number, 0.0) + time.process_time() - since
        return found


def rows_of(case: Case) -> tuple[Block, np.ndarray]:
    """Rows and labels of two classes; those of random rows are mostly chance, so that all nodes split."""
    if case.rows is None:
        data = load_dataset("adult")
        return np.asarray(data.x, np.float32), np.asarray(data.y, np.int64)
    random = np.random.default_rng(0)
    x = random.random((case.rows, sum(case.widths))).astype(np.float32)
    score = x.sum(axis=1) + random.normal(size=case.rows) * 5
    return x, (score > np.median(score)).astype(np.int64)


def roles_of(case: Case, x: Block, y: np.ndarray, trees: int) -> list[Me]:
    """The server, the label holder and the other party."""
    seed, every = 7, np.arange(len(y))
    terms = PublicTerms(2, trees, seed, case.settings, x.shape[1], 2, label_holder=0, columns=case.widths)
    roles = [Me(terms, SERVER, None, role_random(seed, SERVER), draw_secret=role_secret(seed, SERVER))]
    for party, block in enumerate(np.split(x, case.widths[:1], axis=1)):
        own = Own(block, y if party == 0 else y[:0], every, every[:0])
        roles.append(Me(terms, party, own, role_random(seed, party), draw_secret=role_secret(seed, party)))
    return roles


def in_the_clear(case: Case, x: Block, y: np.ndarray, trees: int) -> np.ndarray:
    """The margins after so many trees that are grown on the joint table."""
    cuts, _ = own_agreement(x, case.settings.bins, case.settings.least_rows)
    binned, objective = bin_rows(x, cuts), objective_of(case.settings, 2)
    margins = np.zeros((len(y), 1)) + objective.base(objective.sums(y))
    for _ in range(trees):
        g, h = objective.gradients(margins, y)
        grow(binned, g[0], h[0], case.settings, margins=margins[:, 0])
    return margins


def measured(case: Case, trees: int) -> list[str]:
    """A line of the table: seconds of both sides, megabytes both ways, trips."""
    x, y = rows_of(case)
    roles = roles_of(case, x, y, trees + 1)
    carrier = Timed(SecureBoost(bits=case.bits, cipher=case.cipher), roles)
    numbers, seconds = [me.number for me in roles], []
    for round in range(trees + 2):
        carrier.seconds.clear()
        spoken = converse(carrier, numbers, round)
        if round > 1:
            seconds.append((carrier.seconds[0], carrier.seconds[1]))
    if not np.array_equal(carrier.states[0]["margins"], in_the_clear(case, x, y, trees + 1)):
        raise SystemExit(f"{case.name}: the margins are not those of the joint table.")
    guest, host = (median(pair[side] for pair in seconds) for side in (0, 1))
    both = median(sum(pair) for pair in seconds)
    return [case.name, *(f"{s:.2f}" for s in (guest, host)), f"**{both:.2f}**", *_mail(spoken)]


def _mail(spoken: Spoken) -> list[str]:
    """Megabytes to the other party and back, and turns."""
    back = sum(spoken.up.get(name, 0) for name in ("sums", "rows", "chosen"))
    return [f"{(sum(spoken.up.values()) - back) / 1e6:.1f}", f"{back / 1e6:.2f}", str(spoken.turns)]


def main() -> None:
    """Print the table, or write it into the page."""
    parser = options(__doc__, repeats=3)
    parser.add_argument("--only", choices=CASES, action="append")
    given = parser.parse_args()
    cases = QUICK if given.quick else {name: CASES[name] for name in given.only or CASES}
    lines = []
    for name, case in cases.items():
        lines.append(measured(case, 1 if given.quick else given.repeats))
        print(name, *lines[-1][1:], flush=True)
    head = ["a tree", "label holder, s", "other party, s", "both, s", "MB to it", "MB back", "turns"]
    publish("secureboost", f"{table(head, lines)}\n\n{made()}", given)


if __name__ == "__main__":
    main()

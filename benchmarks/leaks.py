"""What attacks get from what each role saw, in every mode of training on split columns.

python -m benchmarks.leaks                    # adult, three parties of 41 columns: a Markdown table
python -m benchmarks.leaks --rows 2000 --only vertical fedbcd
python -m benchmarks.leaks --write            # puts the table into docs/vertical.md, between its two comments

The first party has the labels; the second attacks as a feature holder, and is attacked by the first. All protocols
are really played, encryption too, with keys of 2,048 bits. A score of 0.5 is chance for an area under the curve;
where an attack ranks people by label, only pairs count to whom the attacker's columns alone give about the same.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import table
from unalike.algorithms import ALGORITHMS
from unalike.algorithms.protocol import SERVER, SUM, Arrays, Inbox, Me, Own, Pace, PublicTerms, Say, Turn
from unalike.algorithms.vertical import sealed
from unalike.algorithms.vertical.batches import batches
from unalike.algorithms.vertical.descent import fixed_batches
from unalike.data import load_dataset
from unalike.models import MODELS
from unalike.rounds.conversation import InProcess, converse, role_random, role_secret
from unalike.trees.grow import Growing
from unalike.vertical import leak

PAGE = Path(__file__).parents[1] / "docs" / "vertical.md"
BEGIN, END = "<!-- leaks -->", "<!-- /leaks -->"
HEAD = ("mode", "who", "attack", "score")
WIDTH, KNOWN, ROUNDS = 41, 100, 5
Row = tuple[str, str, str, str]


class Listening(InProcess):
    """Plays a protocol, and keeps what every role heard, and what it kept then."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.heard: list[tuple[int, Turn, Inbox, Arrays]] = []

    def step(self, number: int, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """The step, noted."""
        state, said = super().step(number, turn, inbox)
        self.heard.append((number, turn, inbox, state))
        return state, said


@dataclass(frozen=True, eq=False)
class People:
    """People, their labels, and the parties' blocks of columns."""

    blocks: list[np.ndarray]
    y: np.ndarray

    @property
    def expected(self) -> np.ndarray:
        """What the attacking holder's own columns say of labels, by least squares on these very people."""
        inputs = np.column_stack([self.blocks[1], np.ones(len(self.y))])
        found: np.ndarray = inputs @ np.linalg.lstsq(inputs, self.y.astype(float), rcond=None)[0]
        return found

    def played(self, text: str, model: str, **pace: Any) -> Played:
        """The protocol, played on these people."""
        widths = tuple(block.shape[1] for block in self.blocks)
        terms = PublicTerms(
            parties=3,
            rounds=ROUNDS,
            seed=0,
            model=MODELS.build(model),
            features=sum(widths),
            classes=2,
            label_holder=0,
            columns=widths,
            pace=Pace(**pace),
        )
        everybody, none = np.arange(len(self.y)), np.zeros(0, np.int64)
        roles = [Me(terms, SERVER, None, role_random(0, SERVER), draw_secret=role_secret(0, SERVER))]
        for party, block in enumerate(self.blocks):
            own = Own(block, self.y if party == 0 else self.y[:0], everybody, none)
            roles.append(Me(terms, party, own, role_random(0, party), draw_secret=role_secret(0, party)))
        protocol: Any = ALGORITHMS.build(text)
        states = {me.number: protocol.start(me) for me in roles}
        heard: list[tuple[int, Turn, Inbox, Arrays]] = []
        for round in range(ROUNDS + 1):
            carrier = Listening(protocol, roles, states)
            converse(carrier, [me.number for me in roles], round)
            states, heard = carrier.states, heard + carrier.heard
        return Played(self, protocol, roles, heard)


@dataclass(frozen=True, eq=False)
class Played:
    """A protocol that was played, and all that was heard."""

    people: People
    protocol: Any
    roles: list[Me]
    heard: list[tuple[int, Turn, Inbox, Arrays]]

    def told(self, who: int, sender: int, name: str) -> Iterator[tuple[Turn, np.ndarray]]:
        """The arrays of one name that a role heard from another."""
        for number, turn, inbox, _ in self.heard:
            if number == who and name in inbox.get(sender, {}):
                yield turn, inbox[sender][name]

    def places(self, turn: Turn, batch: int) -> np.ndarray:
        """Who is in a batch, where batches are drawn anew in every round."""
        return batches(self.roles[0].terms, len(self.people.y), turn.round)[batch]


def labels_by_sign(played: Played) -> Row:
    """Feature holder: residuals in the clear."""
    right = [
        leak.by_sign(residual, played.people.y[played.places(turn, turn.number // 2 - 1)])
        for turn, residual in played.told(1, 0, "residual")
    ]
    return "", "feature holder", "labels by sign", f"{np.mean(right):.0%} of labels"


def columns_by_scores(played: Played) -> Row:
    """Label holder: another party's scores over many batches, or the sum that has them."""
    found = np.zeros((len(played.people.y), ROUNDS))
    sender = SUM if any(SUM in inbox for _, _, inbox, _ in played.heard) else 1
    fixed = played.protocol.protection(played.roles[0].terms) == "encrypted"
    trips = played.protocol.trips(played.roles[0].terms)
    for turn, scores in played.told(0, sender, "scores"):
        make = fixed_batches if fixed else batches
        places = make(played.roles[0].terms, len(found), turn.round)[turn.number // trips]
        found[places, turn.round - 1] = scores[:, 0]
    scale = np.abs(found).max(axis=0)
    score = leak.columns_by_scores(
        found / np.where(scale > 0, scale, 1.0), played.people.blocks[1], np.arange(KNOWN)
    )
    what = "columns by the sum of scores" if sender == SUM else "columns by scores"
    return "", "label holder", what, f"{score:.2f} of variance"


def labels_by_equations(played: Played) -> Row:
    """Feature holder: its own part of the gradient of every batch."""
    me, order, told = played.roles[2], [], []
    for number, turn, inbox, _ in played.heard:
        if number == 1 and "gradient" in inbox.get(0, {}):
            at = turn.round, turn.number // 4 - 1
            batch = fixed_batches(me.terms, len(played.people.y), turn.round)[at[1]]
            columns = me.kept["columns"].of(batch)
            order.append(batch)
            told.append(played.protocol.seal.gradient(me, inbox, columns, at)[:, 0])
    people = played.people
    first = fixed_batches(me.terms, len(people.y), 1)
    once = leak.by_equations(people.blocks[1], order[: len(first)], told[: len(first)], people.y, people.expected)
    every = leak.by_equations(people.blocks[1], order, told, people.y, people.expected)
    return "", "feature holder", "labels by equations", f"AUC {once:.2f} (all rounds: {every:.2f})"


def labels_by_derivatives(attack: Callable[[np.ndarray, np.ndarray], float], name: str) -> Attack:
    """Feature holder: the derivatives by its embedding, in the first round."""

    def found(played: Played) -> Row:
        areas = [
            attack(gradient.astype(np.float64), played.people.y[played.places(turn, turn.number // 2 - 1)])
            for turn, gradient in played.told(1, 0, "gradient")
            if turn.round == 1
        ]
        return "", "feature holder", f"labels by {name} of derivatives", f"AUC {np.mean(areas):.2f}"

    return found


def labels_by_groups(played: Played) -> Row:
    """Host: who shares a node, after each tree, where some labels are known to it."""
    groups: dict[int, np.ndarray] = {}
    for number, _, _, state in played.heard:
        kept = {name.removeprefix("now "): array for name, array in state.items() if name.startswith("now ")}
        if number == 1 and "order" in kept:
            growing, node = Growing.of(kept), np.zeros(len(played.people.y), np.int64)
            for at in range(len(growing.starts)):
                node[growing.order[growing.starts[at] : growing.ends[at]]] = at
            groups[int(kept["tree"][0])] = node
    score = leak.by_groups(list(groups.values()), played.people.y, np.arange(KNOWN), played.people.expected)
    return "", "feature holder", f"labels by shared nodes, {KNOWN} known", f"AUC {score:.2f}"


Attack = Callable[[Played], Row]
Mode = tuple[str, str, dict[str, Any], list[Attack]]
LINEAR: dict[str, Any] = {"lr": 0.5}


def _encrypted(times: int) -> Mode:
    """Encrypted residuals in batches of so many people a column; fewer than TIMES are refused outside of here."""
    pace = {"lr": 0.5, "batch_size": times * WIDTH}
    return "vertical(protect=encrypted, bits=2048)", "logistic", pace, [labels_by_equations, columns_by_scores]


def _split_net(noise: float) -> Mode:
    """A split net whose derivatives have so much noise."""
    attacks = [
        labels_by_derivatives(leak.by_norm, "norm"),
        labels_by_derivatives(leak.by_direction, "direction"),
    ]
    return f"split-net(gradient_noise={noise})", "mlp(16)", {"lr": 0.1, "batch_size": 256}, attacks


MODES: list[Mode] = [
    ("vertical(protect=clear)", "logistic", LINEAR | {"batch_size": 256}, [labels_by_sign, columns_by_scores]),
    ("vertical(protect=masked)", "logistic", LINEAR | {"batch_size": 256}, [labels_by_sign, columns_by_scores]),
    *(_encrypted(times) for times in (4, 8, 16, 20)),
    ("fedbcd(q=5, protect=masked)", "logistic", {"lr": 0.1, "batch_size": 256}, [labels_by_sign]),
    *(_split_net(noise) for noise in (0.0, 1.0, 5.0)),
    ("secureboost(bits=2048)", "trees(depth=4, bins=16)", {}, [labels_by_groups]),
    ("secureboost(bits=2048, first=own)", "trees(depth=4, bins=16)", {}, [labels_by_groups]),
]


def rows_of(people: People, only: list[str]) -> Iterator[Row]:
    """The rows of the table, of those modes whose algorithm is there, and wanted."""
    there = {entry.name for entry in ALGORITHMS}
    for text, model, pace, attacks in MODES:
        name = text.partition("(")[0]
        if name not in there or (only and name not in only):
            continue
        played = people.played(text, model, **pace)
        size = f", batch {pace['batch_size']}" if pace else ""
        for attack in attacks:
            row = (f"`{text}`{size}", *attack(played)[1:])
            print(*row, sep=" | ", flush=True)
            yield row


def adult(rows: int) -> People:
    """The first people of adult, the columns in three blocks."""
    data = load_dataset("adult")
    x = np.asarray(data.x[:rows], np.float64)
    return People(np.split(x, [WIDTH, 2 * WIDTH], axis=1), np.asarray(data.y[:rows], np.int64))


def put(text: str) -> None:
    """Replace what is between the page's two comments."""
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"docs/{PAGE.name} has no place for this table: {BEGIN} ... {END}.")
    PAGE.write_text(f"{before}{BEGIN}\n{text.strip()}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Play all modes, attack, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=4000, help="how many people")
    parser.add_argument("--only", nargs="*", default=[], help="names of algorithms")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sealed.TIMES = 4  # to see what batches would tell that are refused
    people = adult(given.rows)
    own = leak.area(people.expected, people.y == 1)
    text = table(HEAD, rows_of(people, given.only))
    text += (
        f"\n\n{given.rows:,} people of adult, {ROUNDS} rounds. The feature holder's own columns alone rank labels "
        f"with an AUC of {own:.2f}, which is no leak: by equations and by shared nodes only pairs of people count "
        "to whom they give about the same."
    )
    print("\n" + text)
    if given.write:
        put(text)


if __name__ == "__main__":
    main()

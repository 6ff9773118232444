"""NIID-Bench's decision tree, grown anew from stored evidence: for each kind of skew, who stands best."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

from unalike.measure.situation import Kind
from unalike.ranking.advice import ENOUGH, PAPER
from unalike.ranking.blocks import KINDS, Block, published_blocks
from unalike.ranking.standing import REFERENCE, Comparison, Standing, standings

Evidence = Literal["enough", "few", "none"]


@dataclass(frozen=True)
class Leaf:
    """One kind of skew.

    best: who leads among those that were compared with FedAvg often enough; FedAvg where nobody is shown to be
    better.
    nearest: the best of the others, where FedAvg leads. Both None unless the evidence is ``enough``.
    """

    kind: Kind
    evidence: Evidence
    comparisons: int
    best: Standing | None
    nearest: Standing | None
    paper: str
    """The paper's choice, and how it stands in the paper's own Table 3."""
    paper_standing: Standing

    def to_dict(self) -> dict[str, Any]:
        """One object, ready for JSON."""
        return asdict(self)


def grow(blocks: Sequence[Block]) -> list[Leaf]:
    """A leaf for each kind of skew, from comparisons with FedAvg in these blocks."""
    return [_leaf(kind, _comparisons(blocks, kind)) for kind in KINDS]


def _leaf(kind: Kind, comparisons: Sequence[Comparison]) -> Leaf:
    paper = PAPER[kind]
    theirs = next(one for one in _in_the_paper(kind) if one.algorithm == paper)
    found = standings(comparisons)
    often = [one for one in found if one.comparisons >= ENOUGH]
    others = [one for one in often if one.algorithm != REFERENCE]
    if not others:
        return Leaf(kind, "few" if comparisons else "none", len(comparisons), None, None, paper, theirs)
    nearest = others[0] if often[0].algorithm == REFERENCE else None
    return Leaf(kind, "enough", len(comparisons), often[0], nearest, paper, theirs)


def _comparisons(blocks: Sequence[Block], kind: Kind) -> list[Comparison]:
    """Gains over FedAvg over the seeds that the two share; a failed run counts as one with the worst score."""
    made: list[Comparison] = []
    for block in blocks:
        if block.kind != kind or REFERENCE not in block.trials:
            continue
        plain = block.trials[REFERENCE]
        gains = {
            name: statistics.fmean(
                block.scale.gain(found[seed].value, plain[seed].value) for seed in found.keys() & plain.keys()
            )
            for name, found in block.trials.items()
            if name != REFERENCE and found.keys() & plain.keys()
        }
        if gains:
            made.append(gains)
    return made


@cache
def _in_the_paper(kind: Kind) -> tuple[Standing, ...]:
    return tuple(standings(_comparisons(published_blocks("niid-bench-table3"), kind)))

"""NIID-Bench's decision tree, grown anew from stored evidence: for each kind of skew, who stands best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

from unalike.measure.situation import Kind
from unalike.ranking.advice import ENOUGH
from unalike.ranking.blocks import Block, comparisons
from unalike.ranking.shipped import PUBLISHED, evidence
from unalike.ranking.splits import PAPER
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
    """A leaf for each kind of skew that the paper's tree has, from comparisons with FedAvg in these blocks."""
    return [_leaf(kind, _of_kind(blocks, kind)) for kind in PAPER]


def _leaf(kind: Kind, compared: Sequence[Comparison]) -> Leaf:
    paper = PAPER[kind]
    theirs = next(one for one in _in_the_paper(kind) if one.algorithm == paper)
    found = standings(compared)
    often = [one for one in found if one.comparisons >= ENOUGH]
    others = [one for one in often if one.algorithm != REFERENCE]
    if not others:
        return Leaf(kind, "few" if compared else "none", len(compared), None, None, paper, theirs)
    nearest = others[0] if often[0].algorithm == REFERENCE else None
    return Leaf(kind, "enough", len(compared), often[0], nearest, paper, theirs)


def _of_kind(blocks: Sequence[Block], kind: Kind) -> list[Comparison]:
    return comparisons([block for block in blocks if block.kind == kind], REFERENCE)


@cache
def _in_the_paper(kind: Kind) -> tuple[Standing, ...]:
    return tuple(evidence(kind, (PUBLISHED,)))

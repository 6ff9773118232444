"""The tree of models that a clustered run ends with: who is in which group since when, and every node's model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load
from torch import Tensor

from unalike.algorithms.contract import Vectors
from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.runs.build import make_tasks
from unalike.runs.record import SPEC, checked_weights, read_run
from unalike.runs.seals import Broken
from unalike.runs.spec import RunSpec
from unalike.toml import read_toml

_KEYS = {"w", "parent", "born", "group", "direction"}


@dataclass(frozen=True)
class Node:
    """A group of parties with a model of its own; one that was split has children, and keeps its model."""

    number: int
    parent: int | None
    since: int
    """the round in which its parent was split; 0 for the root"""
    until: int | None
    """the round in which it was split itself"""
    children: tuple[int, ...]
    parties: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ModelTree:
    """All nodes of a tree, and their models as flat vectors ``w`` [nodes, weights]."""

    spec: RunSpec
    nodes: tuple[Node, ...]
    w: Tensor
    direction: Tensor
    scores: tuple[float | None, ...] = ()
    """of each party, under the model of its own group"""

    @property
    def leaves(self) -> list[Node]:
        """The groups that were not split, from the first branch to the last."""
        return [node for _, node in self.from_root() if not node.children]

    def from_root(self, number: int = 0, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """Every node after its parent, with its depth."""
        yield depth, self.nodes[number]
        for child in self.nodes[number].children:
            yield from self.from_root(child, depth + 1)

    def score(self, node: Node) -> float | None:
        """The mean score of a group's parties at the end of the run, where it is known."""
        known = [value for k in node.parties if k < len(self.scores) and (value := self.scores[k]) is not None]
        return math.fsum(known) / len(known) if known else None

    def weights(self, number: int, data: Dataset | None = None) -> Vectors:
        """The model of a node by layer name, as ``load_state_dict`` takes it.

        ``data`` are the run's, where they were given to it and are not registered by name.
        """
        if not 0 <= number < len(self.nodes):
            raise UserError(f"The tree has nodes from 0 to {len(self.nodes) - 1}, got {number}.")
        data = load_dataset(self.spec.dataset) if data is None else data
        task = make_tasks(self.spec, data, torch.device("cpu"))[0]
        if task.buffers.size:
            raise UserError(
                f"{self.spec.model} has running statistics, which no node keeps. Use a net without batch norm."
            )
        return task.named(self.w[number], task.initial_buffers())

    def walk(self, update: Callable[[Tensor], Tensor]) -> Node:
        """The leaf of a newcomer: from each node to the child whose members moved in directions most like its own.

        ``update(w)`` trains from the flat weights w as the members did, and gives the change of w.
        """
        if self.spec.algorithm.startswith("kmeans-models"):
            raise UserError("kmeans-models groups models and not updates: there is no way down its tree.")
        node = self.nodes[0]
        while node.children:
            own = update(self.w[node.number])
            alike = self.direction[list(node.children)] @ own
            node = self.nodes[node.children[int(alike.argmax())]]
        return node


def tree_of(run: Path | str) -> ModelTree:
    """The tree of a finished run's folder; a run of an algorithm that grows none is refused."""
    run = Path(run)
    found = read_run(run)
    if found.result is None:
        problem = found.damage or "this is not the folder of a finished run."
        raise UserError(f"{run}: {problem} Run it again, or choose another: unalike runs list")
    try:
        server = load(checked_weights(run, found.result))
    except Broken as error:
        raise UserError(f"{run}: {error}. Run it again, or choose another: unalike runs list") from None
    spec = RunSpec.as_recorded(read_toml(found.spec or "", run / SPEC), str(found.result.get("key")))
    if not server.keys() >= _KEYS:
        raise UserError(f"{spec.algorithm} grows no tree of models. Give a run of cfl, fl+hc or kmeans-models.")
    each = (found.result.get("personal") or {}).get("each") or ()
    if sample := found.result.get("sample"):
        known = dict(zip(sample["each"], each, strict=True))
        each = [known.get(number) for number in range(sample["of"])]
    return _tree(spec, server, tuple(each))


def _tree(spec: RunSpec, server: Vectors, scores: Sequence[float | None]) -> ModelTree:
    parent, born = server["parent"].tolist(), server["born"].tolist()
    count, group = sum(since >= 0 for since in born), server["group"].tolist()
    children = [tuple(k for k in range(count) if parent[k] == number) for number in range(count)]

    def parties(number: int) -> list[int]:
        if children[number]:  # newcomers, who stay at the root, are no members of it then
            return sorted(k for child in children[number] for k in parties(child))
        return [k for k, own in enumerate(group) if own == number]

    nodes = tuple(
        Node(
            number,
            parent[number] if number else None,
            born[number],
            born[children[number][0]] if children[number] else None,
            children[number],
            tuple(parties(number)),
        )
        for number in range(count)
    )
    return ModelTree(spec, nodes, server["w"][:count].clone(), server["direction"][:count].clone(), tuple(scores))


def tree_lines(tree: ModelTree, say_score: Callable[[float | None], str]) -> list[str]:
    """The tree as lines of text, each node under its parent."""
    lines: list[str] = []

    def add(number: int, before: str, own: str, below: str) -> None:
        node = tree.nodes[number]
        until = "" if node.until is None else f", split in round {node.until}"
        score = "" if node.children else f": {say_score(tree.score(node))}"
        lines.append(f"{before}{own}node {number}, {parties_text(node.parties)}{until}{score}")
        for place, child in enumerate(node.children):
            end = place == len(node.children) - 1
            add(child, before + below, "└─ " if end else "├─ ", "   " if end else "│  ")

    add(0, "", "", "")
    return lines


def parties_text(parties: Sequence[int], most: int = 12) -> str:
    """The parties' numbers in words; of many, the first ones and how many there are."""
    if len(parties) == 1:
        return f"party {parties[0]}"
    if len(parties) <= most:
        return f"parties {', '.join(map(str, parties))}"
    return f"{len(parties)} parties ({', '.join(map(str, parties[: most // 2]))}, ...)"

"""Trees as a JSON file that people can read and any program can follow, in the table's own units."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.trees.nodes import FlatTree, flat_trees

if TYPE_CHECKING:
    from unalike.data.schema import Field
    from unalike.trees.columns import Columns
    from unalike.trees.ensemble import Ensemble

NAME = "unalike trees"
VERSION = 1
_RULE = (
    "A row begins at node 0 of each tree. It goes 'left' where the number in 'column' is below 'below', else "
    "'right'; where it is missing, as 'missing' says. The 'value' of the node where it ends is added to 'base' at "
    "the tree's 'output'. The sums are margins; "
)
_MEANING = {
    "binary": "1 / (1 + exp(-margin)) is the probability of the second class.",
    "softmax": "exp(margin) of each class, divided by the sum of all, is its probability.",
    "squared-error": "margin * scale + shift of 'target' is the predicted number.",
    "poisson": "exp(margin) is the predicted number.",
}


def json_bytes(ensemble: Ensemble, columns: Columns, classes: Sequence[str]) -> bytes:
    """The model as JSON: a line for each node."""
    objective = ensemble.objective.name
    head = {
        "format": NAME,
        "version": VERSION,
        "objective": objective,
        "classes": list(classes),
        "target": dict(zip(("shift", "scale"), ensemble.target, strict=True)) if not classes else None,
        "rule": _RULE + _MEANING[objective],
        "base": ensemble.base.tolist(),
        "columns": list(_described(columns)),
    }
    lines = [f'"{name}": {_text(value)}' for name, value in head.items() if name != "columns"]
    lines.append(f'"columns": [\n {_joined(head["columns"])}\n]')
    trees = [
        f'{{"output": {number % ensemble.outputs}, "nodes": [\n  {_joined(_nodes(tree, columns), 2)}\n ]}}'
        for number, tree in enumerate(flat_trees(ensemble, columns))
    ]
    lines.append('"trees": [\n ' + ",\n ".join(trees) + "\n]")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _joined(parts: Any, indent: int = 1) -> str:
    return (",\n" + " " * indent).join(map(_text, parts))


def _described(columns: Columns) -> Iterator[dict[str, Any]]:
    """What each column is, and how it is made from the table's."""
    if columns.schema is None:
        yield from ({"name": name} for name in columns.names)
        return
    for one in columns.schema.fields:
        yield from _coded(one)


def _coded(one: Field) -> Iterator[dict[str, Any]]:
    made = {"from": one.name, "is": one.kind}
    if one.kind == "category":
        for name, value in zip(one.coded, one.values, strict=False):
            yield {"name": name, **made, "one where": value}
    elif one.kind == "ordinal":
        yield {"name": one.name, **made, "counted from 0": list(one.values)}
    else:
        units = {"date": "days since 1970-01-01", "binary": "one where yes"}.get(one.kind)
        yield {"name": one.name, **made} | ({"as": units} if units else {})
    if one.indicate:
        yield {"name": one.coded[-1], "from": one.name, "one where": "missing"}


def _nodes(tree: FlatTree, columns: Columns) -> Iterator[dict[str, Any]]:
    for node in range(len(tree.left)):
        about = {"cover": float(np.float32(tree.cover[node])), "rows": int(tree.rows[node])}
        if tree.left[node] < 0:
            yield {"value": float(tree.value[node]), **about}
            continue
        yield {
            "column": columns.names[tree.feature[node]],
            "below": float(tree.threshold[node]),
            "left": int(tree.left[node]),
            "right": int(tree.right[node]),
            "missing": "left" if tree.missing_left[node] else "right",
            "gain": float(tree.gain[node]),
            **about,
        }

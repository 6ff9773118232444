"""``unalike runs tree``: the tree of models of a clustered run as text, as a picture, and each node as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unalike.cli.options import check_output
from unalike.cli.show import draw, print_json
from unalike.errors import UserError

if TYPE_CHECKING:
    from unalike.cli.store import StoredRun
    from unalike.runs.model_tree import ModelTree

_PICTURES = (".svg", ".png", ".pdf")


def show_tree(run: StoredRun, output: Path | None, node: int | None, weights: Path | None, as_json: bool) -> None:
    """Print the tree of a run, and write what is asked for: a picture, the model of a node."""
    from unalike.runs.model_tree import tree_lines, tree_of
    from unalike.scores import shown

    if output is not None:
        check_output(output, ("-o", *_PICTURES))
    if (node is None) != (weights is None):
        raise UserError("--node N and --weights FILE.safetensors go together: which model, and where to.")
    if weights is not None:
        check_output(weights, ("--weights", ".safetensors"))
    tree = tree_of(run.path)
    if output is not None:
        from unalike.report.figures import save
        from unalike.report.model_tree_picture import model_tree_picture

        picture = model_tree_picture(tree, run.rounds_done, lambda score: f"{run.score} {shown(run.score, score)}")
        save(picture, output.with_suffix(""), (output.suffix.lower().removeprefix("."),))
    if node is not None and weights is not None:
        _write(tree, node, weights)
    if as_json:
        print_json(_as_dict(tree, run.score))
        return
    draw(*tree_lines(tree, lambda score: shown(run.score, score)))
    written = [str(path) for path in (output, weights) if path is not None]
    draw(*([""] if written else []), *written)


def _write(tree: ModelTree, node: int, path: Path) -> None:
    """The model of a node as a file that ``load_state_dict`` takes the content of."""
    from unalike.runs.checkpoint import tensor_bytes
    from unalike.runs.files import atomic_write

    about = {"key": tree.spec.key, "algorithm": tree.spec.algorithm, "node": str(node)}
    atomic_write(path, tensor_bytes(tree.weights(node), about))


def _as_dict(tree: ModelTree, score: str) -> dict[str, Any]:
    return {
        "score": score,
        "nodes": [
            {
                "node": node.number,
                "parent": node.parent,
                "since": node.since,
                "until": node.until,
                "children": list(node.children),
                "parties": list(node.parties),
                "value": tree.score(node),
            }
            for node in tree.nodes
        ],
    }

"""The model card of a run: what was trained on what, how well it does and for whom, what was spent of privacy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unalike.algorithms import ALGORITHMS
from unalike.data import DATASETS
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.part_text import parse
from unalike.partition import PARTITIONS
from unalike.runs.command import command
from unalike.runs.headline import importance
from unalike.runs.model_file import is_trees
from unalike.runs.results import brief
from unalike.runs.rounds_file import finite
from unalike.scores import SCORES, SUMMARIES, goodness, key_of, score_of, shown

if TYPE_CHECKING:
    from unalike.runs.model_file import ModelFile
    from unalike.runs.result import Result

_MOST_PARTIES = 30
"""Parties up to which each has a line of its own."""
_MOST_COLUMNS = 10
"""Columns that the card of trees names as the most important."""
_NAMES = "not_reached"
"""The figure of a federation of real sites that holds names of sites."""
_DEGREES = {"label": "labels", "quantity": "quantity", "feature": "features", "concept": "features of one label"}
_WORK = ("epochs", "steps", "batch_size", "optimiser", "lr", "lr_decay", "sample", "fine_tune", "loss", "seed")


@dataclass(frozen=True)
class ModelCard:
    """A model card: sections with facts by name, as Markdown and as JSON."""

    title: str
    facts: Mapping[str, Mapping[str, Any]]
    """by section; a list of rows, the first of which is the head, is a table"""
    figures: Mapping[str, Any]
    """all figures of the run, as they are recorded"""

    def to_dict(self) -> dict[str, Any]:
        """One object, ready for JSON: the facts as people read them, and all figures as numbers."""
        made: dict[str, Any] = finite({"title": self.title, **self.facts, "figures": self.figures})
        return made

    def to_markdown(self) -> str:
        """The card for people to read."""
        lines = [f"# {self.title}"]
        for section, facts in self.facts.items():
            lines += ["", f"## {section}", ""]
            for name, value in facts.items():
                lines += _lines(name, value)
        return "\n".join(lines) + "\n"

    def texts(self) -> dict[str, str]:
        """By the ending of a file's name, what is in it."""
        return {"md": self.to_markdown(), "json": json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"}

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


def _lines(name: str, value: Any) -> list[str]:
    """A fact as Markdown: a line, or a table."""
    if not isinstance(value, list) or not value or not isinstance(value[0], list):
        return [f"- **{name}**: {_text(value)}"]
    head, *rows = value
    rule = ["---"] * len(head)
    return ["", *(f"| {' | '.join(_text(cell) for cell in row)} |" for row in (head, rule, *rows))]


def _text(value: Any) -> str:
    """A value on one line, in which nothing is Markdown by accident."""
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def card_of(result: Result) -> ModelCard:
    """The card of a finished run; of a federation of real sites, without the sites' names."""
    from unalike.runs.deploy import store_of

    about = store_of(result).about
    spec, figures = result.spec.to_dict(), result.figures
    facts = {
        "Model": _model(about, figures) | _goes_by(figures),
        "Data": _data(about, figures, spec),
        "Training": _training(spec, figures),
        "Scores": _scores(figures),
        "Parties": _parties(figures, about.parties),
        "Privacy": _privacy(spec, figures),
        "Use": _use(about),
        "Origin": {
            "unalike": figures.get("version"),
            "torch": figures.get("torch", about.torch),
            "key": about.key,
            "weights, SHA-256": figures.get("weights_file_sha256"),
            "made again by": f"`{command(spec)}`",
        },
    }
    return ModelCard(f"Model card: {_name(spec)}", facts, {k: v for k, v in figures.items() if k != _NAMES})


def _name(spec: Mapping[str, Any]) -> str:
    names = [str(spec[part]).split("(")[0] for part in ("dataset", "algorithm")]
    return f"{names[0]}, trained by {names[1]}"


def _model(about: ModelFile, figures: Mapping[str, Any]) -> dict[str, Any]:
    shape = "x".join(map(str, about.shape))
    rounds = {which: kept.round for which, kept in about.stages.items()}
    own = any(kept.personal or kept.left_out for kept in about.stages.values())
    return {
        **_made_of(about.model, figures),
        "task": about.task,
        "predicts": list(about.classes) if about.classes else "a number",
        "reads": f"rows of {shape} {about.kind}" + (f" ({_first(about.features)})" if about.schema else ""),
        "rounds kept": rounds,
        "models": "one for each party" if own else "one for all parties",
    }


def _made_of(model: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The net and its size, or how many trees and their digest."""
    if not is_trees(model):
        return {"net": model, "weights": figures.get("weights")}
    told = {"trees": figures.get("trees"), "SHA-256 of the trees": figures.get("model_sha256")}
    return {"model": brief(MODELS, model)} | {name: value for name, value in told.items() if value is not None}


def _goes_by(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Of trees: the columns that they gain most by."""
    rows = [[name, f"{share:.1%}"] for name, share in importance(figures).items()]
    head = ["column that the trees go by", "share of the gain"]
    return {"goes by": [head, *rows[:_MOST_COLUMNS]]} if rows else {}


def _first(names: Sequence[str], most: int = 30) -> str:
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def _data(about: ModelFile, figures: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    degrees = figures.get("degrees") or {}
    table = [
        [words, degrees[name], degrees.get(f"{name}_expected")]
        for name, words in _DEGREES.items()
        if degrees.get(name) is not None
    ]
    found = {
        "data set": brief(DATASETS, about.dataset),
        "SHA-256": figures.get("data_sha256"),
        "split": brief(PARTITIONS, spec.get("partition")),
        "parties": (figures.get("sample") or {}).get("of")
        or (figures.get("parties") or figures.get("personal") or {}).get("count")
        or len(about.parties),
    }
    if held := figures.get("columns"):
        found |= {
            "parties": len(held["parties"]),
            "columns of each": held["parties"],
            "has the labels": held["label_holder"],
            "people whom all know": held["people"],
        }
    head = ["how unalike the parties are, from 0 to 1", "degree", "by chance"]
    return found | ({"degrees": [head, *table]} if table else {})


def _training(spec: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    text = str(spec["algorithm"])
    try:
        entry = ALGORITHMS.entry(parse(text, "algorithm")[0])
        what, paper = entry.summary, entry.paper
    except UserError:  # of a plug-in that is not here
        what, paper = "of one's own", ""
    found = {
        "algorithm": brief(ALGORITHMS, text),
        "what it does": what,
        "paper": paper or None,
        "rounds": figures.get("rounds"),
    }
    return found | {name.replace("_", " "): spec[name] for name in _WORK if spec.get(name) is not None}


def _scores(figures: Mapping[str, Any]) -> dict[str, Any]:
    selected = figures.get("selected") or {}
    known = [score for score in SCORES.values() if figures.get(score.key) is not None]
    rows = [
        [score.name, *(shown(score.name, one.get(score.key)) for one in (figures, selected))] for score in known
    ]
    chosen = score_of(figures)
    key = f"validation_{key_of(chosen)}"
    if figures.get(key) is not None:
        rows.append([f"{chosen}, validation rows", *(shown(chosen, one.get(key)) for one in (figures, selected))])
    head = [
        "on the global test set",
        "final round",
        f"round {selected.get('round', '–')}, selected on validation rows",
    ]
    return {"goes by": chosen, "test": [head, *rows]} if rows else {"goes by": chosen}


def _parties(figures: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """How the parties fare on rows of their own: the worst, the spread, and each where they are few."""
    chosen = score_of(figures)
    known = {words: one for kind, words in SUMMARIES.items() if (one := figures.get(kind)) and one.get("count")}
    if not known:
        return {"own rows": "the models were not tried on rows of single parties"}
    head = [f"{chosen} by party, on rows of its own", "mean", "worst", "worst tenth", "best", "deviation", "range"]
    rows = [
        [
            words,
            *(shown(chosen, one[name]) for name in ("mean", "worst", "worst_10_percent", "best", "std")),
            shown(chosen, abs(one["best"] - one["worst"])),
        ]
        for words, one in known.items()
    ]
    found: dict[str, Any] = {"summary": [head, *rows]}
    if sample := figures.get("sample"):
        found["own rows of"] = f"a sample of {sample['count']:,} of {sample['of']:,} parties"
    each = (figures.get("personal") or figures.get("parties") or {}).get("each") or []
    if names and not sample and len(each) == len(names) <= _MOST_PARTIES:
        tried = _worst_first(zip(names, each, strict=True), chosen)
        found["each"] = [
            ["party, the worst first", chosen],
            *([name, shown(chosen, value)] for name, value in tried),
        ]
    return found


def _worst_first(rows: Iterable[tuple[str, float | None]], score: str) -> list[tuple[str, float | None]]:
    """The parties that were tried, from the worst to the best."""
    return sorted((row for row in rows if row[1] is not None), key=lambda row: goodness(score, row[1]))


def _privacy(spec: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    spent = figures.get("privacy")
    if "columns" in figures:  # nothing goes through a channel: what roles learn is up to the algorithm
        return {
            "columns": "no party's columns leave it; what the others learn of them and of labels follows from "
            f"{brief(ALGORITHMS, spec['algorithm'])}, see docs/vertical.md",
            "epsilon": "none is promised",
        }
    channel = spec.get("channel") or "none: the server sees every party's upload"
    if spent is None:
        return {"channel": channel, "epsilon": "none is promised: no noise was added"}
    return {"channel": channel, **{name: spent[name] for name in ("epsilon", "delta", "neighbours", "noise")}}


def _use(about: ModelFile) -> dict[str, Any]:
    table = "csv:new.csv" if about.schema else "rows.npy"
    return {
        "predict": f"`unalike predict {about.key[:6]} --data {table} -o predictions.csv`",
        "in Python": f'`unalike.load("{about.key[:6]}").predict(x)`',
        "mind": "the figures are of rows from the same sources as the training's; on others it may do worse",
    }

"""The figures of a round that people look at first, as words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unalike.quantities import number
from unalike.runs.scales import is_number, scale_of
from unalike.scores import score_of, shown, value_of


def headline(row: Mapping[str, Any], *, loss: bool = True) -> list[str]:
    """A round's main figures; those of parties' own rows without a global model, or without test rows."""
    personal, parties = row.get("personal") or {}, row.get("parties") or {}
    score = score_of(row)
    judged = "loss" in row and not (row["loss"] is None and not personal and parties.get("mean") is None)
    if not judged:  # not in this round, or there are no rows to judge by
        return [f"train loss {number(row['train_loss'])}"]
    if row["loss"] is None:
        whose, parties = ("personal", personal) if personal else ("parties'", parties)
        told = [f"{whose} {score} {shown(score, parties.get('mean'))}"]
    else:
        told = [f"{score} {shown(score, value_of(row))}"]
        if loss:
            told.append(f"loss {number(row['loss'])}")
    if parties.get("worst") is not None:
        told.append(f"worst party{sample_words(row)} {shown(score, parties['worst'])}")
    return told


def sample_words(figures: Mapping[str, Any]) -> str:
    """Whose own rows were tried, where it was not everybody's: " of a sample of 10,000"."""
    sample = figures.get("sample")
    return f" of a sample of {sample['count']:,}" if sample else ""


def gain_words(figures: Mapping[str, Any]) -> str:
    """Where columns are split: whether the partners are worth it to the one who has the labels; else nothing."""
    score = score_of(figures)
    scale = scale_of(score)
    alone, together = scale.told(figures.get("alone")), scale.of(figures)
    if alone is None or together is None:
        return ""
    by = scale.sign * (together - alone)
    told = scale.difference(abs(by), alone)
    verdict = f"the others' columns {'add' if by > 0 else 'cost'} {told}" if by else "the same"
    own = shown(score, figures["alone"])
    return f"The label holder's own columns alone: {scale.words} {own}; together {verdict}."


def importance(figures: Mapping[str, Any]) -> dict[str, float]:
    """Of trees: the columns that they go by, each with its share of the gain; none of other models."""
    told = figures.get("importance")
    found = told.items() if isinstance(told, Mapping) else ()
    return {str(name): share for name, share in found if is_number(share)}

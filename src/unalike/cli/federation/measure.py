"""``unalike federation measure``: how unalike the sites are, before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unalike.cli.federation.needs import need_extra, need_server
from unalike.cli.federation.run import done, follow
from unalike.cli.show import Paragraph, draw, print_json, size, table
from unalike.errors import UserError
from unalike.federation.folders import MEASURE, ServerFolder
from unalike.federation.plan import Plan
from unalike.measure.degree import METRIC, Headline, headline, meaning, shown
from unalike.measure.support import Of


def measure(folder: Path, *, as_json: bool, quiet: bool, degree: str | None) -> None:
    """Let the running server measure the sites, and show what it found; ``degree`` of labels stands first."""
    first: dict[Of, Headline] = {"labels": headline("labels", degree), "features": headline("features")}
    need_extra()
    plan = Plan.read(need_server(folder))
    if plan.splits_columns:
        raise UserError(
            "The sites have other columns of the same people, so there is no common variable to measure. How many "
            f"people are common: unalike federation match {folder}"
        )
    if len(plan.parties) < 3:
        raise UserError("Measuring adds the sites' counts under masks, which needs three sites; here are two.")
    ServerFolder(folder).roster(plan)
    done(folder, follow(folder, plan, MEASURE, quiet=quiet), "measure")
    found = json.loads((folder / "measure.json").read_text(encoding="utf-8"))
    if as_json:
        print_json(found)
        return
    for of, headed in first.items():
        _print(of, found[of], headed)


def _print(of: Of, one: dict[str, Any], first: Headline) -> None:
    metrics = shown(of, first)
    columns = ["site", "share", *metrics, "random split", "quantity"]
    rows = [
        [
            told["party"],
            f"{100 * told['share']:.2g}%",
            *(f"{told['mean'][name]:.2f}" for name in metrics.values()),
            f"{told['expected'][METRIC[first]]:.2f}",
            f"{told['quantity']:.2f}",
        ]
        for told in one["parties"]
    ]
    whole, parties = one["federation"], one["parties"]
    mean, chance = (whole[key][METRIC[first]] for key in ("mean", "expected"))
    up, down = (size(sum(p[key] for p in parties) / len(parties)) for key in ("bytes_up", "bytes_down"))
    draw(
        f"How unalike the sites' {of} are",
        table(columns, rows, right=columns[1:], spare=["CvM", "area", "quantity", "share"]),
        Paragraph(meaning(of, first, mean, chance)),
        f"Each site sent {up} and received {down}.",
        "",
    )

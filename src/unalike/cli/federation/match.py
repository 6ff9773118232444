"""``unalike federation match``: whom all sites know, before anything is trained."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from unalike.cli.federation.needs import algorithm_of, need_extra, need_server
from unalike.cli.federation.run import done, follow
from unalike.cli.program import program
from unalike.cli.show import draw, print_json, table
from unalike.errors import UserError
from unalike.federation.folders import MATCH, ServerFolder
from unalike.federation.matching import Matching
from unalike.federation.plan import Plan


def match(folder: Path, *, as_json: bool, quiet: bool) -> None:
    """Let the running server have the sites match their people, and show how many are common."""
    need_extra()
    plan = Plan.read(need_server(folder))
    if not plan.id:
        raise UserError(
            f"By its plan the sites of {plan.name} have other people and the same columns ({algorithm_of(plan)}): "
            "there is nobody to match. People are matched where init was given --id."
        )
    place = ServerFolder(folder)
    place.roster(plan)  # who is missing is told at once
    done(folder, follow(folder, plan, MATCH, quiet=quiet), "match")
    found = Matching.kept(place, plan)
    assert found is not None
    if as_json:
        print_json(asdict(found))
        return
    rows = [
        [name + " (has the label)" * (name == found.label_holder), f"{ids:,}", f"{100 * found.common / ids:.0f}%"]
        for name, ids in found.sizes.items()
    ]
    draw(
        f"{found.common:,} people are known to all {len(plan.parties)} sites of {plan.name}",
        table(["site", "ids", "of them common"], rows, right=["ids", "of them common"]),
        f"Next: {program()} federation run {folder}",
    )

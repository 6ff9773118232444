"""``unalike federation rehearse``: the same plan in one process, before sites exist."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from unalike.cli.federation.needs import algorithm_of
from unalike.cli.progress import follower
from unalike.cli.show import costs, draw, figures_table, print_json
from unalike.errors import UserError
from unalike.federation.plan import Plan
from unalike.federation.public import TABLE, public_table
from unalike.runs import run as engine


def rehearse(folder: Path, tables: Path, *, as_json: bool, quiet: bool) -> None:
    """Train as the plan says in this process, on a table for every site."""
    plan = Plan.read(folder)
    public = str(folder / TABLE) if public_table(folder, plan.public) is not None else ""
    sites = plan.sites(str(tables), public)
    there = tuple(sites.tables())
    if there != plan.parties:
        raise UserError(
            f"{tables} has tables of {', '.join(there)}; the plan has the sites {', '.join(plan.parties)}. "
            "Name each file after its site."
        )
    watcher = follower(quiet=quiet)
    with redirect_stdout(sys.stderr), watcher:
        result = engine.run(plan.spec_of(sites), watcher=watcher)
    if as_json:
        print_json(result.to_dict())
        return
    draw(
        f"{plan.name}, rehearsed in one process: {algorithm_of(plan)}, {len(plan.parties)} sites",
        "",
        figures_table(result.figures),
        "",
        costs(result.figures),
        f"server_sha256 {result.figures['server_sha256']}",
    )

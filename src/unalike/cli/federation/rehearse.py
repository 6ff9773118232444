"""``unalike federation rehearse``: the same plan in one process, before sites exist."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from unalike.algorithms.protocol import SERVER
from unalike.cli.federation.needs import algorithm_of
from unalike.cli.progress import follower
from unalike.cli.show import costs, draw, figures_table, print_json, say
from unalike.data.sites.tables import tables_in
from unalike.errors import UserError
from unalike.federation.growth import arrays_digest
from unalike.federation.plan import Plan
from unalike.federation.public import TABLE, public_table
from unalike.runs import run as engine
from unalike.runs.cast import arrays_of
from unalike.runs.conversing import Conversing
from unalike.runs.playable import is_over
from unalike.runs.spec import RunSpec
from unalike.scores import Figures


def rehearse(folder: Path, tables: Path, *, as_json: bool, quiet: bool) -> None:
    """Train as the plan says in this process, on a table for every site."""
    plan = Plan.read(folder)
    public = str(folder / TABLE) if public_table(folder, plan.public) is not None else ""
    sites = plan.sites(str(tables), public)
    there = tuple(tables_in(str(tables), "sites"))
    if there != plan.parties:
        raise UserError(
            f"{tables} has tables of {', '.join(there)}; the plan has the sites {', '.join(plan.parties)}. "
            "Name each file after its site."
        )
    if plan.splits_columns:
        _rehearse_columns(plan, plan.spec_of(sites), as_json=as_json, quiet=quiet)
        return
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


def _rehearse_columns(plan: Plan, spec: RunSpec, *, as_json: bool, quiet: bool) -> None:
    """The same where sites have other columns of the same people: each site's part of the model has a hash."""
    assert plan.protocol is not None
    with redirect_stdout(sys.stderr):
        played = Conversing(spec, plan.protocol, say=lambda line: None if quiet else say(line))
        row: Figures = {}
        while not is_over(played):
            played.state, row = played.play_round()
            if not quiet:
                say(f"Round {row['round']} of {spec.rounds}.")
    states = arrays_of(played.state)
    parts = {
        plan.parties[number]: played.protocol.model(me, states[number], states[SERVER])
        for number, me in sorted(played.roles.items())
        if number != SERVER
    }
    digests = {name: arrays_digest(part) for name, part in parts.items() if part is not None}
    if as_json:
        print_json({**row, "part_sha256": digests})
        return
    draw(
        f"{plan.name}, rehearsed in one process: {algorithm_of(plan)}, {len(plan.parties)} sites",
        "",
        figures_table({**row, "rounds": row["round"]}),
        "",
        *(f"part_sha256 of {name} {digest}" for name, digest in digests.items()),
    )

"""``unalike federation predict``: new people, by parts of a model of which each site has one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unalike.cli.program import program
from unalike.cli.show import draw
from unalike.errors import UserError


def predict(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a site's folder, or the server's")],
    data: Annotated[
        str | None, typer.Option(metavar="TABLE", help="at a site: its table of the new people, e.g. csv:new.csv")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="at the label holder: where predictions go [SITE/predictions.csv]",
        ),
    ] = None,
) -> None:
    """Predict new people, where each site has a part of the model and other columns of them.

    At every site, offer its table of these people; then, at the server, have them predicted together. All tables
    are of the same people, in any order, 32 or more. Only the site that has the labels is told the predictions.

    \b
    Example:
      unalike federation predict bank --data csv:new.csv -o predictions.csv
      unalike federation predict federation
    """
    from unalike.federation.making import is_server

    if is_server(folder):
        if data is not None or output is not None:
            raise UserError("--data and -o are for a site. At the server: unalike federation predict DIR.")
        _at_server(folder)
    elif data is None:
        raise UserError("Say which table the new people are in: --data csv:new.csv.")
    else:
        _at_site(folder, data, output)


def _at_site(folder: Path, data: str, output: Path | None) -> None:
    """Offer a table for one prediction; the site's running ``join`` takes part with it."""
    from unalike.data.sites import read_site_table
    from unalike.federation.column_predict import offer_table
    from unalike.federation.making import SiteFolder

    place = SiteFolder(folder)
    plan = place.plan()
    if not plan.splits_columns:
        raise UserError(
            f"A site of {plan.name} has the whole model. Use it alone: unalike predict {folder} --data {data}."
        )
    if not (folder / "model.safetensors").exists():
        raise UserError(f"{folder} has no part of a model yet. See: unalike federation status {folder}")
    columns = read_site_table(data, plan.types, elsewhere=True)
    ids = plan.people.id.read(columns)
    kind, _, path = data.partition(":")
    there = f"{kind}:{Path(path).resolve()}" if path and Path(path.partition("(")[0]).exists() else data
    offer_table(folder, there, str((output or folder / "predictions.csv").resolve()))
    draw(
        f"Offered: {len(ids):,} people of {data}, for one prediction. This site's join takes part with it.",
        f"When all sites have offered theirs, at the server: {program()} federation predict DIR",
    )


def _at_server(folder: Path) -> None:
    """Have the running server let the sites predict what they have offered."""
    from unalike.cli.federation.needs import need_extra, need_server
    from unalike.cli.federation.run import done, follow
    from unalike.federation.folders import PREDICT, ServerFolder
    from unalike.federation.plan import Plan

    need_extra()
    plan = Plan.read(need_server(folder))
    if not plan.splits_columns:
        raise UserError(f"Sites of {plan.name} have the whole model, and use it alone: unalike predict SITE.")
    place = ServerFolder(folder)
    place.roster(plan)
    done(folder, follow(folder, plan, PREDICT, quiet=False), "predict")
    state = str(place.status().get("state", "predicted")).capitalize()
    draw(f"{state}: the site that has the labels has the predictions.")

"""``unalike federation``: train between real sites, each of which keeps its own rows."""

from __future__ import annotations

import typer

from unalike.cli.federation_look import audit, status
from unalike.cli.federation_measure import measure
from unalike.cli.federation_rehearse import rehearse
from unalike.cli.federation_run import run, stop
from unalike.cli.federation_server import admit, init, serve
from unalike.cli.federation_site import join

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Train between real sites, each of which keeps its own rows.\n\n"
    "At the server: init, serve, admit, measure, run, stop, rehearse. At a site: join, audit. At both: status.",
)
for command in (init, join, admit, serve, measure, run, status, stop, audit, rehearse):
    app.command(command.__name__)(command)

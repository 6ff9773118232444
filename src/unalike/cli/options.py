"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_RUNS = Path("runs")

RunsFolder = Annotated[
    Path,
    typer.Option(
        "--runs",
        envvar="UNALIKE_RUNS",
        metavar="FOLDER",
        help="folder that keeps the runs [$UNALIKE_RUNS or runs]",
        show_default=False,
        show_envvar=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON, and nothing else, on stdout")]

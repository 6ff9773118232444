"""What several commands on studies are given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unalike.cli import complete
from unalike.cli.options import DEFAULT_RUNS

Name = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help='a name from "study list", or a TOML file', autocompletion=complete.studies
    ),
]
Scale = Annotated[
    float,
    typer.Option(
        "--scale", metavar="FLOAT", help="part of the rounds and rows, for a fast look [1]", show_default=False
    ),
]
OnlyTexts = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="FIELD=VALUE", help="only these runs: dataset=adult,seed=0; repeatable"),
]

Baselines = Annotated[
    bool, typer.Option("--baselines", help="beside training alone, FedAvg, FedAvg tuned, and all rows pooled")
]
Retry = Annotated[bool, typer.Option("--retry", help="try runs again that diverged or were killed")]


def selection(scale: float, only: list[str] | None, *, baselines: bool) -> list[str]:
    """The flags that choose a part of a study, for a command that goes on with it."""
    return [
        *(["--baselines"] if baselines else []),
        *(["--scale", str(scale)] if scale != 1.0 else []),
        *(part for text in only or [] for part in ("--only", text)),
    ]


def elsewhere(runs: Path) -> list[str]:
    """The flag that names the folder of runs, where it is not the usual one."""
    return [] if runs == DEFAULT_RUNS else ["--runs", str(runs)]

"""``unalike leaderboard``: algorithms ranked by finished runs, or by a paper's own table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli import complete
from unalike.cli.options import DEFAULT_RUNS, AsJson, Plugins, runs_folder
from unalike.cli.plugin import load_plugins
from unalike.cli.program import program
from unalike.cli.show import (
    MISSING,
    Paragraph,
    draw,
    duration,
    paragraphs,
    print_json,
    say,
    say_damaged,
    size,
    table,
)
from unalike.errors import UserError
from unalike.ranking.published import TABLES
from unalike.ranking.ranking import ALPHA

if TYPE_CHECKING:
    from unalike.ranking.blocks import Block
    from unalike.ranking.leaderboard import Entry, Table

KINDS_OF_FILE = ("svg", "png", "pdf")


def show_leaderboard(
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--runs",
            parser=runs_folder,
            metavar="FOLDER",
            envvar="UNALIKE_RUNS",
            help="folder that keeps runs; repeatable [$UNALIKE_RUNS or runs]",
            show_default=False,
            show_envvar=False,
        ),
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help=f"rank a paper's numbers instead: {', '.join(TABLES)}",
            autocompletion=complete.choices(*TABLES),
        ),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="compare only this one and others so named; repeatable",
            autocompletion=complete.parts("algorithm"),
        ),
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="each parametrisation apart, instead of the best on validation rows")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="count rounds to this score, e.g. 80 % [fedavg: FedAvg's final one]"),
    ] = None,
    alpha: Annotated[
        float, typer.Option(metavar="FLOAT", help="level of the tests [0.05]", show_default=False)
    ] = ALPHA,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.svg", help="draw critical differences; or png, pdf"),
    ] = None,
    tree: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="draw the decision tree that follows; or png, pdf")
    ] = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Rank algorithms over all settings and by kind of skew, with tests and costs.

    \b
    Examples:
      unalike leaderboard --runs runs -o ranks.svg --tree tree.svg
      unalike leaderboard --published niid-bench-table3

    A setting is all but the algorithm and the seed; its runs are ranked by their score, accuracy or another.
    Runs that failed come last in theirs.
    """
    from unalike.ranking.blocks import published_blocks
    from unalike.ranking.leaderboard import leaderboard
    from unalike.ranking.tree import grow

    load_plugins(plugin)
    for file in (output, tree):
        _check_file(file)
    folders = runs or [DEFAULT_RUNS]
    if published is not None:
        blocks, source = published_blocks(published), TABLES[published]
    else:
        blocks, source = _own(folders, target, apart=apart)
    tables = leaderboard(blocks, alpha=alpha, algorithms=algorithm or ())
    if output is not None:
        from unalike.report.leaderboard_picture import leaderboard_picture

        _save(leaderboard_picture(tables, source), output)
    if tree is not None:
        from unalike.report.tree_picture import tree_picture

        _save(tree_picture(grow(blocks), source), tree)
    if as_json:
        leaves = [leaf.to_dict() for leaf in grow(blocks)]
        print_json({"source": source, "tables": [each.to_dict() for each in tables], "tree": leaves})
    else:
        _print(tables, source, None if published else target or "fedavg")


def _own(folders: Sequence[Path], target: str | None, *, apart: bool) -> tuple[list[Block], str]:
    from unalike.ranking.blocks import parse_target, run_blocks
    from unalike.runs.results import read_records, settings

    records = [record for folder in folders for record in read_records(folder)]
    say_damaged(records)
    ended = [record for record in records if record.state != "unfinished"]
    where = ", ".join(map(str, folders))
    if not ended:
        raise UserError(f"No finished runs in {where}. Make some with: {program()} run --algorithm ...")
    found = settings(ended)
    goal = parse_target(target, (setting.scale for setting in found))
    blocks = run_blocks(found, goal, apart=apart)
    return blocks, f"{len(ended)} runs in {len(blocks)} settings ({where})"


def _check_file(file: Path | None) -> None:
    if file is not None and file.suffix[1:].lower() not in KINDS_OF_FILE:
        raise UserError(f"A picture's name must end in .svg, .png or .pdf, got {str(file)!r}.")


def _save(figure: Any, file: Path) -> None:
    from unalike.report.figures import save

    saved = save(figure, file.with_suffix(""), kinds=[file.suffix[1:].lower()])
    say(f"Drawn: {saved[0]}")


def _print(tables: Sequence[Table], source: str, target: str | None) -> None:
    draw(Paragraph(f"From {source}."))
    for each in tables:
        draw("", f"{each.category} ({each.ranking.settings} compared)")
        if each.entries:
            draw("", _entries(each, target))
        draw(*paragraphs([*_verdict(each), *_scores(each), *each.left_out]))


def _entries(each: Table, target: str | None) -> Any:
    from unalike.runs.scales import scale_of

    failed = any(entry.failed for entry in each.entries)
    scale = None if each.score is None else scale_of(each.score)
    unit = scale.unit.strip() if scale else ""
    columns = ["", "algorithm", "mean rank", "wins"]
    columns += ([scale.words] if scale else []) + (["failed"] if failed else [])
    if target is not None:
        goal = "FedAvg's" if target == "fedavg" else f"{target}{unit}"
        columns += ["sent", "time", f"rounds to {goal}", "reached"]
    rows = [
        [
            str(place),
            entry.algorithm,
            f"{entry.mean_rank:.2f}",
            str(entry.wins),
            *([MISSING if entry.value is None else scale.text(entry.value, unit)] if scale else []),
            *([str(entry.failed)] if failed else []),
            *(_costs(entry, each.ranking.settings) if target is not None else []),
        ]
        for place, entry in enumerate(each.entries, start=1)
    ]
    right = [column for column in columns if column != "algorithm"]
    return table(columns, rows, right=right, spare=["time", "sent", *columns[-2:], "wins"])


def _scores(each: Table) -> list[str]:
    if each.score is not None or not each.settings:
        return []
    return ["The settings' scores cannot be averaged, as they differ or are in different units; ranks can."]


def _costs(entry: Entry, settings: int) -> list[str]:
    return [
        MISSING if entry.bytes is None else size(entry.bytes),
        MISSING if entry.seconds is None else duration(entry.seconds),
        MISSING if entry.rounds_to_target is None else f"{entry.rounds_to_target:.1f}",
        f"{entry.reached}/{settings}",
    ]


def _verdict(each: Table) -> list[str]:
    ranking = each.ranking
    if ranking.f_p is None or ranking.chi2 is None or ranking.f is None or ranking.chi2_p is None:
        return [ranking.doubt]
    said = [
        f"Friedman chi2 {ranking.chi2:.2f}, p {ranking.chi2_p:.3g}; Iman-Davenport F {ranking.f:.2f}, "
        f"p {ranking.f_p:.3g}: {'they differ' if ranking.differ else 'no difference shown'} at {ranking.alpha:g}.",
        f"Nemenyi's critical difference {ranking.critical_difference:.2f}. Not told apart: "
        f"{'; '.join(', '.join(group) for group in ranking.cliques) or 'none'}.",
    ]
    return [*said, ranking.doubt] if ranking.doubt else said

"""``unalike leaderboard``: algorithms ranked by finished runs, or by a paper's own table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from unalike.errors import UserError, unknown
from unalike.ranking.published import OURS, TABLES
from unalike.ranking.ranking import ALPHA

if TYPE_CHECKING:
    from unalike.ranking.blocks import Block
    from unalike.ranking.leaderboard import Entry, Table
    from unalike.runs.scales import Scale

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
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help=f"rank stored numbers instead: a paper's, {', '.join(TABLES)}, or ours, {OURS}; repeatable",
            autocompletion=complete.choices(*TABLES, OURS),
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
      unalike leaderboard --published niid-bench-table3 --published unalike-table3

    A setting is all but the algorithm and the seed; its runs are ranked by their score, accuracy or another.
    Runs that failed come last in theirs. Models of the parties' own are ranked apart, on the parties' own rows.
    """
    from unalike.ranking.tree import grow

    load_plugins(plugin)
    for file in (output, tree):
        _check_file(file)
    if published:
        blocks, tables, source = _stored(list(dict.fromkeys(published)), algorithm or (), alpha)
        personal: list[Table] = []
    else:
        blocks, own, source = _own(runs or [DEFAULT_RUNS], target, apart=apart)
        tables, personal = _tables((blocks, own), algorithm or (), alpha)
    if output is not None:
        from unalike.report.leaderboard_picture import leaderboard_picture

        _save(leaderboard_picture([*tables, *personal], source), output)
    if tree is not None:
        from unalike.report.tree_picture import tree_picture

        _save(tree_picture(grow(blocks), source), tree)
    if as_json:
        leaves = [leaf.to_dict() for leaf in grow(blocks)]
        print_json(
            {
                "source": source,
                "tables": [each.to_dict() for each in tables],
                "personal": [each.to_dict() for each in personal],
                "tree": leaves,
            }
        )
    else:
        _print([*tables, *personal], source, None if published else target or "fedavg")


def _stored(names: Sequence[str], algorithms: Sequence[str], alpha: float) -> tuple[list[Block], list[Table], str]:
    """The blocks of stored tables, each table ranked by itself, and what they are from."""
    from unalike.ranking.shipped import SHIPPED, blocks_of

    found = {name: blocks_of(name) for name in names}
    ranked = {
        name: [_with_doubts(each, name) for each in _tables((blocks, []), algorithms, alpha)[0]]
        for name, blocks in found.items()
    }
    if len(names) > 1:  # whose figures they are stands above each
        ranked = {
            name: [replace(each, category=f"{name}: {each.category}") for each in made]
            for name, made in ranked.items()
        }
    source = "; ".join(SHIPPED[name] for name in names)
    return (
        [each for blocks in found.values() for each in blocks],
        [each for made in ranked.values() for each in made],
        source,
    )


def _with_doubts(each: Table, name: str) -> Table:
    """With a sentence on the published gains of its settings that came out otherwise in our runs."""
    from unalike.ranking.blocks import KINDS
    from unalike.ranking.leaderboard import OVERALL
    from unalike.ranking.shipped import PUBLISHED, gaps

    kinds = [kind for kind in KINDS if each.category in (kind, OVERALL) and kind != "label and feature skew"]
    found = [gap for kind in kinds for gap in gaps(kind)] if name == PUBLISHED else []
    if not found:
        return each
    told = f"{len(found)} gains over FedAvg" if each.category == OVERALL else "; ".join(map(str, found))
    return replace(each, left_out=(*each.left_out, f"Came out otherwise in our runs ({OURS}): {told}."))


def _own(folders: Sequence[Path], target: str | None, *, apart: bool) -> tuple[list[Block], list[Block], str]:
    """The blocks of global models, those of the parties' own, and what they are from."""
    from unalike.ranking.blocks import parse_target, run_blocks
    from unalike.ranking.deployed import by_global_model, by_own_models
    from unalike.runs.results import read_records, settings

    records = [record for folder in folders for record in read_records(folder)]
    say_damaged(records)
    ended = [record for record in records if record.state != "unfinished"]
    where = ", ".join(map(str, folders))
    if not ended:
        raise UserError(f"No finished runs in {where}. Make some with: {program()} run --algorithm ...")
    found, own = settings(by_global_model(ended)), settings(by_own_models(ended))
    goal = parse_target(target, (setting.scale for setting in [*found, *own]))
    blocks, personal = run_blocks(found, goal, apart=apart), run_blocks(own, goal, apart=apart)
    source = f"{len(ended)} runs in {len(blocks)} settings ({where})"
    if personal:
        source += f"; models of the parties' own in {len(personal)}"
    return blocks, personal, source


def _tables(
    kinds: Sequence[Sequence[Block]], algorithms: Sequence[str], alpha: float
) -> tuple[list[Table], list[Table]]:
    """The tables of global models and of the parties' own, each with those of the algorithms that it has."""
    from unalike.ranking.leaderboard import leaderboard

    known = [{name for block in blocks for name in block.trials} for blocks in kinds]
    for name in algorithms:
        if name not in set().union(*known):
            raise unknown("algorithm in these results", name, set().union(*known))
    made: list[list[Table]] = []
    for blocks, names in zip(kinds, known, strict=True):
        wanted = [name for name in algorithms if name in names]
        shown = bool(blocks) and bool(wanted or not algorithms)
        made.append(leaderboard(blocks, alpha=alpha, algorithms=wanted, personal=len(made) == 1) if shown else [])
    return made[0], made[1]


def _check_file(file: Path | None) -> None:
    if file is not None and file.suffix[1:].lower() not in KINDS_OF_FILE:
        raise UserError(f"A picture's name must end in .svg, .png or .pdf, got {str(file)!r}.")


def _save(figure: Any, file: Path) -> None:
    from unalike.report.figures import save

    saved = save(figure, file.with_suffix(""), kinds=[file.suffix[1:].lower()])
    say(f"Drawn: {saved[0]}")


def _print(tables: Sequence[Table], source: str, target: str | None) -> None:
    draw(Paragraph(f"From {source}."))
    if not tables:
        draw(Paragraph("There is nothing to rank."))
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
    columns += (_score_columns(scale.words, personal=each.personal) if scale else []) + ["failed"] * failed
    if target is not None:
        goal = "FedAvg's" if target == "fedavg" else f"{target}{unit}"
        columns += ["sent", "time", f"rounds to {goal}", "reached"]
    rows = [
        [
            str(place),
            entry.algorithm,
            f"{entry.mean_rank:.2f}",
            str(entry.wins),
            *(_told(scale, entry, unit)[: 1 + each.personal] if scale else []),
            *([str(entry.failed)] if failed else []),
            *(_costs(entry, each.ranking.settings) if target is not None else []),
        ]
        for place, entry in enumerate(each.entries, start=1)
    ]
    right = [column for column in columns if column != "algorithm"]
    return table(columns, rows, right=right, spare=["time", "sent", *columns[-2:], "wins"])


def _score_columns(words: str, *, personal: bool) -> list[str]:
    return [f"parties' mean {words}", "worst tenth"] if personal else [words]


def _told(scale: Scale, entry: Entry, unit: str) -> list[str]:
    """The score, and that of the worst tenth of the parties."""
    return [MISSING if value is None else scale.text(value, unit) for value in (entry.value, entry.worst_tenth)]


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

"""``unalike runs``: list, show and compare the runs in a folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from unalike.cli import complete
from unalike.cli.commands import App
from unalike.cli.options import DEFAULT_RUNS, AsJson, Plugins, RunsFolder
from unalike.cli.predict import OfParty, WhichModel
from unalike.cli.show import (
    MISSING,
    age,
    costs,
    draw,
    engine_line,
    figures_table,
    gain_line,
    importance_line,
    indented,
    print_json,
    privacy_line,
    sample_line,
    say,
    sparkline,
    stopped_line,
    table,
)
from unalike.cli.store import StoredRun, find_run, read_runs
from unalike.errors import UserError
from unalike.runs.scales import scale_of
from unalike.runs.spec import RunSpec
from unalike.scores import score_of, shown

if TYPE_CHECKING:
    from unalike.runs.model_file import Which

app = App(help="List, show and compare runs.")

RunKey = Annotated[
    str,
    typer.Argument(metavar="KEY", help="beginning of the run's key or folder name", autocompletion=complete.runs),
]


@app.command("list")
def list_runs(runs: RunsFolder = DEFAULT_RUNS, as_json: AsJson = False) -> None:
    """List the runs in the folder, newest first."""
    found = read_runs(runs)
    if as_json:
        print_json({"runs": [_as_dict(run) for run in found]})
        return
    if not found:
        say(f"No runs in {runs} yet. Start one: unalike run")
        return
    scores = {run.score for run in found if run.figures}
    several = len(scores) > 1  # then each line says which
    score = ["score", "value"] if several else [*scores, score_of({})][:1]
    columns = ["key", "algorithm", "dataset", "partition", "rounds", *score, "worst", "age"]
    rows = [_row(run, several=several) for run in found]
    draw(table(columns, rows, right=columns[-3:], text=["partition"], spare=["age", "worst"]))
    _say_damaged(found)


def _say_damaged(found: Sequence[StoredRun]) -> None:
    for run in found:
        if run.problem and run.state == "damaged":
            say(run.problem)


def _row(run: StoredRun, *, several: bool) -> list[str]:
    from unalike.cli.brief import brief

    state = "" if run.state == "finished" else f" {run.state}"
    return [
        run.key[:6],
        *(brief(name, run.spec.get(name)) for name in ("algorithm", "dataset", "partition")),
        f"{run.rounds_done}/{run.spec.get('rounds', '?')}{state}",
        *([run.score if run.figures else MISSING] if several else []),
        shown(run.score, run.value),
        shown(run.score, run.worst_party()),
        age(time.time() - run.changed),
    ]


def _as_dict(run: StoredRun) -> dict[str, Any]:
    return {
        "key": run.key,
        "run_dir": str(run.path),
        "state": run.state,
        "problem": run.problem,
        "rounds_done": run.rounds_done,
        "rounds": run.spec.get("rounds"),
        "score": run.score,
        "value": run.value,
        "worst_party": run.worst_party(),
        "changed": run.changed,
        "spec": run.spec,
    }


@app.command("show")
def show_run(
    key: RunKey,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Show one run: its spec, its figures and its curve."""
    run = find_run(read_runs(runs), key, runs)
    if run.problem and not run.spec:
        raise UserError(run.problem)
    if as_json:
        print_json({**_as_dict(run), "result": run.result, "rows": run.rows})
        return
    draw(f"{run.path}  ({run.state}, {run.rounds_done} of {run.spec['rounds']} rounds)", "", *_spec_lines(run), "")
    if run.result is not None:
        draw(
            figures_table(run.result),
            "",
            *gain_line(run.result),
            costs(run.result),
            *sample_line(run.result),
            *stopped_line(run.result),
        )
        draw(*privacy_line(run.result), *engine_line(run.result))
        draw(*importance_line(run.result))
    elif run.figures:
        draw(figures_table({"rounds": run.figures["round"], **run.figures}, last="last evaluated round"))
    _draw_curve(run)
    if run.problem:
        say(run.problem)


@app.command("tree")
def show_tree_of_run(
    key: RunKey,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.svg", help="also a picture: SVG, PNG or PDF"),
    ] = None,
    node: Annotated[int | None, typer.Option("--node", help="the node whose model --weights is to hold")] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="FILE.safetensors", help="where to write the model of --node"),
    ] = None,
    runs: RunsFolder = DEFAULT_RUNS,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Show the tree of models of a clustered run: which parties were told apart, when, and how well they do.

    \b
    Example:
      unalike runs tree 3f2a -o tree.svg --node 3 --weights node-3.safetensors

    For runs of cfl, fl+hc and kmeans-models. Every node is a model, which --node and --weights write to a file.
    """
    from unalike.cli.model_tree import show_tree
    from unalike.cli.plugin import load_plugins

    load_plugins(plugin)
    show_tree(find_run(read_runs(runs), key, runs), output, node, weights, as_json)


@app.command("importance")
def show_importance_of_run(
    key: RunKey,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.svg", help="also a picture: SVG, PNG or PDF"),
    ] = None,
    which: WhichModel = None,
    party: OfParty = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Show which columns the trees of a run go by: what they gain and cover, and how often they are split at.

    \b
    Example:
      unalike runs importance 3f2a -o importance.svg
    """
    from unalike.cli.importance import show_importance

    chosen = cast("Which", which or "final")
    show_importance(find_run(read_runs(runs), key, runs), output, chosen, party, as_json)


def _spec_lines(run: StoredRun) -> list[Any]:
    """The fields that differ from the defaults first, then the others."""
    try:
        defaults = RunSpec.defaults(str(run.spec.get("dataset")))
    except UserError:  # a data set of a plugin
        defaults = RunSpec.defaults("digits")
    own = {name: value for name, value in run.spec.items() if name == "dataset" or defaults.get(name) != value}
    rest = {name: value for name, value in run.spec.items() if name not in own}
    width = max(map(len, run.spec))
    lines = [f"{name:<{width}}  {value}" for name, value in own.items()]
    others = ", ".join(f"{name} {value}" for name, value in rest.items())
    return [*lines, "", "As by default:", indented(others)] if rest else lines


def _draw_curve(run: StoredRun) -> None:
    curve = run.curve
    if len(curve) < 2:
        return
    (first, start), (last, end) = curve[0], curve[-1]
    words = scale_of(run.score).title
    line = sparkline([value for _, value in curve])
    draw("", f"{words} by round: {shown(run.score, start)} {line} {shown(run.score, end)}")
    draw(f"{'':{len(words)}}           rounds {first} to {last}")


@app.command("compare")
def compare_runs(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY]...", help="runs [all finished ones]", autocompletion=complete.runs),
    ] = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Compare runs: what differs between them, and what came of it."""
    from unalike.cli.compare import comparison, print_comparison

    found = read_runs(runs)
    if keys:
        chosen = list({run.path: run for run in (find_run(found, key, runs) for key in keys)}.values())
        for run in chosen:
            if run.state == "damaged" or not run.spec or not run.rows:
                raise UserError(run.problem or f"{run.path.name} has no rounds yet. Leave it out.")
    else:
        chosen = [run for run in found if run.state == "finished"]
        _say_damaged(found)
    if not chosen:
        raise UserError(f"There are no finished runs in {runs} to compare. Start one: unalike run")
    compared = comparison(chosen)
    if compared["not_comparable"]:
        say(
            f"Warning: these runs differ in {', '.join(compared['not_comparable'])}, "
            "so a difference between their figures may come from that."
        )
    print_json(compared) if as_json else print_comparison(compared)

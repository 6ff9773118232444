"""``unalike federation``: train between real sites, each of which keeps its own rows.

Here is what each command takes. What it does is in a file that is imported when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unalike.cli.commands import App
from unalike.cli.complete import choices
from unalike.cli.federation.arguments import (
    FIGURES,
    ID_CASES,
    MISSING,
    TRANSPORTS,
    IdCase,
    IdColumns,
    IdStrip,
    LeastCommon,
    LogFormat,
    MissingValues,
    Monitor,
    MostIds,
    ServerPath,
    SitePath,
    TablesFolder,
    WhichFigures,
)
from unalike.cli.federation.plugins import loads_plugins
from unalike.cli.federation.predict import predict
from unalike.cli.options import AsJson, CodeColumns, ColumnTypes, FirstDegree, Quiet
from unalike.cli.spec_flags import with_flags
from unalike.federation import FIXED

app = App(
    help="Train between real sites, each of which keeps its own rows.\n\n"
    "At the server: init, serve, admit, measure, match, run, stop, rehearse, flower. At a site: join, audit. "
    "At both: status, predict.",
)


def init(
    folder: ServerPath,
    party: Annotated[list[str], typer.Option("--party", metavar="NAME", help="a site that takes part; repeat it")],
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="where sites reach the server, e.g. fl.example.org:9443")
    ],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="the column to predict, the same everywhere")],
    name: Annotated[str | None, typer.Option(help="what the federation is called [the folder's name]")] = None,
    missing: MissingValues = MISSING[0],
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="a column to leave out; repeat it")
    ] = None,
    types: ColumnTypes = "",
    categories: CodeColumns = None,
    quorum: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="INTEGER",
            help="so many sites must answer, two thirds if updates are hidden [0: all asked]",
            show_default=False,
        ),
    ] = 0,
    deadline: Annotated[
        float, typer.Option(help="seconds that sites have for an answer [3600]", show_default=False)
    ] = 3600.0,
    figures: WhichFigures = FIGURES[0],
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure",
            help="whether the server may ask how unalike the sites are [yes]",
            show_default=False,
        ),
    ] = True,
    public: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="public rows that everybody gets with the plan: same columns as the sites' tables",
        ),
    ] = None,
    id_columns: IdColumns = None,
    id_case: IdCase = ID_CASES[0],
    id_strip: IdStrip = True,
    least_common: LeastCommon = 100,
    most_ids: MostIds = 1_000_000,
    **fields: Any,
) -> None:
    """Make a federation: the server's keys and certificates, the plan, and an invitation for every site.

    \b
    Example:
      unalike federation init heart --label outcome --missing indicate \\
        --party cleveland --party hungarian --party va \\
        --address fl.example.org:9443 --algorithm scaffold --rounds 20

    Nothing of a run is fixed silently: the plan (federation.toml) has every value, and sites agree to its digest.
    """
    from unalike.cli.federation.server import init

    init(
        folder,
        party,
        name,
        {key: value for key, value in fields.items() if value is not None},
        address=address,
        label=label,
        ignore=tuple(ignore or ()),
        missing=missing,
        types=" ".join([types, *(f"'{name}':category" for name in categories or ())]).strip(),
        quorum=quorum,
        deadline=deadline,
        figures=figures,
        measure=measure,
        public=public,
        id=tuple(id_columns or ()),
        id_case=id_case,
        id_strip=id_strip,
        least_common=least_common,
        most_ids=most_ids,
    )


app.command("predict")(loads_plugins(predict))
with_flags(init, without=FIXED)
app.command("init")(loads_plugins(init))


@app.command("join")
@loads_plugins
def join(
    folder: SitePath,
    data: Annotated[str, typer.Option(metavar="TABLE", help="this site's own table, e.g. csv:patients.csv")],
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="check that the plan predicts this column")
    ] = None,
    sends: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help='agree that "rows" or "mean rows" leave, where an algorithm sends them'
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="agree without being asked, for scripts")] = False,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="where the server is, if not where the plan says")
    ] = None,
    transport: Annotated[
        str,
        typer.Option(
            help="how messages come: https, or flower through a SuperNode [https]",
            show_default=False,
            autocompletion=choices(*TRANSPORTS),
        ),
    ] = TRANSPORTS[0],
    door: Annotated[
        Path | None,
        typer.Option(metavar="SOCKET", help="with flower: where the SuperNode knocks [SITE/flower/door]"),
    ] = None,
    log_format: LogFormat = "text",
    monitor: Monitor = None,
) -> None:
    """Take part in a federation with this site's own table. What leaves this machine is told first.

    First it shows what you are asked to agree to; nothing is sent before you do. Then it stays and answers the
    server's messages until Ctrl-C. Every message is noted in audit.jsonl.
    """
    from unalike.cli.federation.flower import door_of
    from unalike.cli.federation.operating import operated
    from unalike.cli.federation.site import join

    behind = door_of(folder, transport, door, address)
    with operated(folder, log_format, monitor):
        join(folder, data, label, sends, yes=yes, address=address, door=behind)


@app.command("admit")
@loads_plugins
def admit(
    folder: ServerPath,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="the sites' files NAME.public.json")],
) -> None:
    """Admit sites by the public keys that they sent. Compare the fingerprint with them by telephone first."""
    from unalike.cli.federation.server import admit

    admit(folder, files)


@app.command("serve")
@loads_plugins
def serve(
    folder: ServerPath,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="listen here instead of at the address's host, e.g. 0.0.0.0"),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="where sites reach the server, if not as the plan says")
    ] = None,
    log_format: LogFormat = "text",
    monitor: Monitor = None,
) -> None:
    """Run the server until Ctrl-C or "stop --all": wait for sites, and do what "run" and "measure" ask for.

    The only port that others can reach is that of the plan's address; it takes nothing but what sites send.
    Sites that "admit" adds are let in at once. A training that was interrupted goes on by itself.
    """
    from unalike.cli.federation.operating import operated
    from unalike.cli.federation.server import serve

    with operated(folder, log_format, monitor):
        serve(folder, listen, address)


@app.command("flower")
@loads_plugins
def flower(folder: ServerPath) -> None:
    """Write an app with which "flwr run" trains as the plan says, on a federation of Flower that you operate.

    The app is in DIR/flower-app. It names code that is installed at the server and at the sites, and carries none.
    """
    from unalike.cli.federation.flower import flower

    flower(folder)


@app.command("measure")
@loads_plugins
def measure(folder: ServerPath, as_json: AsJson = False, quiet: Quiet = False, degree: FirstDegree = None) -> None:
    """How unalike the sites' labels and features are.

    Counts are added under masks: the server sees those of all sites together, never a single site's. Each site
    compares itself with the sum and tells its degrees, rounded, from 0 (alike) to 1.
    """
    from unalike.cli.federation.measure import measure

    measure(folder, as_json=as_json, quiet=quiet, degree=degree)


@app.command("match")
@loads_plugins
def match(folder: ServerPath, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Find the people whom all sites know, where sites have other columns of the same people.

    No id leaves a site. Each learns which of its own rows are of people whom all know, and how many ids the others
    bring; the server learns these numbers. "run" matches by itself where nobody was matched before.
    """
    from unalike.cli.federation.match import match

    match(folder, as_json=as_json, quiet=quiet)


@app.command("run")
@loads_plugins
def run(folder: ServerPath, as_json: AsJson = False, quiet: Quiet = False, log_format: LogFormat = "text") -> None:
    """Train as the plan says, on the sites that joined.

    The same command goes on with a stopped training. Ctrl-C stops it after what is under way.
    """
    from unalike.cli.federation.operating import operated
    from unalike.cli.federation.run import run

    with operated(folder, log_format):
        run(folder, as_json=as_json, quiet=quiet)


@app.command("status")
@loads_plugins
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the server's folder, or a site's")],
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", help="show it again every second, until Ctrl-C")] = False,
) -> None:
    """Show how a federation stands: at the server all of it, at a site its own part."""
    from unalike.cli.federation.look import status

    status(folder, as_json=as_json, watch=watch)


@app.command("stop")
@loads_plugins
def stop(
    folder: ServerPath,
    everything: Annotated[bool, typer.Option("--all", help="also end unalike federation serve")] = False,
) -> None:
    """Stop the training; "run" goes on with it later, from the last whole round."""
    from unalike.cli.federation.run import stop

    stop(folder, everything=everything)


@app.command("audit")
def audit(folder: SitePath, as_json: AsJson = False) -> None:
    """Show every message that came and went, after checking that the log is whole and unchanged."""
    from unalike.cli.federation.look import audit

    audit(folder, as_json=as_json)


@app.command("rehearse")
@loads_plugins
def rehearse(
    folder: ServerPath,
    tables: TablesFolder,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Play the plan here, in one process, on tables in one folder: real or made-up ones.

    The same tables at real sites give the same model, to the last bit: compare server_sha256. Only where the
    channel adds noise they do not: between real sites it is a secret.
    """
    from unalike.cli.federation.rehearse import rehearse

    rehearse(folder, tables, as_json=as_json, quiet=quiet)

"""``unalike federation init``, ``admit`` and ``serve``: what the owner of the server does."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli.federation_needs import ServerPath, algorithm_of, need_flower, need_server
from unalike.cli.program import program
from unalike.cli.show import draw, say
from unalike.cli.signals import Stopped
from unalike.cli.spec_flags import with_flags
from unalike.cli.tail import Tail
from unalike.engine.files import list_folder, private_folder
from unalike.errors import UserError
from unalike.federation import making
from unalike.federation.folders import PUBLIC, Card
from unalike.federation.plan import FILE, FIXED, Plan
from unalike.federation.wire import ANYBODY, SERVER

STOP_SERVE = "stop-serve"
_LOOK = 0.5
"""Seconds between looks at the folder."""
SERVE = "unalike.federation.attempts:serve"

if TYPE_CHECKING:
    from unalike.federation.flower.link import Link


def init(
    folder: ServerPath,
    party: Annotated[list[str], typer.Option("--party", metavar="NAME", help="a site that takes part; repeat it")],
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="where sites reach the server, e.g. fl.example.org:9443")
    ],
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="the column to predict, of the same name everywhere")
    ],
    name: Annotated[str | None, typer.Option(help="what the federation is called [the folder's name]")] = None,
    missing: Annotated[str, typer.Option(help="missing values: error, indicate or drop")] = "error",
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="a column to leave out; repeat it")
    ] = None,
    quorum: Annotated[
        int,
        typer.Option(min=0, help="so many sites must answer, two thirds if updates are hidden; 0: all asked"),
    ] = 0,
    deadline: Annotated[float, typer.Option(help="seconds that sites have for an answer")] = 3600.0,
    figures: Annotated[
        str, typer.Option(help="whether sites tell how well the model does: each or none")
    ] = "each",
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="whether the server may ask how unalike the sites are")
    ] = True,
    **fields: Any,
) -> None:
    """Make a federation: the server's keys and certificates, the plan, and an invitation for every site.

    \b
    Example:
      unalike federation init heart --party cleveland --party hungarian --party va \\
        --address fl.example.org:9443 --label outcome --missing indicate --algorithm scaffold --rounds 20

    Nothing of a run is fixed silently: the plan (federation.toml) has every value, and sites agree to its digest.
    """
    need_flower()
    twice = [each for each, count in Counter(party).items() if count > 1]
    if twice:
        raise UserError(f"--party {twice[0]} is given twice. Every site needs a name of its own.")
    plan = making.make_federation(
        folder,
        name=_name_of(folder) if name is None else name,
        parties=tuple(sorted(party)),
        address=address,
        train={key: value for key, value in fields.items() if value is not None},
        label=label,
        ignore=tuple(ignore or ()),
        missing=missing,
        quorum=quorum,
        deadline=deadline,
        figures=figures,
        measure=measure,
    )
    _what_next(folder, plan)


def _name_of(folder: Path) -> str:
    """A name made of the folder's, where that can be one."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name)[:40]
    return name if re.match("[A-Za-z]", name) and name not in (SERVER, ANYBODY) else "federation"


def _what_next(folder: Path, plan: Plan) -> None:
    us, one, run = program(), plan.parties[0], plan.spec
    draw(
        f"Federation {plan.name}: {len(plan.parties)} sites, {algorithm_of(plan)}, {run.rounds} rounds.",
        f"  {folder / FILE}   what will be done; look at it, and change nothing after it was sent",
        f"  {folder / 'invitations'}/   a folder for every site; nothing in it is secret",
        f"  {folder / 'keys'}, {folder / 'certificates'}   the server's own; the keys in there never leave it",
        "",
        "What to do next:",
        "  1. Send every site its folder, e.g. " + str(folder / "invitations" / one),
        f"  2. Start the server, and leave it running:   {us} federation serve {folder}",
        f"  3. Each site joins with its own table:       {us} federation join {one} --data csv:patients.csv",
        f"     and sends you the file it makes, {one}{PUBLIC}",
        f"  4. Admit each; compare fingerprints by phone: {us} federation admit {folder} {one}{PUBLIC}",
        f"  5. Train:                                    {us} federation run {folder}",
        "",
        f"To try the plan now on tables that you have:   {us} federation rehearse {folder} --tables FOLDER",
    )


def admit(
    folder: ServerPath,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help=f"the sites' files NAME{PUBLIC}")],
) -> None:
    """Admit sites by the public keys that they sent. Compare the fingerprint with them by telephone first."""
    need_flower()
    plan = Plan.read(need_server(folder))
    cards = [Card.read(path) for path in files]
    for card in cards:
        _check_node(card)
        new = making.admit(folder, card, plan)
        draw(f"{card.name}  {card.fingerprint}  {'admitted' if new else 'was admitted before'}")
    waiting = [party for party in plan.parties if not (folder / "parties" / f"{party}{PUBLIC}").exists()]
    draw(
        f"Not admitted yet: {', '.join(waiting)}."
        if waiting
        else f"All sites are admitted. Next: {program()} federation run {folder}"
    )


def _check_node(card: Card) -> None:
    from unalike.federation.flower.certificates import normalised_public_key

    normalised_public_key(card.node.encode())


def serve(
    folder: ServerPath,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="listen here instead of at the address's host, e.g. 0.0.0.0"),
    ] = None,
) -> None:
    """Run the server: wait for sites and pass their messages on, until Ctrl-C or "stop --all".

    The only port that others can reach is that of the plan's address; it takes nothing but what sites send.
    Sites that "admit" adds are let in at once.
    """
    need_flower()
    plan = Plan.read(need_server(folder))
    private_folder(folder)
    logging.getLogger("unalike.federation").addHandler(_Said())
    (folder / STOP_SERVE).unlink(missing_ok=True)
    say(f"Starting the server of {plan.name} ...")
    from unalike.federation.flower.certificates import renew_if_due, split_address
    from unalike.federation.flower.link import Link

    if renew_if_due(folder / "certificates", split_address(plan.address)[0]):
        say("The server's certificate was renewed; sites need nothing new.")
    try:
        with Link(folder, plan.address, listen=listen, serve=SERVE) as link:
            say(f"Serving at {plan.address}, with TLS. Ctrl-C ends it; sites wait until it is back.")
            _attend(link, folder, plan)
    except Stopped:
        pass
    say("The server has stopped.")


class _Said(logging.Handler):
    """What the link tells of its processes, as lines for the user."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        say(record.getMessage().capitalize() + ".")


def _attend(link: Link, folder: Path, plan: Plan) -> None:
    """Let in whom the folder admits, and nobody else, until told to end."""
    inside: dict[str, Card] = {}
    cleared, told = False, ""
    log, refusals = Tail(folder / "log.txt"), Tail(folder / "flower" / "proxy.log")
    while not (folder / STOP_SERVE).exists():
        try:
            there = _cards(folder, plan)
            if not cleared:  # the link remembers; a card may have been removed while no server ran
                link.expel_others(card.node.encode() for card in there.values())
                cleared = True
            _let_in(link, there, inside, plan)
        except UserError as error:  # the link may be starting again: the next look tries it again
            if str(error) != told:
                say(str(error))
                told = str(error)
        for line in log.lines():
            say(line.partition(" ")[2])
        for line in refusals.lines():
            if " refused " in line:
                say(f"The proxy turned somebody away: {line.partition(' WARNING ')[2]}")
        time.sleep(_LOOK)
    (folder / STOP_SERVE).unlink(missing_ok=True)


def _let_in(link: Link, there: Mapping[str, Card], inside: dict[str, Card], plan: Plan) -> None:
    """Make those who are let in the same as those who are admitted."""
    for party in [party for party in inside if there.get(party) != inside[party]]:
        link.expel(inside[party].node.encode())
        del inside[party]
        say(f"{party} is not admitted any more.")
    for party, card in there.items():
        if party not in inside:
            link.admit(card.node.encode())
            inside[party] = card
            say(f"{party} may connect ({card.fingerprint}); {len(inside)} of {len(plan.parties)}.")


def _cards(folder: Path, plan: Plan) -> dict[str, Card]:
    """The cards that are admitted; one that cannot be read yet is left for the next look."""
    found = {}
    for path in list_folder(folder / "parties"):
        name = path.name.removesuffix(PUBLIC)
        if path.name.endswith(PUBLIC) and name in plan.parties:
            try:
                found[name] = Card.read(path)
            except UserError:
                continue
    return found


with_flags(init, without=FIXED)

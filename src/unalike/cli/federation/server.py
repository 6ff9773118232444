"""``unalike federation init``, ``admit`` and ``serve``: what the owner of the server does."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from unalike.cli.federation.needs import algorithm_of, need_extra, need_server
from unalike.cli.program import program
from unalike.cli.show import draw, say
from unalike.cli.signals import StopRequested
from unalike.cli.tail import Tail
from unalike.errors import UserError
from unalike.federation import making
from unalike.federation.envelope import ANYBODY, SERVER
from unalike.federation.folders import PUBLIC, Card
from unalike.federation.plan import FILE, Plan
from unalike.runs.files import list_folder, private_folder

STOP_SERVE = "stop-serve"
_LOOK = 0.5
"""Seconds between looks at the folder."""


def init(folder: Path, party: list[str], name: str | None, train: dict[str, Any], **settings: Any) -> None:
    """Make a federation, and say what to do next; ``train`` are the given fields of the run's spec."""
    need_extra()
    twice = [each for each, count in Counter(party).items() if count > 1]
    if twice:
        raise UserError(f"--party {twice[0]} is given twice. Every site needs a name of its own.")
    plan = making.make_federation(
        folder,
        name=_name_of(folder) if name is None else name,
        parties=tuple(sorted(party)),
        train=train,
        **settings,
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
        f"  2. Each site joins with its own table:       {us} federation join {one} --data csv:patients.csv",
        f"     and sends you the file it makes, {one}{PUBLIC}",
        f"  3. Admit each; compare fingerprints by phone: {us} federation admit {folder} {one}{PUBLIC}",
        f"  4. Serve and train:                          {us} federation run {folder}",
        "",
        f"To try the plan now on tables that you have:   {us} federation rehearse {folder} --tables FOLDER",
    )


def admit(folder: Path, files: list[Path]) -> None:
    """Let the sites in whose public keys these files hold, and say who is missing."""
    need_extra()
    plan = Plan.read(need_server(folder))
    cards = [Card.read(path) for path in files]
    for card in cards:
        new = making.admit(folder, card, plan)
        draw(f"{card.name}  {card.fingerprint}  {'admitted' if new else 'was admitted before'}")
    waiting = [party for party in plan.parties if not (folder / "parties" / f"{party}{PUBLIC}").exists()]
    draw(
        f"Not admitted yet: {', '.join(waiting)}."
        if waiting
        else f"All sites are admitted. Next: {program()} federation run {folder}"
    )


def serve(folder: Path, listen: str | None, address: str | None) -> None:
    """Run the server until Ctrl-C or ``stop --all``."""
    need_extra()
    plan = Plan.read(need_server(folder))
    private_folder(folder)
    (folder / STOP_SERVE).unlink(missing_ok=True)
    from unalike.federation.serving import Serving

    try:
        with Serving(folder, plan, say, address, listen) as serving:
            say(f"Serving at {serving.address}, with TLS. Ctrl-C ends it; sites wait until it is back.")
            _attend(folder, plan)
    except StopRequested:
        pass
    say("The server has stopped.")


def _attend(folder: Path, plan: Plan) -> None:
    """Say who may connect and what happens, until told to end."""
    inside: dict[str, Card] = {}
    log = Tail(folder / "log.txt")
    while not (folder / STOP_SERVE).exists():
        there = _cards(folder, plan)
        for party in [party for party in inside if party not in there]:
            say(f"{party} is not admitted any more.")
        for party, card in there.items():
            if party not in inside:
                say(f"{party} may connect ({card.fingerprint}); {len(there)} of {len(plan.parties)}.")
        inside = there
        for line in log.lines():
            say(line.partition(" ")[2])
        time.sleep(_LOOK)
    (folder / STOP_SERVE).unlink(missing_ok=True)


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

"""``unalike federation join``: a site sees what it is asked to do, agrees, and takes part."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from filelock import Timeout

from unalike.cli.federation.column_terms import show_column_terms
from unalike.cli.federation.flower import wait_behind
from unalike.cli.federation.needs import algorithm_of, need_extra
from unalike.cli.federation.terms import OF_ROWS, show_terms
from unalike.cli.program import program
from unalike.cli.show import draw, duration, say, size
from unalike.cli.signals import StopRequested
from unalike.data.digest import table_digest
from unalike.data.sites import read_site_table
from unalike.errors import UserError
from unalike.federation.column_terms import ColumnTerms, column_terms_of
from unalike.federation.envelope import Refused, peek
from unalike.federation.folders import AT_DOOR, CONNECTION, JOIN_LOCK, now, read_key, read_object
from unalike.federation.making import SiteFolder, is_server
from unalike.federation.plan import Plan
from unalike.federation.public import public_table
from unalike.federation.site import Site
from unalike.federation.terms import Terms, terms_of
from unalike.runs.files import atomic_write, file_lock, open_file, private_folder, write_all

_CONSENT = "consent.json"


def join(
    folder: Path,
    data: str,
    label: str | None,
    sends: str | None,
    *,
    yes: bool,
    address: str | None = None,
    door: Path | None = None,
) -> None:
    """Show what the site is asked to agree to, and once it agrees answer the server until Ctrl-C."""
    need_extra()
    if is_server(folder):
        raise UserError(f"{folder} is the server's folder. A site joins with a copy of {folder}/invitations/NAME.")
    place = SiteFolder(folder)
    plan = place.plan()
    if label is not None and label != plan.label:
        raise UserError(f"The plan of {plan.name} predicts {plan.label!r}, not {label!r}. Ask the server's owner.")
    plan.number(place.name)
    private_folder(folder)
    rows = _agree(place, plan, data, sends, yes=yes)
    try:
        with file_lock(folder / JOIN_LOCK, 1.0):  # a second one would mend files that the first is writing
            _join(place, plan, data, rows, address or plan.address, door)
    except Timeout:
        raise UserError(
            f"This site has joined already, in another process ({folder}). Stop that one first."
        ) from None


def _join(place: SiteFolder, plan: Plan, data: str, rows: str, address: str, door: Path | None) -> None:
    new = not place.card_path.exists()
    card = place.card()
    site = Site(place.path, place.name, plan, data, read_key(place.site_key), say)
    if table_digest(site.columns) != rows:
        raise UserError(f"{data} has changed just now, after you agreed to its use. Join again.")
    if new:
        draw(
            "",
            f"This site's keys were made in {place.site_key.parent}; they never leave it.",
            f"Send this file to the server's owner:  {place.card_path}",
            f"and compare by telephone:              {card.fingerprint}",
            "",
        )
    sys.stdout.flush()
    _take_part(place, plan, site, address, door)


def _agree(place: SiteFolder, plan: Plan, data: str, sends: str | None, *, yes: bool) -> str:
    """Show the terms and have them agreed to, once for the same plan and rows; the hash of these rows."""
    columns = read_site_table(data, plan.types, elsewhere=plan.splits_columns)
    terms: Terms | ColumnTerms
    if plan.splits_columns:
        terms = column_terms_of(plan, place.name, columns)
    else:
        terms = terms_of(plan, place.name, columns, public_table(place.path, plan.public))
    agreed = read_object(place.path / _CONSENT)
    before = (agreed.get("plan"), agreed.get("table"))
    if (*before, agreed.get("rows")) == (plan.digest, data, terms.rows):
        say(f"You agreed to this plan of {plan.name} on {agreed.get('time')}.")
        return terms.rows
    if before == (plan.digest, data) and "rows" in agreed:
        say(f"The rows of {data} are not those of {agreed.get('time')}, when you agreed: you are asked again.")
    if isinstance(terms, ColumnTerms):
        show_column_terms(terms, place.name, data)
    else:
        show_terms(terms, place.name, data)
    sys.stdout.flush()
    _agree_to_rows(plan, sends)
    if not yes:
        if not sys.stdin.isatty():
            raise UserError(
                "Nobody is here to agree: join from a terminal, or give --yes if you have read the above."
            )
        if not typer.confirm("Do you agree, and take part?", default=False):
            raise UserError("Not agreed: nothing was sent, and nothing was written.")
    consent = {"plan": plan.digest, "table": data, "rows": terms.rows, "time": now(), "asked": not yes}
    atomic_write(place.path / _CONSENT, json.dumps(consent).encode())
    return terms.rows


def _agree_to_rows(plan: Plan, sends: str | None) -> None:
    """Refuse to go on where rows or their means leave, unless somebody wrote just that."""
    if sends is not None and sends != plan.sends:
        raise UserError(f"By its plan a site of {plan.name} sends {plan.sends}, not {sends}. Leave --sends out.")
    if plan.sends in OF_ROWS and sends is None:
        raise UserError(
            f"{algorithm_of(plan)} sends {plan.sends} of this site's own table to the server. If you may agree to "
            f'that, say so: --sends "{plan.sends}".'
        )


def _take_part(place: SiteFolder, plan: Plan, site: Site, address: str, door: Path | None) -> None:
    import torch

    from unalike.federation.transport.https.client import CONNECTED, NOT_ADMITTED, Caller

    lines = {
        CONNECTED: "Connected. Waiting for the server to begin.",
        NOT_ADMITTED: f"Waiting: the server has not admitted this site yet. Send it {place.card_path}.",
    }

    def note(state: str) -> None:
        atomic_write(place.path / CONNECTION, json.dumps({"state": state, "time": now()}).encode())

    def tell(state: str) -> None:
        with suppress(UserError, OSError):  # a full disk or a closed terminal must not end the connection
            note(state)
            say(lines.get(state, f"Waiting for the server at {address}, {state}."))

    torch.set_num_threads(1)  # as in simulation: how many there are can change the last bits of a sum
    # A little more than the plan allows: what is too long is then refused by the site, which logs it.
    most, own = plan.most_bytes + 2**20, (place.certificate, place.node_key)
    answer = _told(site, place.path / "errors.log")
    try:
        if door is not None:
            note(AT_DOOR)
            wait_behind(door, answer, most)
        say(f"Calling {address} ...")
        with Caller(address, place.authority, *own, most, tell) as caller:
            caller.answer(answer)
    except StopRequested:
        say(f"Left. The same command takes part again; see also: {program()} federation status {place.path}")
    finally:
        (place.path / CONNECTION).unlink(missing_ok=True)


def _told(site: Site, errors: Path) -> Callable[[bytes], bytes]:
    """The site's answers, with one line for each that took part in the training."""

    def answer(raw: bytes) -> bytes:
        began = time.monotonic()
        try:
            made = site.answer(raw)
        except Exception:
            with open_file(errors, "ab") as file:  # it may quote data, so it stays here
                write_all(file, f"{now()}\n{traceback.format_exc()}\n".encode(errors="replace"))
            say(f"A message could not be answered: see {errors}")
            raise
        line, number = _line(raw, made)
        if line:
            with suppress(OSError):  # a closed terminal must not cost the answer
                say(f"{line} in {duration(time.monotonic() - began)}.", round=number)
        return made

    return answer


def _line(raw: bytes, made: bytes) -> tuple[str, Any]:
    """What a person at the site is told of an answer, and the round that it belongs to."""
    try:
        header, kind = peek(raw).header, peek(made).kind
    except Refused:
        return "", None
    number = header.get("round")
    if kind == "error":
        return "", number  # the site has said why
    if header.get("kind") in ("exchange", "add", "sum") and "ask" in header:  # the other steps of a sum carry none
        where = f"Round {number}" if number else "Before round 1"
        return f"{where}: answered {header.get('ask')!r} with {size(len(made))}", number
    if header.get("kind") == "whole":
        where = f"Round {number}" if number else "Before round 1"
        return f"{where}: all turns were answered, and the state is kept", number
    if header.get("kind") == "evaluate":
        return f"Round {number}: tried the model on the own rows", number
    return "", number

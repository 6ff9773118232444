"""``unalike federation status`` and ``audit``: how far it is, and what went to and fro."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from unalike.cli.show import MISSING, Paragraph, draw, duration, number, print_json, privacy_line, size
from unalike.cli.signals import StopRequested
from unalike.cli.table import Table, table
from unalike.errors import UserError
from unalike.federation.audit import FILE, read_audit
from unalike.federation.lengths import FAR, Longest
from unalike.federation.making import SiteFolder, is_server
from unalike.federation.overview import server_overview, site_overview
from unalike.scores import score_of, shown, value_of

_LOOK = 1.0
_PATIENCE = 5
"""So many times as long as a look took, the next one waits at least: looking must not be work for the machine."""
_CLEAR = "\x1b[H\x1b[2J"
"""What makes a terminal empty, with the cursor at its upper left."""
_YES, _NO = "+", "-"
_LEGEND = (
    f"answered: the last exchanges, {_YES} where the site's answer was used. slowest: its slowest answer of the "
    "last round. up, down: bytes of all rounds. norm: the length of its last update."
)
_KEYS = {True: "as in its own file", False: "NOT as in its own file", None: "as the server says"}


def status(folder: Path, *, as_json: bool, watch: bool) -> None:
    """How a federation stands, seen from its server or from a site; ``watch``: again and again, until Ctrl-C."""
    if watch:
        try:
            _watch(folder, as_json=as_json)
        except StopRequested:
            return
    found = server_overview(folder) if is_server(folder) else site_overview(folder)
    if as_json:
        print_json(found)
    elif is_server(folder):
        _print_server(found)
    else:
        _print_site(found)


def _watch(folder: Path, *, as_json: bool) -> NoReturn:
    """Show how it stands every second, or more rarely where looking itself takes long."""
    at_server = is_server(folder)
    while True:
        began = time.monotonic()
        found = server_overview(folder) if at_server else site_overview(folder, check=False)
        if as_json:
            print(json.dumps(found))
        else:
            draw(_CLEAR if sys.stdout.isatty() else "")
            (_print_training if at_server else _print_site)(found)
            draw("", "Ctrl-C ends this, and nothing else.")
        sys.stdout.flush()
        time.sleep(max(_LOOK, _PATIENCE * (time.monotonic() - began)))


def audit(folder: Path, *, as_json: bool) -> None:
    """Every message of a site's log, which is checked first."""
    if is_server(folder):
        raise UserError(
            f"{folder} is the server's folder. Each site has a log of its own: name that one's folder."
        )
    SiteFolder(folder).plan()
    rows = read_audit(folder)
    if as_json:
        print_json({"whole": True, "messages": rows})
        return
    if not rows:
        draw(f"No message has come to {folder} yet.")
        return
    draw(_messages("time", [_audit_row(row) for row in rows]), "")
    told = "each follows the one before, up to the end that the site signed: none was changed or removed."
    draw(Paragraph(f"{folder / FILE}: {len(rows)} lines, {told}"))


def _messages(first: str, rows: list[list[str]]) -> Table:
    """Messages, a line each; ``first`` heads their times."""
    columns = [first, "", "kind", "bytes", "sha256", "outcome"]
    return table(columns, rows, right=["bytes"], text=["outcome"], spare=["sha256"])


def _audit_row(row: dict[str, Any]) -> list[str]:
    return [
        str(row["time"])[:19].replace("T", " "),
        {"in": "in <-", "out": "out ->"}.get(str(row["way"]), "log"),
        str(row["kind"]),
        f"{row['bytes']:,}",
        str(row["sha256"])[:12],
        (str(row.get("outcome", "")) or "ok") + _turns(row.get("turns", {})),
    ]


def _turns(counted: dict[str, Any]) -> str:
    """The messages of a protocol's turns that came and went before a line, which counts them."""
    if not counted:
        return ""
    came, went = (counted.get(way, 0) for way in ("in", "out"))
    bytes_in, bytes_out = (size(counted.get(f"bytes_{way}", 0)) for way in ("in", "out"))
    return f"; before it, in turns, {came} in ({bytes_in}) and {went} out ({bytes_out})"


def _longest(told: dict[str, Any]) -> Longest:
    return Longest(told["times_the_others"], told["round"])


def _print_server(found: dict[str, Any]) -> None:
    """All of it: who may take part, how the training goes, and what the log says."""
    keys = [
        [party["name"], "admitted" if party["admitted"] else "not admitted yet", party["fingerprint"]]
        for party in found["parties"]
    ]
    _print_training(found, table(["site", "", "key"], keys))
    if found["damaged"]:
        draw("", f"Damaged: {found['damaged']} Run the training again: what is damaged is made again.")
    if found["log"]:
        draw("", "Last lines of the log:", *(f"  {line}" for line in found["log"]))


def _print_training(found: dict[str, Any], *first: Table) -> None:
    running = "is running" if found["serving"] else "is not running"
    left = found["seconds_left"] if found["training"] else None
    told = [
        f"{found['round']} of {found['rounds']} rounds are done",
        *([f"{found['score']} {shown(found['score'], found['value'])}"] if found["value"] is not None else []),
        *([f"ETA {duration(left)}"] if left is not None else []),
    ]
    draw(
        f"Federation {found['federation']}: the server {running} (in the plan: {found['address']}).",
        f"Training: {found['state'].removesuffix('.')}; {', '.join(told)}.",
        *([f"Paused: waiting for {', '.join(found['waiting'])}."] if found["waiting"] else []),
        *(line.replace("Privacy:", "Privacy so far:") for line in privacy_line(found)),
        *(part for each in first for part in ("", each)),
        "",
        _traffic(found["parties"]),
    )
    updates = {party["name"]: party["update"] for party in found["parties"] if party["update"]}
    if found["round"]:
        draw("", Paragraph(_LEGEND))
    if updates:
        draw("update: at its longest, how many times the median of the others' in that round.")
    for name, one in updates.items():
        if one["times_the_others"] >= FAR:
            draw(Paragraph(_longest(one).line(name)))


def _traffic(parties: list[dict[str, Any]]) -> Table:
    """Of every site: rows, who answered the last exchanges, how fast, bytes, and how long its updates are."""
    right = ["rows", "slowest", "up", "down", "norm", "update"]
    return table(["site", "rows", "answered", *right[1:]], [_party_row(party) for party in parties], right=right)


def _party_row(party: dict[str, Any]) -> list[str]:
    rows, update, seconds = party["rows"], party["update"], party["seconds"]
    return [
        party["name"],
        MISSING if rows is None else f"{rows:,}",
        "".join(_YES if one else _NO for one in party["answered"]) or MISSING,
        MISSING if seconds is None else duration(seconds) if seconds >= 1 else f"{1000 * seconds:.0f} ms",
        size(party["bytes_up"]),
        size(party["bytes_down"]),
        number(party["norm"]),
        MISSING if update is None else f"{_longest(update).shown} x",
    ]


def _print_site(found: dict[str, Any]) -> None:
    count = found["messages"]
    joined = (
        f"is taking part ({found['connection'] or 'connecting'})" if found["joined"] else "is not connected now"
    )
    draw(
        f"{found['party']} in the federation {found['federation']}: {joined}.",
        f"Key: {found['fingerprint'] or 'none yet, join makes one'}.",
        f"Messages: {count['in']} in ({size(count['bytes_in'])}), {count['out']} out "
        f"({size(count['bytes_out'])}), {count['refused']} refused."
        + (" The log is whole." if found["checked"] else ""),
    )
    if found["others"]:
        rows = [[each["name"], each["fingerprint"], _KEYS[each["same"]]] for each in found["others"]]
        draw("", table(["the others' keys", "", ""], rows))
        if not all(each["same"] for each in found["others"]):
            told = "Compare these with the other sites by telephone: masks are worth what these keys are worth."
            draw(Paragraph(told))
    if found["last"]:
        draw("", _messages("last messages", [_audit_row(row) for row in found["last"]]))
    if found["figures"]:
        score = score_of(next(iter(found["figures"].values())))
        rows = [
            [name, f"{each['rows']:,}", shown(score, value_of(each))] for name, each in found["figures"].items()
        ]
        draw("", table(["own rows", "rows", score], rows, right=["rows", score]))
    if found["model"]:
        draw("", f"The final model is in {found['model']}")

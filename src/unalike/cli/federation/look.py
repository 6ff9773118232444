"""``unalike federation status`` and ``audit``: how far it is, and what went to and fro."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unalike.cli.show import MISSING, Paragraph, draw, print_json, size
from unalike.cli.table import Table, table
from unalike.federation.attempts import Attempts
from unalike.federation.audit import FILE, read_audit
from unalike.federation.folders import AGREED, PUBLIC, Card, ServerFolder, read_object
from unalike.federation.lengths import FAR, Longest, longest
from unalike.federation.making import SiteFolder, is_server
from unalike.federation.plan import Plan
from unalike.runs.files import is_held
from unalike.runs.record import read_run
from unalike.scores import score_of, shown, value_of

_LAST = 5
_KEYS = {True: "as in its own file", False: "NOT as in its own file", None: "as the server says"}


def status(folder: Path, *, as_json: bool) -> None:
    """How a federation stands, seen from its server or from a site."""
    found = _server(folder) if is_server(folder) else _site(folder)
    if as_json:
        print_json(found)
    elif is_server(folder):
        _print_server(found)
    else:
        _print_site(found)


def audit(folder: Path, *, as_json: bool) -> None:
    """Every message of a site's log, which is checked first."""
    SiteFolder(folder).plan()
    rows = read_audit(folder)
    if as_json:
        print_json({"whole": True, "messages": rows})
        return
    draw(_messages("time", [_audit_row(row) for row in rows]), "")
    told = f"{folder / FILE}: {len(rows)} lines, each follows the one before: none between was changed or removed."
    draw(Paragraph(told))


def _messages(first: str, rows: list[list[str]]) -> Table:
    """Messages, a line each; ``first`` heads their times."""
    columns = [first, "", "kind", "bytes", "sha256", "outcome"]
    return table(columns, rows, right=["bytes"], text=["outcome"], spare=["sha256"])


def _audit_row(row: dict[str, Any]) -> list[str]:
    return [
        str(row["time"])[:19].replace("T", " "),
        "in <-" if row["way"] == "in" else "out ->",
        str(row["kind"]),
        f"{row['bytes']:,}",
        str(row["sha256"])[:12],
        str(row.get("outcome", "")) or "ok",
    ]


def _server(folder: Path) -> dict[str, Any]:
    plan = Plan.read(folder)
    run, attempts = read_run(folder / "run"), Attempts(folder)
    rows, result = run.rounds, run.result
    outcome = attempts.outcome()
    log = _lines(folder / "log.txt")
    updates, sizes = longest(rows), ServerFolder(folder).rows()
    return {
        "federation": plan.name,
        "address": plan.address,
        "serving": is_held(folder / ".serve.lock") or attempts.working,  # the latter alone: by Flower
        "training": attempts.working and outcome is None,
        "state": read_object(folder / "status.json").get("state", "not begun"),
        "outcome": None if outcome is None else outcome.how,
        "reason": "" if outcome is None else outcome.reason,
        "round": rows[-1]["round"] if rows else 0,
        "rounds": plan.spec.rounds,
        "score": score_of(rows[-1]) if rows else None,
        "value": value_of(rows[-1]) if rows else None,
        "parties": [
            {**_party(folder, party), "rows": sizes.get(party), "update": _update(updates.get(party))}
            for party in plan.parties
        ],
        "damaged": run.damage,
        "log": log[-_LAST:],
        "server_sha256": None if result is None else result.get("server_sha256"),
    }


def _party(folder: Path, party: str) -> dict[str, Any]:
    path = folder / "parties" / f"{party}{PUBLIC}"
    known = path.exists()
    return {"name": party, "admitted": known, "fingerprint": Card.read(path).fingerprint if known else ""}


def _update(found: Longest | None) -> dict[str, Any] | None:
    """A site's longest update beside the others'."""
    return None if found is None else {"times_the_others": found.times, "round": found.round}


def _longest(told: dict[str, Any]) -> Longest:
    return Longest(told["times_the_others"], told["round"])


def _print_server(found: dict[str, Any]) -> None:
    running = "is running" if found["serving"] else "is not running"
    draw(
        f"Federation {found['federation']}: the server {running} ({found['address']}).",
        f"Training: {found['state']}; {found['round']} of {found['rounds']} rounds are done"
        + (f", {found['score']} {shown(found['score'], found['value'])}." if found["value"] is not None else "."),
        "",
        table(
            ["site", "", "key", "rows", "update"],
            [_party_row(party) for party in found["parties"]],
            right=["rows", "update"],
        ),
    )
    updates = {party["name"]: party["update"] for party in found["parties"] if party["update"]}
    if updates:
        draw("", "update: at its longest, how many times the median of the others' in that round.")
    for name, one in updates.items():
        if one["times_the_others"] >= FAR:
            draw(Paragraph(_longest(one).line(name)))
    if found["damaged"]:
        draw("", f"Damaged: {found['damaged']} Run the training again: what is damaged is made again.")
    if found["log"]:
        draw("", "Last lines of the log:", *(f"  {line}" for line in found["log"]))


def _party_row(party: dict[str, Any]) -> list[str]:
    rows, update = party["rows"], party["update"]
    return [
        party["name"],
        "admitted" if party["admitted"] else "not admitted yet",
        party["fingerprint"],
        MISSING if rows is None else f"{rows:,}",
        MISSING if update is None else f"{_longest(update).shown} x",
    ]


def _site(folder: Path) -> dict[str, Any]:
    place = SiteFolder(folder)
    plan, rows = place.plan(), read_audit(folder)
    return {
        "federation": plan.name,
        "party": place.name,
        "joined": is_held(folder / ".join.lock"),
        "agreed": read_object(folder / "consent.json").get("plan") == plan.digest,
        "fingerprint": Card.read(place.card_path).fingerprint if place.card_path.exists() else "",
        "others": [_other(folder, party, key) for party, key in _roster(folder).items() if party != place.name],
        "messages": {
            "in": sum(row["way"] == "in" for row in rows),
            "out": sum(row["way"] == "out" for row in rows),
            "refused": sum(row["way"] == "in" and bool(row.get("outcome")) for row in rows),
            "bytes_in": sum(row["bytes"] for row in rows if row["way"] == "in"),
            "bytes_out": sum(row["bytes"] for row in rows if row["way"] == "out"),
        },
        "last": rows[-_LAST:],
        "figures": read_object(folder / "figures.json"),
        "model": str(folder / "model.safetensors") if (folder / "model.safetensors").exists() else None,
    }


def _roster(folder: Path) -> dict[str, str]:
    """By party, the signing key that the server named and the site agreed to."""
    found = read_object(folder / AGREED).get("roster")
    return found if isinstance(found, dict) else {}


def _other(folder: Path, party: str, key: str) -> dict[str, Any]:
    """Another site's key; ``same``: as in that one's own file, where this site has it, else None."""
    own = folder / f"{party}{PUBLIC}"
    same = Card.read(own).sign == key if own.exists() else None
    return {"name": party, "fingerprint": Card(party, key).fingerprint, "same": same}


def _print_site(found: dict[str, Any]) -> None:
    count = found["messages"]
    joined = "is taking part" if found["joined"] else "is not connected now"
    draw(
        f"{found['party']} in the federation {found['federation']}: {joined}.",
        f"Key: {found['fingerprint'] or 'none yet, join makes one'}.",
        f"Messages: {count['in']} in ({size(count['bytes_in'])}), {count['out']} out "
        f"({size(count['bytes_out'])}), {count['refused']} refused. The log is whole.",
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


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []

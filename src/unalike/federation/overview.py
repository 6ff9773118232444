"""How a federation stands, read from the files of its server or of a site: for people, and for monitoring."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unalike.channels import parse_channel
from unalike.channels.accountant import Accountant
from unalike.federation.attempts import Attempts, is_served
from unalike.federation.audit import FILE, Head, read_audit
from unalike.federation.folders import AGREED, CONNECTION, JOIN_LOCK, LOG, PUBLIC, Card, ServerFolder, read_object
from unalike.federation.lengths import NORMS, Longest, longest
from unalike.federation.making import SiteFolder
from unalike.federation.plan import Plan
from unalike.federation.replay import ANSWERED, SITES
from unalike.runs.files import is_held
from unalike.runs.record import read_run
from unalike.scores import score_of, value_of

LAST = 5
"""So many of the last messages, exchanges, rounds and lines are looked at."""
_END = 2**14
"""Bytes at the end of a log that hold its last lines."""
_INTERRUPTED = "interrupted (who serves goes on with it)"
Row = Mapping[str, Any]


def server_overview(folder: Path, held: Callable[[Path], bool] = is_held) -> dict[str, Any]:
    """How the federation stands, seen from its server; ``held`` tells whether a process holds a lock."""
    plan, place = Plan.read(folder), ServerFolder(folder)
    run, attempts = read_run(folder / "run"), Attempts(folder, held)
    rows, result, status = run.rounds, run.result, place.status()
    outcome = attempts.outcome()
    serving = is_served(folder, held) or attempts.working  # the latter alone: by Flower
    left = attempts.wanted is not None and not serving
    updates, sizes = longest(rows), place.rows()
    return {
        "federation": plan.name,
        "address": plan.address,
        "serving": serving,
        "training": attempts.working and outcome is None,
        "state": _INTERRUPTED if left else status.get("state", "not begun"),
        "waiting": status.get("waiting", []),
        "wanted": attempts.wanted,
        "outcome": None if outcome is None else outcome.how,
        "reason": "" if outcome is None else outcome.reason,
        "round": rows[-1]["round"] if rows else 0,
        "rounds": plan.spec.rounds,
        "seconds_left": seconds_left(rows, plan.spec.rounds),
        "score": score_of(rows[-1]) if rows else None,
        "value": value_of(rows[-1]) if rows else None,
        "privacy": _privacy(plan, rows[-1]) if rows else None,
        "parties": [
            {
                **_party(folder, party),
                "rows": sizes.get(party),
                "update": _update(updates.get(party)),
                **_traffic(party, number, rows),
            }
            for number, party in enumerate(plan.parties)
        ],
        "damaged": run.damage,
        "log": last_lines(folder / LOG),
        "server_sha256": None if result is None else result.get("server_sha256"),
    }


def seconds_left(rows: Sequence[Row], rounds: int) -> float | None:
    """How long the rounds that are left take, if they are as the last ones; None where nothing can be said."""
    recent = [row["seconds"] for row in rows[-LAST:]]
    return sum(recent) / len(recent) * (rounds - rows[-1]["round"]) if recent else None


def _privacy(plan: Plan, row: Row) -> dict[str, Any] | None:
    """What the noise of the plan's channel hides until a row, as the result of the whole training tells it."""
    channel = parse_channel(plan.spec.channel)
    if channel.noise is None or row.get("epsilon") is None:
        return None
    neighbours = Accountant(channel, len(plan.parties), plan.cohort, known=True).neighbours
    noise = channel.noise
    return {"epsilon": row["epsilon"], "delta": noise.delta, "neighbours": neighbours, "noise": noise.where}


def _party(folder: Path, party: str) -> dict[str, Any]:
    path = folder / "parties" / f"{party}{PUBLIC}"
    known = path.exists()
    return {"name": party, "admitted": known, "fingerprint": Card.read(path).fingerprint if known else ""}


def _update(found: Longest | None) -> dict[str, Any] | None:
    """A site's longest update beside the others'."""
    return None if found is None else {"times_the_others": found.times, "round": found.round}


def _traffic(party: str, number: int, rows: Sequence[Row]) -> dict[str, Any]:
    """A site's part in the exchanges: whether it answered the last ones, how fast, how many bytes, how long."""
    told = [row[SITES][party] for row in rows if party in row.get(SITES, {})]
    answered = [number in who for row in rows for who in row.get(ANSWERED, ())]
    norms = [norms[party] for row in rows[-1:] for norms in row.get(NORMS, ()) if party in norms]
    asked = party in rows[-1].get(SITES, {}) if rows else False
    return {
        "answered": answered[-LAST:],
        "answers": sum(answered),
        "seconds": told[-1]["seconds"] if asked else None,
        "bytes_up": sum(each["bytes_up"] for each in told),
        "bytes_down": sum(each["bytes_down"] for each in told),
        "last_bytes_up": told[-1]["bytes_up"] if asked else None,
        "last_bytes_down": told[-1]["bytes_down"] if asked else None,
        "norm": norms[-1] if norms else None,
    }


def site_overview(folder: Path, *, check: bool = True) -> dict[str, Any]:
    """How the federation stands, seen from a site. ``check``: after reading all of its log, which may be long."""
    place = SiteFolder(folder)
    plan, head = place.plan(), Head.read(folder) or Head()
    return {
        "federation": plan.name,
        "party": place.name,
        "joined": is_held(folder / JOIN_LOCK),
        "connection": read_object(folder / CONNECTION).get("state"),
        "agreed": read_object(folder / "consent.json").get("plan") == plan.digest,
        "fingerprint": Card.read(place.card_path).fingerprint if place.card_path.exists() else "",
        "others": [_other(folder, party, key) for party, key in _roster(folder).items() if party != place.name],
        "messages": {
            "in": head.messages_in,
            "out": head.messages_out,
            "refused": head.refused,
            "bytes_in": head.bytes_in,
            "bytes_out": head.bytes_out,
        },
        "checked": check,
        "last_time": head.time,
        "last": read_audit(folder, LAST) if check else last_messages(folder),
        "figures": read_object(folder / "figures.json"),
        "model": str(folder / "model.safetensors") if (folder / "model.safetensors").exists() else None,
    }


def last_messages(folder: Path) -> list[dict[str, Any]]:
    """The last messages of a site's log as they stand there, unchecked."""
    found = []
    for line in last_lines(folder / FILE):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # it is being written
    return found


def _roster(folder: Path) -> dict[str, str]:
    """By party, the signing key that the server named and the site agreed to."""
    found = read_object(folder / AGREED).get("roster")
    return found if isinstance(found, dict) else {}


def _other(folder: Path, party: str, key: str) -> dict[str, Any]:
    """Another site's key; ``same``: as in that one's own file, where this site has it, else None."""
    own = folder / f"{party}{PUBLIC}"
    same = Card.read(own).sign == key if own.exists() else None
    return {"name": party, "fingerprint": Card(party, key).fingerprint, "same": same}


def last_lines(path: Path) -> list[str]:
    """The last lines of a file that may be long; none where there is no such file."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _END)
            file.seek(start)
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return lines[1 if start else 0 :][-LAST:]

"""Whom and what a site has agreed to: the other sites' keys and what tables are coded by, kept in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unalike.federation.envelope import Refused
from unalike.federation.folders import AGREED, PUBLIC, Card
from unalike.federation.once import read_json
from unalike.federation.plan import Plan
from unalike.runs.files import atomic_write


@dataclass
class Others:
    """The other sites of a plan as one site knows them; ``own``: its own public key, in hexadecimal digits."""

    folder: Path
    name: str
    plan: Plan
    own: str

    def __post_init__(self) -> None:
        self.agreed: dict[str, Any] = read_json(self.folder / AGREED)

    def check(self, told: Any) -> dict[str, str]:
        """The list of all sites' keys that the server proposes, if it can be that."""
        try:
            roster = {str(name): str(key) for name, key in dict(told).items()}
        except (TypeError, ValueError) as error:
            raise Refused(f"the proposed roster is malformed: {error}") from None
        if roster.get(self.name) != self.own or set(roster) != set(self.plan.parties):
            raise Refused("the server's list of parties has another key for this site, or other parties")
        known = self.agreed.get("roster")
        if known is not None and known != roster:
            raise Refused("the other parties' keys have changed since this site agreed. Ask them, and join again")
        self._compare_with_own_cards(roster)
        return roster

    def keep(self, roster: Mapping[str, str], **more: Any) -> None:
        """Store what was agreed on, before it is used."""
        self.agreed = {**self.agreed, **more, "roster": dict(roster), "plan": self.plan.digest}
        atomic_write(self.folder / AGREED, json.dumps(self.agreed).encode())

    def keys(self) -> dict[str, bytes]:
        """All sites' public keys, once they are agreed on."""
        if "roster" not in self.agreed:
            raise Refused("nothing was agreed on yet")
        self._compare_with_own_cards(self.agreed["roster"])  # one may have come since
        return {name: bytes.fromhex(key) for name, key in self.agreed["roster"].items()}

    def _compare_with_own_cards(self, roster: Mapping[str, str]) -> None:
        """Where the site has another's public keys from that one itself, the server must name the same."""
        for name, key in roster.items():
            path = self.folder / f"{name}{PUBLIC}"
            if path.exists() and Card.read(path).sign != key:
                raise Refused(
                    f"the server names another key of {name} than {path.name} at this site. Telephone {name}"
                )

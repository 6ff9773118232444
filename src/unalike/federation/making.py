"""A new federation: the server's keys, certificates and plan, and for every party a folder to send to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.federation.folders import PUBLIC, Card, make_key
from unalike.federation.plan import FILE, Plan
from unalike.federation.public import check_table, hand_out
from unalike.runs.files import atomic_write, private_folder, storage_error

INVITATIONS = "invitations"
AUTHORITY = "ca.pem"
_PARTY = "party.txt"


def make_federation(folder: Path, public: Path | None = None, **values: Any) -> Plan:
    """Make all that the server needs, and the invitations. ``values`` are the plan's, without the server's key.

    ``public`` is a table that everybody gets beside the plan.
    """
    from unalike.federation.transport.flower.certificates import create_authority, issue_server, split_address

    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty, and nothing is overwritten. Choose another folder.")
    host, _ = split_address(values["address"])
    if public is not None:
        values["public"] = check_table(public, values["label"])
    Plan(server="0" * 64, **values)  # what is wrong is told before all else
    certificates = folder / "certificates"
    private_folder(folder)
    private_folder(certificates)
    plan = Plan(server=make_key(folder / "keys" / "server.key").hex(), **values)
    create_authority(certificates, f"unalike federation {plan.name}")
    issue_server(certificates, [host])
    for name in ("parties", INVITATIONS):
        private_folder(folder / name)
    for party in plan.parties:
        invitation = folder / INVITATIONS / party
        private_folder(invitation)
        plan.write(invitation)
        atomic_write(invitation / AUTHORITY, (certificates / AUTHORITY).read_bytes())
        atomic_write(invitation / _PARTY, f"{party}\n".encode())
    if public is not None:
        for place in (folder, *(folder / INVITATIONS / party for party in plan.parties)):
            hand_out(public, place)
    plan.write(folder)  # last: a folder with a plan is a whole one
    return plan


@dataclass(frozen=True)
class SiteFolder:
    """A site's copy of its invitation, where it keeps its keys, its state and its log too."""

    path: Path

    @property
    def name(self) -> str:
        """The party that the invitation is for."""
        try:
            return (self.path / _PARTY).read_text(encoding="utf-8").strip()
        except OSError:
            raise UserError(
                f"{self.path} is no invitation: it has no {_PARTY}. Use the folder that the server's owner sent."
            ) from None

    @property
    def authority(self) -> Path:
        """The certificate that the server's is checked with."""
        return self.path / AUTHORITY

    @property
    def node_key(self) -> Path:
        """The secret key that the transport knows the site by."""
        return self.path / "keys" / "node.key"

    @property
    def site_key(self) -> Path:
        """The secret key that signs the site's answers."""
        return self.path / "keys" / "site.key"

    @property
    def card_path(self) -> Path:
        """What is sent to the server."""
        return self.path / f"{self.name}{PUBLIC}"

    def plan(self) -> Plan:
        """The plan in the invitation."""
        if not _is_there(self.path / FILE):
            raise UserError(
                f"{self.path} is no invitation: it has no {FILE}. Use the folder that the server's owner sent."
            )
        return Plan.read(self.path)

    def card(self) -> Card:
        """The site's public keys; secret ones are made on first use and never leave the folder."""
        from unalike.federation.transport.flower.certificates import create_node_key, public_key

        sign = make_key(self.site_key)
        node = public_key(self.node_key) if self.node_key.exists() else create_node_key(self.node_key)
        card = Card(self.name, sign.hex(), node.decode())
        card.write(self.card_path)
        return card


def is_server(folder: Path) -> bool:
    """Whether this is a server's folder."""
    return _is_there(folder / INVITATIONS)


def _is_there(path: Path) -> bool:
    """Whether it is there; in a folder that is somebody else's alone, that is for its owner to say."""
    try:
        return path.exists()
    except PermissionError as error:
        raise storage_error(path.parent, error, "read") from error


def admit(folder: Path, card: Card, plan: Plan) -> bool:
    """Store a party's card; whether it is new. A party's key is never replaced silently."""
    plan.number(card.name)
    path = folder / "parties" / f"{card.name}{PUBLIC}"
    if path.exists():
        known = Card.read(path)
        if known == card:
            return False
        raise UserError(
            f"{card.name} is admitted with another key ({known.fingerprint}). If it lost its keys, telephone, "
            f"remove {path} and admit it again."
        )
    for other in (folder / "parties").glob(f"*{PUBLIC}"):
        if {Card.read(other).sign, Card.read(other).node} & {card.sign, card.node}:
            raise UserError(f"{card.name} has the key of {other.name.removesuffix(PUBLIC)}. Each needs its own.")
    private_folder(path.parent)
    card.write(path)
    return True

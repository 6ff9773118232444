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
PARTY = "party.txt"


def make_federation(folder: Path, public: Path | None = None, **values: Any) -> Plan:
    """Make all that the server needs, and the invitations. ``values`` are the plan's, without the server's key.

    ``public`` is a table that everybody gets beside the plan.
    """
    from unalike.federation.transport.https.certificates import create_authority, issue_server, split_address

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
        atomic_write(invitation / PARTY, f"{party}\n".encode())
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
            return (self.path / PARTY).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise UserError(
                f"{self.path} is no invitation: it has no {PARTY}. Use the folder that the server's owner sent."
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
    def certificate(self) -> Path:
        """The site's own certificate, with which it connects."""
        return self.path / "keys" / "node.pem"

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
        from unalike.federation.transport.https.certificates import check_site, create_site

        sign = make_key(self.site_key)
        try:
            check_site(node := self.certificate.read_text(encoding="ascii"), self.name)
        except (OSError, ValueError, UserError):  # none yet, or it has expired
            node = create_site(self.node_key, self.certificate, self.name)
        card = Card(self.name, sign.hex(), node)
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
    """Store a party's card; whether it is new. A party's key is never replaced silently, its certificate is."""
    from unalike.federation.transport.https.certificates import check_begun, check_site, key_of

    plan.number(card.name)
    certificate = check_site(card.node, card.name)
    check_begun(certificate, card.name)
    key = certificate.public_key()
    path = folder / "parties" / f"{card.name}{PUBLIC}"
    if path.exists():
        known = Card.read(path)
        if known.sign == card.sign and key_of(known.node) == key:
            card.write(path)
            return known.node != card.node
        raise UserError(
            f"{card.name} is admitted with another key ({known.fingerprint}). If it lost its keys, telephone, "
            f"remove {path} and admit it again."
        )
    for other in (folder / "parties").glob(f"*{PUBLIC}"):
        known = Card.read(other)
        if known.sign == card.sign or key_of(known.node) == key:
            raise UserError(f"{card.name} has the key of {other.name.removesuffix(PUBLIC)}. Each needs its own.")
    private_folder(path.parent)
    card.write(path)
    return True

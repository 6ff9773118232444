"""Keys for the channel `encrypted`: one site deals them to the others in boxes that the server cannot open.

Each site has an X25519 key that derives from its signing key and is signed by it, so that nobody can put in
another. The dealer, the first party by name, seals the BFV secret key for each other site under the key that the
two share (static-static, with a fresh salt); only the public key, which cannot decrypt, reaches the server.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unalike.federation.asking import Asking
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.speaker import Speaker
from unalike.runs.files import atomic_write
from unalike.secure.crypto import bfv
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import agreement, agreement_public, derive, seal, sign, unseal, verify

BOX, DEAL, KEY = "deal-box", "deal", "deal-key"
"""Kinds of messages: tell your box; deal keys to these boxes; here is your key."""
_SALT_BYTES = 16
Answer = tuple[dict[str, Any], bytes]


def deal_keys(speaker: Speaker) -> bfv.Context:
    """Let the first party deal, pass the boxes on, and keep what the server may have: the public key."""
    remote, parties = Asking(speaker), speaker.plan.parties
    told = remote.everybody({party: ({"kind": BOX}, b"") for party in parties})
    boxes = {party: message.header.get("box") for party, message in told.items()}
    dealer, *others = parties
    dealt = remote.everybody({dealer: ({"kind": DEAL, "boxes": boxes}, b"")})[dealer]
    public, sealed = _cut(dealt, len(others))
    header = {"kind": KEY, "dealer": dealer, "box": boxes[dealer], "salt": dealt.header.get("salt")}
    remote.everybody({party: (header, box) for party, box in zip(others, sealed, strict=True)})
    try:
        return bfv.load(public, secret=False)
    except CryptoError as error:
        raise Refused(f"{dealer} dealt keys that cannot be used: {error}") from None


class SiteKeys:
    """A site's part; its BFV key is kept in its folder."""

    def __init__(self, path: Path, name: str, signer: bytes, roster: Mapping[str, bytes], plan: str) -> None:
        self._path, self._name, self._signer, self._roster = path, name, signer, roster
        self._plan = plan.encode()
        self._secret = derive(signer, b"unalike box")

    def context(self) -> bfv.Context:
        """The key for encrypted sums that was dealt to this site."""
        if not self._path.exists():
            raise Refused("no key was dealt to this site yet")
        return bfv.load(self._path.read_bytes(), secret=True)

    def tell(self) -> Answer:
        """The site's public key for sealed messages, signed with the key that others know the site by."""
        public = agreement_public(self._secret)
        return {"box": [public.hex(), sign(self._signer, self._statement(public)).hex()]}, b""

    def deal(self, message: Envelope) -> Answer:
        """Make keys, seal the secret one for every other party, and hand out the public one."""
        boxes = message.header.get("boxes")
        if not isinstance(boxes, dict) or set(boxes) != set(self._roster):
            raise Refused("the boxes are not those of the agreed parties")
        keys, salt = bfv.deal(), secrets.token_bytes(_SALT_BYTES)
        sealed = []
        for party in sorted(set(boxes) - {self._name}):
            shared = agreement(self._secret)(self._checked(party, boxes[party]))
            sealed.append(seal(self._pair(shared, salt, self._name, party), keys.secret, salt))
        self._keep(keys.secret)
        sizes = [len(keys.public), *map(len, sealed)]
        return {"salt": salt.hex(), "sizes": sizes}, b"".join([keys.public, *sealed])

    def take(self, message: Envelope) -> Answer:
        """Open what the dealer sealed for this site, and keep the secret key that is in it."""
        header = message.header
        dealer = str(header.get("dealer"))
        try:
            salt = bytes.fromhex(str(header.get("salt")))
            shared = agreement(self._secret)(self._checked(dealer, header.get("box")))
            secret = unseal(self._pair(shared, salt, dealer, self._name), message.body, salt)
            bfv.load(secret, secret=True)
        except (CryptoError, ValueError):
            raise Refused(f"the box is not one that {dealer[:40]} sealed for this site") from None
        self._keep(secret)
        return {}, b""

    def _keep(self, secret: bytes) -> None:
        atomic_write(self._path, secret, private=True)

    def _checked(self, party: str, box: Any) -> bytes:
        try:
            public, signature = (bytes.fromhex(part) for part in box)
            verify(self._roster[party], signature, self._statement(public))
        except (KeyError, TypeError, ValueError, CryptoError):
            raise Refused(f"the box of {party[:40]} is not signed by it") from None
        return public

    def _statement(self, public: bytes) -> bytes:
        return b"unalike box" + self._plan + public

    def _pair(self, shared: bytes, salt: bytes, dealer: str, party: str) -> bytes:
        return derive(shared, b"|".join([b"unalike deal", self._plan, salt, dealer.encode(), party.encode()]))


def _cut(message: Envelope, boxes: int) -> tuple[bytes, list[bytes]]:
    """The public key, and the boxes of the other parties."""
    sizes, body = message.header.get("sizes"), message.body
    if not isinstance(sizes, list) or len(sizes) != boxes + 1 or not all(type(n) is int and n > 0 for n in sizes):
        raise Refused(f"{message.sender} dealt no keys")
    if sum(sizes) != len(body):
        raise Refused(f"{message.sender} dealt keys that are cut short")
    parts, at = [], 0
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    return parts[0], parts[1:]

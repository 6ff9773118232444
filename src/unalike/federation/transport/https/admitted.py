"""Whom the handshake accepts: read anew from the server's folder whenever a card or certificate changes."""

from __future__ import annotations

import ssl
from pathlib import Path

from unalike.errors import UserError
from unalike.federation.folders import PUBLIC, Card

_Stamp = tuple[tuple[str, int, int], ...]


class Admitted:
    """The sites that may connect, by their certificates, as the cards in ``folder / parties`` say now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamp: _Stamp | None = None
        self._parties: dict[bytes, str] = {}
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """What shakes hands, with the server's certificate and those of admitted sites as they are now."""
        self._look()
        assert self._context is not None
        return self._context

    def party(self, certificate: bytes | None) -> str | None:
        """Whose certificate this is, if that site is admitted now."""
        self._look()
        return self._parties.get(certificate or b"")

    def names(self) -> set[str]:
        """The parties that are admitted now."""
        self._look()
        return set(self._parties.values())

    def _look(self) -> None:
        own = [self._folder / "certificates" / name for name in ("server.pem", "server.key")]
        cards = sorted((self._folder / "parties").glob(f"*{PUBLIC}"))
        stamp = tuple(_stamp(path) for path in (*own, *cards))
        if stamp == self._stamp:
            return
        # No tickets: a session that is resumed would not show its certificate again.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.num_tickets = ssl.TLSVersion.TLSv1_3, 0
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(own[0], own[1])
        except (OSError, ssl.SSLError):
            if self._context is None:
                raise UserError(
                    f"{own[0]} and {own[1]} do not fit: put ca.key beside them, and serve again."
                ) from None
            return  # they are being renewed: the next look takes both
        parties: dict[bytes, str] = {}
        for path in cards:
            try:
                card = Card.read(path)
                parties[ssl.PEM_cert_to_DER_cert(card.node)] = card.name
                context.load_verify_locations(cadata=card.node)
            except (UserError, ValueError, ssl.SSLError):
                continue  # half written, or of an older version: the next look may read it
        self._stamp, self._parties, self._context = stamp, parties, context


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        found = path.stat()
    except OSError:
        return path.name, 0, 0
    return path.name, found.st_mtime_ns, found.st_ino

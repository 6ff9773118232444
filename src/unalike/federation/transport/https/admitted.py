"""Whom the handshake accepts: read anew from the server's folder whenever a card or certificate changes."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from unalike.errors import UserError
from unalike.federation.folders import PUBLIC, Card
from unalike.federation.transport.https.certificates import named

_Stamp = tuple[str, int, int, int]


class Admitted:
    """The sites that may connect, by their certificates, as the cards in ``folder / parties`` say now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamps: list[_Stamp] = []
        self._parties: dict[bytes, tuple[str, float]] = {}
        """by certificate, whose it is and when it ends"""
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """What shakes hands, with the server's certificate and those of admitted sites as they are now."""
        self._look()
        assert self._context is not None
        return self._context

    def party(self, certificate: bytes | None) -> str | None:
        """Whose certificate this is, if that site is admitted now."""
        self._look()
        name, end = self._parties.get(certificate or b"", (None, 0.0))
        return name if time.time() < end else None

    def _look(self) -> None:
        own = [self._folder / "certificates" / name for name in ("server.pem", "server.key")]
        cards = sorted((self._folder / "parties").glob(f"*{PUBLIC}"))
        stamps = [_stamp(path) for path in (*own, *cards)]
        if stamps == self._stamps:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # No tickets: a session that is resumed would not show its certificate again.
        context.minimum_version, context.num_tickets = ssl.TLSVersion.TLSv1_3, 0
        context.verify_mode = ssl.CERT_REQUIRED
        self._parties = {}  # who is no longer here is out at once, whatever happens below
        for path in cards:
            try:
                card = Card.read(path)
                found = x509.load_pem_x509_certificate(card.node.encode())
                certificate = found.public_bytes(Encoding.DER)
                if found.subject != named(card.name):
                    continue
                context.load_verify_locations(cadata=certificate)
            except (UserError, ValueError, ssl.SSLError):
                continue  # half written, or of an older version: the next look may read it
            self._parties[certificate] = card.name, found.not_valid_after_utc.timestamp()
        try:
            context.load_cert_chain(own[0], own[1])
        except (OSError, ssl.SSLError):
            if self._context is None:
                raise UserError(
                    f"{own[0]} and {own[1]} do not fit: put ca.key beside them, and serve again."
                ) from None
            return  # they are being renewed: the next look takes both
        self._stamps, self._context = stamps, context


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return path.name, 0, 0, 0
    return path.name, found.st_mtime_ns, found.st_ino, found.st_size

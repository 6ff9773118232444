"""What ends a protocol, and who is to blame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unalike.errors import UserError
from unalike.secure.crypto.errors import CryptoError

SERVER = -1
"""The server's number, as a sender or receiver."""


class ProtocolError(UserError):
    """Somebody did not keep to the protocol: ``party`` is its number, -1 the server, None if nobody can tell."""

    def __init__(self, party: int | None, what: str, *, who: str | None = None) -> None:
        """The error reads '<the party> <what>', or '<who> <what>' where it may be one of several."""
        super().__init__(f"{who or name_of(party)} {what}")
        self.party = party


class TooFewParties(ProtocolError):
    """Fewer parties are left than the threshold; nobody is to blame."""

    def __init__(self, what: str) -> None:
        """The error reads as it is given."""
        UserError.__init__(self, what)
        self.party = None


def name_of(party: int | None) -> str:
    """A party in words, at the start of a sentence."""
    if party is None:
        return "Some party"
    return "The server" if party == SERVER else f"Party {party}"


def or_server(party: int) -> str:
    """Who is to blame for what a party did not sign and the server passed on."""
    return f"{name_of(party)} or the server"


@contextmanager
def blame(party: int | None, who: str | None = None) -> Iterator[None]:
    """Whatever cryptography refuses inside is this party's fault."""
    try:
        yield
    except CryptoError as error:
        raise ProtocolError(party, f"sent something that is refused: {error}", who=who) from error

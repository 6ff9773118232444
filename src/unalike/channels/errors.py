"""What goes wrong on a private channel."""

from __future__ import annotations

from unalike.errors import UserError


class ChannelError(UserError):
    """A message that a channel refuses: out of range, not finite, malformed, or of another layout."""


class NotFinite(ChannelError):
    """An upload with values that are not finite: as a rule, training has diverged."""

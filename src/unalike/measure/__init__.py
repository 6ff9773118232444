"""How unalike the parties are, in plain figures."""

from __future__ import annotations

from unalike.measure.skew import LabelSkew, label_skew

__all__ = ["LabelSkew", "label_skew"]

"""Unalike: federated learning for data that are unalike (non-IID)."""

from __future__ import annotations

__version__ = "0.1.0"

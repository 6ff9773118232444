"""Protocols between parties that know the same people, each by other columns."""

"""Choosing parameters by the parties' validation rows: a grid of an algorithm's own, or a search over a space."""

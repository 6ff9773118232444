"""Engines, runs and their records."""

"""Comparing: what papers published, what runs on this machine showed, and what to do with it."""

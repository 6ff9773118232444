"""Algorithms that make rows, by generators which parties, or the server, train against judges (discriminators)."""

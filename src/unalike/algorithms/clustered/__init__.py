"""Algorithms that give each group of parties a model, and find out who belongs to which."""

"""Algorithms that give each party a model of its own, one file for each family of papers."""

"""Grids of runs from a file, made in parallel processes, and what came of them."""

"""Arithmetic of columns that are split: losses, numbers on a grid, joined models, and attacks on what is said."""

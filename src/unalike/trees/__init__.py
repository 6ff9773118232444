"""Gradient-boosted trees on binned rows: cuts, gradients on a grid, histograms of exact integers, splits."""

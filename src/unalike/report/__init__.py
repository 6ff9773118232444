"""Figures, tables and pages about runs: HTML for reading, SVG, PDF and LaTeX for papers."""

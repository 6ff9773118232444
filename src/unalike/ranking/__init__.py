"""Which algorithm is better: comparisons, tests, the papers' tables, and the advice that follows."""

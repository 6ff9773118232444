"""What Python programs and notebooks see of runs: progress while they train, tables, curves and comparisons."""

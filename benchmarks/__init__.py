"""Benchmarks: ratios measured interleaved in one run, never timed tests."""

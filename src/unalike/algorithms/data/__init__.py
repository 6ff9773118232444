"""Algorithms that change what parties train on: shared, mixed, encoded, augmented or uploaded rows."""

"""Real sites: the same algorithms, between processes that keep their data to themselves."""

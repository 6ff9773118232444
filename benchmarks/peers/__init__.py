"""Peers, each in an environment of its own, as worker processes that play a round when they are told to."""

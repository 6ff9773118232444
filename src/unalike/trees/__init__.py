"""Boosted trees on binned columns, in exact integers: cuts, bins, growth and the finished ensemble."""

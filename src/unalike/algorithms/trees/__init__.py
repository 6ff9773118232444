"""Protocols of boosted trees: sums of gradients by bin, and the simpler ones that send or keep whole trees."""

"""FedAvg: parties train on their own rows, and the server averages their models by size."""

from __future__ import annotations

from unalike.algorithms.contract import Algorithm, algorithm


@algorithm("fedavg", paper="McMahan et al. 2017 (arXiv:1602.05629), Algorithm 1")
class FedAvg(Algorithm):
    """Local SGD, then the average weighted by party size. The contract's base class is this algorithm."""

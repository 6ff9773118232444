"""Federated algorithms: the contract, and one file per algorithm."""

from __future__ import annotations

from unalike.algorithms.contract import ALGORITHMS, Algorithm, Ask, Party, Replies, Vectors, algorithm
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.fedprox import FedProx

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Ask",
    "FedAvg",
    "FedProx",
    "Party",
    "Replies",
    "Vectors",
    "algorithm",
]

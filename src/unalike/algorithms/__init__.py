"""Federated algorithms: the contract, and one file per algorithm."""

from __future__ import annotations

from unalike.algorithms.contract import (
    ALGORITHMS,
    Algorithm,
    Ask,
    ByParty,
    Party,
    Phase,
    Replies,
    Vectors,
    algorithm,
)
from unalike.algorithms.fedadagrad import FedAdagrad
from unalike.algorithms.fedadam import FedAdam
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.fedavgm import FedAvgM
from unalike.algorithms.feddyn import FedDyn
from unalike.algorithms.fednova import FedNova
from unalike.algorithms.fedprox import FedProx
from unalike.algorithms.fedyogi import FedYogi
from unalike.algorithms.moon import Moon
from unalike.algorithms.personal.fedmeta import FedMetaMaml, FedMetaSgd
from unalike.algorithms.personal.meta import PerFedAvg, Reptile
from unalike.algorithms.personal.pfedme import PFedMe
from unalike.algorithms.qfedavg import QFedAvg
from unalike.algorithms.rfedavg import RFedAvg
from unalike.algorithms.rfedavg_plus import RFedAvgPlus
from unalike.algorithms.scaffold import Scaffold

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Ask",
    "ByParty",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedDyn",
    "FedMetaMaml",
    "FedMetaSgd",
    "FedNova",
    "FedProx",
    "FedYogi",
    "Moon",
    "PFedMe",
    "Party",
    "PerFedAvg",
    "Phase",
    "QFedAvg",
    "RFedAvg",
    "RFedAvgPlus",
    "Replies",
    "Reptile",
    "Scaffold",
    "Vectors",
    "algorithm",
]

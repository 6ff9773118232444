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
from unalike.algorithms.fedcurv import FedCurv
from unalike.algorithms.fednova import FedNova
from unalike.algorithms.fedprox import FedProx
from unalike.algorithms.fedyogi import FedYogi
from unalike.algorithms.moon import Moon
from unalike.algorithms.personal.related import FedAmp, HeurFedAmp, Mocha
from unalike.algorithms.personal.virtual import Virtual
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
    "FedAmp",
    "FedAvg",
    "FedAvgM",
    "FedCurv",
    "FedNova",
    "FedProx",
    "FedYogi",
    "HeurFedAmp",
    "Mocha",
    "Moon",
    "Party",
    "Phase",
    "QFedAvg",
    "RFedAvg",
    "RFedAvgPlus",
    "Replies",
    "Scaffold",
    "Vectors",
    "Virtual",
    "algorithm",
]

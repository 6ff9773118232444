"""Federated algorithms: the contract, and one file per algorithm."""

from __future__ import annotations

from unalike.algorithms.clustered.by_loss import FedFmc, HypCluster, Ifca
from unalike.algorithms.clustered.fesem import FeSem
from unalike.algorithms.clustered.fixed import Groups
from unalike.algorithms.clustered.one_split import FlHc, KMeansModels
from unalike.algorithms.clustered.splits import Cfl
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
from unalike.algorithms.data.astraea import Astraea
from unalike.algorithms.data.hybrid_fl import HybridFl
from unalike.algorithms.data.means import FedMix, NaiveMix
from unalike.algorithms.data.mixup import Mixup
from unalike.algorithms.data.share import SharedRows
from unalike.algorithms.data.xormix import XorMix
from unalike.algorithms.fedadagrad import FedAdagrad
from unalike.algorithms.fedadam import FedAdam
from unalike.algorithms.fedavg import FedAvg
from unalike.algorithms.fedavgm import FedAvgM
from unalike.algorithms.fedaws import FedAws
from unalike.algorithms.fedcurv import FedCurv
from unalike.algorithms.feddyn import FedDyn
from unalike.algorithms.fednova import FedNova
from unalike.algorithms.fedprox import FedProx
from unalike.algorithms.fedrs import FedRs
from unalike.algorithms.fedyogi import FedYogi
from unalike.algorithms.generated.dense import Dense
from unalike.algorithms.generated.faug import FAug
from unalike.algorithms.generated.fedgan import FedGan
from unalike.algorithms.generated.forgiving import F2a, F2u
from unalike.algorithms.knowledge.cronus import Cronus
from unalike.algorithms.knowledge.def_kt import DefKt
from unalike.algorithms.knowledge.ensemble import OneShotEnsemble
from unalike.algorithms.knowledge.fada import Fada
from unalike.algorithms.knowledge.fd import Fd
from unalike.algorithms.knowledge.feddf import FedDf, FedDfNets
from unalike.algorithms.knowledge.fedkt import FedKt
from unalike.algorithms.knowledge.fedmd import FedMd
from unalike.algorithms.moon import Moon
from unalike.algorithms.personal.apfl import Apfl
from unalike.algorithms.personal.baselines import FedAvgTuned, Local, Pooled
from unalike.algorithms.personal.ditto import Ditto
from unalike.algorithms.personal.fedmeta import FedMetaMaml, FedMetaSgd
from unalike.algorithms.personal.l2gd import L2gd
from unalike.algorithms.personal.lg_ensemble import LgFedAvgEnsemble
from unalike.algorithms.personal.mapper import Dapper, Mapper
from unalike.algorithms.personal.meta import PerFedAvg, Reptile
from unalike.algorithms.personal.partial import FedBabu, FedBn, FedPer, FedRep, LgFedAvg, Partial
from unalike.algorithms.personal.pfedme import PFedMe
from unalike.algorithms.personal.related import FedAmp, HeurFedAmp, Mocha
from unalike.algorithms.personal.virtual import Virtual
from unalike.algorithms.qfedavg import QFedAvg
from unalike.algorithms.rfedavg import RFedAvg
from unalike.algorithms.rfedavg_plus import RFedAvgPlus
from unalike.algorithms.scaffold import Scaffold
from unalike.algorithms.trees.alone import LocalTrees
from unalike.algorithms.trees.bagging import BaggedTrees
from unalike.algorithms.trees.cyclic import CyclicTrees
from unalike.algorithms.trees.histogram import HistogramTrees
from unalike.algorithms.vertical.fedbcd import FedBcd
from unalike.algorithms.vertical.ftl import TransferLearning
from unalike.algorithms.vertical.linear import VerticalLinear
from unalike.algorithms.vertical.quasi_newton import QuasiNewton
from unalike.algorithms.vertical.secureboost import SecureBoost
from unalike.algorithms.vertical.split_net import SplitNet

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Apfl",
    "Ask",
    "Astraea",
    "BaggedTrees",
    "ByParty",
    "Cfl",
    "Cronus",
    "CyclicTrees",
    "Dapper",
    "DefKt",
    "Dense",
    "Ditto",
    "F2a",
    "F2u",
    "FAug",
    "Fada",
    "Fd",
    "FeSem",
    "FedAdagrad",
    "FedAdam",
    "FedAmp",
    "FedAvg",
    "FedAvgM",
    "FedAvgTuned",
    "FedAws",
    "FedBabu",
    "FedBcd",
    "FedBn",
    "FedCurv",
    "FedDf",
    "FedDfNets",
    "FedDyn",
    "FedFmc",
    "FedGan",
    "FedKt",
    "FedMd",
    "FedMetaMaml",
    "FedMetaSgd",
    "FedMix",
    "FedNova",
    "FedPer",
    "FedProx",
    "FedRep",
    "FedRs",
    "FedYogi",
    "FlHc",
    "Groups",
    "HeurFedAmp",
    "HistogramTrees",
    "HybridFl",
    "HypCluster",
    "Ifca",
    "KMeansModels",
    "L2gd",
    "LgFedAvg",
    "LgFedAvgEnsemble",
    "Local",
    "LocalTrees",
    "Mapper",
    "Mixup",
    "Mocha",
    "Moon",
    "NaiveMix",
    "OneShotEnsemble",
    "PFedMe",
    "Partial",
    "Party",
    "PerFedAvg",
    "Phase",
    "Pooled",
    "QFedAvg",
    "QuasiNewton",
    "RFedAvg",
    "RFedAvgPlus",
    "Replies",
    "Reptile",
    "Scaffold",
    "SecureBoost",
    "SharedRows",
    "SplitNet",
    "TransferLearning",
    "Vectors",
    "VerticalLinear",
    "Virtual",
    "XorMix",
    "algorithm",
]

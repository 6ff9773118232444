"""How unalike the parties are: plain figures of all that is seen, and the federated CDF of what nobody may see."""

from __future__ import annotations

from unalike.measure.columns import ColumnSkew, alpha_of, column_skew
from unalike.measure.degree import Degree, OwnDegrees
from unalike.measure.extract import dimension_names, party_features, party_labels
from unalike.measure.federated_cdf import Kept, Measurement, measure
from unalike.measure.publish import FederationDegrees, Published
from unalike.measure.skew import LabelSkew, label_skew

__all__ = [
    "ColumnSkew",
    "Degree",
    "FederationDegrees",
    "Kept",
    "LabelSkew",
    "Measurement",
    "OwnDegrees",
    "Published",
    "alpha_of",
    "column_skew",
    "dimension_names",
    "label_skew",
    "measure",
    "party_features",
    "party_labels",
]

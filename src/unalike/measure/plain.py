"""The federated CDF where all may be seen: the figures of ``measure``, bit for bit, without its messages."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np

from unalike.measure.cdf import count, read_cdf
from unalike.measure.degree import compare
from unalike.measure.publish import FederationDegrees, publish, summarise
from unalike.measure.support import Values, agree, support_of


def plain_figures(parties: Mapping[str, Values], seed: int = 0) -> FederationDegrees:
    """The federation's figures, from each party's rows of each label or its features (``measure``'s ``seed``)."""
    supports = {party: support_of(party, values, Random(f"{seed} {party}")) for party, values in parties.items()}
    policy = agree(supports, protect="none")
    vectors = {party: count(policy, party, values) for party, values in parties.items()}
    everyone = read_cdf(policy, np.sum(list(vectors.values()), axis=0), len(parties))
    owned = {
        party: compare(policy, read_cdf(policy, own), everyone, len(parties)) for party, own in vectors.items()
    }
    return summarise([publish(policy, party, own, everyone) for party, own in owned.items()])

"""The kinds of skew: which splits of published tables are of each, and what NIID-Bench's tree names for it."""

from __future__ import annotations

from unalike.measure.situation import Kind

SPLITS: dict[Kind, tuple[str, ...]] = {
    "one label each": ("label-count(1)",),
    "label skew": ("label-count(2)", "label-count(3)", "label-dirichlet(0.5)"),
    "feature skew": ("feature-noise(0.1)", "synthetic", "by-writer"),
    "quantity skew": ("quantity-dirichlet(0.5)",),
    "alike": ("iid",),
}
"""The splits of NIID-Bench's Table 3 that are of a kind."""

PAPER: dict[Kind, str] = {
    "one label each": "fedprox",
    "label skew": "fedprox",
    "feature skew": "scaffold",
    "quantity skew": "fedprox",
    "alike": "fedavg",
}
"""Figure 6 of the paper; for parties that are alike it has no branch, and FedAvg costs least.

It has none either for parties whose labels and features both differ.
"""


def kinds_beside(kind: Kind) -> tuple[Kind, ...]:
    """The kinds whose evidence counts: where labels and features differ, those with the one or the other too."""
    return (kind, "label skew", "feature skew") if kind == "label and feature skew" else (kind,)

"""Ways to put vectors into groups at once: agglomerative clustering, and k-means that may trim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Generator, Tensor

Metric = Literal["l1", "l2", "cosine"]
Linkage = Literal["single", "complete", "average", "ward"]
_SCIPY = {"l1": "cityblock", "l2": "euclidean", "cosine": "cosine"}
_STARTS, _STEPS = 20, 100


def agglomerate(vectors: Tensor, metric: Metric, linkage: Linkage, threshold: float) -> list[list[int]]:
    """Groups that are merged, nearest first, while their distance is at most the threshold."""
    from scipy.cluster.hierarchy import fcluster
    from scipy.cluster.hierarchy import linkage as merged
    from scipy.spatial.distance import pdist

    if len(vectors) < 2:
        return [list(range(len(vectors)))]
    distances = pdist(vectors.detach().cpu().double().numpy(), _SCIPY[metric])
    distances[distances != distances] = 1  # the cosine with a vector of zeros
    return in_order(fcluster(merged(distances, linkage), threshold, "distance").tolist())


def k_means(vectors: Tensor, groups: int, trim: float, generator: Generator) -> list[list[int]]:
    """Lloyd's algorithm from several starts (k-means++); of the outcomes, that with the least sum of squares.

    ``trim``: a centre is the mean, coordinate by coordinate, without this fraction of the values at either end,
    and the same fraction of the vectors, those farthest from their centres, is left out of the sum of squares.
    """
    vectors = vectors.detach().cpu().double()
    outcomes = [_lloyd(vectors, _seeds(vectors, groups, generator), trim) for _ in range(_STARTS)]
    return in_order(min(outcomes, key=lambda outcome: outcome[0])[1])


def _seeds(vectors: Tensor, groups: int, generator: Generator) -> Tensor:
    """Some of the vectors, each drawn in proportion to its squared distance from those before."""
    import torch

    chosen = [int(torch.randint(len(vectors), (), generator=generator))]
    while len(chosen) < groups:
        gaps = _squares(vectors, vectors[chosen]).min(dim=1).values
        chosen.append(int(torch.multinomial(gaps if gaps.sum() > 0 else gaps + 1, 1, generator=generator)))
    return vectors[chosen]


def _lloyd(vectors: Tensor, centres: Tensor, trim: float) -> tuple[float, list[int]]:
    """Centres to means, vectors to the nearest centre, until nothing moves: the sum of squares, and the groups."""
    labels = _squares(vectors, centres).argmin(dim=1)
    for _ in range(_STEPS):
        centres = centres.clone()
        for group in sorted(set(labels.tolist())):  # one that is empty keeps its centre
            centres[group] = trimmed_mean(vectors[labels == group], trim)
        before, labels = labels, _squares(vectors, centres).argmin(dim=1)
        if labels.equal(before):
            break
    nearest = _squares(vectors, centres).min(dim=1).values.sort().values
    return float(nearest[: len(nearest) - int(trim * len(nearest))].sum()), labels.tolist()


def _squares(vectors: Tensor, centres: Tensor) -> Tensor:
    """Squared distances of every vector from every centre."""
    import torch

    return torch.cdist(vectors, centres, compute_mode="donot_use_mm_for_euclid_dist") ** 2


def trimmed_mean(vectors: Tensor, trim: float) -> Tensor:
    """The mean in each coordinate, without the fraction ``trim`` of the values at either end."""
    out = int(trim * len(vectors))
    return vectors.sort(dim=0).values[out : len(vectors) - out].mean(dim=0) if out else vectors.mean(dim=0)


def in_order(labels: list[int]) -> list[list[int]]:
    """The places of each label, groups in the order of their first places."""
    return [[place for place, one in enumerate(labels) if one == label] for label in dict.fromkeys(labels)]

"""How rows are shared out: Dirichlet draws, whole numbers near given proportions, sizes with a minimum."""

from __future__ import annotations

import math

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError

_SMALLEST, _LARGEST = 1e-300, 1e300  # beyond them a logarithm overflows, and the draw is certain anyway


def check_beta(rule: str, beta: float) -> None:
    """Refuse a concentration that is not a positive number."""
    if not (beta > 0 and math.isfinite(beta)):
        raise UserError(f"{rule}'s beta must be > 0, got {beta}. Use 0.5; larger is less skew.")


def check_minimum(rule: str, minimum: int) -> None:
    """Refuse a minimum that would allow a party without rows."""
    if minimum < 1:
        raise UserError(f"{rule}'s minimum must be >= 1, got {minimum}. Use 1: no party may be empty.")


def draw_dirichlet(beta: float | Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Rows drawn from ``Dir(beta)``, right for every beta > 0; a number is the same for every component.

    Gamma(beta) variates all underflow to 0 where beta is small, and 0 / 0 is no proportion. So their
    logarithms are drawn: G(beta) = G(beta + 1) U^(1 / beta), with -log U ~ Exp(1) (Marsaglia & Tsang 2000).
    """
    beta = np.minimum(beta, _LARGEST)
    logarithms = np.log(rng.standard_gamma(beta + 1, shape))
    logarithms -= rng.standard_exponential(shape) / np.maximum(beta, _SMALLEST)
    gammas = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    proportions: Array = gammas / gammas.sum(axis=1, keepdims=True)
    return proportions


def random_order(count: int, rng: np.random.Generator) -> Array:
    """The numbers below ``count`` in random order (``Generator.permutation`` may change between versions)."""
    return np.argsort(rng.random(count), kind="stable")


def even_sizes(total: int, parts: int) -> Array:
    """Whole numbers that add up to ``total`` and differ by at most one; the first are the larger ones."""
    sizes = np.full(parts, total // parts)
    sizes[: total % parts] += 1
    return sizes


def apportion(weights: Array, total: int) -> Array:
    """Whole numbers in proportion to ``weights`` that add up to ``total``: the method of largest remainders."""
    quotas = weights / weights.sum() * total
    whole: Array = np.floor(quotas).astype(np.int64)
    rest = total - int(whole.sum())
    whole[np.argsort(whole - quotas, kind="stable")[:rest]] += 1
    return whole


def deal(order: Array, sizes: Array) -> Array:
    """The owner of each row: the first ``sizes[0]`` rows of ``order`` are party 0's, and so on."""
    owner = np.empty(len(order), np.int64)
    owner[order] = np.repeat(np.arange(len(sizes)), sizes)
    return owner


def raise_to(sizes: Array, minimum: int) -> Array:
    """``sizes`` with the small ones raised to ``minimum`` at the cost of the largest; the sum stays."""
    wanted = np.maximum(minimum - sizes, 0)
    raised: Array = sizes + wanted - cut_tops(sizes, int(wanted.sum()))
    return raised


def cut_tops(sizes: Array, total: int) -> Array:
    """How many rows each party gives, ``total`` in all, when the largest are cut to a common level.

    The level is never below the minimum: there are at least ``minimum * parties`` rows, so the parties above
    the minimum have as many rows to spare as the others lack.
    """
    low, high = 0, int(sizes.max())  # the lowest level at which no more than ``total`` rows are given
    while low < high:
        middle = (low + high) // 2
        if np.maximum(sizes - middle, 0).sum() <= total:
            high = middle
        else:
            low = middle + 1
    given: Array = np.maximum(sizes - low, 0)
    rest = total - int(given.sum())  # one level lower gives too many: only some parties go there
    given[np.flatnonzero(sizes >= low)[:rest]] += 1
    return given

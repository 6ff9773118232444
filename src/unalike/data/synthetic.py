"""FedProx's synthetic parties, whose models and features differ by known amounts."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.split import choose_test_rows
from unalike.errors import UserError

FEATURES, CLASSES = 60, 10
MOST_PARTIES = 10_000  # their rows, 450 of each on average, take a gigabyte
_DEVIATION = np.arange(1, FEATURES + 1) ** -0.6  # Sigma is diagonal with entries j^-1.2


@register_dataset("synthetic", paper="Li et al. 2020 (FedProx), arXiv:1812.06127, section 5.1; Shamir et al. 2014")
class Synthetic:
    """Made-up parties with linear models of their own, 60 features, 10 classes; beta sets how features differ.

    Party k draws ``u_k ~ N(0, alpha)``, then every entry of ``W_k`` (60 x 10) and ``b_k`` from ``N(u_k, 1)``;
    ``B_k ~ N(0, beta)``, every entry of ``v_k`` from ``N(B_k, 1)``; its rows are ``x ~ N(v_k, Sigma)`` with
    ``Sigma`` diagonal, ``Sigma_jj = j^-1.2``; and ``y = argmax(softmax(x W_k + b_k))``. It has 50 + L rows where
    L is lognormal(4, 2), rounded down, and at most ``largest`` rows (0: no limit; sizes have a heavy tail).

    ``alpha`` and ``beta`` are variances, as the paper's ``N(mean, variance)`` reads. The paper's public code
    passes them on as standard deviations: they agree at 0 and 1, and its (0.5, 0.5) is (0.25, 0.25) here.
    Note that ``u_k`` is one number that raises all ten scores of a row alike, so that, taken literally, ``alpha``
    never changes a label: parties' models differ by the variance 1 of ``W_k`` and ``b_k``, whatever alpha is.
    The definition is kept as published, for comparison.

    ``iid=true`` is the paper's Synthetic-IID: one ``W``, ``b ~ N(0, 1)`` and ``v = 0`` for all, sizes unequal as
    before; alpha and beta must then be 0. Note that ``synthetic(0, 0)`` is not IID: ``W_k`` and ``v_k`` still
    differ by the variance 1. A fixed fifth of each party's rows is the test set (the public code: a tenth).
    """

    alpha: float = 0.0
    beta: float = 0.0
    parties: int = 30
    seed: int = 0
    iid: bool = False
    largest: int = 0

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "seed", "largest"):
            if getattr(self, name) < 0:
                raise UserError(f"synthetic's {name} must be >= 0, got {getattr(self, name)}. Use 0.")
        if not 1 <= self.parties <= MOST_PARTIES:
            raise UserError(
                f"synthetic's parties must be from 1 to {MOST_PARTIES:,}, got {self.parties}. The paper has 30."
            )
        if 0 < self.largest < 50:
            raise UserError(
                f"synthetic's largest must be 0 or >= 50, got {self.largest}. A party has 50 rows or more."
            )
        if self.iid and (self.alpha or self.beta):
            raise UserError("synthetic's iid needs alpha = beta = 0, as all parties are alike. Leave them out.")

    def load(self) -> Dataset:
        """Draw the parties; the same parameters give the same rows."""
        rng = np.random.default_rng(self.seed)
        sizes = rng.lognormal(4, 2, self.parties).astype(np.int64) + 50
        sizes = np.minimum(sizes, self.largest) if self.largest else sizes
        model = rng.standard_normal((FEATURES + 1, CLASSES))  # the shared one of iid; the last line is b
        xs, ys = [], []
        for size in sizes:
            x, y = self._party(rng, int(size), model)
            xs.append(x)
            ys.append(y)
        x, y, group = np.concatenate(xs), np.concatenate(ys), np.repeat(np.arange(self.parties), sizes)
        test = choose_test_rows(group, 0.2, self.seed)
        return Dataset(
            name="synthetic",
            x=x[~test],
            y=y[~test],
            x_test=x[test],
            y_test=y[test],
            classes=tuple(map(str, range(CLASSES))),
            features=tuple(f"x{number}" for number in range(1, FEATURES + 1)),
            group=group[~test],
            group_names=tuple(f"party {number}" for number in range(self.parties)),
            group_test=group[test],
        )

    def _party(self, rng: np.random.Generator, size: int, shared: Array) -> tuple[Array, Array]:
        """The rows and labels of one party."""
        if self.iid:
            model, mean = shared, np.zeros(FEATURES)
        else:
            model = rng.normal(rng.normal(0, np.sqrt(self.alpha)), 1, shared.shape)
            mean = rng.normal(rng.normal(0, np.sqrt(self.beta)), 1, FEATURES)
        x = (mean + rng.standard_normal((size, FEATURES)) * _DEVIATION).astype(np.float32)
        # softmax keeps the order, so its argmax is that of its argument
        return x, (x.astype(np.float64) @ model[:-1] + model[-1]).argmax(axis=1)

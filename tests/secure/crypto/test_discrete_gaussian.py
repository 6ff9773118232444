"""Exact integer noise: its distribution, and what it protects."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from unalike.secure.crypto import discrete_gaussian
from unalike.secure.crypto.discrete_gaussian import epsilon, sample
from unalike.secure.crypto.errors import CryptoError


@pytest.fixture(autouse=True)
def fixed(monkeypatch):
    """The operating system's random numbers replaced by fixed ones, so that no test fails by chance."""
    monkeypatch.setattr(discrete_gaussian, "randbelow", Random(7).randrange)


@pytest.mark.parametrize("sigma", [0.6, 1, 2.5, Fraction(7, 3)])
def test_the_distribution(sigma):
    draws = sample(sigma, 2500)
    reach = math.ceil(2.5 * sigma)
    inside = np.arange(-reach, reach + 1)
    weights = np.exp(-(np.arange(-200, 201) ** 2) / (2 * float(sigma) ** 2))
    expected = np.exp(-(inside**2) / (2 * float(sigma) ** 2)) / weights.sum()
    counts = np.array([(draws == x).sum() for x in inside])
    rest = len(draws) - counts.sum()
    pvalue = chisquare([*counts, rest], [*len(draws) * expected, len(draws) * (1 - expected.sum())]).pvalue
    assert pvalue > 1e-3
    assert draws.dtype == np.int64


def test_the_steps_of_the_sampler():
    for gamma in (Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)):
        share = np.mean([discrete_gaussian._bernoulli_exp(gamma) for _ in range(2000)])
        assert share == pytest.approx(math.exp(-gamma), abs=0.04)
    laplace = np.array([discrete_gaussian._laplace(2) for _ in range(2000)])
    at_zero = (1 - math.exp(-0.5)) / (1 + math.exp(-0.5))
    assert np.mean(laplace == 0) == pytest.approx(at_zero, abs=0.04)
    assert np.mean(laplace > 0) == pytest.approx((1 - at_zero) / 2, abs=0.04)


@given(st.floats(0.1, 100), st.floats(0.01, 100), st.floats(1e-12, 0.5))
@settings(max_examples=30, deadline=None)
def test_epsilon_is_below_the_simple_bound_and_falls_with_sigma(sigma, sensitivity, delta):
    rho = sensitivity**2 / (2 * sigma**2)
    value = epsilon(sigma, sensitivity, delta)
    assert 0 <= value <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-9
    assert epsilon(2 * sigma, sensitivity, delta) <= value + 1e-9


@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0, 3.0])
def test_epsilon_holds_for_one_count(ratio):
    """Against the definition: delta(eps) = sum_x max(0, p(x) - e^eps p(x - 1)) for one entry that moves by 1."""
    sigma, delta = 1 / ratio, 1e-5
    value = epsilon(sigma, 1, delta)
    x = np.arange(-2000, 2001)
    p = np.exp(-(x**2) / (2 * sigma**2))
    q = np.exp(-((x - 1) ** 2) / (2 * sigma**2))
    gap = np.maximum(0, p - math.exp(value) * q).sum() / p.sum()
    assert gap <= delta
    assert value < 1.6 * epsilon(sigma, 1, 10 * delta)  # and it is not far too careful


def test_no_sensitivity_costs_nothing():
    assert epsilon(1, 0, 1e-5) == 0


@pytest.mark.parametrize("arguments", [(0, 1, 0.1), (-1, 1, 0.1), (1, -1, 0.1), (1, 1, 0), (1, 1, 1)])
def test_epsilon_of_nonsense(arguments):
    with pytest.raises(CryptoError):
        epsilon(*arguments)


@pytest.mark.parametrize("arguments", [(0, 1), (-1, 1), (math.nan, 1), (math.inf, 1), (1, -1), (2**41, 1)])
def test_noise_of_nonsense(arguments):
    with pytest.raises(CryptoError):
        sample(*arguments)


def test_epsilon_of_the_smallest_and_the_largest_noise():
    assert epsilon(1e-200, 3, 1e-6) == math.inf
    assert epsilon(5e-324, 1e308, 1e-6) == math.inf
    assert 0 < epsilon(1e200, 3, 1e-6) < 1e-198
    assert epsilon(1.0, 0.0, 1e-6) == 0
    assert epsilon(1e150, 1e10, 1e-6) == pytest.approx(1e-140 * math.sqrt(2 * math.log(1e6)), rel=0.2)
    for sigma, sensitivity in ((math.inf, 1), (1, math.inf), (math.nan, 1), (1, math.nan)):
        with pytest.raises(CryptoError):
            epsilon(sigma, sensitivity, 1e-6)

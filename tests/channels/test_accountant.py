"""Epsilon against dp-accounting's own accountants, known figures, and the definition."""

import math

import dp_accounting as dp
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from unalike.channels import Accountant, Participation, parse_channel
from unalike.channels.accountant import gauss_epsilon, laplace_epsilon, sampled_epsilon

CENTRAL = "clip(1.0)+gauss(%g)"


def plain(exchanges):
    return Participation({1: exchanges}, exchanges)


@pytest.mark.parametrize(("multiplier", "count"), [(1.0, 1), (4.0, 10), (2.0, 5)])
def test_all_parties_in_every_round_is_plain_composition(multiplier, count):
    accountant = PLDAccountant()
    accountant.compose(dp.GaussianDpEvent(multiplier), count)
    made = Accountant(parse_channel(CENTRAL % multiplier), 10, 10)
    assert made.neighbours == "one party more or less"
    assert made.epsilon(plain(count)) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_gauss_meets_the_definition():
    """delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) of two normal laws at a distance mu."""
    for multiplier, count in [(0.5, 1), (1.0, 200), (30.0, 3)]:
        mu, eps = math.sqrt(count) / multiplier, gauss_epsilon(multiplier, count, 1e-5)
        delta = norm.cdf(mu / 2 - eps / mu) - math.exp(eps + norm.logcdf(-mu / 2 - eps / mu))
        assert delta == pytest.approx(1e-5, rel=1e-3)


def test_noise_that_hides_nothing_has_a_large_epsilon():
    by_noise = [gauss_epsilon(ratio, 1, 1e-5) for ratio in (1e-9, 1e-4, 0.0099, 0.0101, 0.1)]
    assert by_noise == sorted(by_noise, reverse=True)
    assert by_noise[2] == pytest.approx(by_noise[3], rel=0.1)
    assert math.isfinite(by_noise[0])


def test_laplace_against_its_accountant_and_pure_privacy():
    accountant = PLDAccountant()
    accountant.compose(dp.LaplaceDpEvent(5.0), 20)
    made = Accountant(parse_channel("clip(1.0, l1)+laplace(5.0)"), 10, 10).epsilon(plain(20))
    assert accountant.get_epsilon(1e-5) - 1e-6 <= made <= 1.02 * accountant.get_epsilon(1e-5)
    assert laplace_epsilon(2.0, 1, 1e-5) <= 0.5
    assert laplace_epsilon(0.1, 100, 1e-5) <= 1000
    assert laplace_epsilon(5.0, 0, 1e-5) == 0


def test_cohorts_of_a_fixed_size_are_not_the_poisson_figure():
    """q = 0.1, T = 200, noise of once the sensitivity: Poisson 9.97 (PLD) and 11.06 (Rényi), fixed size 20.7."""
    poisson = PLDAccountant()
    poisson.compose(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0)), 200)
    assert poisson.get_epsilon(1e-5) == pytest.approx(9.97, abs=0.01)
    made = sampled_epsilon(1.0, 1000, 100, ((1, 200),), 1e-5)
    assert made == pytest.approx(20.71, abs=0.02)
    accountant = RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    event = dp.SampledWithoutReplacementDpEvent(1000, 100, dp.GaussianDpEvent(1.0))
    accountant.compose(event, 200)
    assert made == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_replacing_a_party_moves_the_sum_by_twice_the_clip():
    """So noise of z clips is z / 2 sensitivities: dp-accounting's event for samples takes the latter."""
    channel = parse_channel(CENTRAL % 2.0)
    made = Accountant(channel, 1000, 100)
    assert made.neighbours == "one party replaced"
    often = Participation({1: 200}, 200)
    assert made.epsilon(often) == sampled_epsilon(1.0, 1000, 100, ((1, 200),), 1e-5)


def test_without_amplification_who_took_part_most_counts():
    made = Accountant(parse_channel(CENTRAL % 1.0), 1000, 100)
    assert made.epsilon(Participation({1: 200}, 3)) == gauss_epsilon(0.5, 3, 1e-5)
    assert made.epsilon(Participation({1: 200}, 200)) < gauss_epsilon(0.5, 200, 1e-5)


def test_exchanges_of_a_round_count_each_and_share_a_sample():
    whole = Accountant(parse_channel(CENTRAL % 1.0), 10, 10)
    assert whole.epsilon(Participation({2: 5}, 10)) == whole.epsilon(Participation({1: 10}, 10))
    one_sample = sampled_epsilon(2.0, 100, 10, ((2, 50),), 1e-5)
    assert one_sample == sampled_epsilon(2.0 / math.sqrt(2), 100, 10, ((1, 50),), 1e-5)
    assert one_sample > sampled_epsilon(2.0, 100, 10, ((1, 100),), 1e-5)


def test_local_noise_claims_no_sampling():
    channel = parse_channel("clip(1.0)+gauss(3.0, where=party)")
    few = Accountant(channel, 100, 10).epsilon(Participation({1: 50}, 9))
    assert few == gauss_epsilon(1.5, 9, 1e-5)
    assert few == Accountant(channel, 9, 9).epsilon(plain(9))


def test_more_noise_and_fewer_rounds_hide_more():
    by_noise = [Accountant(parse_channel(CENTRAL % z), 10, 10).epsilon(plain(20)) for z in (0.5, 1, 2, 4)]
    assert by_noise == sorted(by_noise, reverse=True)
    sampled = Accountant(parse_channel(CENTRAL % 4), 100, 10)
    by_rounds = [sampled.epsilon(Participation({1: t}, t)) for t in (1, 5, 25)]
    assert by_rounds == sorted(by_rounds)


def test_no_noise_has_no_epsilon_and_no_exchange_costs_none():
    assert Accountant(parse_channel("clip(1.0)"), 10, 10).epsilon(plain(5)) is None
    assert Accountant(parse_channel(CENTRAL % 1.0), 10, 10).epsilon(Participation({}, 0)) == 0


def test_sampling_hides_nothing_from_those_who_know_the_cohorts():
    channel = parse_channel(CENTRAL % 2.0)
    done = Participation({1: 200}, 31)
    assert Accountant(channel, 1000, 100, known=True).epsilon(done) == gauss_epsilon(1.0, 31, 1e-5)
    assert Accountant(channel, 1000, 100).epsilon(done) < gauss_epsilon(1.0, 31, 1e-5)

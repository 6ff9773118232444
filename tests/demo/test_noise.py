import numpy as np
import pytest

from unalike.demo.noise import Difference, OverSeeds


def test_score():
    score = OverSeeds.of(np.array([0.5, 0.7]))
    assert score.mean == pytest.approx(0.6)
    assert score.std == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert str(score) == "60.0 ± 14.1"
    assert str(OverSeeds.of(np.array([0.5]))) == "50.0"
    assert OverSeeds.of(np.array([0.5])).std is None


def test_difference_of_a_method_with_itself_is_nothing():
    right = np.random.default_rng(0).integers(0, 2, (5, 40))
    gap = Difference.of("a", "a", "all", right, right)
    assert (gap.mean, gap.error, gap.beyond_noise) == (0, 0, False)


def test_error_is_that_of_the_textbook_with_one_seed():
    a, b = np.array([[1, 1, 1, 0]]), np.array([[0, 1, 0, 0]])
    gap = Difference.of("a", "b", "all", a, b)
    assert gap.mean == 0.5
    assert gap.error == pytest.approx(np.std([1, 0, 1, 0], ddof=1) / 2)


def test_chance_differences_are_called_noise_and_real_ones_are_not():
    rng = np.random.default_rng(1)
    false_alarms = found = 0
    for _ in range(300):
        patient = rng.normal(size=60)  # some patients are hard under every method

        def answers(skill, patient=patient):
            seed = rng.normal(scale=0.2, size=(5, 1))
            return (rng.normal(size=(5, 60)) + patient + seed + skill > 0).astype(int)

        false_alarms += Difference.of("a", "b", "all", answers(0), answers(0)).beyond_noise
        found += Difference.of("a", "b", "all", answers(1), answers(0)).beyond_noise
    assert false_alarms <= 0.07 * 300
    assert found > 0.9 * 300

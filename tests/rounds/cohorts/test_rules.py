"""Ways to choose a cohort, each for itself: chances, ties, and by what it chooses."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from unalike.errors import UserError
from unalike.randomness import stream
from unalike.rounds.cohorts import COHORTS, KnownParties
from unalike.rounds.cohorts.label_balanced import balanced, divergence

SKEWED = np.array([[9, 0, 0], [8, 1, 0], [0, 7, 0], [0, 5, 1], [0, 0, 6], [1, 0, 9], [4, 4, 4], [0, 2, 2]])
ALIKE = np.tile([3, 5, 2], (6, 1))
DECLARED = "|".join(" ".join(map(str, row)) for row in SKEWED)


def known(counts):
    return KnownParties(len(counts), counts.sum(axis=1), counts)


def drawn(text, counts, size, rounds, seed=0):
    rule = COHORTS.build(text)
    return [rule.draw(stream(seed, "cohort", number), known(counts), size) for number in range(1, rounds + 1)]


@pytest.mark.parametrize(
    "text", ["uniform", "label-balanced", "clustered", "clustered(by=rows)", "power-of-choice"]
)
def test_cohorts_are_so_many_different_parties_and_repeatable(text):
    for cohort in drawn(text, SKEWED, 3, 20):
        assert len(set(cohort)) == len(cohort) == (6 if text == "power-of-choice" else 3)
        assert set(cohort) <= set(range(8))
    assert drawn(text, SKEWED, 3, 20) == drawn(text, SKEWED, 3, 20)
    assert drawn(text, SKEWED, 3, 20) != drawn(text, SKEWED, 3, 20, seed=1)


def test_uniform_is_the_draw_that_it_always_was():
    for number, cohort in enumerate(drawn("uniform", SKEWED, 3, 5), 1):
        assert cohort == stream(0, "cohort", number).choice(8, 3, replace=False).tolist()


@pytest.mark.parametrize(("text", "counts"), [("label-balanced", ALIKE), ("label-balanced(pool=1)", SKEWED)])
def test_where_labels_are_mixed_alike_label_balanced_is_uniform_to_the_last_party(text, counts):
    plain = drawn("uniform", counts, 3, 40)
    assert [sorted(c) for c in drawn(text, counts, 3, 40)] == [sorted(c) for c in plain]


@pytest.mark.parametrize("text", ["clustered", "clustered(by=rows)"])
def test_where_parties_are_alike_all_cohorts_are_equally_likely(text):
    """Of 15 pairs of 6 parties, 3,000 draws: chi squared with 14 degrees is above 40 once in 4,000."""
    found = Counter(tuple(sorted(cohort)) for cohort in drawn(text, ALIKE, 2, 3000))
    pairs = list(combinations(range(6), 2))
    assert sum((found[pair] - 200) ** 2 / 200 for pair in pairs) < 40


@pytest.mark.parametrize("text", ["clustered", "clustered(by=rows)"])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_clustered_asks_everybody_equally_often(text, size):
    asked = Counter(number for cohort in drawn(text, SKEWED, size, 1000) for number in cohort)
    share = size / len(SKEWED)
    spread = np.sqrt(1000 * share * (1 - share))
    assert all(abs(asked[number] - 1000 * share) < 4.5 * spread for number in range(8))


def test_clustered_asks_one_of_each_kind():
    kinds = np.repeat([[9, 0, 0], [0, 9, 0], [0, 0, 9]], 4, axis=0) + np.eye(12, 3, dtype=int)
    for cohort in drawn("clustered", kinds, 3, 50):
        assert sorted(number // 4 for number in cohort) == [0, 1, 2]
    sizes = np.array([[1], [2], [50], [60], [900], [1000]])
    for cohort in drawn("clustered(by=rows)", sizes, 3, 50):
        assert sorted(number // 2 for number in cohort) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_a_step_adds_whoever_brings_the_mix_nearest(seed):
    counts = np.random.default_rng(seed).integers(0, 10, (9, 3)) + np.array([1, 0, 0])
    whole, size = counts.sum(axis=0), 4
    chosen = balanced(counts, whole, size)
    share = whole / whole.sum()
    for step in range(1, size):
        have = counts[chosen[:step]].sum(axis=0)
        gaps = {
            k: sum(p * np.log(p / q) for p, q in zip(t / t.sum(), share, strict=True) if p > 0)
            for k in set(range(len(counts))) - set(chosen[:step])
            for t in [have + counts[k]]
        }
        assert gaps[chosen[step]] <= min(gaps.values()) + 1e-12


def test_balanced_cohorts_are_nearer_to_the_population_than_uniform_ones():
    share = SKEWED.sum(axis=0) / SKEWED.sum()

    def gap(text):
        totals = np.array([SKEWED[cohort].sum(axis=0) for cohort in drawn(text, SKEWED, 3, 100)])
        return divergence(totals, share).mean()

    assert gap("label-balanced") < 0.5 * gap("uniform")


def test_power_of_choice_takes_the_highest_losses_and_the_first_of_equal_ones():
    rule = COHORTS.build("power-of-choice")
    assert rule.choose([7, 3, 5, 1], [0.2, 0.9, 0.9, 0.4], 2) == [3, 5]
    assert rule.choose([5, 3, 7, 1], [0.9, 0.9, 0.2, 0.9], 2) == [5, 3]


def test_candidates_are_drawn_by_size():
    counts = np.array([[70], [10], [10], [10]])
    first = Counter(candidates[0] for candidates in drawn("power-of-choice(d=1)", counts, 1, 2000))
    assert abs(first[0] / 2000 - 0.7) < 0.05


def test_declared_counts_stand_for_known_ones():
    rule = COHORTS.build(f'label-balanced(declared="{DECLARED}")')
    found = rule.informed(KnownParties(8))
    assert np.array_equal(found.labels, SKEWED)
    assert np.array_equal(found.rows, SKEWED.sum(axis=1))
    other = KnownParties(8, labels=ALIKE)
    assert COHORTS.build("label-balanced").informed(other) is other


@pytest.mark.parametrize("text", ["1 2|3", "1 2|a b", "1 -2|3 4", "0 0|1 2", "|"])
def test_declared_counts_that_are_none(text):
    for name in ("label-balanced", "clustered"):
        with pytest.raises(UserError, match="Declared label counts must be whole numbers"):
            COHORTS.build(f'{name}(declared="{text}")')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("label-balanced(pool=0.5)", "pool must be 1 or more"),
        ("power-of-choice(d=-1)", "d must be 0 or more"),
        ("clustered(by=colour)", "by"),
        ("balanced", "label-balanced"),
    ],
)
def test_bad_parameters(text, words):
    with pytest.raises(UserError, match=words):
        COHORTS.build(text)


def test_what_is_not_known_is_not_guessed():
    for text, words in (
        ("label-balanced", "label counts"),
        ("clustered", "label counts"),
        ("clustered(by=rows)", "sizes"),
    ):
        with pytest.raises(UserError, match=words):
            COHORTS.build(text).check(KnownParties(5), 2)
    with pytest.raises(UserError, match="are of 8 parties, but 5"):
        COHORTS.build(f'clustered(declared="{DECLARED}")').informed(KnownParties(5))
    for d in (1, 6):
        with pytest.raises(UserError, match="from the cohort's size, 2, to the number of parties, 5"):
            COHORTS.build(f"power-of-choice(d={d})").check(KnownParties(5), 2)


def test_too_many_parties_to_compare_each_with_each_are_refused_before_memory_is():
    rule, many = COHORTS.build("clustered"), 10_001
    with pytest.raises(UserError, match=r"at most 10,000 can be asked, got 10,001\. Use clustered\(by=rows\)"):
        rule.check(KnownParties(many, np.ones(many), np.ones((many, 1))), 5)
    COHORTS.build("clustered(by=rows)").check(KnownParties(many, np.ones(many)), 5)

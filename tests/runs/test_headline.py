"""What a partner is worth, in words, whichever way the score goes."""

import pytest

from unalike.runs.headline import gain_words


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"accuracy": 0.811, "alone": 0.757}, "accuracy 75.7%; together the others' columns add 5.4 points."),
        ({"accuracy": 0.70, "alone": 0.757}, "accuracy 75.7%; together the others' columns cost 5.7 points."),
        ({"accuracy": 0.757, "alone": 0.757}, "accuracy 75.7%; together the same."),
        ({"score": "rmse", "rmse": 4.0, "alone": 6.5}, "; together the others' columns add 2.500."),
        ({"score": "rmse", "rmse": 7.0, "alone": 6.5}, "; together the others' columns cost 0.500."),
    ],
)
def test_the_words_say_who_gains(figures, words):
    assert gain_words(figures).endswith(words)


@pytest.mark.parametrize("figures", [{"accuracy": 0.8}, {"accuracy": None, "alone": 0.5}, {"alone": "much"}, {}])
def test_without_both_figures_nothing_is_said(figures):
    assert gain_words(figures) == ""

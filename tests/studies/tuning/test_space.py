"""What a space may be, how it is written, and that draws stay inside and repeat."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.studies.tuning.space import Dimension, dimension, parse_space, read_space

numbers = st.floats(min_value=1e-9, max_value=1e9).map(lambda value: float(f"{value:.6g}"))
places = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 10**6), st.integers(0, 200))


def test_the_ways_to_write_it():
    lr, momentum, nets, batch, flag = parse_space(
        [
            "lr=log(1e-3,1)",
            "optimiser.momentum=0,0.5,0.9",
            "model=mlp(32,16)|logistic",
            "batch_size=16, 32",
            "drop_last=true,false",
        ]
    )
    assert lr == Dimension("lr", low=0.001, high=1.0, log=True)
    assert momentum.choices == (0, 0.5, 0.9)
    assert nets.choices == ("mlp(32,16)", "logistic")
    assert batch.choices == (16, 32)
    assert flag.choices == (True, False)


def test_a_table_says_the_same():
    table = {
        "lr": {"low": 1e-3, "high": 1, "log": True},
        "optimiser": {"momentum": [0, 0.5, 0.9]},
        "algorithm.mu": "log(1e-3, 1)",
        "epochs": "uniform(1, 5)",
    }
    texts = ["lr=log(1e-3,1)", "optimiser.momentum=0,0.5,0.9", "algorithm.mu=log(1e-3,1)", "epochs=uniform(1,5)"]
    assert read_space(table) == parse_space(texts)


@given(st.sampled_from(["log", "uniform"]), numbers, st.floats(1e-5, 1e3), places)
def test_draws_are_inside_and_repeat(kind, low, more, place):
    high = low * (1 + more)  # a range may be narrower than the three digits of a draw
    (found,) = parse_space([f"lr={kind}({low!r},{high!r})"])
    value = found.draw(*place)
    assert low <= value <= high
    assert found.draw(*place) == value


@given(st.booleans(), st.integers(1, 50), st.integers(1, 50), places)
def test_draws_of_whole_numbers_are_whole(log, low, more, place):
    found = Dimension("epochs", low=low, high=low + more, log=log).of_whole_numbers()
    value = found.draw(*place)
    assert type(value) is int
    assert low <= value <= low + more


@given(st.lists(st.integers(-5, 5), min_size=1, unique=True), places)
def test_a_choice_is_one_of_the_values(values, place):
    assert dimension("lr", values).draw(*place) in values


def test_draws_fill_the_space_by_factors_and_do_not_follow_each_other():
    lr, other = parse_space(["lr=log(1e-4,1)", "algorithm.mu=log(1e-4,1)"])
    drawn = [lr.draw(0, trial, 0) for trial in range(2000)]
    shares = [sum(low <= value < 10 * low for value in drawn) / 2000 for low in (1e-4, 1e-3, 1e-2, 1e-1)]
    assert all(abs(share - 0.25) < 0.05 for share in shares)
    assert (
        sum(one == two for one, two in zip(drawn, (other.draw(0, t, 0) for t in range(2000)), strict=True)) < 100
    )
    whole = Dimension("epochs", low=1, high=3).of_whole_numbers()
    counts = [sum(whole.draw(0, trial, 0) == value for trial in range(3000)) for value in (1, 2, 3)]
    assert all(abs(count - 1000) < 120 for count in counts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lr", "Cannot read"),
        ("lr=", "Cannot read"),
        ("=1,2", "Cannot read"),
        ("lr=log(1)", "two numbers"),
        ("lr=log(1,2,3)", "two numbers"),
        ("lr=log(a,b)", "two numbers"),
        ("lr=log(0,1)", "begins above 0"),
        ("lr=log(1,0.1)", "smaller number to a larger"),
        ("lr=uniform(1,1)", "smaller number to a larger"),
        ("lr=uniform(0,1e400)", "smaller number to a larger"),
        ("lr=1,1", "twice"),
        ("lr=1,,2", "needs values"),
        ("a b=1", "no parameter"),
        ("a.b.c=1", "no parameter"),
    ],
)
def test_mistakes_are_one_line(text, said):
    with pytest.raises(UserError, match=said) as caught:
        parse_space([text])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"lr": []},
        {"lr": 0.1},
        {"lr": {"low": 1}},
        {"lr": {"low": 1, "high": 2, "log": "yes"}},
        {"lr": {"low": "a", "high": 2}},
        {"optimiser": {"momentum": 3}},
    ],
)
def test_mistakes_in_a_table_are_one_line(table):
    with pytest.raises(UserError):
        read_space(table)


def test_a_name_twice_is_refused():
    with pytest.raises(UserError, match="lr twice"):
        parse_space(["lr=1,2", "lr=3,4"])


def test_whole_numbers_need_whole_bounds():
    with pytest.raises(UserError, match="whole numbers"):
        dimension("epochs", "uniform(0.5, 3)").of_whole_numbers()


@given(st.text(max_size=40) | st.text("lr=log(),.1e-|' ", max_size=20))
def test_any_text_is_read_or_refused(text):
    with suppress(UserError):
        (found,) = parse_space([text])
        assert found.draw(0, 1, 2) in found.choices or found.low <= found.draw(0, 1, 2) <= found.high

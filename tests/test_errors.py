"""Unknown names are answered with the one that was probably meant, or with none."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError, for_each, nearest, together, unknown, within
from unalike.runs.parts import registry

WORDS = st.text(alphabet="abcdef-", min_size=3, max_size=8)


@pytest.mark.parametrize(
    ("field", "name", "meant"),
    [
        ("algorithm", "fedagv", "fedavg"),
        ("algorithm", "FedAvg", "fedavg"),
        ("algorithm", "fed-prox", "fedprox"),
        ("algorithm", "fedprx", "fedprox"),
        ("algorithm", "scafold", "scaffold"),
        ("algorithm", "scaff", "scaffold"),
        ("algorithm", "rfedavgplus", "rfedavg"),
        ("algorithm", "q-fedavg", "qfedavg"),
        ("dataset", "hart", "heart"),
        ("dataset", "minst", "mnist"),
        ("dataset", "cifar", "cifar10"),
        ("model", "mpl", "mlp"),
        ("model", "mlp32", "mlp"),
        ("model", "resnet", "resnet18"),
        ("model", "simplecnn", "simple-cnn"),
        ("partition", "dirichlet", "label-dirichlet"),
        ("partition", "label_dirichlet", "label-dirichlet"),
        ("partition", "idd", "iid"),
        ("optimiser", "adamw", "adam"),
        ("optimiser", "sdg", "sgd"),
    ],
)
def test_a_slip_of_the_pen_is_recognised(field: str, name: str, meant: str) -> None:
    assert nearest(name, [entry.name for entry in registry(field)]) == meant


@pytest.mark.parametrize("field", ["algorithm", "dataset", "model", "partition", "optimiser", "channel"])
@pytest.mark.parametrize(
    "name", ["nope", "foo", "default", "x", "", "3", "my-own", "transformer", "non-iid", "sheep"]
)
def test_something_else_altogether_gets_no_suggestion(field: str, name: str) -> None:
    assert nearest(name, [entry.name for entry in registry(field)]) is None


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("nu", ["mu"], "mu"),
        ("n", ["m"], None),
        ("lr", ["mu"], None),
        ("round", ["rounds", "epochs"], "rounds"),
        ("ab", ["abcdef"], None),
        ("abc", ["abcdef"], "abcdef"),
        ("alpha", [], None),
    ],
)
def test_short_names(name: str, known: list[str], meant: str | None) -> None:
    assert nearest(name, known) == meant


@given(WORDS, st.lists(WORDS, unique=True, min_size=1), st.data())
def test_a_known_name_and_one_slip_from_it_are_always_found(
    name: str, others: list[str], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(name) - 2))
    slips = [
        name[:place] + name[place + 1 :],
        name[:place] + "z" + name[place:],
        name[:place] + "z" + name[place + 1 :],
        name[:place] + name[place + 1] + name[place] + name[place + 2 :],
    ]
    assert nearest(name, [*others, name]) == name
    for slip in slips:
        assert nearest(slip, [name]) == name
        assert nearest(slip, [*others, name]) is not None


def test_a_name_of_any_length_is_answered_at_once() -> None:
    began = time.perf_counter()
    assert nearest("fedavg" * 100_000, ["fedavg", "scaffold"]) is None
    assert time.perf_counter() - began < 1


def test_the_message_has_the_suggestion_or_all_names() -> None:
    assert str(unknown("thing", "abd", ["abc"])) == "Unknown thing 'abd'. Did you mean 'abc'?"
    assert str(unknown("thing", "x", ["b", "a"])) == "Unknown thing 'x'. Known: a, b."
    assert str(unknown("thing", "x", [])) == "Unknown thing 'x'. Known: none."


def test_several_mistakes_are_a_line_each():
    one = UserError("a is wrong.\nMend it.")
    assert together([one]) is one
    assert str(together([one, UserError("b")])) == "a is wrong. Mend it.\nb"
    many = str(together([UserError(str(n)) for n in range(30)])).splitlines()
    assert many == [*map(str, range(10)), "There are more. Mend these first."]


def test_where_mistakes_are_and_what_is_made_of_the_rest():
    assert str(within("va", UserError("a is wrong."))) == "va: a is wrong."
    assert str(within("va", together([UserError("a"), UserError("b")]))) == "va: a\nva: b"

    def half(number):
        if number % 2:
            raise UserError(f"{number} is odd.")
        return number // 2

    assert for_each(half, [2, 4]) == [1, 2]
    with pytest.raises(UserError, match=r"^1 is odd\.\n3 is odd\.$"):
        for_each(half, [1, 2, 3])

"""States of very many parties, against a plain dictionary."""

from __future__ import annotations

import gc
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.rounds import party_states, row_file
from unalike.rounds.party_states import PartyStates, PartyTensors, with_states, with_tensors
from unalike.rounds.row_file import RowFile
from unalike.rounds.state import State

VECTORS = st.sampled_from(("flat", "mixed", "scalar", "empty", "half"))
ROUNDS = st.lists(st.dictionaries(st.integers(0, 300), st.tuples(VECTORS, st.integers(0, 2**31))), max_size=6)


def vectors(kind, seed):
    draw = torch.Generator().manual_seed(seed)
    if kind == "flat":
        return {"w": torch.randn(5, generator=draw), "c": torch.randn(5, generator=draw)}
    if kind == "mixed":
        flags = torch.randint(0, 2, (3,), generator=draw).bool()
        return {
            "flag": flags,
            "count": torch.tensor(seed),
            "w": torch.randn(2, 3, generator=draw, dtype=torch.float64),
        }
    if kind == "half":
        return {"half": torch.randn(3, generator=draw).half(), "last": torch.randn(1, generator=draw)}
    return {"numbers": torch.tensor(float(seed))} if kind == "scalar" else {"nothing": torch.zeros(0, 4)}


def same(one, other):
    return one.keys() == other.keys() and all(
        value.dtype == other[key].dtype and value.shape == other[key].shape and torch.equal(value, other[key])
        for key, value in one.items()
    )


def assert_same(made, plain):
    assert len(made) == len(plain)
    assert list(made) == sorted(plain)
    assert all(number in made and same(made[number], plain[number]) for number in plain)
    assert made.get(301) is None
    assert 301 not in made


def play(rounds):
    """Versions of the store and of the dictionary after each round."""
    versions = [(PartyStates(), {})]
    for new in rounds:
        made, plain = versions[-1]
        given = {number: vectors(*what) for number, what in new.items()}
        versions.append((made.put(given), {**plain, **given}))
    return versions


@given(ROUNDS)
def test_every_version_is_the_dictionary_of_its_round(rounds):
    for made, plain in play(rounds):  # looked at after the last: later rounds have changed nothing of it
        assert_same(made, plain)


@given(ROUNDS)
def test_what_changed_and_the_digest_follow_the_rounds(rounds):
    versions = play(rounds)
    for (before, then), (after, now) in pairwise(versions):
        changed = after.changed_since(before)
        other = {number for number in now if number not in then or not same(now[number], then[number])}
        assert other <= set(changed) <= {number for number in now if now[number] is not then.get(number)}
        moved = before.digest_of(before) - before.digest_of(changed) + after.digest_of(changed)
        assert moved == after.digest_of(after) == PartyStates(now).digest_of(now)
        assert set(before.changed_since(after)) == set(changed)


@given(ROUNDS)
def test_tables_bring_all_back(rounds):
    made, plain = play(rounds)[-1]
    again = PartyStates().put_tables(made.tables(made), torch.device("cpu"), PartyStates())
    assert_same(again, plain)
    shared = PartyStates().put_tables(made.tables(made), torch.device("cpu"), made)
    assert shared.changed_since(made) == []  # rows that are equal are the same ones


@given(ROUNDS)
def test_a_state_has_the_digest_of_plain_dictionaries(rounds):
    made, plain = play(rounds)[-1]
    buffers = {number: torch.full((3,), float(number)) for number in plain}
    own = with_tensors(PartyTensors(PartyStates()), buffers)
    server = {"w": torch.ones(2)}
    packed = State(1, server, torch.zeros(1), made, own, made)
    assert packed.digest() == State(1, server, torch.zeros(1), plain, buffers, plain).digest()
    bare = packed.with_packed(dict.fromkeys(packed.packed))
    assert bare.digest() == State(1, server, torch.zeros(1), {}).digest()


def test_what_is_got_is_ones_own():
    kept = PartyStates({3: {"w": torch.zeros(2)}})
    kept[3]["w"].add_(1)
    assert kept[3]["w"].tolist() == [0, 0]
    assert kept[3]["w"].data_ptr() % 64 == 0  # as torch aligns its own


def test_few_stay_in_a_dictionary_and_many_are_packed(monkeypatch):
    monkeypatch.setattr(party_states, "FEW", 2)
    few = with_states({1: {"w": torch.ones(1)}}, {2: {"w": torch.zeros(1)}})
    assert isinstance(few, dict)
    many = with_states(few, {3: {"w": torch.ones(1)}})
    assert isinstance(many, PartyStates)
    assert_same(many, {**few, 3: {"w": torch.ones(1)}})
    assert with_states(many, {}) is many
    tensors = with_tensors({1: torch.ones(1), 2: torch.ones(1)}, {3: torch.zeros(2)})
    assert isinstance(tensors, PartyTensors)
    assert [tensors[number].tolist() for number in tensors] == [[1], [1], [0, 0]]


def test_beyond_the_budget_rows_are_in_a_file_whose_places_are_used_again(monkeypatch):
    monkeypatch.setattr(party_states, "IN_MEMORY", 100)
    kept, plain = PartyStates(), {}
    for round in range(30):
        new = {number: {"w": torch.full((10,), float(round))} for number in range(round % 3, 12, 2)}
        kept, plain = kept.put(new), {**plain, **new}
        gc.collect()
    assert_same(kept, plain)
    assert kept._file is not None
    assert kept._file.size <= 2 * 12 * 40  # 30 rounds of 6 rows would be 7,200 bytes


def test_a_full_disk_is_one_line(monkeypatch):
    class Full:
        def seek(self, place):
            pass

        def write(self, row):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(row_file.tempfile, "TemporaryFile", Full)
    with pytest.raises(UserError, match=r"does not fit into .*No space left on device.*TMPDIR"):
        RowFile().write(b"row")


def test_a_round_costs_what_its_cohort_keeps():
    kept = PartyStates({number: {"w": torch.zeros(1)} for number in range(5000)})
    after = kept.put({17: {"w": torch.ones(1)}})
    others = [page for page in kept._pages if after._pages[page] is not kept._pages[page]]
    assert others == [0]
    assert after.changed_since(kept) == [17]
    assert np.isclose(float(kept[17]["w"]), 0)

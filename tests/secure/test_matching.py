"""Matching finds the people whom all know, and shows nobody whom only some know."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.secure import hints
from unalike.secure.errors import ProtocolError
from unalike.secure.matching import HintTable, Matcher, table_of

SESSION = b"session"


def secret(number, session=SESSION):
    return (session + b"%d" % number).ljust(32, b".")


def matchers(lists, session=SESSION):
    return [Matcher(session, n, list(ids), secret(n, session)) for n, ids in enumerate(lists)]


def shared(own, others):
    """The keys of a party with the others that answer."""
    return {o: b"%d-%d" % (min(own, o), max(own, o)) for o in others if o != own}


def match(lists, asker=0):
    """The rows that every party finds, and all that was mailed on the way."""
    parties = matchers(lists)
    others = [n for n in range(len(lists)) if n != asker]
    asked = parties[asker].ask()
    answers = {n: parties[n].answer(asker, asked, shared(n, others)) for n in others}
    rows, mail = parties[asker].common(answers)
    found = {asker: rows} | {n: parties[n].read(asker, mail[n]) for n in others}
    return found, asked, answers, mail


people = st.lists(st.integers(0, 12).map(lambda n: f"pérson {n}".encode()), unique=True, max_size=10)


@given(st.lists(people, min_size=2, max_size=4), st.data())
@settings(max_examples=40, deadline=None)
def test_everybody_finds_the_intersection(lists, data):
    asker = data.draw(st.integers(0, len(lists) - 1))
    found, _, _, _ = match(lists, asker)
    common = set.intersection(*map(set, lists))
    for number, ids in enumerate(lists):
        assert found[number].tolist() == [row for row, one in enumerate(ids) if one in common]


def test_nobody_sees_whom_only_two_know():
    """With three parties: 40 people are known to a pair each, and 10 to all."""
    all_know = [b"all%d" % n for n in range(10)]
    pairs = {pair: [b"%d%d %d" % (*pair, n) for n in range(40)] for pair in combinations(range(3), 2)}
    lists = [[*all_know, *(one for pair in pairs if n in pair for one in pairs[pair])] for n in range(3)]
    found, asked, answers, mail = match(lists)
    assert [len(rows) for rows in found.values()] == [10] * 3
    parties = matchers(lists)
    total = {}
    for number in (1, 2):  # what the asking party can compute for each of its ids from one answer
        points, table = answers[number]
        keys, _ = seen_by_asker(parties[0], number, points)
        total[number] = keys ^ hints.look_up(keys, table.salt, table.words)
        values = total[number]
        assert values.any(axis=1).all(), "a share of zero alone must hide whether the other knows somebody"
        assert len(np.unique(values, axis=0)) == len(values)
    assert int((~(total[1] ^ total[2]).any(axis=1)).sum()) == 10
    known = {mail[number] for number in (1, 2)}
    assert all(len(one) == 16 * 10 for one in known)
    cut = [{asked[at : at + 32] for at in range(0, len(asked), 32)}]
    cut += [{points[at : at + 32] for at in range(0, len(points), 32)} for points, _ in answers.values()]
    assert not cut[0] & cut[1]
    assert not cut[1] & cut[2]
    assert not cut[0] & cut[2]


def seen_by_asker(asker, number, points):
    """The keyed hashes of another party that the asking party gets for its own ids."""
    from unalike.secure import matching
    from unalike.secure.crypto import curve

    _, undo = curve.blinding(asker.secret, b"own")
    return matching._halves(asker.session, number, curve.powers(undo, matching._split(points)))


def test_without_shares_of_zero_pairs_would_show():
    """The trap: hints that are not hidden by shares tell the asking party whom each other one knows."""
    lists = [[b"all", b"0 and 1"], [b"all", b"0 and 1"], [b"all"]]
    parties = matchers(lists)
    asked = parties[0].ask()
    points, table = parties[1].answer(0, asked, {})
    keys, _ = seen_by_asker(parties[0], 1, points)
    assert not (keys ^ hints.look_up(keys, table.salt, table.words)).any()
    points, table = parties[1].answer(0, asked, shared(1, [1, 2]))
    assert (keys ^ hints.look_up(keys, table.salt, table.words)).any(axis=1).all()


def test_the_order_of_what_is_sent_says_nothing_about_rows():
    ids = [b"%d" % n for n in range(200)]
    first, other = Matcher(SESSION, 0, ids, secret(0)), Matcher(SESSION, 0, ids[::-1], secret(0))
    places = first._order
    assert sorted(places.tolist()) == list(range(200))
    assert abs(np.corrcoef(places, np.arange(200))[0, 1]) < 0.25
    assert (other._order == places).all(), "the order comes from the secret, whatever the ids are"
    assert not (Matcher(SESSION, 0, ids, secret(9))._order == places).all()
    _, _, _, mail = match([ids, ids[::-1]])
    told = [mail[1][at : at + 16] for at in range(0, len(mail[1]), 16)]
    assert told == sorted(told)


def test_steps_are_functions_of_their_arguments():
    lists = [[b"a", b"b"], [b"b", b"c"]]
    (_, asked, answers, mail), (_, again, others, told) = match(lists), match(lists)
    assert (asked, mail, answers[1][0]) == (again, told, others[1][0])
    assert (answers[1][1].words == others[1][1].words).all()


def test_another_session_shares_no_bytes():
    def points(session):
        raw = matchers([[b"a", b"b"]], session)[0].ask()
        return {raw[at : at + 32] for at in range(0, len(raw), 32)}

    assert not points(b"one") & points(b"two")


@pytest.mark.parametrize(
    ("asked", "said"),
    [(b"x" * 33, "cut short"), (bytes(32), "low order"), ((1).to_bytes(32, "little"), "low order")],
)
def test_wrong_points_name_their_sender(asked, said):
    party = matchers([[b"a"], [b"a"]])[1]
    with pytest.raises(ProtocolError, match=said) as error:
        party.answer(0, asked, {})
    assert error.value.party == 0


def test_wrong_answers_name_their_sender():
    _, _, answers, mail = match([[b"a", b"b"], [b"b", b"c"]])
    asker, other = matchers([[b"a", b"b"], [b"b", b"c"]])
    points, table = answers[1]
    for wrong in (points[:32], points + points, points[:-1]):
        with pytest.raises(ProtocolError, match=r"answered .* bytes of points") as error:
            asker.common({1: (wrong, table)})
        assert error.value.party == 1
    with pytest.raises(ProtocolError, match="low order") as error:
        asker.common({1: (bytes(64), table)})
    assert error.value.party == 1
    for wrong in (mail[1] * 2, mail[1][:-1], bytes(16)):
        with pytest.raises(ProtocolError, match="common people whom this party does not know") as error:
            other.read(0, wrong)
        assert error.value.party == 0
    for salt, words in [(-1, table.words), (0, table.words[:-1]), (0, table.words[:0]), (0, table.words[:, :1])]:
        with pytest.raises(ProtocolError, match="table of hints"):
            table_of(1, salt, words)


def test_a_changed_table_finds_nobody_new():
    ids = [b"%d" % n for n in range(30)]
    asker, other = matchers([ids, ids[:20]])
    points, table = other.answer(0, asker.ask(), {})
    rows, _ = asker.common({1: (points, HintTable(table.salt + 1, table.words))})
    assert len(rows) == 0


@given(st.integers(0, 500), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_a_table_of_hints_gives_back_every_value(count, seed):
    rng = np.random.default_rng(seed)
    keys, values = (rng.integers(0, 2**64, (count, 2), np.uint64, endpoint=False) for _ in range(2))
    salt, table = hints.make(keys, values, rng.bytes)
    assert table.shape == (3 * hints.third(count), 2)
    assert (hints.look_up(keys, salt, table) == values).all()
    others = rng.integers(0, 2**64, (50, 2), np.uint64, endpoint=False)
    assert len(np.unique(hints.look_up(others, salt, table), axis=0)) > 40


def test_a_large_table_is_made_and_twice_the_same_key_is_not():
    rng = np.random.default_rng(1)
    keys, values = (rng.integers(0, 2**64, (50_000, 2), np.uint64) for _ in range(2))
    salt, table = hints.make(keys, values, rng.bytes)
    assert (hints.look_up(keys, salt, table) == values).all()
    assert len(table) < 1.35 * len(keys)
    with pytest.raises(ValueError, match="two keys are the same"):
        hints.make(keys[[0, 0]], values[:2], rng.bytes)

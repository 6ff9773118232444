"""A server that tells sites different stories about who is in a sum, alone or with a site in league."""

import pytest

from tests.federation.inside import World
from tests.federation.liar import Liar, ready, record_grids
from tests.federation.test_faults import participation
from tests.federation.test_server import assert_same
from unalike.federation import asking
from unalike.federation.audit import read_audit
from unalike.federation.dealing import deal_keys
from unalike.federation.envelope import peek
from unalike.federation.summing import MOST_SPOILT
from unalike.secure.errors import TooFewParties

FIVE = ("s0", "s1", "s2", "s3", "s4")
FIRST, SECOND, LEAGUE = ["s0", "s1"], ["s2", "s3"], ["s4"]
"""Who is told that all survived, who that s0 did not, and who signs both."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)


@pytest.fixture
def true(monkeypatch):
    """What each site adds, by its number: what nobody else may have."""
    return record_grids(monkeypatch)


def make(tmp_path, channel, quorum=4, names=FIVE, **train):
    return World.make(tmp_path, names, quorum=quorum, train={"channel": channel, "rounds": 1, **train})


def refusals(world, name):
    """Why a site refused messages, from its audit log."""
    site = next(site for site in world.transport.sites.values() if site.name == name)
    return [row["outcome"] for row in read_audit(site.folder) if row["way"] == "in" and "outcome" in row]


def assert_logged(world, names, why):
    for name in names:
        assert any(why in outcome for outcome in refusals(world, name)), (name, refusals(world, name))


def difference(first, second):
    return None if first is None or second is None else (first - second).tolist()


@pytest.mark.parametrize("threshold", [3, 4, 5])
def test_masked_the_server_and_one_site_do_not_read_an_update(threshold, tmp_path, true):
    """With a threshold of 3 each story has enough consents: for s0's seed, and for its mask key."""
    world = make(tmp_path, "masked")
    liar = Liar(world, *ready(world), colluders=LEAGUE, threshold=threshold)
    read = None
    try:
        read = liar.gather().two_stories("s0", FIRST, SECOND, FIVE[1:])
    except TooFewParties:
        assert threshold != 4, "the right terms must be taken"
    assert read is None or read.tolist() != true[0].tolist(), "the server and s4 have s0's update, bit for bit"
    if threshold == 4:
        assert_logged(world, FIRST + SECOND, "shows 3 consents; 4 are needed")
    else:
        assert_logged(world, FIRST + SECOND, f"the sum's threshold is {threshold}, by the plan it must be 4")


def test_masked_two_sums_of_one_exchange_do_not_both_get_enough(tmp_path, true):
    """The second sum is without s0 from the start: of four parties, three would be safe in a sum of their own."""
    world = make(tmp_path, "masked")
    asked, usual = ready(world)
    first = Liar(world, asked, usual, colluders=LEAGUE).gather()
    consents = first.consents(FIVE, FIRST)
    second = Liar(world, asked, usual, colluders=LEAGUE, parties=FIVE[1:]).gather()
    others = second.consents(FIVE[1:], ["s1", *SECOND])
    assert len(consents) == 3  # s0, s1 and s4
    assert len(others) == 3  # s2, s3 and s4, but not s1, which has signed the first
    assert_logged(world, ["s1"], "agreed to a sum of this exchange over other parties")
    assert set(second.shares(FIVE[1:], SECOND, others)) == set()
    assert_logged(world, SECOND, "shows 3 consents; 4 are needed")
    lower = Liar(world, asked, usual, colluders=LEAGUE, parties=FIVE[1:], threshold=3)
    with pytest.raises(TooFewParties):
        lower.gather()
    assert_logged(world, ["s1", *SECOND], "threshold is 3, by the plan it must be 4")


@pytest.mark.parametrize("sessions", [1, 2])
def test_encrypted_the_server_alone_does_not_read_an_update(sessions, tmp_path, true):
    """Two sums that differ in s0, each to be decrypted by sites that know nothing of the other."""
    world = make(tmp_path, "encrypted")
    asked, usual = ready(world)
    first = Liar(world, asked, usual).gather()
    everybody = first.decrypted(FIVE, [*FIRST, "s2"])
    second = first if sessions == 1 else Liar(world, asked, usual).gather()
    without = second.decrypted(FIVE[1:], ["s3", "s4"])
    assert difference(everybody, without) != true[0].tolist(), "the server has s0's update, bit for bit"
    assert everybody is None
    assert without is None
    assert_logged(world, [*FIRST, "s2"], "shows 3 consents; 4 are needed")
    assert_logged(world, ["s3", "s4"], "shows 2 consents; 4 are needed")


def test_encrypted_a_site_agrees_to_one_sum_of_an_exchange(tmp_path, true):
    """The first sum is right, and is decrypted; no second one of other sites is, after a restart too."""
    world = make(tmp_path, "encrypted")
    asked, usual = ready(world)
    everybody = Liar(world, asked, usual).gather().decrypted(FIVE, FIVE)
    assert everybody.tolist() == sum(true.values()).tolist()
    for restart in (False, True):
        if restart:
            for node, name in enumerate(FIVE, 11):
                world.start(node, name)
        without = Liar(world, asked, usual).gather().decrypted(FIVE[1:], FIVE[1:])
        assert difference(everybody, without) != true[0].tolist(), "the server has s0's update, bit for bit"
        assert without is None
    assert_logged(world, FIVE[1:], "agreed to a sum of this exchange over other parties")


def test_encrypted_few_spoilt_sums_are_decrypted(tmp_path, true):
    """Each answer, whether a changed ciphertext still decrypts, is a bit of the key: 7,000 of them are the key."""
    world = make(tmp_path, "encrypted")
    asked, usual = ready(world)
    assert Liar(world, asked, usual).gather().decrypted(FIVE, FIVE).tolist() == sum(true.values()).tolist()
    for _ in range(MOST_SPOILT):
        assert Liar(world, asked, usual).gather().decrypted(FIVE, FIVE, added=FIVE[1:]) is None
    assert_logged(world, FIVE, "spoilt the sum")
    for node, name in enumerate(FIVE, 11):
        world.start(node, name)
    assert Liar(world, asked, usual).gather().decrypted(FIVE, FIVE) is None
    assert_logged(world, FIVE, "too many sums under this key were spoilt")
    fingerprint = deal_keys(Liar(world, asked, usual).voice).fingerprint
    again = Liar(world, asked, usual, fingerprint=fingerprint).gather()
    assert again.decrypted(FIVE, FIVE).tolist() == sum(true.values()).tolist()


def test_consents_of_another_session_do_not_count(tmp_path, true):
    world = make(tmp_path, "encrypted")
    asked, usual = ready(world)
    before = Liar(world, asked, usual).gather().consents(FIVE, FIVE)
    liar = Liar(world, asked, usual).gather()
    own = liar.consents(FIVE, ["s0"])
    assert liar.decrypted(FIVE, ["s0"], {**before, **own}) is None
    assert_logged(world, ["s0"], "passed on, as party 1's, a message of another session")


@pytest.mark.parametrize("channel", ["masked", "encrypted"])
def test_a_session_is_for_one_vector(channel, tmp_path, true):
    """Two vectors of s0 under the same terms have the same tags: each fits into a sum with the others' vectors."""
    world = make(tmp_path, channel)
    asked, usual = ready(world)
    first = Liar(world, asked, usual).gather()
    world.start(11, "s0")
    again = Liar(world, asked, usual, session=first.policy.session)
    with pytest.raises(TooFewParties):
        again.gather()
    assert_logged(world, FIVE, "has added its vector to this sum before")


@pytest.mark.parametrize("algorithm", ["scaffold", "moon"])
def test_a_site_computes_from_one_state_in_an_exchange(algorithm, tmp_path, true):
    """Two sums of the same sites: in the second, s0 alone is told to begin from nothing. The rest cancels."""
    world = make(tmp_path, "masked", rounds=2, algorithm=algorithm)
    asked, usual = ready(world, round=2)
    total, before = Liar(world, asked, usual).gather().opened(), dict(true)
    assert total.tolist() == sum(before.values()).tolist()
    header, body = asked["s0"]
    world.start(11, "s0")
    second = Liar(world, {**asked, "s0": ({**header, "base": ""}, body)}, usual).gather()
    assert second.number("s0") not in second.vectors, "the difference of the sums would be s0's own change"
    assert_logged(world, ["s0"], "has computed from another state in that exchange")
    assert Liar(world, asked, usual).gather().opened().tolist() == total.tolist()  # the right question is answered


def test_nobody_is_in_a_sum_who_is_not_in_the_cohort(tmp_path, true):
    """The threshold is made for those whom the plan asks: others in league would be too many for it."""
    world = make(tmp_path, "masked", quorum=3, sample=0.8)
    asked, usual = ready(world)
    assert (usual.parties, usual.threshold, len(asked)) == (4, 3, 4)
    outsider = next(name for name in FIVE if name not in asked)
    liar = Liar(world, asked, usual, colluders=[outsider], parties=[*asked, outsider])
    with pytest.raises(TooFewParties):
        liar.gather()
    assert set(liar.vectors) == {liar.number(outsider)}
    assert_logged(world, asked, "somebody who by the plan takes no part in this exchange")


@pytest.mark.parametrize("channel", ["masked", "encrypted"])
def test_a_sum_below_the_quorum_is_not_agreed_to(channel, tmp_path, true):
    """Four of six would be safe; this plan wants five."""
    six = (*FIVE, "s5")
    world = make(tmp_path, channel, quorum=5, names=six)
    liar = Liar(world, *ready(world)).gather()
    assert liar.consents(six[2:], six[2:]) == {}
    assert_logged(world, six[2:], "the sum is of 4 parties, the plan needs 5")


def test_encrypted_trains_with_a_quorum(tmp_path):
    """One site of five vanishes before its vector, another while consents are gathered."""
    world = make(tmp_path, "encrypted", rounds=2)
    lost = []

    def before(node, raw):
        header = peek(raw).header
        if header["kind"] == "sum" and (header["step"], node) in ((1, 14), (2, 12)) and node not in lost:
            lost.append(node)
            return None
        return raw

    world.transport.before = before
    world.serve()
    assert lost == [14, 12]
    played = participation(world)
    assert played == {(1, 0): [0, 1, 2, 4], (2, 0): [0, 1, 2, 3, 4]}
    assert_same(world, world.simulation(played)[0])

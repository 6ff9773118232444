"""Sites measure how unalike they are over the federation's messages: degrees as in one process."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.federation.inside import HOSPITALS, World
from unalike.data.sites import Sites
from unalike.errors import UserError
from unalike.federation import measuring
from unalike.federation.envelope import Envelope, peek, write
from unalike.federation.folders import MEASURE, TRAIN
from unalike.federation.measuring import MOST_TIMES
from unalike.federation.speaker import Speaker
from unalike.measure import measure, party_features, party_labels
from unalike.measure.support import DistributionPolicy, agree
from unalike.partition import make_partition
from unalike.secure.policy import Policy


def world_of(tmp_path, **plan):
    world = World.make(tmp_path, **plan)
    world.folder.set_job(MEASURE)
    return world


def test_the_degrees_are_those_of_one_process(tmp_path):
    world = world_of(tmp_path)
    found = world.serve()
    data = Sites(str(tmp_path / "tables"), "outcome", missing="indicate").load()
    split = make_partition("natural", data, None, 0)
    for of, values in (("labels", party_labels(data, split)), ("features", party_features(data, split))):
        alone = measure(values, of=of, protect="none").to_dict()
        told = {one["party"]: one for one in found[of]["parties"]}
        for one in alone["parties"]:
            # Ranges of features are widened at random, so their bins are not quite the same.
            for key in ("mean", "worst"):
                for metric, value in one[key].items():
                    assert told[one["party"]][key][metric] == pytest.approx(
                        value, abs=0.0 if of == "labels" else 0.08
                    )
    assert json.loads((tmp_path / "server" / "measure.json").read_text())["labels"]["protect"] == "masks"


def test_then_it_trains_as_if_nothing_had_been_measured(tmp_path):
    world = world_of(tmp_path)
    world.serve()
    world.folder.set_job(TRAIN)
    assert world.serve()["rounds"] == 3


def test_a_site_can_be_in_a_federation_that_does_not_measure(tmp_path):
    world = world_of(tmp_path, measure=False)
    with pytest.raises(UserError, match="says that sites are not measured"):
        world.serve()


def test_a_table_that_has_lost_a_column_is_told_in_whole_sentences(tmp_path):
    world = world_of(tmp_path)
    world.serve()
    path = tmp_path / "tables" / "va.csv"
    path.write_text("".join(line.partition(",")[2] for line in path.read_text().splitlines(keepends=True)))
    world.start(13, "va")
    with pytest.raises(UserError, match="column age"):
        world.serve()
    assert any(line.startswith("va says: ") for line in world.said)
    assert not any(line.endswith("..") for line in world.said)


def test_counts_of_a_single_site_never_leave_it(tmp_path):
    world = world_of(tmp_path)
    world.serve()
    asked = next(peek(raw) for _, raw, _ in world.transport.log if peek(raw).header.get("of"))
    for node, name in enumerate(HOSPITALS, 11):
        site = world.transport.sites[node]
        counts = site._measure._counts(asked)
        plain = {counts.astype(kind).tobytes() for kind in ("<i8", "<i4")}
        sent = b"".join(answer for to, _, answer in world.transport.log if to == node)
        assert not any(part in sent for part in plain), name


def test_a_lying_sum_is_noticed_by_the_sites(tmp_path):
    world = world_of(tmp_path)

    def before(node, raw):
        message = peek(raw)
        if message.kind == "measure-compare":
            total = np.frombuffer(message.body, "<i8").copy()
            total[0] += 10_000  # more rows up to the first label than there are
            return write(Envelope(message.header, total.tobytes()), world.folder.signer())
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match="says:"):
        world.serve()


def test_asked_again_a_site_tells_the_same_ranges(tmp_path):
    """The least of many random ranges would be the true one."""
    world = world_of(tmp_path)
    supports = []
    for start in range(2):
        world.serve()
        log = [(node, peek(raw), answer) for node, raw, answer in world.transport.log if node == 11]
        told = [peek(a).body for _, m, a in log if m.kind == "measure-support" and m.header["of"] == "features"]
        supports.append(told[-1])
        world.start(11, HOSPITALS[0])
        assert len(told) == start + 1
    assert supports[0] == supports[1]


def test_all_sites_count_under_the_same_policy(tmp_path):
    """Where all others count every row in one bin, the sum shows the counts of the one who does not."""
    world = world_of(tmp_path)

    def before(node, raw):
        message = peek(raw)
        if message.kind == "measure-policy" and message.header["of"] == "features" and node != 11:
            policy = DistributionPolicy.from_bytes(message.body)
            wider = replace(policy, high=tuple(1e6 + high for high in policy.high))
            return write(Envelope(message.header, wider.to_bytes()), world.folder.signer())
        return raw

    world.transport.before = before
    with pytest.raises(UserError, match="another policy than was agreed on"):
        world.serve()


def lie_about_the_policy(monkeypatch, **changes):
    """A server that has all sites count in a way of its own."""
    monkeypatch.setattr(measuring, "agree", lambda *args, **terms: replace(agree(*args, **terms), **changes))


def test_sums_of_shares_are_refused(tmp_path, monkeypatch):
    """Of c rows out of 58, 67 and 80, all known to the server, a few sums in other scales tell each c."""
    world = world_of(tmp_path)
    lie_about_the_policy(monkeypatch, weighting="parties", scale=65521)
    with pytest.raises(UserError, match="a few of them tell each site's own counts"):
        world.serve()
    assert not any(peek(raw).kind == "measure-sum" for _, raw, _ in world.transport.log)


def test_counts_are_added_under_a_few_policies(tmp_path, monkeypatch):
    """Sums in ever narrower bins would tell every value, though not whose it is; also after a restart."""
    world = world_of(tmp_path)
    for number in range(MOST_TIMES):
        lie_about_the_policy(monkeypatch, most_rows=1000 + number)
        world.serve()
    world.serve()  # the same again
    world.start(11, HOSPITALS[0])
    lie_about_the_policy(monkeypatch, most_rows=999)
    with pytest.raises(UserError, match=f"added its counts to sums under {MOST_TIMES} other policies"):
        world.serve()


def test_counts_cannot_be_found_by_comparing_with_sums_that_nobody_made(tmp_path):
    """Whether a sum is refused tells whether the own count is above it: a few such answers, not thousands."""
    world = world_of(tmp_path)
    world.serve()
    logged = [(node, peek(raw)) for node, raw, _ in world.transport.log if peek(raw).kind == "measure-compare"]
    node, asked = next((node, message) for node, message in logged if message.header["of"] == "labels")
    total = np.frombuffer(asked.body, "<i8")
    reasons = []
    for number in range(2 * MOST_TIMES):
        if number == MOST_TIMES:
            world.start(node, world.transport.sites[node].name)  # also not after a restart
        made = np.maximum(total - number, 0) if number % 2 else total + number
        policy = next(
            peek(raw) for to, raw, _ in world.transport.log
            if to == node and peek(raw).kind == "measure-policy" and peek(raw).header["of"] == "labels"
        )  # fmt: skip
        for step, (message, body) in enumerate([(policy, policy.body), (asked, made.tobytes())]):
            header = {**message.header, "number": [99, 2 * number + step]}
            answer = world.transport.sites[node].answer(write(Envelope(header, body), world.folder.signer()))
        reasons.append(str(peek(answer).header.get("reason", "")))
    limited = ["other sums" in reason for reason in reasons]
    assert sum(limited) >= MOST_TIMES
    assert all(limited[-MOST_TIMES:])


@pytest.mark.parametrize("extra", [{}, {"round": 7, "turn": 7}])
def test_counts_are_added_for_all_sites_or_not_at_all(extra, tmp_path):
    """Whatever a header says: two sums of other parties would show one site's counts."""
    world = world_of(tmp_path)
    world.serve()
    place = world.folder
    voice = Speaker(world.plan, world.transport, place.signer(), place.roster(world.plan), 50)
    first = next(peek(raw) for _, raw, _ in world.transport.log if peek(raw).kind == "measure-sum")
    policy = Policy.from_bytes(first.body[: first.header["protocol"]])
    fewer = replace(
        policy, parties=3, threshold=3, identities=(*policy.identities[:2], b"\7" * 32, policy.identities[3])
    )
    for raw, why in ((fewer.to_bytes(), "has not agreed to"), (b"", "malformed")):
        header = {"kind": "measure-sum", "step": 0, "session": "", "protocol": len(raw), **extra}
        assert not dict(voice.ask({"hungarian": (header, raw)}, 10.0))
        assert why in voice.problems["hungarian"]

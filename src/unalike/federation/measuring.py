"""How unalike real sites are, before anything is trained: the federated CDF over the federation's own messages.

The steps are those of ``unalike.measure``; counts are added under masks (``unalike.secure``), so that the server
sees the sum of all sites' counts and nothing of a single site's. Each site compares itself with the sum and tells
its degrees, rounded. A site lets its counts be added for one set of parties only: two would show a difference.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple
from random import Random
from typing import Any, TypeVar, get_args

import numpy as np

from unalike.channels.stage import Grid
from unalike.data.dataset import Dataset
from unalike.errors import UserError
from unalike.federation.asking import Asking
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.once import Once
from unalike.federation.speaker import Outgoing, Speaker
from unalike.federation.summing import Occasion, Protection, secure_total
from unalike.measure.cdf import check_sum, count, read_cdf
from unalike.measure.degree import Degree, compare, headline
from unalike.measure.extract import party_features
from unalike.measure.federated_cdf import Measurement
from unalike.measure.publish import Published, publish, summarise
from unalike.measure.support import DistributionPolicy, Of, Support, Values, agree, support_of
from unalike.partition import Partition
from unalike.secure.crypto.primitives import derive
from unalike.secure.errors import ProtocolError, TooFewParties

T = TypeVar("T")
BITS = 32
MOST_TIMES = 10
"""With so many sums a site compares itself, and under so many policies it counts."""
SUM = "measure-sum"
"""The kind of the messages of the secure sum of counts."""


def measure_sites(speaker: Speaker, schema: str, of: Of, features: tuple[str, ...]) -> Measurement:
    """Measure by messages to all sites; nobody may be missing."""
    parties, asking, began = speaker.plan.parties, Asking(speaker), time.monotonic()
    before = dict.fromkeys(parties, 0)
    about = {"schema": schema, "of": of}

    def everybody(kind: str, bodies: Mapping[str, bytes]) -> dict[str, Envelope]:
        messages = {party: ({**about, "kind": kind}, bodies[party]) for party in parties}
        return asking.everybody(messages)

    announced = everybody("measure-support", dict.fromkeys(parties, b""))
    supports = {party: _used(party, announced[party], _support) for party in parties}
    policy = agree(supports, protect="masks")
    everybody("measure-policy", dict.fromkeys(parties, policy.to_bytes()))
    total = _total(speaker, dict.fromkeys(parties, ({**about, "policy": _digest(policy)}, b"")), policy)
    everyone = read_cdf(policy, total, len(parties))
    told = everybody("measure-compare", dict.fromkeys(parties, total.astype("<i8").tobytes()))
    published = tuple(_used(party, told[party], read_published) for party in parties)
    return Measurement(
        policy=policy,
        headline=headline(of),
        protect="masks",
        everyone=everyone,
        published=published,
        federation=summarise(published),
        absent=(),
        bytes_up=before | {party: speaker.sent_by.get(party, 0) for party in parties},
        bytes_down=before | {party: speaker.sent_to.get(party, 0) for party in parties},
        seconds={"all": time.monotonic() - began},
        names=features if of == "features" else (),
        labels_held={party: len(support.labels) for party, support in supports.items() if support.labels},
    )


def _total(speaker: Speaker, messages: Outgoing, policy: DistributionPolicy) -> Grid:
    length = policy.dimensions * (policy.points - 1) + 1
    try:
        everybody = len(speaker.plan.parties)
        names, total = secure_total(speaker, messages, length, Protection(BITS), everybody, everybody, SUM)
    except TooFewParties as error:
        why = " ".join(f"{party} {problem}." for party, problem in sorted(speaker.problems.items()))
        raise UserError(f"{error} Measuring needs every site. {why}".rstrip()) from None
    except ProtocolError as error:
        raise UserError(str(error)) from None
    if len(names) < len(messages):
        raise UserError(f"{', '.join(set(messages) - set(names))} left while measuring. Measure again.")
    return total


class SiteMeasure:
    """A site's part: what it announces, counts and tells; its counts leave it under masks only."""

    def __init__(self, name: str, parties: tuple[str, ...], data: Dataset, secret: bytes, once: Once) -> None:
        self._name, self._parties, self._data, self._secret, self._once = name, parties, data, secret, once
        self._values: dict[str, Values] = {}
        self._policy: dict[str, DistributionPolicy] = {}

    def support(self, message: Envelope) -> tuple[dict[str, Any], bytes]:
        """Step 1: which labels there are, or ranges of the features, widened at random.

        Asked again, the same: the least of many random ones would tell the true range. So would two that are
        widened by the same part of another step, as other constants of the schema make it.
        """
        if _kind(message) == "features":
            why = "this site has told its ranges under another schema; the two together would tell its extremes"
            self._once.ask("ranges", str(message.header.get("schema")), why)
        rng = Random(int.from_bytes(derive(self._secret, b"unalike ranges"), "big"))
        return {}, support_of(self._name, self._of(message), rng).to_bytes()

    def agree(self, message: Envelope) -> tuple[dict[str, Any], bytes]:
        """Steps 2 and 3: take the policy.

        It must count rows, as this server's does: the sum of rounded shares of the sites' rows, whose numbers the
        server knows, would tell each site's counts once it is made in a few different scales.
        """
        policy = DistributionPolicy.from_bytes(message.body)
        if policy.weighting != "rows":
            raise Refused("the sum would be of shares, not of rows: a few of them tell each site's own counts")
        self._policy[_kind(message)] = policy
        return {}, b""

    def vector(self, message: Envelope) -> tuple[Occasion, Grid]:
        """Step 4: the counts, and what is counted; all sites count under the policy that the sum's terms name."""
        if message.header.get("policy") != _digest(self._agreed(message)):
            raise Refused("the sum is of counts under another policy than was agreed on")
        # Ever narrower bins would tell every value that occurs.
        why = f"this site has added its counts to sums under {MOST_TIMES} other policies"
        self._once.ask(f"counts {_kind(message)}", _digest(self._agreed(message)), why, MOST_TIMES)
        return Occasion(f"measure {_kind(message)}", self._parties), self._counts(message)

    def compare(self, message: Envelope) -> tuple[dict[str, Any], bytes]:
        """Step 10: compare the own CDF with that of the sum, and tell the degrees, rounded."""
        policy, own = self._agreed(message), self._counts(message)
        # Degrees of sums that nobody made would tell the counts bit by bit.
        asked = hashlib.sha256(policy.to_bytes() + message.body).hexdigest()
        why = f"this site has compared itself with {MOST_TIMES} other sums"
        self._once.ask(f"measure {_kind(message)}", asked, why, MOST_TIMES)
        if len(message.body) != 8 * len(own):
            raise Refused("the sum has another length than the counts")
        total = np.frombuffer(message.body, "<i8").astype(np.int64)
        check_sum(policy, total, own, policy.parties)
        everyone = read_cdf(policy, total, policy.parties)
        degrees = compare(policy, read_cdf(policy, own), everyone, policy.parties)
        return {"published": asdict(publish(policy, self._name, degrees, everyone))}, b""

    def _counts(self, message: Envelope) -> Grid:
        return count(self._agreed(message), self._name, self._of(message))

    def _of(self, message: Envelope) -> Values:
        kind = _kind(message)
        if kind not in self._values:
            if kind == "labels":
                counts = np.bincount(self._data.y, minlength=len(self._data.classes))
                named = zip(self._data.classes, counts.tolist(), strict=True)
                self._values[kind] = {label: rows for label, rows in named if rows}
            else:
                alone = Partition.of_owners("natural", np.zeros(len(self._data.y), np.int64), (self._name,))
                self._values[kind] = party_features(self._data, alone)[self._name]
        return self._values[kind]

    def _agreed(self, message: Envelope) -> DistributionPolicy:
        policy = self._policy.get(_kind(message))
        if policy is None:
            raise Refused("no policy of counting was agreed on")
        return policy


def read_published(party: str, message: Envelope) -> Published:
    """What a site tells of its degrees: all numbers from 0 to 1."""
    try:
        told = message.header["published"]
        degrees = {key: Degree(**told[key]) for key in ("mean", "worst", "expected")}
        made = Published(party, **degrees, share=float(told["share"]), quantity=float(told["quantity"]))
    except (KeyError, TypeError, ValueError):
        raise Refused("its degrees are malformed") from None
    numbers = [number for degree in degrees.values() for number in astuple(degree)] + [made.share, made.quantity]
    if not all(isinstance(n, int | float) and math.isfinite(n) and 0 <= n <= 1 for n in numbers):
        raise Refused("its degrees are not numbers from 0 to 1")
    return made


def _digest(policy: DistributionPolicy) -> str:
    return hashlib.sha256(policy.to_bytes()).hexdigest()


def _kind(message: Envelope) -> Of:
    of: Any = message.header.get("of")
    if of not in get_args(Of):
        raise Refused(f"{json.dumps(of)[:40]} cannot be measured")
    return of  # type: ignore[no-any-return]


def _support(party: str, message: Envelope) -> Support:
    return Support.from_bytes(message.body, party)


def _used(party: str, message: Envelope, use: Callable[[str, Envelope], T]) -> T:
    """What a party's message holds, or a UserError that names the party."""
    try:
        return use(party, message)
    except (Refused, UserError) as error:
        raise UserError(f"{party}: {error}") from None

"""The federated CDF (FHE-FCDF): how unlike all others each party is, without anybody's distribution being seen.

Yan et al. 2023, "Privacy-preserving quantification of non-IID degree in federated learning", figure 4:

1. each party sends its support;                                                      ``support_of``
2. and 3. the server answers with the distribution policy;                            ``agree``
4. each party counts its rows on it;                                                  ``count``
5. to 9. the counts are encrypted, added, and the sum decrypted by the parties;       ``secure_sum``
10. each party compares its own CDF with that of the sum, and rounds what it tells.   ``compare``, ``publish``

Each step is a pure function from messages to messages. ``measure`` carries them in one process. The types say what
goes where: ``Kept`` stays with a party, ``Published`` is all it gives away, besides its support and its vectors in
secure sums.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from unalike.data.dataset import Array
from unalike.errors import UserError, unknown
from unalike.measure.cdf import Cdf, check_sum, count, read_cdf, sensitivity
from unalike.measure.degree import METRIC, Headline, OwnDegrees, compare, headline
from unalike.measure.publish import (
    FederationDegrees,
    Publish,
    Published,
    contribution,
    contribution_bound,
    read_mean,
    summarise,
)
from unalike.measure.publish import publish as rounded
from unalike.measure.support import (
    DEFAULT_BINS,
    DistributionPolicy,
    Of,
    Support,
    Weighting,
    agree,
    support_of,
)
from unalike.measure.values import read_values
from unalike.secure import Protect, secure_sum
from unalike.secure.clock import Clock
from unalike.secure.crypto import bfv, discrete_gaussian
from unalike.secure.policy import PARTIES_LEARN, check_count

DELTA = 1e-6
"""Of (epsilon, delta)-differential privacy where noise is asked for."""
_NOISE_REACH = 12  # in sigmas


@dataclass(frozen=True, eq=False)
class Kept:
    """What a party knows of itself and tells nobody. In a simulation we may look at it.

    degrees: exact, and of every dimension.
    """

    party: str
    counts: NDArray[np.int64] = field(repr=False)
    cdf: Cdf = field(repr=False)
    degrees: OwnDegrees = field(repr=False)


@dataclass(frozen=True)
class CountNoise:
    """Discrete Gaussian noise of ``sigma`` that each party adds to each of its counts.

    The sum is then (epsilon, delta)-differentially private for a row of a party even towards all the others in
    league, whose noise is not counted. The published degrees have no noise, and are not covered.
    """

    sigma: float
    epsilon: float
    delta: float


@dataclass(frozen=True, eq=False)
class Measurement:
    """How unlike the parties are, and what it cost to know.

    everyone: the global CDF. published: what each party gave away, nothing if only the mean was published; kept:
    what it did not, for simulations only. Both are of the parties whose rows are in the sum; ``absent`` are those
    that dropped out before.
    headline: the degree that stands first in tables and figures; all four are in ``to_dict``.
    labels_held: how many labels each party announced in step 1.
    bytes_up, bytes_down: by party, all messages together. seconds: by step, all parties and the server together.
    """

    policy: DistributionPolicy
    headline: Headline
    protect: Protect
    everyone: Cdf
    published: tuple[Published, ...]
    federation: FederationDegrees
    absent: tuple[str, ...]
    bytes_up: Mapping[str, int]
    bytes_down: Mapping[str, int]
    seconds: Mapping[str, float]
    names: tuple[str, ...] = ()
    labels_held: Mapping[str, int] = field(default_factory=dict)
    noise: CountNoise | None = None
    publish: Publish = "degrees"
    kept: tuple[Kept, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """All but what the parties keep, ready for JSON."""
        policy = self.policy
        points: dict[str, Any] = {"labels": list(policy.labels)}
        if not policy.labels:
            points = {"dimensions": list(self.names), "bins": policy.bins, "low": policy.low, "high": policy.high}
        return {
            "of": policy.of,
            "headline": METRIC[self.headline],
            "protect": self.protect,
            "weighting": policy.weighting,
            "publish": self.publish,
            "parties": [
                {**asdict(one), "bytes_up": self.bytes_up[one.party], "bytes_down": self.bytes_down[one.party]}
                for one in self.published
            ],
            "absent": list(self.absent),
            "labels_held": dict(self.labels_held),
            "federation": asdict(self.federation),
            "global": {**points, "rows": self.everyone.rows, "cdf": self.everyone.values.tolist()},
            "seconds": dict(self.seconds),
            "noise": asdict(self.noise) if self.noise else None,
        }


def measure(
    parties: Mapping[str, Mapping[str, int] | Sequence[str] | Array],
    *,
    of: Of = "labels",
    protect: Protect = "fhe+masks",
    weighting: Weighting = "rows",
    bins: int = DEFAULT_BINS,
    noise: float = 0.0,
    names: Sequence[str] = (),
    allow_two: bool = False,
    drop_after: Mapping[str, str] | None = None,
    publish: Publish = "degrees",
    degree: str | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure how unlike the parties are, all in one process but by real messages.

    parties: by name, each party's labels (one for each row, or a mapping from label to number of rows), or its
    features [rows, dimensions] (``party_labels`` and ``party_features`` make them from a partition).
    protect: "none", "fhe" or "fhe+masks" (docs/secure-measurement.md); the degrees are the same in all three.
    weighting: "rows" compares with the CDF of all rows, "parties" with the mean of the parties' CDFs.
    bins: of each feature. names: of the features. noise: sigma of the noise on every count.
    drop_after: for each party that vanishes, its last step in the secure sum.
    publish: "degrees", each party tells its degrees, rounded; "mean", no party does: a second secure sum gives the
    federation's mean, and nobody knows the worst.
    degree: which one stands first: "tv", total variation, the default for labels; "cdf", Kolmogorov-Smirnov, for
    features and for labels that are in order.
    seed: of the random ends of the ranges that parties announce. Real parties draw theirs in secret.
    """
    if of not in get_args(Of):
        raise unknown("variable", str(of), get_args(Of))
    first = headline(of, degree)
    if publish not in get_args(Publish):
        raise unknown("way to publish", str(publish), get_args(Publish))
    if not (math.isfinite(noise) and noise >= 0):
        raise UserError(f"The noise must be >= 0, got {noise}. Use 0 for none.")
    if len(parties) == 1:
        raise UserError("One party has nobody to be compared with. Measure at least three.")
    if protect not in PARTIES_LEARN:
        raise unknown("protection", str(protect), PARTIES_LEARN)
    if parties:
        check_count(len(parties), protect, allow_two)
    data = {party: read_values(party, values, of) for party, values in parties.items()}
    order, clock = tuple(data), Clock()
    announced = [support_of(party, values, Random(f"{seed} {party}")).to_bytes() for party, values in data.items()]
    clock.lap("support")
    supports = {party: Support.from_bytes(raw, party) for party, raw in zip(order, announced, strict=True)}
    reach = math.ceil(_NOISE_REACH * noise)
    answer = agree(supports, weighting=weighting, bins=bins, protect=protect, reach=reach).to_bytes()  # 2, 3
    clock.lap("policy")
    policy = DistributionPolicy.from_bytes(answer)
    privacy = _privacy(policy, noise)
    vectors = [count(policy, party, values) for party, values in data.items()]  # 4
    clock.lap("count")
    keys = bfv.deal() if protect != "none" and publish == "mean" else None
    summed = secure_sum(  # 5 to 9
        vectors,
        protect=protect,
        bound=policy.bound + len(order) * reach,
        drop_after={order.index(_known(party, order)): step for party, step in (drop_after or {}).items()},
        allow_two=allow_two,
        noise_sigma=noise,
        keys=keys,
    )
    clock.skip()
    present = [order[k] for k in summed.survivors]
    everyone = read_cdf(policy, summed.total, len(present))
    kept = []
    for k in summed.survivors:  # 10
        if not noise:
            check_sum(policy, summed.total, vectors[k], len(present))
        cdf = read_cdf(policy, vectors[k])
        kept.append(Kept(order[k], vectors[k], cdf, compare(policy, cdf, everyone, len(present))))
    told = _tell(policy, kept, everyone, publish, protect, keys, allow_two)
    clock.lap("compare")
    costs = zip(order, announced, summed.bytes_up, summed.bytes_down, strict=True)
    sent = {party: (len(raw) + up, len(answer) + down) for party, raw, up, down in costs}
    for party, (up, down) in told.sent.items():
        sent[party] = sent[party][0] + up, sent[party][1] + down
    before = {step: clock.laps[step] for step in ("support", "policy", "count")}
    return Measurement(
        policy=policy,
        headline=first,
        protect=protect,
        everyone=everyone,
        published=told.published,
        federation=told.federation,
        absent=tuple(party for party in order if party not in present),
        bytes_up={party: up for party, (up, _) in sent.items()},
        bytes_down={party: down for party, (_, down) in sent.items()},
        seconds={**before, **summed.seconds, "compare": clock.laps["compare"]},
        names=tuple(names) or tuple(f"feature {k}" for k in range(policy.dimensions if of == "features" else 0)),
        labels_held={party: len(support.labels) for party, support in supports.items() if support.labels},
        noise=privacy,
        publish=publish,
        kept=tuple(kept),
    )


@dataclass(frozen=True)
class _Told:
    """What the parties published, what follows for the federation, and the bytes up and down for each of them."""

    published: tuple[Published, ...]
    federation: FederationDegrees
    sent: Mapping[str, tuple[int, int]]


def _tell(
    policy: DistributionPolicy,
    kept: Sequence[Kept],
    everyone: Cdf,
    publish: Publish,
    protect: Protect,
    keys: bfv.Keys | None,
    allow_two: bool,
) -> _Told:
    """The end of step 10: rounded degrees, or only their mean."""
    count = len(kept)
    if publish == "degrees":
        published = tuple(rounded(policy, one.party, one.degrees, everyone) for one in kept)
        sent = {one.party: (len(json.dumps(asdict(one))), 0) for one in published}
        return _Told(published, summarise(published), sent)
    summed = secure_sum(
        [contribution(one.degrees, one.cdf.rows, everyone, count) for one in kept],
        protect=protect,
        bound=contribution_bound(policy, everyone, count),
        allow_two=allow_two,
        keys=keys,
    )
    costs = zip(kept, summed.bytes_up, summed.bytes_down, strict=True)
    sent = {one.party: (up, down) for one, up, down in costs}
    return _Told((), read_mean(summed.total, everyone, count), sent)


def _privacy(policy: DistributionPolicy, sigma: float) -> CountNoise | None:
    if not sigma:
        return None
    epsilon = discrete_gaussian.epsilon(sigma, sensitivity(policy), DELTA)
    if not math.isfinite(epsilon):
        raise UserError(f"Noise of sigma {sigma} hides nothing. Use 1 or more, or 0 for none.")
    return CountNoise(sigma, epsilon, DELTA)


def _known(party: str, order: Sequence[str]) -> str:
    if party not in order:
        raise unknown("party", party, order)
    return party

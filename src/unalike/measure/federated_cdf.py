"""The federated CDF (FHE-FCDF): how unlike all others each party is, without anybody's distribution being seen.

Yan et al. 2023, "Privacy-preserving quantification of non-IID degree in federated learning", figure 4:

1. each party sends its support;                                                      ``support_of``
2. and 3. the server answers with the distribution policy;                            ``agree``
4. each party counts its rows on it;                                                  ``count``
5. to 9. the counts are encrypted, added, and the sum decrypted by the parties;       ``secure_sum``
10. each party compares its own CDF with that of the sum.                             ``compare``

Each step is a pure function from messages to messages. ``measure`` carries them in one process. The types say what
goes where: ``Kept`` stays with a party, ``Published`` is all it gives away, besides its vector in the secure sum.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from unalike.crypto import discrete_gaussian
from unalike.data.dataset import Array
from unalike.errors import UserError, unknown
from unalike.measure.cdf import Cdf, count, read_cdf, sensitivity
from unalike.measure.clock import Clock
from unalike.measure.degree import Federation, Published, compare, summarise
from unalike.measure.secure_sum import Protect, secure_sum
from unalike.measure.support import (
    DEFAULT_BINS,
    DistributionPolicy,
    Of,
    Support,
    Values,
    Weighting,
    agree,
    named,
    support_of,
)

DELTA = 1e-6
"""Of (epsilon, delta)-differential privacy where noise is asked for."""
_NOISE_REACH = 12  # in sigmas


@dataclass(frozen=True, eq=False)
class Kept:
    """What a party knows of itself and tells nobody: its counts, and its CDF. In simulation we may look at it."""

    party: str
    counts: NDArray[np.int64] = field(repr=False)
    cdf: Cdf = field(repr=False)


@dataclass(frozen=True)
class Noise:
    """Discrete Gaussian noise of ``sigma`` that each party adds to each of its counts.

    The sum is then (epsilon, delta)-differentially private for a row of a party even towards all the others in
    league, whose noise is not counted. The published degrees are exact, and not covered.
    """

    sigma: float
    epsilon: float
    delta: float


@dataclass(frozen=True, eq=False)
class Measurement:
    """How unlike the parties are, and what it cost to know.

    everyone: the global CDF. published: what each party gave away; kept: what it did not, for simulations only.
    Both are of the parties whose rows are in the sum; ``absent`` are those that dropped out before.
    labels_held: how many labels each party announced in step 1.
    bytes_up, bytes_down: by party, all messages together. seconds: by step, all parties and the server together.
    """

    policy: DistributionPolicy
    protect: Protect
    everyone: Cdf
    published: tuple[Published, ...]
    federation: Federation
    absent: tuple[str, ...]
    bytes_up: Mapping[str, int]
    bytes_down: Mapping[str, int]
    seconds: Mapping[str, float]
    names: tuple[str, ...] = ()
    labels_held: Mapping[str, int] = field(default_factory=dict)
    noise: Noise | None = None
    kept: tuple[Kept, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """All but what the parties keep, ready for JSON."""
        policy = self.policy
        points: dict[str, Any] = {"labels": list(policy.labels)}
        if not policy.labels:
            points = {"dimensions": list(self.names), "bins": policy.bins, "low": policy.low, "high": policy.high}
        return {
            "of": policy.of,
            "protect": self.protect,
            "weighting": policy.weighting,
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
) -> Measurement:
    """Measure how unlike the parties are, all in one process but by real messages.

    parties: by name, each party's labels (one for each row, or a mapping from label to number of rows), or its
    features [rows, dimensions] (``party_labels`` and ``party_features`` make them from a partition).
    protect: "none", "fhe" or "fhe+masks" (docs/secure-measurement.md); the degrees are the same in all three.
    weighting: "rows" compares with the CDF of all rows, "parties" with the mean of the parties' CDFs.
    bins: of each feature. names: of the features. noise: sigma of the noise on every count.
    drop_after: for each party that vanishes, its last step in the secure sum.
    """
    if of not in get_args(Of):
        raise unknown("variable", str(of), get_args(Of))
    if not (math.isfinite(noise) and noise >= 0):
        raise UserError(f"The noise must be >= 0, got {noise}. Use 0 for none.")
    data = {party: _values(party, values, of) for party, values in parties.items()}
    order, clock = tuple(data), Clock()
    announced = [support_of(party, values).to_bytes() for party, values in data.items()]  # 1
    clock.lap("support")
    supports = {party: Support.from_bytes(raw, party) for party, raw in zip(order, announced, strict=True)}
    reach = math.ceil(_NOISE_REACH * noise)
    answer = agree(supports, weighting=weighting, bins=bins, protect=protect, reach=reach).to_bytes()  # 2, 3
    clock.lap("policy")
    policy = DistributionPolicy.from_bytes(answer)
    privacy = _privacy(policy, noise)
    vectors = [count(policy, party, values) for party, values in data.items()]  # 4
    clock.lap("count")
    summed = secure_sum(  # 5 to 9
        vectors,
        protect=protect,
        bound=policy.bound + len(order) * reach,
        drop_after={order.index(_known(party, order)): step for party, step in (drop_after or {}).items()},
        allow_two=allow_two,
        noise_sigma=noise,
    )
    clock.skip()
    present = [order[k] for k in summed.survivors]
    everyone = read_cdf(policy, summed.total, len(present))
    kept = [Kept(order[k], vectors[k], read_cdf(policy, vectors[k])) for k in summed.survivors]
    published = [compare(policy, one.party, one.cdf, everyone, len(present)) for one in kept]  # 10
    last = {one.party: len(json.dumps(asdict(one))) for one in published}
    federation = summarise(published)
    clock.lap("compare")
    costs = zip(order, announced, summed.bytes_up, summed.bytes_down, strict=True)
    sent = {party: (len(raw) + up + last.get(party, 0), len(answer) + down) for party, raw, up, down in costs}
    before = {step: clock.laps[step] for step in ("support", "policy", "count")}
    return Measurement(
        policy=policy,
        protect=protect,
        everyone=everyone,
        published=tuple(published),
        federation=federation,
        absent=tuple(party for party in order if party not in present),
        bytes_up={party: up for party, (up, _) in sent.items()},
        bytes_down={party: down for party, (_, down) in sent.items()},
        seconds={**before, **summed.seconds, "compare": clock.laps["compare"]},
        names=tuple(names) or tuple(f"feature {k}" for k in range(policy.dimensions if of == "features" else 0)),
        labels_held={party: len(support.labels) for party, support in supports.items() if support.labels},
        noise=privacy,
        kept=tuple(kept),
    )


def _values(party: str, values: Any, of: Of) -> Values:
    if of == "features":
        if isinstance(values, Mapping):
            raise UserError(f"{named(party)} has labels where features are measured. Give [rows, dimensions].")
        return np.asarray(values)
    if isinstance(values, Mapping):
        return {str(label): int(rows) for label, rows in values.items()}
    labels, rows = np.unique(np.asarray(values), return_counts=True)
    return dict(zip(map(str, labels.tolist()), rows.tolist(), strict=True))


def _privacy(policy: DistributionPolicy, sigma: float) -> Noise | None:
    if not sigma:
        return None
    return Noise(sigma, discrete_gaussian.epsilon(sigma, sensitivity(policy), DELTA), DELTA)


def _known(party: str, order: Sequence[str]) -> str:
    if party not in order:
        raise unknown("party", party, order)
    return party

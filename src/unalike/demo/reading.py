"""What the figures of the demonstration say, in sentences. Whatever could be wrong follows from a figure."""

from __future__ import annotations

from collections.abc import Sequence

from unalike.demo.hospitals import ALL, ALONE, FEDAVG, NEIGHBOUR, OWN, POOLED, Hospitals
from unalike.demo.noise import ERRORS_TO_COUNT, Difference
from unalike.demo.uneven_digits import SPLITS, UnevenDigits

NOISE = "Noise here is two standard errors, over the test rows and the seeds: smaller differences may be chance."


def read_hospitals(found: Hospitals) -> list[str]:
    """How unalike the hospitals are, and what training together is worth to them."""
    neighbour, together = found.score(NEIGHBOUR, ALL).mean, found.score(FEDAVG, ALL).mean
    return [
        _unlikeness(found),
        f"Another hospital's model is right for {_percent(neighbour)} of the patients, the one that all trained "
        f"together (FedAvg) for {_percent(together)}: {_verdict(found.difference(FEDAVG, NEIGHBOUR, ALL))}.",
        "FedAvg against each hospital's own model, on its own patients: "
        f"{_verdict(found.difference(FEDAVG, ALONE, ALL))} over all; {_by_hospital(found, FEDAVG)}.",
        "Ditto gives each hospital a model of its own, held near the shared one. Against its model trained alone: "
        f"{_verdict(found.difference(OWN, ALONE, ALL))} over all; {_by_hospital(found, OWN)}. "
        f"Against FedAvg: {_verdict(found.difference(OWN, FEDAVG, ALL))}.",
        _worth(found),
        "Pooling all patients, which is not allowed, against FedAvg: "
        f"{_verdict(found.difference(POOLED, FEDAVG, ALL))}.",
        *_no_better_than_guessing(found),
    ]


def _unlikeness(found: Hospitals) -> str:
    shares = found.counts[:, 1] / found.counts.sum(axis=1)
    low, high = int(shares.argmin()), int(shares.argmax())
    return (
        f"From {_percent(shares[low])} ({found.names[low]}) to {_percent(shares[high])} ({found.names[high]}) of "
        f"the patients have the disease. Mean Jensen-Shannon distance between the labels of two hospitals: "
        f"{found.skew.jensen_shannon:.2f} (0: alike, 1: nothing in common)."
    )


def _by_hospital(found: Hospitals, method: str) -> str:
    """Which hospitals a method serves better or worse than their model trained alone."""
    gaps = [found.difference(method, ALONE, name) for name in found.names]
    gain = [gap.on for gap in gaps if gap.beyond_noise and gap.mean > 0]
    lose = [gap.on for gap in gaps if gap.beyond_noise and gap.mean < 0]
    parts = [f"{_listed(names)} {verb}" for names, verb in ((gain, "gained"), (lose, "lost")) if names]
    return " and ".join(parts) + " beyond the noise" if parts else "no single hospital differs beyond the noise"


def _worth(found: Hospitals) -> str:
    """Whether taking part is shown to beat training alone, by any method, for all or for a hospital."""
    gaps = [found.difference(method, ALONE, place) for method in (FEDAVG, OWN) for place in found.places]
    better = [f"{gap.better} ({gap.on})" for gap in gaps if gap.beyond_noise and gap.mean > 0]
    if better:
        return f"So taking part beats training alone with {_listed(better)}."
    return (
        f"So with {len(found.test_hospital)} test patients nothing here is shown to beat a hospital's own model. "
        "The digits below show when taking part pays."
    )


def _no_better_than_guessing(found: Hospitals) -> list[str]:
    weak = [name for name in found.names if found.score(FEDAVG, name).mean <= found.guess(name)]
    if not weak:
        return []
    return [f"Mind: for {_listed(weak)}, FedAvg is no better than always giving that hospital's commoner answer."]


def read_digits(found: UnevenDigits) -> list[str]:
    """When a model of one's own pays, and against what."""
    gaps = [found.difference(OWN, other, split) for split in SPLITS for other in (FEDAVG, ALONE)]
    beaten = any(gap.beyond_noise and gap.mean < 0 for gap in gaps)
    either = (
        [] if beaten else ["In neither case is Ditto shown to be worse than another; it trains twice as much."]
    )
    return [*(_of_split(found, split) for split in SPLITS), *either]


def _of_split(found: UnevenDigits, split: str) -> str:
    alone, together, own = (found.methods[split][name].worst.mean for name in (ALONE, FEDAVG, OWN))
    gaps = [found.difference(OWN, other, split) for other in (FEDAVG, ALONE)]
    return (
        f"With {split} a party, Ditto against FedAvg: {_verdict(gaps[0])}; against own models trained alone: "
        f"{_verdict(gaps[1])}. The worst tenth of the parties has {_percent(alone)} alone, {_percent(together)} "
        f"with FedAvg, {_percent(own)} with Ditto. {_pays(*gaps)}"
    )


def _pays(shared: Difference, alone: Difference) -> str:
    """What follows from the two comparisons of a model of one's own."""
    better = [gap.beyond_noise and gap.mean > 0 for gap in (shared, alone)]
    if all(better):
        return "Taking part with a model of one's own beats both."
    if better[0]:
        return "One model for all is not enough here, but training alone is: others have little to add."
    if better[1]:
        return "Taking part pays here, and one model for all is as good as models of one's own."
    return "Neither is shown to be beaten."


def _verdict(gap: Difference) -> str:
    """The difference in points, and whether it counts."""
    noise = f"noise ± {100 * ERRORS_TO_COUNT * gap.error:.1f}"
    size = f"{100 * gap.mean:+.1f} points".replace("-", "−")
    return f"{size}, beyond the {noise}" if gap.beyond_noise else f"{size}, within the {noise}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

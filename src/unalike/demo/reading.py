"""What the figures of the demonstration say, in sentences. Whatever could be wrong follows from a figure."""

from __future__ import annotations

from collections.abc import Sequence

from unalike.demo.hospitals import ALL, ALONE, NEIGHBOUR, POOLED, Hospitals
from unalike.demo.noise import ERRORS_TO_COUNT, Difference
from unalike.demo.uneven_digits import REFERENCE, UnevenDigits

NOISE = "Noise here is two standard errors, over the test rows and the seeds: smaller differences may be chance."


def read_hospitals(found: Hospitals) -> list[str]:
    """How unalike the hospitals are, and what training together is worth to them."""
    neighbour, together = found.score(NEIGHBOUR, ALL).mean, found.score("FedAvg", ALL).mean
    return [
        _unlikeness(found),
        f"Another hospital's model is right for {_percent(neighbour)} of the patients, the one that all trained "
        f"together (FedAvg) for {_percent(together)}: {_verdict(found.difference('FedAvg', NEIGHBOUR, ALL))}.",
        "FedAvg against each hospital's own model, on its own patients: "
        f"{_verdict(found.difference('FedAvg', ALONE, ALL))} over all; {_by_hospital(found)}.",
        f"Pooling all patients, which is not allowed, against FedAvg: "
        f"{_verdict(found.difference(POOLED, 'FedAvg', ALL))}. "
        f"FedProx against FedAvg: {_verdict(found.difference('FedProx', 'FedAvg', ALL))}.",
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


def _by_hospital(found: Hospitals) -> str:
    gaps = [found.difference("FedAvg", ALONE, name) for name in found.names]
    gain = [gap.on for gap in gaps if gap.beyond_noise and gap.mean > 0]
    lose = [gap.on for gap in gaps if gap.beyond_noise and gap.mean < 0]
    parts = [f"{_listed(names)} {verb}" for names, verb in ((gain, "gained"), (lose, "lost")) if names]
    return " and ".join(parts) + " beyond the noise" if parts else "no single hospital differs beyond the noise"


def _no_better_than_guessing(found: Hospitals) -> list[str]:
    weak = [name for name in found.names if found.score("FedAvg", name).mean <= found.guess(name)]
    if not weak:
        return []
    return [f"Mind: for {_listed(weak)}, FedAvg is no better than always giving that hospital's commoner answer."]


def read_digits(found: UnevenDigits) -> list[str]:
    """What unevenness costs, and whether FedProx helps."""
    lacking = (found.counts == 0).mean()
    smallest = int(found.counts.sum(axis=1).min())
    gap = found.difference(REFERENCE, "FedAvg")
    even, uneven = (found.methods[name].worst.mean for name in (REFERENCE, "FedAvg"))
    return [
        f"{_percent(lacking)} of the cells are empty: parties without a single image of a digit. Mean "
        f"Jensen-Shannon distance between the labels of two parties: {found.skew.jensen_shannon:.2f}.",
        f"The even split against the uneven one, both with FedAvg: {_verdict(gap)}. "
        f"The worst party gets {_percent(uneven)} instead of {_percent(even)}, "
        f"a rough figure: the smallest party has {smallest} images in all.",
        f"FedProx against FedAvg on the uneven split: {_verdict(found.difference('FedProx', 'FedAvg'))}.",
    ]


def _verdict(gap: Difference) -> str:
    """The difference in points, and whether it counts."""
    noise = f"noise ± {100 * ERRORS_TO_COUNT * gap.error:.1f}"
    size = f"{100 * gap.mean:+.1f} points".replace("-", "−")
    return f"{size}, beyond the {noise}" if gap.beyond_noise else f"{size}, within the {noise}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

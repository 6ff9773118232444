"""What the demo found, as tables and sentences in the terminal."""

from __future__ import annotations

import shlex

from unalike.cli.show import Paragraph, draw, paragraphs
from unalike.cli.table import table
from unalike.demo.content import Demonstration, Length
from unalike.demo.hospitals import ALONE, FEDAVG, NEIGHBOUR, OWN, POOLED, Hospitals
from unalike.demo.picture import SHOWN
from unalike.demo.reading import NOISE, read_digits, read_hospitals
from unalike.demo.uneven_digits import FIVE, METHODS, SETTINGS, SPLITS, UnevenDigits

_SAME = shlex.join(
    ["run", "--partition", SPLITS[FIVE], "--rounds", "30"]
    + [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
)
NEXT = (
    *(f"{_SAME} --algorithm {shlex.quote(METHODS[name])}" for name in (FEDAVG, OWN)),
    "runs compare",
    "recommend --dataset heart --partition natural --own-rows",
)
_SHORT_NAMES = {
    NEIGHBOUR: "another's model",
    ALONE: "own model, alone",
    FEDAVG: "FedAvg, one for all",
    OWN: "Ditto, own + shared",
    POOLED: "pooled, forbidden",
}


def show(found: Demonstration, plan: Length) -> None:
    """Both parts of the demo, on stdout."""
    seeds = f"{len(plan.seeds)} seeds, {plan.rounds} rounds"
    _show_hospitals(found.hospitals, seeds)
    _show_digits(found.digits, seeds)


def _heading(text: str) -> None:
    draw("", text, "─" * len(text))


def _show_hospitals(found: Hospitals, seeds: str) -> None:
    _heading("Four hospitals that may not share their patients (heart, natural)")
    skew = found.skew
    columns = ["hospital", "patients", "to test", "disease", "missing values", "entropy", "distance"]
    rows = [
        [
            name,
            str(counts.sum()),
            str(found.tested(name).sum()),
            f"{100 * counts[1] / counts.sum():.0f}%",
            f"{100 * found.missing[number]:.0f}%",
            f"{skew.entropy[number]:.2f} bits",
            f"{skew.total_variation[number]:.2f}",
        ]
        for number, (name, counts) in enumerate(zip(found.names, found.counts, strict=True))
    ]
    draw(table(columns, rows, right=columns[1:]))
    draw(Paragraph("Entropy of the hospital's labels; total variation distance between them and those of all."))
    draw("", f"Accuracy in % on each hospital's own test patients (mean ± std, {seeds})")
    columns = ["", *found.places]
    guesses = ["commoner answer", *(f"{100 * found.guess(place):.1f}" for place in found.places)]
    rows = [
        [_SHORT_NAMES[name], *(str(found.score(name, place)) for place in found.places)] for name in found.methods
    ]
    draw(table(columns, [guesses, *rows], right=columns[1:]), "", *paragraphs([*read_hospitals(found), NOISE]))


def _show_digits(found: UnevenDigits, seeds: str) -> None:
    splits = " and ".join(SPLITS.values())
    _heading(f"Handwritten digits at {len(found.names)} parties (digits, {splits})")
    columns = [f"{FIVE} (seed {found.seeds[0]})", *found.classes, "all"]
    rows = [
        [name, *(str(count or "·") for count in counts.tolist()), str(counts.sum())]
        for name, counts in zip(found.names[:SHOWN], found.counts[:SHOWN], strict=True)
    ]
    draw(table(columns, rows, right=columns[1:]))
    draw("", f"Accuracy in % on test images of each party's own digits (mean ± std, {seeds})")
    columns = ["", *(f"{split}{what}" for split in SPLITS for what in ("", ", worst tenth"))]
    scores = [
        [
            _SHORT_NAMES[name],
            *(str(one) for split in SPLITS for method in (found.methods[split][name],)
              for one in (method.accuracy, method.worst)),
        ]
        for name in METHODS
    ]  # fmt: skip
    draw(table(columns, scores, right=columns[1:]), "", *paragraphs(read_digits(found)))

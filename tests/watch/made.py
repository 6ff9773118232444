"""Folders of runs, made by hand: any number of rounds, whole, torn, finished or failed."""

import json

from unalike.runs.record import SEALS_ROUNDS, SEALS_SPEC, file_sha256
from unalike.runs.seals import FIRST, seal
from unalike.toml import write_toml

SPEC = {
    "dataset": "digits",
    "partition": "label-dirichlet(beta=0.1)",
    "algorithm": "fedprox(mu=0.1)",
    "parties": 10,
    "sample": 0.5,
    "rounds": 6,
    "seed": 0,
}


def row(number, value=None, **more):
    value = number / 100 if value is None else value
    by_party = {"count": 10, "mean": value, "worst": value / 2}
    return {
        "round": number, "score": "accuracy", "accuracy": value, "loss": 1 / number, "parties": by_party,
        "cohort": 5, "bytes_up": 100, "bytes_down": 200, "seconds": 2.0, **more,
    }  # fmt: skip


def sealed(rows):
    """The lines of rounds.jsonl."""
    before, lines = FIRST, []
    for each in rows:
        line, before = seal(each, before)
        lines.append(line)
    return lines, before


def write_run(folder, done=3, finished=False, problem=None, **spec):
    """A run's folder; ``finished`` writes a result that fits its rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    text = write_toml({**SPEC, **spec})
    (folder / "spec.toml").write_text(text)
    lines, last = sealed([row(number) for number in range(1, done + 1)])
    (folder / "rounds.jsonl").write_bytes(b"".join(lines))
    if finished:
        seals = {SEALS_SPEC: file_sha256(text.encode()), SEALS_ROUNDS: last}
        key = folder.name.rsplit("-", 1)[-1]
        data, _ = seal({**row(done, validation_accuracy=0.5), "key": key, "rounds": done, **seals}, indent=2)
        (folder / "result.json").write_bytes(data)
    if problem:
        (folder / "failure.json").write_text(json.dumps({"problem": problem, "final": True}))
    return folder


def nobody(path):
    """As if no lock were held."""
    return False

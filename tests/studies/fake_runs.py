"""Run folders without training: what a finished or failed run leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unalike.runs.folder import RunDirectory
from unalike.runs.run import record_failure
from unalike.runs.spec import RunSpec


def finished(runs: Path, spec: RunSpec, accuracy: float = 0.5, **figures: Any) -> Path:
    """The folder of a finished run with that test accuracy in every round."""
    folder = runs / spec.folder
    row = {"accuracy": accuracy, "seconds": 0.1, "bytes_up": 4, "bytes_down": 8, "cohort": 2}
    result = {"key": spec.key, "accuracy": accuracy, "seconds": 0.1 * spec.rounds, "weights_sha256": "0"}
    with RunDirectory.open(folder) as run:
        run.write_spec(spec.to_toml())
        for number in range(1, spec.rounds + 1):
            run.append_round({"round": number, **row})
        run.write_result(result | figures)
    return folder


def failed(runs: Path, spec: RunSpec, problem: str = "diverged", *, final: bool = True) -> Path:
    """The folder of a failed run."""
    record_failure(runs, spec, problem, final=final)
    return runs / spec.folder

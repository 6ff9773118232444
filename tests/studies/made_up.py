"""Run folders and records that nobody trained."""

from unalike.runs.folder import RunDirectory
from unalike.runs.results import Record
from unalike.runs.spec import RunSpec

DEGREES = {"label": 0.5, "label_expected": 0.01, "quantity": 0.1, "one_label": 0.0, "feature": 0.1}
ALIKE = {"label": 0.01, "label_expected": 0.01, "quantity": 0.0, "one_label": 0.0}


def figures(accuracy=0.8, **other):
    made = {
        "accuracy": accuracy,
        "loss": 0.5,
        "bytes_up": 100,
        "bytes_down": 50,
        "seconds": 2.0,
        "degrees": DEGREES,
    }
    return {**made, "data_sha256": "a", **other}


def rows(*accuracies):
    return tuple({"round": number, "accuracy": value} for number, value in enumerate(accuracies, start=1))


def record(algorithm="fedavg", accuracy=0.8, seed=0, state="finished", curve=None, partition="iid", **other):
    """A record; ``other`` go to the spec where it has such a field, else to the figures."""
    given = {name: other.pop(name) for name in list(other) if name in RunSpec.__dataclass_fields__}
    changed, key = other.pop("changed", 0.0), other.pop("key", "0" * 16)
    spec = {
        "dataset": "digits",
        "partition": partition,
        "algorithm": algorithm,
        "seed": seed,
        "rounds": 3,
        **given,
    }
    done = figures(accuracy, **other) if state == "finished" else {}
    problem = "diverged" if state == "failed" else None
    return Record(key, spec, state, done, rows(*(curve or (accuracy,) * 3)), problem, None, changed)


def write_run(folder, *, accuracies=(0.1, 0.5, 0.8), result=True, failure=None, **fields):
    """A run's folder with its files; gives the spec."""
    spec = RunSpec.from_mapping({"rounds": len(accuracies), **fields})
    with RunDirectory.open(folder / spec.folder) as run:
        run.write_spec(spec.to_toml())
        for row in rows(*accuracies):
            run.append_round({"bytes_up": 1, "bytes_down": 1, "seconds": 0.1, **row})
        if result:
            run.write_result(figures(accuracies[-1], key=spec.key))
        if failure:
            run.write_failure(failure)
    return spec

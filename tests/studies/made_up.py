"""Run folders and records that nobody trained."""

from dataclasses import replace

from unalike.runs.folder import RunDirectory
from unalike.runs.results import Record
from unalike.runs.spec import RunSpec
from unalike.scores import key_of

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
    """A record; ``other`` go to the spec where it has such a field, else to the figures. A loss is a figure."""
    fields = RunSpec.__dataclass_fields__.keys() - {"loss"}
    given = {name: other.pop(name) for name in list(other) if name in fields}
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


def by_score(score, values, **other):
    """Figures or rounds of a run that goes by that score, instead of accuracy."""
    key = key_of(score)
    made = {name: value for name, value in other.items() if name not in ("accuracy", "validation_accuracy")}
    validation = {f"validation_{key}": other["validation_accuracy"]} if "validation_accuracy" in other else {}
    return {**made, "score": score, key: values, **validation}


def scored(score, algorithm="fedavg", value=50.0, seed=0, **other):
    """As ``record``, with another score; ``validation_accuracy`` is its value on validation rows."""
    made = record(algorithm, value, seed, **other)
    rounds = tuple(by_score(score, row["accuracy"], **row) for row in made.rounds)
    figures = by_score(score, value, **made.figures) if made.figures else {}
    return replace(made, figures=figures, rounds=rounds if made.figures else ())


def write_run(folder, *, accuracies=(0.1, 0.5, 0.8), result=True, failure=None, by=None, **fields):
    """A run's folder with its files; gives the spec. ``by`` is another score, whose values ``accuracies`` are."""
    spec = RunSpec.from_mapping({"rounds": len(accuracies), **fields})
    done = figures(accuracies[-1], key=spec.key, rounds=len(accuracies), engine="sequential")
    with RunDirectory.open(folder / spec.folder) as run:
        run.write_spec(spec.to_toml())
        for row in rows(*accuracies):
            known = row if by is None else by_score(by, row["accuracy"], **row)
            run.append_round({"bytes_up": 1, "bytes_down": 1, "seconds": 0.1, **known})
        if result:
            run.write_result(done if by is None else by_score(by, done["accuracy"], **done))
        if failure:
            run.write_failure(failure)
    return spec

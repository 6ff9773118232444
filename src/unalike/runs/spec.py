"""RunSpec: everything that decides a run's outcome. Its hash is the run's key."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unalike.engines.table import engine_names
from unalike.errors import UserError, unknown
from unalike.own_code import explained, is_own, source_of
from unalike.part_text import coerce, types_of
from unalike.rounds.optimisers import LARGEST, USUAL_RATE, usual_rate
from unalike.rounds.tried import settled
from unalike.runs.meaning import check_meaning, protocol_of, unread, without_meaning
from unalike.runs.parts import PARTS, registry
from unalike.runs.spec_text import DEFAULT_MODEL, as_text_field, canonical, is_channel, model_for, parties_of
from unalike.scores import named
from unalike.toml import read_toml, write_toml

if TYPE_CHECKING:
    from unalike.rounds.work import LocalWork

DEFAULT_EPOCHS = 2
"""Local work where neither epochs nor steps are given."""
DEFAULTS = 1
"""The version of all defaults, those of parts included. It is in every key: another default counts it up."""
_LIGHT = ("dataset", "partition", "algorithm", "optimiser")
"""The parts that can be made without loading torch."""


def _option(default: Any, help: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class RunSpec:
    """One training with one seed.

    The defaults were chosen from a measured grid, so that a first run of any data set is a good one
    (docs/defaults.md). Studies of a paper write the paper's values out.
    """

    dataset: str = _option("digits", "data set, e.g. digits, heart")
    partition: str = _option("iid", 'the split, e.g. "label-dirichlet(0.1)"')
    parties: int | None = _option(None, "number of parties [10, or as many as the data have by nature]")
    model: str | None = _option(None, f'net, e.g. "mlp(32,16,8)" [the data set\'s own, else {DEFAULT_MODEL}]')
    algorithm: str = _option("fedavg", 'algorithm, e.g. "fedprox(mu=0.1)"; auto: as recommended')
    rounds: int = _option(50, "rounds of communication")
    epochs: int | None = _option(None, f"local epochs in a round [{DEFAULT_EPOCHS}]")
    steps: int | None = _option(None, "local steps in a round, instead of epochs")
    batch_size: int = _option(32, "rows in a local step")
    drop_last: bool = _option(False, "leave an epoch's incomplete last batch out")
    optimiser: str = _option("sgd(momentum=0.5)", 'local optimiser, e.g. "adam"')
    lr: float = _option(None, f"local learning rate [{USUAL_RATE}; adam and rmsprop 0.001]")
    lr_decay: float = _option(1.0, "factor on the learning rate after each round")
    sample: float = _option(1.0, "fraction of the parties in each round")
    cohort: str = _option("uniform", "how they are chosen, e.g. label-balanced, clustered, power-of-choice")
    public: float = _option(0.0, "fraction of the training rows that the server owns")
    validation: float = _option(0.1, "fraction of each party's rows that selects a round")
    loss: str | None = _option(
        None, "what is minimised, e.g. a loss of your own [cross-entropy; squared-error in regression]"
    )
    score: str | None = _option(
        None, "what rounds are selected and parties compared by, e.g. auroc [accuracy; rmse in regression]"
    )
    held_out: float = _option(0.1, "fraction of each party's rows that the party is evaluated on")
    evaluate_every: int = _option(1, "rounds between evaluations (the last is always evaluated)")
    evaluate_parties: int | None = _option(
        None, "parties whose own rows are tried, a sample that stays the same [all, but at most 10,000]"
    )
    fine_tune: int = _option(0, "epochs that each party trains its model further before it is tried on its rows")
    newcomers: float = _option(0.0, "fraction of the parties that never train, and are reported apart")
    test_by: Literal["held-out", "labels", "all"] = _option(
        "held-out", "try parties on held-out rows, or also on test rows with their own labels, or on all of them"
    )
    init: str | None = _option(None, "weights to begin with: a .safetensors file, or a finished run's folder")
    freeze: str | None = _option(None, 'layers that stay as they are, e.g. "body.0,body.2"')
    batch_norm: Literal["average", "local", "drop"] = _option(
        "average", "running statistics of batch norm: average them, keep them local, or drop them"
    )
    augment: Literal["none", "crop-flip"] = _option("none", "none, or crop-flip for training images")
    channel: str | None = _option(
        None, 'private channel for uploads, e.g. "clip(1.0)+gauss(0.8)+masked"; none: as they are'
    )
    seed: int = _option(0, "seed of everything random")
    engine: str = _option("auto", "what trains the parties: auto, or one of unalike list engines")
    device: str = _option("cpu", "cpu, cuda or mps; auto: the accelerator, if there is one")
    dtype: Literal["float32", "float64"] = _option("float32", "float32 or float64")
    threads: int = _option(1, "CPU threads: parties at once, or inside an operation (vectorised)")
    code: str | None = dataclasses.field(default=None, metadata={"derived": True})
    """Fingerprint of code and files from outside this package, so that a changed one is a new run."""

    def __post_init__(self) -> None:
        if vars(self)["lr"] is None:  # not given; from here on it is a number
            object.__setattr__(self, "lr", usual_rate(registry("optimiser").build(str(self.optimiser))))
        for name in ("model", "freeze"):
            object.__setattr__(self, name, as_text_field(name, getattr(self, name)))
        hints = types_of(type(self))
        for field in dataclasses.fields(self):
            value = coerce(getattr(self, field.name), hints[field.name], field.name)
            object.__setattr__(self, field.name, value)
        if self.epochs is None and self.steps is None:
            object.__setattr__(self, "epochs", DEFAULT_EPOCHS)
        if self.model is None:
            object.__setattr__(self, "model", model_for(self.dataset))
        if self.channel is not None and not is_channel(self.channel):
            object.__setattr__(self, "channel", None)
        for name in PARTS:
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, canonical(name, text))
        if self.parties is None:
            object.__setattr__(self, "parties", parties_of(self.partition))
        self._settle_sample()
        object.__setattr__(self, "code", self._fingerprint())
        protocol = protocol_of(self.algorithm, str(self.model))
        if self.device == "auto":  # what it was decides the outcome: key and record have its name
            object.__setattr__(self, "device", "cpu" if protocol else self._best_device())
        self.__dict__["left_out"] = without_meaning([each.name for each in self.options()], protocol)
        self._check()
        if protocol is not None:
            check_meaning(self, protocol)

    def _settle_sample(self) -> None:
        """Say how many parties are tried where that decides the outcome, and only there: it is in the key."""
        if self.evaluate_parties is not None and not 1 <= self.evaluate_parties <= 10**7:
            raise UserError(f"evaluate_parties must be from 1 to 10,000,000, got {self.evaluate_parties}.")
        if self.parties is not None:  # else the data decide how many there are
            object.__setattr__(self, "evaluate_parties", settled(self.evaluate_parties, self.parties))

    def _check(self) -> None:
        _ = self.work  # which checks its own numbers
        if self.engine not in engine_names():
            raise unknown("engine", self.engine, engine_names())
        if self.score is not None:
            named(self.score)
        for name, most in (("rounds", 10**7), ("evaluate_every", 10**7), ("threads", 1024)):
            if not 1 <= getattr(self, name) <= most:
                raise UserError(f"{name} must be from 1 to {most:,}, got {getattr(self, name)}.")
        if not 0 <= self.seed < 2**32:  # beyond, random streams of different seeds would meet
            raise UserError(f"seed must be from 0 to {2**32 - 1:,}, got {self.seed}.")
        if not 1 / LARGEST <= self.lr <= LARGEST:
            raise UserError(f"lr must be from {1 / LARGEST:g} to {LARGEST:g}, got {self.lr}. Try 0.01.")
        if not 0 < self.lr_decay < float("inf"):
            raise UserError(f"lr_decay must be a positive number, got {self.lr_decay}.")
        if self.lr_decay > 1:  # lr * lr_decay^(round - 1) grows: until when can a step be computed?
            fine = math.log(LARGEST / self.lr) / math.log(self.lr_decay)
            if fine < self.rounds - 1:
                raise UserError(
                    f"With lr {self.lr} and lr_decay {self.lr_decay} the learning rate of round {int(fine) + 2} "
                    f"is more than {LARGEST:g}. Use an lr_decay of at most 1, or fewer rounds."
                )
        if not 0 < self.sample <= 1:
            raise UserError(f"sample must be above 0 and at most 1, got {self.sample}. Use 1 for all parties.")
        if self.cohort != "uniform" and self.sample == 1 and "cohort" not in self.left_out:
            raise UserError(f"--cohort {self.cohort} chooses among parties, but all take part. Use --sample 0.1.")
        if not 0 <= self.fine_tune <= 10**4:
            raise UserError(f"fine_tune must be from 0 to 10,000 epochs, got {self.fine_tune}. Try 1.")
        if not 0 <= self.newcomers < 1:
            raise UserError(f"newcomers must be at least 0 and below 1, got {self.newcomers}. Try 0.1.")
        if not 0 <= self.public < 1:
            raise UserError(f"public must be at least 0 and below 1, got {self.public}.")
        if not (self.validation >= 0 and self.held_out >= 0 and self.validation + self.held_out < 1):
            raise UserError(
                f"validation and held_out must be 0 or more and below 1 together, "
                f"got {self.validation} and {self.held_out}."
            )

    def _best_device(self) -> str:
        import torch

        from unalike.engines.job import best_device

        return best_device(getattr(torch, self.dtype))

    def _fingerprint(self) -> str | None:
        outside: dict[str, list[str]] = {}
        if self.init is not None:
            from unalike.runs.begin import weights_sha256

            outside["init"] = [weights_sha256(self.init)]
        for name in PARTS:
            if (text := getattr(self, name)) is None:
                continue  # and nothing is loaded that would know what it means
            parts = registry(name)
            for part in parts.members(parts.build(text)):
                if is_own(part):
                    outside.setdefault(name, []).append(source_of(type(part)))
                # A file of the user's own: its content decides, not its name.
                with explained(part):
                    content = part.fingerprint() if hasattr(part, "fingerprint") else None
                if content:
                    outside.setdefault(name, []).append(content)
        if not outside:
            return None
        return hashlib.sha256(json.dumps(outside, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The fields that decide nothing in this run, and that its file does not name."""
        return frozenset()  # of a spec that was read from a record; others know it from their start

    @property
    def work(self) -> LocalWork:
        """The local work of a party in a round."""
        from unalike.rounds.work import LocalWork

        return LocalWork(self.batch_size, self.epochs, self.steps, self.drop_last)

    @cached_property
    def key(self) -> str:
        """The run's name: a hash of all in which it differs from a run where nothing is said but the data set.

        So an option that is added later, or a parameter of a part, leaves old runs where they are.
        """
        usual = self.defaults(self.dataset)
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        told = {name: value for name, value in values.items() if value != usual.get(name) or name == "dataset"}
        for name in told.keys() & PARTS.keys():
            if told[name] is not None:
                parts = registry(name)
                told[name] = parts.told(parts.build(told[name]))
        return hashlib.sha256(json.dumps([DEFAULTS, told], sort_keys=True).encode()).hexdigest()[:16]

    def same_run(self, text: str) -> bool:
        """Whether a spec.toml, perhaps of a time when some options were not there, is of the run of this spec."""
        try:
            return self.from_mapping(read_toml(text, "it")).key == self.key
        except UserError:
            return False

    @property
    def folder(self) -> str:
        """A name for the run's folder: what it is, and its key."""
        names = [getattr(self, part).split("(")[0] for part in ("dataset", "algorithm")]
        return "-".join([*names, self.key])

    def to_dict(self) -> dict[str, Any]:
        """All fields that have a value and decide something."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None and k not in self.left_out}

    def to_toml(self) -> str:
        """The spec as a TOML file, every field written out."""
        return write_toml(self.to_dict())

    @classmethod
    def defaults(cls, dataset: str) -> dict[str, Any]:
        """``RunSpec(dataset=dataset).to_dict()`` without loading torch; the fingerprint is left out."""
        values = {field.name: field.default for field in cls.options()}
        values |= {"dataset": dataset, "epochs": DEFAULT_EPOCHS, "model": model_for(dataset), "lr": USUAL_RATE}
        values |= {name: canonical(name, str(values[name])) for name in _LIGHT}
        values["parties"] = parties_of(str(values["partition"]))
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def complete(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields in a run's spec.toml, with the defaults of options that were not there at its time."""
        unsaid = unread([each.name for each in cls.options()], values)
        fields = {field.name: field.default for field in cls.options() if field.name not in unsaid}
        return {name: value for name, value in {**fields, **values}.items() if value is not None}

    @classmethod
    def options(cls) -> list[dataclasses.Field[Any]]:
        """The fields that a user may give."""
        return [f for f in dataclasses.fields(cls) if not f.metadata.get("derived")]

    @classmethod
    def as_recorded(cls, values: Mapping[str, Any], key: str) -> RunSpec:
        """The spec of a run as its folder has it: nothing is looked up: no data, no plug-ins."""
        made, hints = object.__new__(cls), types_of(cls)
        whole = cls.complete(values)
        known = {each.name: each.default for each in cls.options()} | {"lr": USUAL_RATE} | whole
        # Without a rate it is a protocol's, perhaps one that is not here; it has no use for what is not there.
        there = whole if "lr" in values else values
        made.__dict__["left_out"] = frozenset(field.name for field in cls.options()) - there.keys()
        for field in dataclasses.fields(cls):
            value = coerce(known.get(field.name), hints[field.name], field.name)
            object.__setattr__(made, field.name, value)
        made.__dict__["key"] = key
        return made

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> RunSpec:
        """A spec from names and values; a part may also be a table such as {name = "fedprox", mu = 0.1}.

        Several models may be a list of their texts or tables.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        given: dict[str, Any] = {}
        for key, value in values.items():
            if key not in known:
                raise unknown("key of a run's spec", key, known - {"code"})
            given[key] = as_text_field(key, value)
        return cls(**given)

    @classmethod
    def from_toml(cls, path: Path, **overrides: Any) -> RunSpec:
        """A spec from a TOML file; ``overrides`` win."""
        return cls.from_mapping(cls.read_toml(path, **overrides))

    @staticmethod
    def read_toml(path: Path, **overrides: Any) -> dict[str, Any]:
        """The values in a TOML file; ``overrides`` win."""
        try:
            values = read_toml(path.read_text(encoding="utf-8"), path)
        except OSError as error:
            raise UserError(f"Cannot read the spec {path}: {error.strerror}. Check the path.") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not a TOML file: {error}.") from None
        if "epochs" in overrides or "steps" in overrides:  # one replaces the other
            values = {k: v for k, v in values.items() if k not in ("epochs", "steps")}
        return values | overrides

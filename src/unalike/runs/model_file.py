"""model.json: all that it takes to rebuild a trained net and to code new rows for it, without the data."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

import unalike
from unalike.data.arrays import check_scaling
from unalike.data.dataset import Array, Dataset, Units
from unalike.data.schema import Schema
from unalike.errors import UserError
from unalike.own_code import is_own, source_of
from unalike.runs.files import read_bytes
from unalike.runs.parts import registry
from unalike.runs.record import MODEL, file_sha256
from unalike.runs.seals import Broken, seal, unseal
from unalike.scores import Score, choose, named
from unalike.tallies import Kind

if TYPE_CHECKING:
    from unalike.runs.spec import RunSpec

FORMAT = 1
Which = Literal["final", "selected"]
"""The model of the last round, or that of the round with the best score on validation rows."""
WHICH: tuple[Which, ...] = get_args(Which)
_CODE = ("model", "loss")
"""The parts that may be a user's own code, and that a trained net cannot do without."""
_MOST = 10**8
"""Numbers in a row at most, of what a file may say."""
_MOST_SIDES = 8
_NAME = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,99})?")
"""A file beside model.json: nothing that leads to another folder."""


@dataclass(frozen=True)
class KeptRound:
    """Where the models of one round are: files beside model.json, with the SHA-256 of each."""

    round: int
    weights: str = ""
    weights_sha256: str = ""
    """of the one model for all parties, where there is one"""
    personal: str = ""
    personal_sha256: str = ""
    """of the parties' own models, where the algorithm gives them some"""
    left_out: int = 0
    """bytes of the parties' own models, where these were too large to be kept"""


@dataclass(frozen=True, eq=False)
class ModelFile:
    """What model.json says: the net, the rows that it reads, what its outputs mean, and where its weights are."""

    key: str
    algorithm: str
    model: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    features: tuple[str, ...] = ()
    """the names of a row's numbers; of tokens, the vocabulary"""
    kind: Literal["numbers", "tokens"] = "numbers"
    stored: str = "float32"
    """the type of a raw row's numbers, such as uint8 of an image"""
    shift: Array = field(default_factory=lambda: np.zeros(()))
    scale: Array = field(default_factory=lambda: np.ones(()))
    task: Kind = "classification"
    target: tuple[float, float] = (0.0, 1.0)
    """shift and scale of numbers that are predicted"""
    schema: Schema | None = None
    """how the columns of a table are coded, where the rows come from one"""
    units: Units | None = None
    """of trees, where there is no such coding: how to read the numbers of a row in units that people know"""
    gaps: bool = False
    """whether a number of a row may be missing"""
    dtype: Literal["float32", "float64"] = "float32"
    batch_norm: Literal["average", "local", "drop"] = "average"
    loss: str | None = None
    score: str | None = None
    dataset: str = ""
    parties: tuple[str, ...] = ()
    code: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """of every part that is a user's own code: its file and the SHA-256 of its source"""
    stages: Mapping[str, KeptRound] = field(default_factory=dict)
    version: str = unalike.__version__
    torch: str = ""

    @classmethod
    def of(cls, spec: RunSpec, data: Dataset, **more: Any) -> ModelFile:
        """What is to be said of the nets of a training on such data."""
        import torch

        about = {name: getattr(spec, name) for name in ("dtype", "batch_norm", "loss", "score")}
        shift, scale = map(float, data.target)
        coded = is_trees(str(spec.model)) and any(map(np.ndim, data.units))  # a net's weights have no units
        return cls(
            spec.key,
            spec.algorithm,
            str(spec.model),
            data.shape,
            data.classes,
            data.features,
            data.kind,
            stored_type(data),
            data.shift,
            data.scale,
            data.task,
            (shift, scale),
            data.schema,
            units=data.units if coded and data.schema is None else None,
            gaps=data.gaps,
            dataset=spec.dataset,
            code=code_of(str(spec.model), spec.loss),
            torch=torch.__version__,
            **about,
            **more,
        )

    @property
    def chosen_score(self) -> Score:
        """The score that the training went by."""
        return choose(self.score, self.task)

    def party(self, name: int | str) -> int:
        """The number of the party of that number or name."""
        if isinstance(name, str) and name in self.parties:
            return self.parties.index(name)
        if str(name).isdecimal() and int(name) < len(self.parties):
            if str(name) in self.parties and self.parties.index(str(name)) != int(name):
                other = self.parties[int(name)]
                raise UserError(
                    f"Party {name} may be the one of that name, or the one of that number ({other}). Name it by a "
                    f"text: {str(name)!r}."
                )
            return int(name)
        few = ", ".join(self.parties[:5]) + (", ..." if len(self.parties) > 5 else "")
        known = f"from 0 to {len(self.parties) - 1}, or one of {few}" if self.parties else "none"
        raise UserError(f"There is no party {name!r} in this training. Known: {known}.")

    def encode(self) -> bytes:
        """The content of model.json, sealed."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        told |= {"shift": self.shift.tolist(), "scale": self.scale.tolist()}
        told["schema"] = None if self.schema is None else self.schema.to_dict()
        told["units"] = None if self.units is None else [np.asarray(part).tolist() for part in self.units]
        for name in ("units", "gaps"):  # most have neither
            if not told[name]:
                del told[name]
        told["stages"] = {name: asdict(stage) for name, stage in self.stages.items()}
        return seal({"format": FORMAT, **told}, indent=1)[0]

    @classmethod
    def decode(cls, data: bytes) -> ModelFile:
        """What :meth:`encode` gave. Raises Broken, with a text that goes on from the file's name."""
        told, _ = unseal(data)
        if (version := told.pop("format", None)) != FORMAT:
            raise Broken(
                f"has format {version!r}, this version of unalike reads {FORMAT}: use the one that wrote it"
            )
        try:
            return cls(**_checked(told))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, UserError) as error:
            raise Broken(f"does not describe a model ({' '.join(str(error).split())[:200].rstrip('.')})") from None


def read_model_file(folder: Path) -> ModelFile | None:
    """What the model.json of a folder says; None where there is none."""
    path = folder / MODEL
    data = read_bytes(path)
    try:
        return None if data is None else ModelFile.decode(data)
    except Broken as error:
        raise UserError(f"{path} {error}. Copy it back, or run the training again.") from None


def stored_type(data: Dataset) -> str:
    """The type of raw rows: small whole numbers and tokens as they are, all others float32."""
    if data.kind == "tokens":
        return "int64"
    return str(data.x.dtype) if str(data.x.dtype) in ("uint8", "int16") else "float32"


def is_trees(model: str) -> bool:
    """Whether a model of that text is trees, and no net."""
    return model.partition("(")[0].strip() == "trees"


def code_of(model: str, loss: str | None) -> dict[str, dict[str, str]]:
    """By kind, the file and the SHA-256 of the source of parts that are a user's own code. None of it is run."""
    from unalike.models.own import FileModule

    found: dict[str, dict[str, str]] = {}
    for kind, text in zip(_CODE, (model, loss), strict=True):
        parts = registry(kind)
        hashes: dict[str, str] = {}  # of a file alone it is what sha256sum says of it
        for part in parts.members(parts.build(text)) if text else ():
            if isinstance(part, FileModule):
                first, *others = part.files()
                hashes[first.path.name] = part.fingerprint() if others else first.sha256
            elif is_own(part):
                hashes[_file_of(type(part))] = file_sha256(source_of(type(part)).encode())
        if hashes:
            several = file_sha256(" ".join(sorted(hashes.values())).encode())
            sha256 = next(iter(hashes.values())) if len(hashes) == 1 else several
            found[kind] = {"file": ", ".join(sorted(hashes)), "sha256": sha256}
    return found


def _file_of(cls: type) -> str:
    return Path(getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__).name


def _checked(told: dict[str, Any]) -> dict[str, Any]:
    """The fields of a file, of the right types: it may be a stranger's."""
    made = dict(told)
    for name in ("key", "algorithm", "model", "stored", "dataset", "version", "torch"):
        _must(isinstance(told[name], str), name)
    for name in ("classes", "features", "parties"):
        made[name] = tuple(told[name])
        _must(isinstance(told[name], list) and all(isinstance(each, str) for each in told[name]), name)
    made["shape"] = tuple(told["shape"])
    _must(
        len(made["shape"]) <= _MOST_SIDES
        and all(type(side) is int and side > 0 for side in made["shape"])
        and math.prod(made["shape"]) <= _MOST,
        "shape",
    )
    for name in ("shift", "scale"):
        made[name] = np.asarray(told[name], np.float64)
        check_scaling(made[name], f"its {name}", made["shape"])
    made["target"] = tuple(float(number) for number in told["target"])
    _must(len(made["target"]) == 2 and all(map(math.isfinite, made["target"])), "target")
    _must(told["kind"] in ("numbers", "tokens") and told["task"] in get_args(Kind), "kind")
    _must(told["stored"] in ("uint8", "int16", "int64", "float32"), "stored")
    _must(told["dtype"] in ("float32", "float64"), "dtype")
    _must(told["batch_norm"] in ("average", "local", "drop"), "batch_norm")
    _must(told["task"] == "regression" or len(made["classes"]) > 1, "classes")
    _must(all(isinstance(told[name], str | None) for name in ("loss", "score")), "loss")
    if told["score"] is not None:
        named(told["score"])
    made["schema"] = None if told["schema"] is None else Schema.from_dict(told["schema"])
    _must(made["schema"] is None or made["schema"].features == made["features"], "schema")
    if "units" in told:
        made["units"] = Units(*(np.asarray(part, np.float64) for part in told["units"]))
        for part, name in zip(made["units"], ("shift", "scale"), strict=True):
            check_scaling(part, f"its units' {name}", made["shape"])
    _must(type(told.get("gaps", False)) is bool, "gaps")
    made["code"] = {
        str(kind): {name: str(one[name]) for name in ("file", "sha256")} for kind, one in told["code"].items()
    }
    made["stages"] = {name: _kept_round(KeptRound(**one)) for name, one in told["stages"].items()}
    _must(set(made["stages"]) <= set(WHICH), "stages")
    return made


def _kept_round(stage: KeptRound) -> KeptRound:
    """The round, if its files are names in the same folder and nothing else."""
    for name in (stage.weights, stage.personal, stage.weights_sha256, stage.personal_sha256):
        _must(isinstance(name, str) and _NAME.fullmatch(name) is not None, "stages")
    _must(type(stage.round) is int and type(stage.left_out) is int, "stages")
    return stage


def _must(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(f"its {what} cannot be used")

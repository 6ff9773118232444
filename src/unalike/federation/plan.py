"""The federation file: who takes part, what is trained and how, what it takes to go on. Sites read it first."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.protocol import Protocol
from unalike.channels import parse_channel
from unalike.channels.masked import Masked
from unalike.data.declared import declarations
from unalike.data.roles import Missing
from unalike.data.sites import Sites
from unalike.data.sites.ids import IdCase
from unalike.data.sites.people import People
from unalike.data.sites.side_by_side import PeopleRule
from unalike.errors import UserError, unknown
from unalike.federation import FIXED
from unalike.federation.envelope import ANYBODY, MOST_BYTES, SERVER
from unalike.federation.people import FIELDS, check_people, people_rule, people_tables
from unalike.runs.cohorts import check_at_sites
from unalike.runs.files import atomic_write
from unalike.runs.meaning import check_given, protocol_of
from unalike.runs.rules import cohort_size
from unalike.runs.spec import RunSpec
from unalike.scores import choose
from unalike.secure.policy import safe_threshold
from unalike.toml import read_toml, write_toml

FILE = "federation.toml"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
"""What a federation decides itself, of the fields of a run."""


def is_name(text: str) -> bool:
    """Whether a party or a federation can be called that."""
    return bool(_NAME.fullmatch(text)) and text not in (SERVER, ANYBODY)


@dataclass(frozen=True)
class Plan:
    """What every site agrees to before it takes part. Its digest is in every message."""

    name: str
    parties: tuple[str, ...]
    server: str
    """the server's Ed25519 public key, in hexadecimal digits"""
    address: str
    """where sites reach the server, HOST:PORT"""
    train: dict[str, Any] = field(default_factory=dict)
    """fields of a run, as in ``unalike run``"""
    label: str = ""
    ignore: tuple[str, ...] = ()
    missing: Missing = "error"
    test: float = 0.2
    quorum: int = 0
    """so many sites must answer; 0: all that are asked"""
    deadline: float = 3600.0
    """seconds that an exchange may take"""
    figures: Literal["each", "none"] = "each"
    """whether sites send how well the model does on their own test rows"""
    measure: bool = True
    """whether the server may ask how unalike the sites are (each tells its degrees, rounded)"""
    most_bytes: int = 2**28
    """no message may be larger"""
    public: str = ""
    """SHA-256 of the table beside this file whose rows everybody has; empty: there is none"""
    sends: str = ""
    """what leaves a site, in the algorithm's own words"""
    code: str = ""
    """fingerprint of an algorithm or net that is not a part of this package; empty: there is none"""
    types: str = ""
    """kinds of columns that values cannot show, the same at all sites: cp:category born:date"""
    id: tuple[str, ...] = ()
    """columns that tell who a row is of, where sites have other columns of the same people, whom they match"""
    id_case: IdCase = "fold"
    """whether ids in upper and lower case are the same"""
    id_strip: bool = True
    """whether blanks around an id are left out"""
    least_common: int = 100
    """fewer people that all sites know are not worked with"""
    most_ids: int = 1_000_000
    """so many ids a site may bring: who brings all that there can be learns whom the others know"""

    def __post_init__(self) -> None:
        self._check_types()
        for name in (self.name, *self.parties):
            if not is_name(name):
                raise UserError(f"{name!r} cannot be a name here. Use letters, digits, - and _.")
        if tuple(sorted(set(self.parties))) != self.parties:
            raise UserError("The parties of a federation are sorted by name, each once.")
        if len(self.parties) < 2:
            raise UserError(f"A federation needs two parties or more, got {len(self.parties)}.")
        if not 0 <= self.quorum <= len(self.parties):
            raise UserError(f"quorum must be 0 (all) to {len(self.parties)}, got {self.quorum}.")
        if not 2**12 <= self.most_bytes <= MOST_BYTES:
            raise UserError(f"most_bytes must be from 4,096 to {MOST_BYTES:,}, got {self.most_bytes}.")
        if not 1 <= self.deadline <= 10**7:
            raise UserError(f"deadline must be from 1 to 10,000,000 seconds, got {self.deadline}.")
        if not 0 < self.test <= 0.5:
            raise UserError(f"test must be above 0 and at most 0.5, got {self.test:g}. Use 0.2.")
        known = {"missing": get_args(Missing), "figures": ("each", "none"), "id_case": get_args(IdCase)}
        for key, values in known.items():
            if getattr(self, key) not in values:
                raise unknown(key, str(getattr(self, key)), values)
        if not re.fullmatch(r"[0-9a-f]{64}", self.server):
            raise UserError("server must be the server's public key: 64 hexadecimal digits.")
        for key in self.train:
            if key in FIXED:
                raise UserError(f"{key} cannot be set in [train]: the sites' own tables decide it.")
        if self.public and not re.fullmatch(r"[0-9a-f]{64}", self.public):
            raise UserError("public must be the SHA-256 of the public table: 64 hexadecimal digits.")
        object.__setattr__(self, "train", self._settled())
        self._check_algorithm()
        declarations(self.types)
        check_people(self)
        choose(self.spec.score, "classification")  # real sites agree on classes: numbers cannot be predicted yet
        self._check_hidden()
        check_at_sites(self.spec, len(self.parties))

    def _check_types(self) -> None:
        """A file may have any value anywhere."""
        texts = ("name", "server", "address", "label", "missing", "figures", "public", "sends", "code", "types")
        kinds: dict[str, tuple[type, ...]] = dict.fromkeys(texts, (str,))
        kinds |= {
            "quorum": (int,),
            "most_bytes": (int,),
            "measure": (bool,),
            "deadline": (int, float),
            "test": (int, float),
            "id_case": (str,),
            "id_strip": (bool,),
            "least_common": (int,),
            "most_ids": (int,),
        }
        for key, kind in kinds.items():
            if type(getattr(self, key)) not in kind:
                raise UserError(f"{key} cannot be {getattr(self, key)!r}. See {FILE} of unalike federation init.")
        for key in ("parties", "ignore", "id"):
            value = getattr(self, key)
            if not isinstance(value, tuple) or not all(isinstance(one, str) for one in value):
                raise UserError(f"{key} must be a list of names, got {value!r}.")
        if not isinstance(self.train, dict):
            raise UserError(f"[train] must be a table of a run's fields, got {self.train!r}.")

    def _check_algorithm(self) -> None:
        """Write down what the algorithm sends and which code it is; refuse a plan that says something else."""
        algorithm, code = ALGORITHMS.build(self.spec.algorithm), self.spec.code or ""
        sends = algorithm.sends if self.protocol is None else self.protocol.sends
        if self.protocol is not None:
            self._check_protocol(self.protocol)
        elif algorithm.pools:
            raise UserError(
                f"{self.spec.algorithm} needs all rows at one place, but sites keep theirs. Choose another "
                "algorithm: fedavg trains one model for all without that."
            )
        if self.missing == "keep" and not str(self.spec.model).startswith("trees"):
            raise UserError(
                f"missing=keep is for trees, but the model is {self.spec.model}. Use missing=indicate, or trees."
            )
        if sends == "nothing" and self.spec.channel is not None:
            raise UserError(f"{self.spec.algorithm} sends nothing that a channel could carry. Leave channel out.")
        if self.sends not in ("", sends):
            raise UserError(
                f"The plan says that a site sends {self.sends}, but {self.spec.algorithm} sends {sends}."
            )
        if self.code not in ("", code):
            raise UserError(
                f"The code of {self.spec.algorithm} or of the net is not the one that the plan was made with. Use "
                "the same --plugin file as the server's owner."
            )
        object.__setattr__(self, "sends", sends)
        object.__setattr__(self, "code", code)

    def _check_protocol(self, protocol: Protocol) -> None:
        """Refuse what a conversation of real sites cannot bear: absent sites."""
        name = ALGORITHMS.brief(protocol)  # type: ignore[arg-type]
        if 0 < self.quorum < len(self.parties) and parse_channel(self.spec.channel).hidden is None:
            raise UserError(
                f"{name} needs every site in every turn: of a tree that a site has left nothing can be used. "
                f"Leave the quorum of {self.quorum} out, or add under --channel masked: then it decides how."
            )

    def _check_hidden(self) -> None:
        """Refuse a quorum with which a server that lies could read one update out of sums that should hide it."""
        channel = parse_channel(self.spec.channel)
        channel.check_cohort(self.cohort)
        if channel.hidden is None:
            return
        least = safe_threshold(self.cohort)
        if 0 < self.quorum < least:
            raise UserError(
                f"A quorum of {self.quorum} is too small to hide updates: a server that tells sites different "
                f"things could read one. Of {self.cohort} sites that are asked, use a quorum of {least} or more, "
                "or 0 (all)."
            )

    def _settled(self) -> dict[str, Any]:
        """The fields of the run with their defaults: a later version's other default must not change a plan."""
        spec = RunSpec.from_mapping({**self.train, **self._fixed, "dataset": "people" if self.id else "sites"})
        check_given(spec, self.train)
        return {k: v for k, v in spec.to_dict().items() if k not in FIXED and (k, v) != ("cohort", "uniform")}

    @property
    def _fixed(self) -> dict[str, Any]:
        return {"partition": "natural", "parties": len(self.parties), "engine": "sequential"}

    @cached_property
    def spec(self) -> RunSpec:
        """The run, with the sites' tables wherever they are."""
        return self.spec_of(self.sites())

    @property
    def people(self) -> PeopleRule:
        """What all sites declare alike of their tables, where people are matched."""
        return people_rule(self)

    def sites(self, folder: str = "", public: str = "") -> Sites | People:
        """The sites' tables, in a folder where all are in one place."""
        if self.id:
            return people_tables(self, folder)
        return Sites(folder, self.label, self.ignore, self.missing, self.test, public=public, types=self.types)

    def spec_of(self, sites: Sites | People) -> RunSpec:
        """The same run on tables in one place: what real sites do, in one process."""
        from unalike.data import DATASETS

        return RunSpec.from_mapping({**self.train, **self._fixed, "dataset": DATASETS.describe(sites)})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that a site agrees to; the address may move."""
        values = {key: value for key, value in self.to_dict().items() if key != "address"}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    def number(self, party: str) -> int:
        """The party's number in the run."""
        if party not in self.parties:
            raise unknown("party of this federation", party, self.parties)
        return self.parties.index(party)

    @property
    def cohort(self) -> int:
        """How many parties are asked in a round."""
        return cohort_size(self.spec, len(self.parties))

    def needed(self, asked: int) -> int:
        """How many answers an exchange with so many parties needs."""
        return min(asked, self.quorum) if self.quorum else asked

    @cached_property
    def protocol(self) -> Protocol | None:
        """The protocol by which sites talk, where the algorithm is one; None where it averages vectors."""
        return protocol_of(self.spec.algorithm, str(self.spec.model))

    @property
    def splits_columns(self) -> bool:
        """Whether sites have other columns of the same people, and not other rows."""
        return self.protocol is not None and self.protocol.splits == "columns"

    @cached_property
    def one_trip(self) -> Masked | None:
        """The masks of hidden sums that are made in one trip: where all who are asked must answer; else None."""
        hidden = parse_channel(self.spec.channel).hidden
        everybody = self.needed(self.cohort) == self.cohort
        return hidden if isinstance(hidden, Masked) and everybody else None

    @cached_property
    def several_trips(self) -> bool:
        """Whether a protocol's hidden sums are made in several trips, in which a site may vanish."""
        hides = parse_channel(self.spec.channel).hidden is not None
        return self.protocol is not None and hides and self.one_trip is None

    def to_dict(self) -> dict[str, Any]:
        """The plan as dicts and lists that JSON and TOML can hold."""
        values = dataclasses.asdict(self)
        if not self.types:  # so a plan of a time without them keeps its digest
            del values["types"]
        if not self.id:
            values = {key: value for key, value in values.items() if key not in FIELDS}
        return json.loads(json.dumps(values))  # type: ignore[no-any-return]  # tuples as lists

    def write(self, folder: Path) -> None:
        """Write the plan into a folder, as federation.toml."""
        atomic_write(folder / FILE, write_toml(self.to_dict()).encode())

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """The plan in a folder."""
        path = folder / FILE
        try:
            values = read_toml(path.read_text(encoding="utf-8"), path)
        except FileNotFoundError:
            raise UserError(
                f"{folder} has no {FILE}. Make one: unalike federation init {folder} --party NAME ..."
            ) from None
        except (OSError, ValueError) as error:
            raise UserError(f"Cannot read {path}: {error}.") from None
        return cls.from_mapping(values)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Plan:
        """A plan from names and values."""
        known = {f.name: f for f in dataclasses.fields(cls)}
        for key in values:
            if key not in known:
                raise unknown(f"key of {FILE}", key, known)
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        try:
            return cls(**given)
        except TypeError as error:
            raise UserError(f"{FILE} is not complete: {error}.") from None

"""The models that a training leaves: the one for all and the parties' own, of its last and its selected round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from unalike.errors import UserError, unknown
from unalike.models.layout import tensors_digest
from unalike.runs.checkpoint import tensor_bytes
from unalike.runs.files import read_bytes
from unalike.runs.model_file import WHICH, KeptRound, ModelFile, Which, read_model_file
from unalike.runs.record import MODEL, RESULT, WEIGHTS, file_sha256
from unalike.runs.trained import Named, TrainedModel, rebuilt

if TYPE_CHECKING:
    from unalike.rounds.state import State
    from unalike.rounds.together import Model
    from unalike.runs.playable import Playable
    from unalike.runs.simulation import Simulation

MOST_BYTES = 2**28
"""What the parties' own models of a round may take together; beyond, they are not kept."""
PERSONAL = "personal.safetensors"
FILES: Mapping[Which, tuple[str, str]] = {
    "final": (WEIGHTS, PERSONAL),
    "selected": ("selected.safetensors", "selected-personal.safetensors"),
}
"""By round, the files of the one model for all and of the parties' own."""
_COMMON, _PLACES = "all", "parties"


@dataclass(frozen=True, eq=False)
class OwnModels:
    """The parties' own models, each different one once; a party may have several, which predict together."""

    models: Sequence[Named]
    places: Tensor
    """[parties, most models of a party]: where in ``models`` they are; -1 where a party has fewer"""
    common: Named = field(default_factory=dict)
    """what is the same in all of them, such as frozen or shared layers"""

    @classmethod
    def of_all(cls, models: Sequence[Named], places: Tensor) -> OwnModels:
        """The models, where tensors that are one in all of them are kept apart."""
        first, *others = models
        common = {name: value for name, value in first.items() if all(one.get(name) is value for one in others)}
        return cls([{name: one[name] for name in one if name not in common} for one in models], places, common)

    def of(self, number: int) -> list[Named]:
        """The models of a party by layer name."""
        return [{**self.models[place], **self.common} for place in self.places[number].tolist() if place >= 0]

    def encode(self, about: Mapping[str, str]) -> bytes:
        """A safetensors file with all of them: ``3/head.weight`` is a tensor of the third model."""
        named = {
            f"{number}/{name}": value for number, one in enumerate(self.models) for name, value in one.items()
        }
        named |= {f"{_COMMON}/{name}": value for name, value in self.common.items()}
        return tensor_bytes({**named, _PLACES: self.places}, about)

    @classmethod
    def decode(cls, tensors: Named) -> OwnModels:
        """What :meth:`encode` gave; ValueError where it did not."""
        by_model: dict[str, dict[str, Tensor]] = {}
        places = tensors.get(_PLACES, torch.zeros(0))
        for name, value in tensors.items():
            place, _, own = name.partition("/")
            by_model.setdefault(place, {})[own] = value
        if places.dim() != 2 or places.dtype != torch.int64 or not places.numel():
            raise ValueError("no parties in it")
        count = int(places.max()) + 1
        if not 0 < count <= len(tensors) or int(places.min()) < -1:
            raise ValueError("parties without a model")
        models = [by_model.get(str(number), {}) for number in range(count)]
        return cls(models, places, by_model.get(_COMMON, {}))


@dataclass(frozen=True, eq=False)
class RoundModels:
    """The models of one round: the one for all, and the parties' own, each where there are such."""

    shared: Named | None
    own: OwnModels | None
    left_out: int = 0
    """bytes of the parties' own models, where these are too large to be kept"""


class ModelStore(Protocol):
    """Where trained models come from: memory, or a folder."""

    @property
    def about(self) -> ModelFile:
        """What the models are, and what they read."""

    def shared(self, which: Which) -> Named:
        """The tensors of the one model for all parties, where there is one."""

    def own(self, which: Which) -> OwnModels:
        """The parties' own models, where they have some."""

    @property
    def place(self) -> object:
        """What a refusal is to name."""


@dataclass(frozen=True, eq=False)
class MemoryModels:
    """The models of a training that was played in this process."""

    about: ModelFile
    rounds: Mapping[Which, RoundModels]
    place: object = "This run"

    def shared(self, which: Which) -> Named:
        """The tensors of the one model for all parties."""
        return self.rounds[which].shared or {}

    def own(self, which: Which) -> OwnModels:
        """The parties' own models, which there are."""
        own = self.rounds[which].own
        assert own is not None
        return own


@dataclass(frozen=True, eq=False)
class FolderModels:
    """The models in a folder with a model.json. A file is read, and checked, when it is asked for."""

    place: Path
    about: ModelFile

    @classmethod
    def open(cls, folder: Path) -> FolderModels:
        """Those of a folder; one line for what an older version left."""
        about = read_model_file(folder)
        if about is None and (folder / RESULT).exists():
            raise UserError(
                f"{folder} has no {MODEL}, as an older version left it. Remove its {RESULT} and run it again with "
                f"unalike run --spec {folder / 'spec.toml'}: no round is played again."
            )
        if about is None:
            raise UserError(f"{folder} has no {MODEL}: it comes at the end of a training. Finish that first.")
        return cls(folder, about)

    def shared(self, which: Which) -> Named:
        """The tensors of the one model for all parties."""
        kept = self.about.stages[which]
        return self._read(kept.weights, kept.weights_sha256)

    def own(self, which: Which) -> OwnModels:
        """The parties' own models, from their file."""
        kept = self.about.stages[which]
        try:
            return OwnModels.decode(self._read(kept.personal, kept.personal_sha256))
        except ValueError as error:
            raise UserError(f"{self.place / kept.personal} is damaged: {error}. Run the training again.") from None

    def _read(self, name: str, sha256: str) -> Named:
        path = self.place / name
        data = read_bytes(path)
        if data is None:
            raise UserError(f"{path} is missing. Copy it back, or run the training again.")
        if file_sha256(data) != sha256:
            raise UserError(f"{path} is not the file that {MODEL} names. Copy it back, or run the training again.")
        try:
            # A copy in memory aligned as torch's own: results of matrix products may depend on the alignment.
            return {key: value.clone() for key, value in load(data).items()}
        except SafetensorError as error:
            raise UserError(f"{path} is damaged ({error}). Copy it back, or run the training again.") from None


def trained_model(store: ModelStore, which: Which = "final", party: int | str | None = None) -> TrainedModel:
    """The model for all parties, or one party's own, of the last or of the selected round."""
    tensors, number = tensors_of(store, which, party)
    return rebuilt(store.about, tensors, store.place, number)


def tensors_of(store: ModelStore, which: Which, party: int | str | None) -> tuple[list[Named], int]:
    """The tensors of that model by layer name, of several nets that predict together; and the party's number."""
    about = store.about
    name = about.algorithm.partition("(")[0]
    if which not in WHICH:
        raise unknown("model", which, WHICH)
    kept = about.stages.get(which)
    if kept is None:
        raise UserError(
            f"{store.place} keeps no selected model: no round of it was tried on validation rows, or an older "
            "version began it. Use the final one, or run it with --validation 0.1."
        )
    number = None if party is None else about.party(party)
    if kept.personal and not about.parties:  # exported: those of one party, which predict together
        number = 0
    if number is not None and kept.left_out:
        raise UserError(
            f"The parties' own models were not kept: {kept.left_out / 1e6:,.0f} MB are more than "
            f"{MOST_BYTES / 1e6:.0f}. Train with fewer parties or a smaller net."
        )
    if number is not None and kept.personal:
        return store.own(which).of(number), number
    if kept.weights:
        return [store.shared(which)], 0
    if kept.personal or kept.left_out:
        raise UserError(
            f"{name} has no one model for all parties. Name one of the {len(about.parties)}: "
            "--party 0, or result.personal(0)."
        )
    where = "Choose another algorithm." if about.parties else "In a federation the sites have theirs."
    raise UserError(f"{name} leaves no model here that could predict. {where}")


def kept_models(simulation: Playable, round: int | None) -> MemoryModels:
    """The models of a simulation at its end, and of the round that was selected, if its state was kept."""
    last = simulation.state.round
    rounds: dict[Which, RoundModels] = {"final": simulation.round_models(simulation.state)}
    stages = {"final": _stage("final", last, rounds["final"])}
    if round == last:
        rounds["selected"], stages["selected"] = rounds["final"], stages["final"]
    elif round is not None and (state := simulation.selection.of(round)) is not None:
        rounds["selected"] = simulation.round_models(state)
        stages["selected"] = _stage("selected", round, rounds["selected"])
    data, names = simulation.federation.dataset, simulation.federation.partition.names
    return MemoryModels(ModelFile.of(simulation.spec, data, parties=tuple(names), stages=stages), rounds)


def _stage(which: Which, round: int, models: RoundModels) -> KeptRound:
    weights, personal = FILES[which]
    return KeptRound(
        round,
        weights=weights if models.shared is not None else "",
        personal=personal if models.own is not None else "",
        left_out=models.left_out,
    )


def model_files(store: MemoryModels, about: Mapping[str, str]) -> tuple[ModelFile, dict[str, bytes]]:
    """What is to be written beside the final weights, by name of the file; model.json itself has to come last."""
    files: dict[str, bytes] = {}
    stages = {}
    for which, kept in store.about.stages.items():
        models = store.rounds[which]  # type: ignore[index]
        if kept.weights and kept.weights not in files:
            files[kept.weights] = tensor_bytes(models.shared or {}, about)
        if kept.personal and models.own is not None and kept.personal not in files:
            files[kept.personal] = models.own.encode(about)
        stages[which] = replace(
            kept,
            weights_sha256=file_sha256(files[kept.weights]) if kept.weights else "",
            personal_sha256=file_sha256(files[kept.personal]) if kept.personal else "",
        )
    return replace(store.about, stages=stages), files


def net_models(simulation: Simulation, state: State) -> RoundModels:
    """The nets that a state gives, by layer name."""
    found = simulation.models_at(state)
    w, own = found.global_model, found.personal
    # One model with as many statistics as there are parties, or an ensemble, are kept as the parties' own.
    if found.own_buffers is not None or (w is not None and w.dim() > 1):
        w, own = None, own or found.shared
    shared = None if w is None else _on_cpu(simulation.task.named(w, state.buffers))
    return RoundModels(shared, None) if own is None else _collected(simulation, shared, own)


def _collected(simulation: Simulation, shared: Named | None, own: Model) -> RoundModels:
    """The same with the parties' own models, unless they take too much room.

    Equal tensors are one: of parties that share a model or layers, these are kept once.
    """
    tensors: dict[str, Tensor] = {}
    numbers: dict[tuple[str, ...], int] = {}
    models: list[Named] = []
    places: list[list[int]] = []
    size = 0
    for number in range(simulation.federation.size):
        task, (weights, buffers) = simulation.task_of(number), own(number)
        places.append([])
        for one in weights.unbind() if weights.dim() > 1 else [weights]:
            named = task.named(one, buffers)
            digests = {name: tensors_digest({name: value}) for name, value in named.items()}
            for name, digest in digests.items():
                if digest not in tensors:
                    tensors[digest] = named[name].detach().cpu().clone()
                    size += tensors[digest].nbytes
            place = numbers.setdefault(tuple(digests.values()), len(models))
            if place == len(models):
                models.append({name: tensors[digest] for name, digest in digests.items()})
            places[-1].append(place)
        if size > MOST_BYTES:
            return RoundModels(shared, None, size * simulation.federation.size // (number + 1))
    most = max(map(len, places))
    padded = torch.tensor([mine + [-1] * (most - len(mine)) for mine in places])
    return RoundModels(shared, OwnModels.of_all(models, padded))


def _on_cpu(tensors: Named) -> dict[str, Tensor]:
    """The tensors with memory of their own, where numpy can read them."""
    return {name: value.detach().cpu().clone() for name, value in tensors.items()}

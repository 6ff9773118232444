"""A run's state on its way to a file and back: what it must have in common with the run to be a part of it."""

from __future__ import annotations

from collections.abc import Callable

import torch

import unalike
from unalike.rounds.state import State
from unalike.runs.checkpoint import Checkpoint, Damaged
from unalike.runs.folder import RunDirectory
from unalike.runs.playable import Playable
from unalike.runs.state_log import STATES, StateLog

OTHER_CPU = "was begun on another kind of CPU"
"""In the line about a run that goes on where kernels may round otherwise."""


def cpu_kind() -> str:
    """The instructions that torch's kernels use here: AVX2, for example. Other ones may give other bits."""
    return str(torch.backends.cpu.get_cpu_capability())


def save(played: Playable, folder: RunDirectory) -> None:
    """Save the selected round's state, then the checkpoint: that state is never behind it."""
    selection, log = played.selection, folder.states
    log.forget()
    anew = log.begins_anew(played.state)
    if selection.state is not None and (not selection.saved or (anew and selection.state.packed)):
        folder.save_selected(_checkpoint(played, selection.state, log))
        selection.saved, log.selected = True, log.number
    folder.save_checkpoint(_checkpoint(played, played.state, log))
    log.saved()


def _checkpoint(played: Playable, state: State, log: StateLog) -> Checkpoint:
    """The checkpoint of a state. What very many parties keep is not in it: it goes into the log."""
    states, rest = log.append(state), state.with_packed(dict.fromkeys(state.packed))
    about = {"engine": played.engine_name, "digest": rest.digest(), "cpu": cpu_kind()}
    return Checkpoint(state.round, rest.tensors(), {**_origin(played), **about, **states})


def _origin(played: Playable) -> dict[str, str]:
    """What a record must share with a run to be a part of it: the spec, the program, the data, frozen layers."""
    versions = {"version": unalike.__version__, "torch": torch.__version__}
    data = played.federation.dataset.digest
    return {"key": played.spec.key, **versions, "data_sha256": data, **played.fixed()}


def _foreign(saved: Checkpoint, played: Playable, log: StateLog | None = None) -> str | None:
    """Why a checkpoint is not one of this run, or None."""
    reasons = {
        "key": "it is of another run",
        "version": "another version of unalike made it",
        "torch": f"another version of torch than {torch.__version__} made it, whose bits differ",
        "constants_sha256": "the net's frozen layers have changed since",
    }
    for key, value in _origin(played).items():
        if key == "data_sha256" and saved.meta.get(key) == played.federation.dataset.rows_digest:
            return "it is of a time when only rows and labels were compared, not names or parties of the data"
        if saved.meta.get(key) != value:
            return reasons.get(key, "the data have changed since")
    if saved.meta.get("digest") != State.of(saved.round, saved.tensors).digest():
        return "its tensors are not those that were saved"
    try:
        if log is not None:
            log.state_of(saved, played.placed)
    except Damaged as error:
        return str(error)
    return None


def restore(played: Playable, folder: RunDirectory, say: Callable[[str], None]) -> int | None:
    """Go on from the newest checkpoint of a folder, if there is one: its round.

    On the engine that made it: the bits depend on it.
    """
    log = folder.states
    saved = folder.load_checkpoint(say, lambda checkpoint: _foreign(checkpoint, played, log))
    if saved is None:
        return None
    if (cpu := saved.meta.get("cpu", cpu_kind())) != cpu_kind():
        say(f"The run {OTHER_CPU} ({cpu}, here {cpu_kind()}): its last bits may differ from those of one machine.")
    if saved.meta["engine"] != played.engine_name:
        played.use(str(saved.meta["engine"]), say)
    played.state = log.state_of(saved, played.placed)
    log.go_on(saved)

    def selected(wrong: Callable[[Checkpoint], str | None]) -> State | None:
        found = folder.load_selected(lambda one: wrong(one) or _foreign(one, played, log))
        if found is None:
            return None
        log.selected = int(found.meta.get(STATES, {}).get("file", 0))
        return log.state_of(found, played.placed)

    played.selection.go_on(folder.rounds(), selected)
    return saved.round

"""The model of a protocol at a site: tried on the site's own rows, and kept at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unalike.algorithms.protocol import SERVER, Arrays
from unalike.federation.contents import ENVELOPE
from unalike.federation.envelope import Envelope, Refused, shown
from unalike.federation.figures import parts_of, told_scores
from unalike.federation.growth import arrays_digest, changed
from unalike.federation.mail import unpack_mail
from unalike.federation.roles import grown
from unalike.federation.row_turns import TurnWork
from unalike.federation.rows import split_rows
from unalike.federation.turns import as_tensor
from unalike.federation.using import site_model
from unalike.federation.vault import Vault
from unalike.models.layout import tensors_digest
from unalike.partition import Partition
from unalike.rounds.evaluation import chosen_scores
from unalike.rounds.federation import SplitRows
from unalike.rounds.judging import Judged
from unalike.rounds.margins import Grown, MarginLook, TriedRows
from unalike.runs.checkpoint import tensor_bytes
from unalike.runs.files import atomic_write
from unalike.runs.model_file import KeptRound
from unalike.runs.predict import DIGEST
from unalike.runs.record import MODEL, file_sha256
from unalike.scores import Figures, choose
from unalike.tallies import Tally

SINCE, PLACES = "since", "places"
"""In a message: the SHA-256 of the model that it goes on from, and where the rows of its arrays begin."""
_HEADER = ("schema", "round", "last", "mail", SINCE, PLACES)


class TriedModels:
    """What a site does with models of its protocol: it tries them on its own rows, and keeps the last."""

    def __init__(self, work: TurnWork) -> None:
        self.work, self._score = work, choose(work.spec.score, "classification")
        own = (work.plan.parties[work.number],)
        alone = Partition.of_owners("natural", np.zeros(len(work.data.y), np.int64), own)
        self._last: Arrays | None = None
        self._rows, self._kept = SplitRows(work.data, alone), TriedRows(work.data)

    def lacks(self, message: Envelope) -> bool:
        """Whether a message tells only what is new of a model that this site does not have, as after a restart."""
        since = message.header.get(SINCE)
        return since is not None and (self._last is None or arrays_digest(self._last) != since)

    def asked(self, message: Envelope) -> str:
        """SHA-256 of the model that a message is about, however much of it is told."""
        shared = self._told(message)
        return "" if shared is None else arrays_digest(shared)

    def evaluation(self, message: Envelope, vault: Vault) -> dict[str, Tally]:
        """The tallies that the site tells of its own rows: what the plan's score needs; at the end, all."""
        last = self._is_last(message)
        return {
            rows: judged.tally(parts_of(told_scores(self._score, rows, last=last)))
            for rows, judged in self._judged(*self._models(message, vault)).items()
        }

    def finish(self, message: Envelope, path: Path, vault: Vault) -> Figures:
        """Keep the final model, the site's own where there is one; the figures stay here."""
        shared, own = self._models(message, vault)
        arrays = own if shared is None else shared
        if arrays is None:
            return {}
        self._save(arrays, path, self.work.round_of(message))
        self._kept.forget()  # whatever was tried before: these figures are of this model alone
        scores = chosen_scores(self._score, everything=True)
        return {
            rows: {"rows": len(judged), "score": self._score.name, **judged.figures(scores)}
            for rows, judged in self._judged(shared, own).items()
        }

    def _is_last(self, message: Envelope) -> bool:
        """Whether this is the last round, so that all scores are told; that a run ends early, the server says."""
        last = message.header.get("last", False)
        if type(last) is not bool:
            raise Refused("it does not say whether this is the last round")
        return last or self.work.round_of(message) == self.work.spec.rounds

    def _models(self, message: Envelope, vault: Vault) -> tuple[Arrays | None, Arrays | None]:
        """The model that all share, as the message has it, or else the site's own."""
        header, work = message.header, self.work
        if strange := sorted(set(header) - {*ENVELOPE, *_HEADER}):
            raise Refused(f"it says {shown(strange[0], 40)!r}, which a site works out itself or nobody asks")
        round = work.round_of(message)
        if not round:
            raise Refused("no model is tried before round 1")
        shared = self._told(message)
        if shared is not None:
            self._last = shared
            return shared, None
        return None, work.protocol.model(work.me, work.state_after(round, vault), {})

    def _told(self, message: Envelope) -> Arrays | None:
        """The model that all share, if there is one, from the message and from what was told before."""
        mail = unpack_mail(message.header.get("mail"), message.body, (SERVER,))
        if SERVER not in mail:
            return None
        if message.header.get(SINCE) is None:
            return mail[SERVER]
        if self._last is None or self.lacks(message):
            raise Refused("it goes on from another model than this site has")
        return changed(self._last, mail[SERVER], message.header.get(PLACES))

    def _judged(self, shared: Arrays | None, own: Arrays | None) -> dict[str, Judged]:
        """How well the model does on the site's own rows."""
        work, scores = self.work, chosen_scores(self._score, everything=True)
        split = split_rows(work.spec, work.data, work.number)
        personal = {} if own is None else {0: self._grown(own)}
        look = MarginLook(self._rows, None if shared is None else self._grown(shared), personal, self._kept)
        judged: dict[str, Judged] = {}
        for use in look.uses:
            before = "personal " if use == "personal" else ""
            found = look.each(use, "train", [[split.validation], [split.held_out]], scores)
            judged |= dict(zip((f"{before}validation", f"{before}held_out"), found, strict=True))
            if use == "shared":
                (judged["test"],) = look.each(use, "test", [[np.arange(len(work.data.y_test))]], scores)
        return judged

    def _grown(self, arrays: Arrays) -> Grown:
        try:
            return grown(self.work.me.terms, arrays)
        except (ValueError, KeyError, IndexError) as error:
            raise Refused(f"its model is none that this site could use: {shown(error, 100)}") from None

    def _save(self, arrays: Arrays, path: Path, round: int) -> None:
        schema, named = self.work.schema, {name: as_tensor(array) for name, array in sorted(arrays.items())}
        about: dict[str, Any] = {"schema": schema.digest, DIGEST: tensors_digest(named)}
        lists = {"features": "\n".join(schema.features), "classes": "\n".join(schema.classes)}
        data = tensor_bytes(named, about | lists)
        atomic_write(path, data)
        kept = KeptRound(round, path.name, file_sha256(data))
        described = replace(site_model(self.work.plan, schema, self.work.number), stages={"final": kept})
        atomic_write(path.with_name(MODEL), described.encode())

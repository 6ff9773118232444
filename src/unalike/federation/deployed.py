"""The models that a site tries on its rows and keeps in the end: the global one, and its own where it differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from unalike.federation.contents import digest_of, layout
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.figures import parts_of, told_scores
from unalike.federation.using import site_model
from unalike.federation.vault import Vault
from unalike.federation.work import Alone, SiteWork, has_state
from unalike.models.layout import tensors_digest
from unalike.rounds.evaluation import chosen_scores
from unalike.rounds.judging import Judged, judge
from unalike.rounds.order import Order
from unalike.rounds.personal import PersonalModels
from unalike.rounds.rows import Rows
from unalike.runs.checkpoint import tensor_bytes
from unalike.runs.files import atomic_write
from unalike.runs.model_file import KeptRound
from unalike.runs.predict import DIGEST
from unalike.runs.record import MODEL, file_sha256
from unalike.runs.rules import deploying
from unalike.scores import Figures, choose
from unalike.tallies import Tally


class Deployed(NamedTuple):
    """Weights, and the running statistics that go with them."""

    w: Tensor
    buffers: Tensor


class SiteModels:
    """What a site does with models beside training them: it tries them on its own rows, and keeps the last."""

    def __init__(self, work: SiteWork) -> None:
        self._work = work
        self._recipe, (self._phases,) = deploying(work.spec, work.worker.recipe, [work.task])
        self._score = choose(work.spec.score, "classification")

    def lacks(self, message: Envelope) -> bool:
        """Nothing: a message has the whole model."""
        return False

    def asked(self, message: Envelope) -> str:
        """SHA-256 of what a message tells of the model."""
        return digest_of(message.body, str(message.header.get("arrays")).encode())

    def evaluation(self, message: Envelope, vault: Vault) -> dict[str, Tally]:
        """The tallies that the site tells of its own rows: what the plan's score needs; at the end, all."""
        last = self._work.round_of(message) == self._work.spec.rounds
        return {
            rows: judged.tally(parts_of(told_scores(self._score, rows, last=last)))
            for rows, judged in self._judged(*self._models(message, vault)).items()
        }

    def finish(self, message: Envelope, path: Path, vault: Vault) -> Figures:
        """Keep the final model by layer name, the site's own where there is one; the figures stay here.

        An algorithm that trains something else than the run's net leaves no model here, and has no figures.
        """
        shared, own = self._models(message, vault)
        last = own or shared
        if last is None:
            return {}
        if last.w.dim() == 1:  # an ensemble is tried, but it is no one net that could be kept
            self._save(last, path)
        scores = chosen_scores(self._score, everything=True)
        return {
            rows: {"rows": len(judged), "score": self._score.name, **judged.figures(scores)}
            for rows, judged in self._judged(shared, own).items()
        }

    def _save(self, model: Deployed, path: Path) -> None:
        schema, named = self._work.schema, self._work.task.named(model.w, model.buffers)
        about = {"schema": schema.digest, DIGEST: tensors_digest(named)}
        lists = {"features": "\n".join(schema.features), "classes": "\n".join(schema.classes)}
        data = tensor_bytes(named, about | lists)
        atomic_write(path, data)
        kept = KeptRound(self._work.spec.rounds, path.name, file_sha256(data))
        described = replace(site_model(self._work.plan, schema, self._work.number), stages={"final": kept})
        atomic_write(path.with_name(MODEL), described.encode())

    def _models(self, message: Envelope, vault: Vault) -> tuple[Deployed | None, Deployed | None]:
        """The global model and the site's own, each where the algorithm has one, from what a message tells."""
        work, w = self._work, message.vectors().get("w")
        order, kept = work.state_in(message, vault)
        if not order.round:
            raise Refused("no model is tried before round 1")
        if layout(order.payload) != layout(work.script.sent):
            raise Refused(f"its payload is {layout(order.payload)}, not {layout(work.script.sent)}")
        if (w is not None) != work.script.has_model:
            has = "has a" if work.script.has_model else "has no"
            raise Refused(f"{work.spec.algorithm} {has} global model, which it does not fit")
        initial = work.task.initial()
        if w is not None and (w.shape != initial.shape or w.dtype != initial.dtype):
            raise Refused(f"its model has {tuple(w.shape)} weights of {w.dtype}, ours {tuple(initial.shape)}")
        if work.algorithm.measures_personal:
            order = replace(order, kind="measure+train")
        has_own = work.algorithm.overrides("personal") or bool(self._phases)
        return None if w is None else Deployed(w.to(initial.device), order.buffers), self._own(
            order, has_state(kept)
        ) if has_own else None

    def _own(self, order: Order, known: bool) -> Deployed:
        """The site's own model, trained further where algorithm or plan say so; ``known``: it took part before."""
        number, alone = self._work.number, Alone(replace(self._work.worker, recipe=self._recipe))
        phases = self._phases if self._recipe.algorithm.adapts(known) else ()
        models = PersonalModels(self._work.engine, alone, [number], lambda one: order, lambda one: phases)
        return Deployed(*models(number))

    def _judged(self, shared: Deployed | None, own: Deployed | None) -> dict[str, Judged]:
        """How well the models do on the site's own rows."""
        work, data = self._work, self._work.data
        train, scores = work.worker.data, chosen_scores(self._score, everything=True)
        device = work.task.device
        test = Rows(data.x_test, data.y_test, data, work.task.dtype, device)
        rows = {
            "test": (test, torch.arange(len(test), device=device)),
            "validation": (train, torch.from_numpy(work.split.validation).to(device)),
            "held_out": (train, torch.from_numpy(work.split.held_out).to(device)),
        }
        judged = {}
        if shared is not None:
            judged = {name: judge(work.task, *shared, *those, scores) for name, those in rows.items()}
        if own is not None:
            for name in ("validation", "held_out"):
                judged[f"personal {name}"] = judge(work.task, *own, *rows[name], scores)
        return judged

"""What a site does with its own rows: the same engine and algorithm as in simulation, for one party."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Ask, Kind, Vectors
from unalike.channels.setting import Random
from unalike.channels.stage import Grid
from unalike.data.dataset import Dataset
from unalike.data.sites.description import MOST_ROWS
from unalike.data.sites.schema import Schema
from unalike.engines.sequential import Sequential
from unalike.federation.envelope import Envelope, Refused, pack, shown
from unalike.federation.once import Once
from unalike.federation.plan import Plan
from unalike.federation.rows import Elsewhere, OwnRows, make_task
from unalike.federation.summing import Occasion
from unalike.federation.vault import Vault, version_name
from unalike.rounds.evaluation import Figures, row_scores
from unalike.rounds.exchange import Exchange, Reply
from unalike.rounds.upload import Wire
from unalike.runs.checkpoint import tensor_bytes
from unalike.runs.files import atomic_write
from unalike.runs.training import Ledger, Training

MOST_QUESTIONS = 10
"""Of one exchange, where no noise is weakened by a second: a server that restarts may ask it of other parties."""
PAYLOAD, BUFFERS = "payload/", "buffers"
MESSAGE, UPLOAD = "message/", "upload/"
_STATE, _STATISTICS, _MEMORY = "state/", "statistics", "memory/"
Sums = list[float]
"""Rows, sum of their losses, right answers."""


class SiteWork(Training):
    """One party's part of a run."""

    def __init__(
        self, plan: Plan, schema: Schema, data: Dataset, number: int, secret: bytes = b"", once: Once | None = None
    ) -> None:
        spec = plan.spec
        self._most_rows, self._needed, self._parties = 1, plan.needed, plan.parties
        self._secret, self._once, self._asked = secret, once, ""
        self._data = digest_of(data.x.tobytes(), data.y.tobytes())
        super().__init__(spec, OwnRows(spec, make_task(spec, schema), data, number))
        self.engine = Sequential()
        self.number, self.schema = number, schema

    @property
    def rows(self) -> int:
        """Training rows."""
        return len(self.federation.parties[self.number].train)

    @property
    def digest(self) -> str:
        """SHA-256 of what training starts from: where two sides agree, net, seed and program are the same."""
        return model_digest(self)

    def wire(self, number: int, ledger: Ledger) -> Wire:
        """The weights' scale is the server's public constant; shares of noise are made for the quorum."""
        wire = super().wire(number, ledger)
        scale = float(self._most_rows) if self.channel.hides_single else 1.0
        return replace(wire, scale=scale, fewest=self._needed(wire.cohort))

    def random(self, number: int, turn: int, party: int | None) -> Random:
        """Rounding derives from the seed, as in simulation; noise is the site's secret.

        Its key derives from the whole question and the site's rows. Asking again brings the same noise, which
        cannot be averaged away, and no other question has it.
        """
        repeated = super().random(number, turn, party)
        key = hmac.digest(self._secret, f"noise {self._asked}".encode(), "sha256")
        noise = np.random.Philox(key=int.from_bytes(key[:16], "little"))
        return lambda use: np.random.Generator(noise) if use == "noise" else repeated(use)

    def round_of(self, message: Envelope) -> int:
        """The round that a message is about."""
        round = _whole(message.header, "round")
        if not 1 <= round <= self.spec.rounds:
            raise Refused(f"it is of round {round}; the plan has {self.spec.rounds}")
        return round

    def exchange_of(self, message: Envelope, vault: Vault) -> tuple[Exchange, Vectors]:
        """The exchange that a message asks for, and what the site keeps at the version that it names."""
        header, arrays = message.header, message.vectors()
        kind: Any = header.get("ask")
        phase = header.get("phase", "")
        if kind not in get_args(Kind) or not isinstance(phase, str):
            raise Refused(f"it asks for {str(kind)[:40]!r}, which no algorithm does")
        round, turn = self.round_of(message), _whole(header, "turn")
        kept = vault.load(str(header.get("base", "")))
        payload = {k.removeprefix(PAYLOAD): v for k, v in arrays.items() if k.startswith(PAYLOAD)}
        buffers = arrays.get(BUFFERS, self.state.buffers)
        if buffers.shape != self.state.buffers.shape or buffers.dtype != self.state.buffers.dtype:
            raise Refused(f"it has {buffers.numel()} running statistics, the model {self.state.buffers.numel()}")
        ledger = Ledger(buffers, turn=turn, cohort=[self.number])
        state = {k.removeprefix(_STATE): v for k, v in kept.items() if k.startswith(_STATE)}
        if state:
            ledger.states[self.number] = state
        ledger.memories[self.number] = {
            k.removeprefix(_MEMORY): v for k, v in kept.items() if k.startswith(_MEMORY)
        }
        self._most_rows = max(1, _whole(header, "most_rows", MOST_ROWS))
        if _STATISTICS in kept:
            ledger.own_buffers[self.number] = kept[_STATISTICS]
        return self.exchange(Ask(kind, payload, phase), round, [self.number], ledger), kept

    def answer(self, message: Envelope, vault: Vault) -> tuple[dict[str, Any], bytes]:
        """The answer to an ask: the new state is kept before it leaves."""
        if self.channel.hides_single:
            raise Refused("by this site's plan the server sees sums only, never a single upload")
        reply = self._reply(message, vault)
        header, body = self._outgoing(reply)
        self._keep(message, vault, reply)
        return header, body

    def grid(self, message: Envelope, vault: Vault) -> tuple[Occasion, Grid]:
        """Which exchange it is, and what the site adds to a sum that hides it; the new state is kept before."""
        reply = self._reply(message, vault)
        if reply.encoded is None or reply.encoded.coded.grid is None:
            raise Refused("this plan's channel has no hidden sums")
        self._keep(message, vault, reply)
        cohort = tuple(self._parties[number] for number in self.cohort(self.round_of(message)))
        name = f"{message.header['round']}-{message.header['turn']}"
        return Occasion(name, cohort), reply.encoded.coded.grid

    def _reply(self, message: Envelope, vault: Vault) -> Reply:
        exchange, kept = self.exchange_of(message, vault)
        self._check_ask(exchange)
        if self._once is not None:
            header, state = message.header, [v.numpy().tobytes() for _, v in sorted(kept.items())]
            told = [
                str(header.get(key)).encode() for key in ("ask", "phase", "round", "turn", "most_rows", "arrays")
            ]
            self._asked = digest_of(self._data.encode(), message.body, *told, *state)
            why = "this site has answered other questions in that exchange, and no further one"
            most = 1 if self.channel.noise is not None and self.channel.noise.where != "server" else MOST_QUESTIONS
            self._once.ask(f"exchange {exchange.round}-{exchange.turn}", self._asked, why, most)
            if self.channel.hides_single:  # which version it is, the server says to each site for itself
                why = "this site has computed from another state in that exchange: two sums would show its change"
                self._once.ask(f"state {exchange.round}-{exchange.turn}", digest_of(*state), why)
        (reply,) = self.engine.exchange(exchange)
        return reply

    def _check_ask(self, exchange: Exchange) -> None:
        """Refuse what the plan does not ask of this site in this round, or the algorithm at this turn of it."""
        if self.number not in self.cohort(exchange.round):
            raise Refused(f"by the plan this site takes no part in round {exchange.round}")
        if exchange.turn >= len(self._asks):
            raise Refused(f"{self.spec.algorithm} has {len(self._asks)} exchanges in a round, this is one more")
        ask, expected = exchange.ask, self._asks[exchange.turn]
        if (ask.kind, ask.phase) != (expected.kind, expected.phase):
            raise Refused(f"it asks to {ask.kind!r}, {self.spec.algorithm} to {expected.kind!r}")
        if layout(ask.payload) != layout(expected.payload):
            raise Refused(f"its payload is {layout(ask.payload)}, not {layout(expected.payload)}")

    @cached_property
    def _asks(self) -> list[Ask]:
        """What the algorithm asks in a round: one is played with a party that does not exist."""
        spec = replace(self.spec, channel="none")
        federation = Elsewhere(spec, self.task, self.schema, [4] * self.federation.size)
        return _Rehearsal(spec, federation.pretended).asks()

    def _outgoing(self, reply: Reply) -> tuple[dict[str, Any], bytes]:
        """What leaves the site: the message that is only added; single uploads where the algorithm needs them."""
        if reply.encoded is not None:
            return {}, reply.encoded.coded.data or b""
        leaves = {f"{MESSAGE}{key}": value for key, value in reply.message.items()}
        if self.algorithm.needs_each:
            leaves |= {f"{UPLOAD}{key}": value for key, value in reply.upload.items()}
        arrays, body = pack(leaves)
        return {"arrays": arrays}, body

    def _keep(self, message: Envelope, vault: Vault, reply: Reply) -> None:
        """Store the new version for good before the answer leaves; forget those that nobody can name any more."""
        header = message.header
        kept: Vectors = {f"{_STATE}{key}": value for key, value in reply.state.items()}
        if reply.encoded is not None:
            kept |= {f"{_MEMORY}{key}": value for key, value in reply.encoded.memory.items()}
        if self._keeps_statistics and reply.buffers is not None:
            kept[_STATISTICS] = reply.buffers
        self._check_finite(kept, int(header["round"]), "its own ")
        version, named = header.get("version"), header.get("keep")
        if version != version_name(header["round"], header["turn"], header["number"][0]):
            raise Refused(f"{shown(version, 60)!r} is not the version that this exchange makes")
        if not isinstance(named, list) or len(named) > 2:  # more would fill the disk
            raise Refused("it names no versions to keep, or too many")
        vault.save(version, kept)
        vault.keep({version, str(header.get("base", "")), *map(str, named)})

    def evaluation(self, message: Envelope, vault: Vault) -> dict[str, Sums]:
        """How well the global model, and the personal one where there is one, does on the site's own rows."""
        exchange, _ = self.exchange_of(message, vault)
        w = self._model(message)
        federation, buffers = self.federation, exchange.buffers_of(self.number)
        own = federation.parties[self.number]
        test = torch.arange(len(federation.test))
        train = {"validation": own.validation, "held_out": own.held_out}
        sums = {}
        if w is not None:
            sums["test"] = _sums(row_scores(federation, w, buffers, federation.test, test))
            for key, rows in train.items():
                sums[key] = _sums(row_scores(federation, w, buffers, federation.train, torch.from_numpy(rows)))
        if self.algorithm.overrides("personal"):
            personal = self.algorithm.personal(exchange.party(exchange.own(self.number)))
            for key, rows in train.items():
                index = torch.from_numpy(rows)
                sums[f"personal {key}"] = _sums(row_scores(federation, personal, buffers, federation.train, index))
        return sums

    def _model(self, message: Envelope) -> Tensor | None:
        """The global model, where the algorithm has one."""
        w = message.vectors().get("w")
        if w is not None and (w.shape != self.initial.shape or w.dtype != self.initial.dtype):
            raise Refused(f"its model has {tuple(w.shape)} weights of {w.dtype}, ours {tuple(self.initial.shape)}")
        return w

    def finish(self, message: Envelope, path: Path, vault: Vault) -> Figures:
        """Keep the final model by layer name, the personal one where there is one; the figures stay here."""
        exchange, _ = self.exchange_of(message, vault)
        w = self._model(message)
        if self.algorithm.overrides("personal"):
            w = self.algorithm.personal(exchange.party(exchange.own(self.number)))
        if w is None:
            raise Refused(f"{self.spec.algorithm} has neither a global model nor one of this site's own")
        named = self.task.named(w, exchange.buffers_of(self.number))
        about = {"schema": self.schema.digest, "features": "\n".join(self.schema.features)}
        atomic_write(path, tensor_bytes(named, about | {"classes": "\n".join(self.schema.classes)}))
        return {key: _figures(sums) for key, sums in self.evaluation(message, vault).items()}


class _Rehearsal(Training):
    """A round with one party that does not exist, which shows what an algorithm asks."""

    engine = Sequential()

    def asks(self) -> list[Ask]:
        """All asks of a round."""
        ledger, found = Ledger(self.state.buffers.clone(), cohort=[0]), []
        rounds = self.algorithm.round(self.task, self.state.server)
        try:
            found.append(next(rounds))
            while True:
                found.append(rounds.send(self._exchange(found[-1], 1, ledger)))
        except StopIteration:
            return found


def layout(vectors: Vectors) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Of each vector its type and shape."""
    return {key: (str(value.dtype), tuple(value.shape)) for key, value in sorted(vectors.items())}


def digest_of(*parts: bytes) -> str:
    """SHA-256 of all parts, each for itself."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def model_digest(training: Training) -> str:
    """SHA-256 of a training's initial weights and of what its net has beside them, such as frozen layers."""
    weights = training.initial.detach().cpu().contiguous().numpy().tobytes()
    return digest_of(weights, training.task.constants_digest.encode())


def _sums(scores: Tensor) -> Sums:
    loss, right = scores.double().sum(dim=0).tolist()
    return [float(len(scores)), loss, right]


def _figures(sums: Sums) -> Figures:
    rows, loss, right = sums
    return {"rows": int(rows), "loss": loss / rows, "accuracy": right / rows} if rows else {"rows": 0}


def _whole(header: dict[str, Any], key: str, most: int = 2**31 - 1) -> int:
    value = header.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise Refused(f"its {key} is not a number")
    return value

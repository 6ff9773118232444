"""What a site does with its own rows: the same orders, recipe and algorithm as in simulation, for one party."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.checked import checked
from unalike.algorithms.contract import Vectors
from unalike.channels import Coded, Summand, parse_channel, simulated_random
from unalike.channels.setting import Random
from unalike.channels.stage import Grid
from unalike.data.columns import Column
from unalike.data.dataset import Dataset
from unalike.data.sites.description import MOST_ROWS
from unalike.data.sites.schema import Schema
from unalike.engines.sequential import Sequential
from unalike.federation.envelope import Envelope, Refused, pack, shown
from unalike.federation.figures import parts_of, told_scores
from unalike.federation.once import Once
from unalike.federation.plan import Plan
from unalike.federation.rows import agreed_tasks, made_up_worker, rows_of, share_public, split_rows
from unalike.federation.summing import Occasion
from unalike.federation.vault import Vault, version_name
from unalike.models.task import Task
from unalike.own_code import explained
from unalike.rounds.evaluation import Figures, chosen_scores
from unalike.rounds.judging import Judged, judge
from unalike.rounds.order import Order, Reply, phases_of
from unalike.rounds.personal import PersonalModels
from unalike.rounds.rehearse import Line, Script, rehearse
from unalike.rounds.rows import Rows
from unalike.rounds.upload import Wire
from unalike.rounds.worker import Worker
from unalike.runs.checkpoint import tensor_bytes
from unalike.runs.files import atomic_write
from unalike.runs.rules import check_finite, cohort_of, cohort_size, deploying, learning_rate, recipe_of
from unalike.scores import choose
from unalike.tallies import Tally

MOST_QUESTIONS = 10
"""Of one exchange, where no noise is weakened by a second: a server that restarts may ask it of other parties."""
PAYLOAD, BUFFERS = "payload/", "buffers"
MESSAGE, UPLOAD = "message/", "upload/"
WEIGHT, LOSS = "message/engine/weight", "message/engine/loss"
_STATE, _STATISTICS, _MEMORY = "state/", "statistics", "memory/"
ENVELOPE = ("kind", "sender", "receiver", "plan", "number", "arrays", "step", "session", "protocol")
EXCHANGE = ("schema", "ask", "phase", "round", "turn", "base", "keep", "version", "most_rows")
"""All that a message may say of an exchange: phases, rows and learning rate are not among it."""


class SiteWork:
    """One party's part of a run: it turns messages into orders, and what its worker answers into bytes."""

    def __init__(
        self,
        plan: Plan,
        schema: Schema,
        data: Dataset,
        number: int,
        secret: bytes = b"",
        once: Once | None = None,
        public: Sequence[Column] | None = None,
    ) -> None:
        self.spec = spec = plan.spec
        self.number, self.schema, self.data, self.plan = number, schema, data, plan
        self._secret, self._once, self._asked = secret, once, ""
        self._digest = digest_of(data.x.tobytes(), data.y.tobytes())
        self.tasks, self.channel = agreed_tasks(spec, schema), parse_channel(spec.channel)
        self.task = self.tasks[number % len(self.tasks)]
        self.score = choose(spec.score, self.task.objective.task)
        self.initial = self.task.initial()
        self.algorithm = checked(ALGORITHMS.build(spec.algorithm))
        wire = Wire(self.channel, self._asked_in, self._random, plan.needed) if self.channel.parts else None
        self.split = split_rows(spec, data, number)
        self.worker = Worker(
            number,
            self.task,
            recipe_of(spec, self.algorithm, self.tasks, wire),
            rows_of(data, self.task),
            train=lambda round: self.split.train,
            validation=lambda: self.split.validation,
            public=share_public(self.tasks, schema, public, plan.missing),
        )
        self._engine = Sequential()
        self._deploying, self._adapting = deploying(spec, self.worker.recipe, self.tasks)

    @property
    def rows(self) -> int:
        """How many rows this site trains on."""
        return len(self.split.train)

    @property
    def digest(self) -> str:
        """SHA-256 of what training starts from: where two sides agree, net, seed and program are the same."""
        return model_digest(self.task)

    def cohort(self, round: int) -> list[int]:
        """Who takes part in a round by the plan; in round 0, which prepares, everybody does."""
        everybody = len(self.plan.parties)
        return cohort_of(self.spec, everybody, round) if round else list(range(everybody))

    def _asked_in(self, round: int) -> int:
        everybody = len(self.plan.parties)
        return cohort_size(self.spec, everybody) if round else everybody

    def _random(self, round: int, turn: int, party: int | None) -> Random:
        """Rounding derives from the seed, as in simulation; noise is the site's secret.

        Its key derives from the whole question and the site's rows. Asking again brings the same noise, which
        cannot be averaged away, and no other question has it.
        """
        repeated = simulated_random(self.spec.seed, round, turn, party)
        key = hmac.digest(self._secret, f"noise {self._asked}".encode(), "sha256")
        noise = np.random.Philox(key=int.from_bytes(key[:16], "little"))
        return lambda use: np.random.Generator(noise) if use == "noise" else repeated(use)

    def round_of(self, message: Envelope) -> int:
        """The round that a message is about; 0 is what prepares, where the algorithm does."""
        round, first = _whole(message.header, "round"), 0 if self.script.prepare else 1
        if not first <= round <= self.spec.rounds:
            raise Refused(f"it is of round {round}; the plan has {self.spec.rounds}")
        return round

    @cached_property
    def script(self) -> Script:
        """What the algorithm asks, and what is answered: rehearsed with a party that does not exist."""
        worker = made_up_worker(self.schema, self.task, self.worker.recipe, self.number, self.worker.public)
        with explained(self.algorithm):
            return rehearse(worker, self.tasks[0], len(self.plan.parties))

    def order_of(self, message: Envelope, vault: Vault) -> tuple[Order, Vectors]:
        """The order that a message gives, and what the site keeps at the version that it names.

        Which rows it is about and which phases it has, the site works out itself.
        """
        round, turn = self.round_of(message), _whole(message.header, "turn")
        line = self._line(round, turn)
        order, kept = self.state_in(message, vault)
        phases = phases_of(self.algorithm, self.task, line.kind, line.phase, round)
        return replace(order, turn=turn, kind=line.kind, phases=phases, phase=line.phase, rows=line.rows), kept

    def state_in(self, message: Envelope, vault: Vault) -> tuple[Order, Vectors]:
        """The training's state that a message tells, as an order that asks nothing; and what the site keeps."""
        header, arrays, round = message.header, message.vectors(), self.round_of(message)
        kept = vault.load(str(header.get("base", "")))
        initial = self.task.initial_buffers()
        buffers = arrays.get(BUFFERS, initial)
        if buffers.shape != initial.shape or buffers.dtype != initial.dtype:
            raise Refused(f"it has {buffers.numel()} running statistics, the model {initial.numel()}")
        order = Order(
            self.number,
            round,
            turn=0,
            kind="train",
            payload=_under(PAYLOAD, arrays),
            state=_under(_STATE, kept) or self.algorithm.init_party(self.task, self.initial),
            buffers=kept.get(_STATISTICS, buffers) if self.worker.recipe.keeps_statistics else buffers,
            lr=learning_rate(self.spec, round),
            memory=_under(_MEMORY, kept),
            most_rows=max(1, _whole(header, "most_rows", MOST_ROWS)),
        )
        return order, kept

    def _line(self, round: int, turn: int) -> Line:
        lines = self.script.of(round)
        if turn >= len(lines):
            raise Refused(f"{self.spec.algorithm} has {len(lines)} exchanges in a round, this is one more")
        return lines[turn]

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
        if not isinstance(reply.message, Coded) or reply.message.grid is None:
            raise Refused("this plan's channel has no hidden sums")
        self._keep(message, vault, reply)
        cohort = tuple(self.plan.parties[number] for number in self.cohort(self.round_of(message)))
        name = f"{message.header['round']}-{message.header['turn']}"
        return Occasion(name, cohort), reply.message.grid

    def _reply(self, message: Envelope, vault: Vault) -> Reply:
        order, kept = self.order_of(message, vault)
        self._check_ask(message, order)
        if self._once is not None:
            self._ask_once(self._once, message, order, kept)
        # What fails here is never explained to the server, as in a rehearsal: it may quote the site's rows.
        (reply,) = self._engine.answer(_Alone(self.worker), [order])
        return reply

    def _ask_once(self, once: Once, message: Envelope, order: Order, kept: Vectors) -> None:
        """Refuse a further question on an exchange, or the same from another state."""
        header, state = message.header, [v.numpy().tobytes() for _, v in sorted(kept.items())]
        told = [str(header.get(key)).encode() for key in ("ask", "phase", "round", "turn", "most_rows", "arrays")]
        self._asked = digest_of(self._digest.encode(), message.body, *told, *state)
        why = "this site has answered other questions in that exchange, and no further one"
        most = 1 if self.channel.noise is not None and self.channel.noise.where != "server" else MOST_QUESTIONS
        once.ask(f"exchange {order.round}-{order.turn}", self._asked, why, most)
        if self.channel.hides_single:  # which version it is, the server says to each site for itself
            why = "this site has computed from another state in that exchange: two sums would show its change"
            once.ask(f"state {order.round}-{order.turn}", digest_of(*state), why)

    def _check_ask(self, message: Envelope, order: Order) -> None:
        """Refuse what the plan does not ask of this site in this round, or the algorithm at this turn of it."""
        if self.number not in self.cohort(order.round):
            raise Refused(f"by the plan this site takes no part in round {order.round}")
        header, line = message.header, self._line(order.round, order.turn)
        strange = sorted(set(header) - {*ENVELOPE, *EXCHANGE})
        if strange:
            raise Refused(f"it says {shown(strange[0], 40)!r}, which a site works out itself or nobody asks")
        asked, agreed = (header.get("ask"), header.get("phase", "")), (line.kind, line.phase)
        if asked != agreed:
            raise Refused(f"it asks to {_told(*asked)}, {self.spec.algorithm} to {_told(*agreed)}")
        if layout(order.payload) != layout(line.payload):
            raise Refused(f"its payload is {layout(order.payload)}, not {layout(line.payload)}")

    def _outgoing(self, reply: Reply) -> tuple[dict[str, Any], bytes]:
        """What leaves the site: the message that is only added; single uploads where the algorithm needs them."""
        if isinstance(reply.message, Coded):
            return {}, reply.message.data or b""
        leaves = message_vectors(reply.message)
        if reply.single is not None:
            leaves |= {f"{UPLOAD}{key}": value for key, value in reply.single.items()}
        arrays, body = pack(leaves)
        return {"arrays": arrays}, body

    def _keep(self, message: Envelope, vault: Vault, reply: Reply) -> None:
        """Store the new version for good before the answer leaves; forget those that nobody can name any more."""
        header = message.header
        kept: Vectors = {f"{_STATE}{key}": value for key, value in reply.state.items()}
        kept |= {f"{_MEMORY}{key}": value for key, value in reply.memory.items()}
        if self.worker.recipe.keeps_statistics and reply.buffers is not None:
            kept[_STATISTICS] = reply.buffers
        check_finite(self.spec, kept, int(header["round"]), "its own ")
        version, named = header.get("version"), header.get("keep")
        if version != version_name(header["round"], header["turn"], header["number"][0]):
            raise Refused(f"{shown(version, 60)!r} is not the version that this exchange makes")
        if not isinstance(named, list) or len(named) > 2:  # more would fill the disk
            raise Refused("it names no versions to keep, or too many")
        vault.save(version, kept)
        vault.keep({version, str(header.get("base", "")), *map(str, named)})

    def evaluation(self, message: Envelope, vault: Vault) -> dict[str, Tally]:
        """The tallies that the site tells of its own rows: what the plan's score needs; at the end, all."""
        last = self.round_of(message) == self.spec.rounds
        return {
            rows: judged.tally(parts_of(told_scores(self.score, rows, last=last)))
            for rows, judged in self._judged(message, vault).items()
        }

    def _judged(self, message: Envelope, vault: Vault) -> dict[str, Judged]:
        """How well the global model, and the personal one where there is one, does on the site's own rows."""
        order = self._tried(message, vault)
        train, scores = self.worker.data, chosen_scores(self.score, everything=True)
        test = Rows(self.data.x_test, self.data.y_test, self.data, self.task.dtype, self.task.device)
        rows = {
            "test": (test, torch.arange(len(test))),
            "validation": (train, torch.from_numpy(self.split.validation)),
            "held_out": (train, torch.from_numpy(self.split.held_out)),
        }
        judged, w = {}, self._model(message)
        if w is not None:
            judged = {name: judge(self.task, w, order.buffers, *those, scores) for name, those in rows.items()}
        if self.has_own_model:
            own = self._personal(order)
            for name in ("validation", "held_out"):
                judged[f"personal {name}"] = judge(self.task, *own, *rows[name], scores)
        return judged

    def _tried(self, message: Envelope, vault: Vault) -> Order:
        """The state that a model is tried or deployed at; the algorithm's ``send`` must give what was sent."""
        order, _ = self.state_in(message, vault)
        if not order.round:
            raise Refused("no model is tried before round 1")
        if layout(order.payload) != layout(self.script.sent):
            raise Refused(f"its payload is {layout(order.payload)}, not {layout(self.script.sent)}")
        return order

    @property
    def has_own_model(self) -> bool:
        """Whether the site deploys another model than the global one."""
        return self.algorithm.overrides("personal") or bool(self._adapting)

    def _personal(self, order: Order) -> tuple[Tensor, Tensor]:
        """The site's own model, trained further where algorithm or plan say so, and the statistics with it."""
        crew = _Alone(replace(self.worker, recipe=self._deploying))
        models = PersonalModels(self._engine, crew, [self.number], lambda number: order, self._adapting)
        return models(self.number)

    def _model(self, message: Envelope) -> Tensor | None:
        """The global model, where the algorithm has one."""
        w, initial = message.vectors().get("w"), self.initial
        if w is not None and (w.shape != initial.shape or w.dtype != initial.dtype):
            raise Refused(f"its model has {tuple(w.shape)} weights of {w.dtype}, ours {tuple(initial.shape)}")
        return w

    def finish(self, message: Envelope, path: Path, vault: Vault) -> Figures:
        """Keep the final model by layer name, the personal one where there is one; the figures stay here."""
        order = self._tried(message, vault)
        w, buffers = self._model(message), order.buffers
        if self.has_own_model:
            w, buffers = self._personal(order)
        if w is None:
            raise Refused(f"{self.spec.algorithm} has neither a global model nor one of this site's own")
        named = self.task.named(w, buffers)
        about = {"schema": self.schema.digest, "features": "\n".join(self.schema.features)}
        atomic_write(path, tensor_bytes(named, about | {"classes": "\n".join(self.schema.classes)}))
        scores = chosen_scores(self.score, everything=True)
        return {
            rows: {"rows": len(judged), "score": self.score.name, **judged.figures(scores)}
            for rows, judged in self._judged(message, vault).items()
        }


class _Alone:
    """The one worker that a site has."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def worker(self, number: int) -> Worker:
        """The site's own, whatever its number."""
        return self._worker


def _under(prefix: str, vectors: Vectors) -> Vectors:
    return {key.removeprefix(prefix): value for key, value in vectors.items() if key.startswith(prefix)}


def message_vectors(message: Summand) -> Vectors:
    """A summand as named vectors: with its weight, and its training loss where there is one."""
    vectors = {f"{MESSAGE}{key}": value for key, value in message.vectors.items()}
    vectors[WEIGHT] = torch.tensor(message.weight, dtype=torch.float64)
    if message.loss is not None:
        vectors[LOSS] = torch.tensor(message.loss, dtype=torch.float64)
    return vectors


def message_of(vectors: Vectors) -> Summand:
    """The summand that such vectors are."""
    numbers = {key: float(vectors[key]) for key in (WEIGHT, LOSS) if key in vectors}
    keys = {key for key in vectors if key.startswith(MESSAGE)} - numbers.keys()
    sums = {key.removeprefix(MESSAGE): vectors[key] for key in sorted(keys)}
    return Summand(sums, numbers[WEIGHT], numbers.get(LOSS))


def layout(vectors: Vectors) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Of each vector its type and shape."""
    return {key: (str(value.dtype), tuple(value.shape)) for key, value in sorted(vectors.items())}


def digest_of(*parts: bytes) -> str:
    """SHA-256 of all parts, each for itself."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def model_digest(task: Task) -> str:
    """SHA-256 of a task's initial weights and of what its net has beside them, such as frozen layers."""
    weights = task.initial().detach().cpu().contiguous().numpy().tobytes()
    return digest_of(weights, task.constants_digest.encode())


def _told(kind: object, phase: object) -> str:
    """An ask in words that are safe to show."""
    return repr(shown(kind, 40)) + (f" in phase {shown(phase, 40)!r}" if phase != "" else "")


def _whole(header: dict[str, Any], key: str, most: int = 2**31 - 1) -> int:
    value = header.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise Refused(f"its {key} is not a number")
    return value

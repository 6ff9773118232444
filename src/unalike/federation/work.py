"""What a site does with its own rows: the same orders, recipe and algorithm as in simulation, for one party."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.checked import checked
from unalike.algorithms.contract import Vectors
from unalike.channels import Coded, parse_channel, simulated_random
from unalike.channels.setting import Random
from unalike.channels.stage import Grid
from unalike.data.columns import Column
from unalike.data.dataset import Dataset
from unalike.data.schema import Schema
from unalike.data.sites.description import MOST_ROWS
from unalike.engines.sequential import Sequential
from unalike.federation.contents import (
    BUFFERS,
    ENVELOPE,
    EXCHANGE,
    PAYLOAD,
    UPLOAD,
    digest_of,
    layout,
    message_vectors,
    under,
    whole_number,
)
from unalike.federation.envelope import Envelope, Refused, pack, shown
from unalike.federation.once import Once
from unalike.federation.plan import Plan
from unalike.federation.rows import agreed_tasks, made_up_worker, rows_of, share_public, split_rows
from unalike.federation.summing import Occasion
from unalike.federation.vault import Vault, version_name
from unalike.models.task import Task
from unalike.own_code import explained
from unalike.rounds.order import Order, Reply, phases_of
from unalike.rounds.rehearse import Line, Script, rehearse
from unalike.rounds.worker import Worker
from unalike.runs.rules import asked_in, check_finite, cohort_of, learning_rate, least_opened, recipe_of, wire_of

MOST_QUESTIONS = 10
"""Of one exchange, where no noise is weakened by a second: a server that restarts may ask it of other parties."""
_STATE, _STATISTICS, _MEMORY = "state/", "statistics", "memory/"


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
        device: str = "cpu",
    ) -> None:
        self.spec = spec = plan.spec
        self.number, self.schema, self.data, self.plan = number, schema, data, plan
        self._secret, self._once, self._asked = secret, once, ""
        self._digest = digest_of(data.x.tobytes(), data.y.tobytes())
        self.tasks, self.channel = agreed_tasks(spec, schema, device), parse_channel(spec.channel)
        self.task = self.tasks[number % len(self.tasks)]
        for task in self.tasks:
            task.least_opened = least_opened(self.channel, plan.cohort, plan.needed(plan.cohort))
        self.initial = self.task.initial()
        self.algorithm = checked(ALGORITHMS.build(spec.algorithm))
        wire = wire_of(spec, self.channel, self.tasks, self._asked_in, self._random, plan.needed)
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
        self.engine = Sequential()

    @property
    def rows(self) -> int:
        """How many rows this site trains on."""
        return len(self.split.train)

    @property
    def digest(self) -> str:
        """SHA-256 of what training starts from: where two sides agree, net, seed and program are the same."""
        return model_digest(self.task)

    def cohort(self, round: int) -> list[int]:
        """Who takes part in a round by the plan."""
        return cohort_of(self.spec, len(self.plan.parties), round)

    def _asked_in(self, round: int) -> int:
        return asked_in(self.spec, len(self.plan.parties), round)

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
        round, first = whole_number(message.header, "round"), 0 if self.script.prepare else 1
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
        round, turn = self.round_of(message), whole_number(message.header, "turn")
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
        if self.worker.recipe.keeps_statistics:
            buffers = kept.get(_STATISTICS, buffers)
        order = Order(
            self.number,
            round,
            turn=0,
            kind="train",
            payload=self._placed(under(PAYLOAD, arrays)),
            state=self._placed(under(_STATE, kept)) or self.algorithm.init_party(self.task, self.initial),
            buffers=buffers.to(self.task.device),
            lr=learning_rate(self.spec, round),
            memory=under(_MEMORY, kept),
            most_rows=max(1, whole_number(header, "most_rows", MOST_ROWS)),
        )
        return order, kept

    def _placed(self, vectors: Vectors) -> Vectors:
        """What came over the wire or from the vault, where the net is."""
        return {key: value.to(self.task.device) for key, value in vectors.items()}

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
        (reply,) = self.engine.answer(Alone(self.worker), [order])
        return reply

    def _ask_once(self, once: Once, message: Envelope, order: Order, kept: Vectors) -> None:
        """Refuse a further question on an exchange, or the same from another state."""
        header, state = message.header, [v.numpy().tobytes() for _, v in sorted(kept.items())]
        told = [str(header.get(key)).encode() for key in ("ask", "phase", "round", "turn", "most_rows", "arrays")]
        self._asked = digest_of(self._digest.encode(), message.body, *told, *state)
        why = "this site has answered other questions in that exchange, and no further one"
        most = 1 if self.channel.noise is not None and self.channel.noise.where != "server" else MOST_QUESTIONS
        asked = [(f"exchange {order.round}-{order.turn}", self._asked, why, most)]
        if self.channel.hides_single:  # which version it is, the server says to each site for itself
            why = "this site has computed from another state in that exchange: two sums would show its change"
            asked.append((f"state {order.round}-{order.turn}", digest_of(*state), why, 1))
        once.ask_all(*asked)

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


class Alone:
    """The one worker that a site has."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def worker(self, number: int) -> Worker:
        """The site's own, whatever its number."""
        return self._worker


def model_digest(task: Task) -> str:
    """SHA-256 of a task's initial weights and of what its net has beside them, such as frozen layers."""
    weights = task.initial().detach().cpu().contiguous().numpy().tobytes()
    return digest_of(weights, task.constants_digest.encode())


def _told(kind: object, phase: object) -> str:
    """An ask in words that are safe to show."""
    return repr(shown(kind, 40)) + (f" in phase {shown(phase, 40)!r}" if phase != "" else "")


def has_state(kept: Vectors) -> bool:
    """Whether a site keeps a state of its algorithm, as one that has taken part in a round."""
    return bool(under(_STATE, kept))

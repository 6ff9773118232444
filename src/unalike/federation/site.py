"""A site: bytes of a server's message in, bytes of its answer out. Its rows never leave this process.

A message is answered only if the server that the site agreed with signed it, under the plan that the site agreed
to, with a number above all that it has seen: nothing that was recorded once can be played again.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unalike.channels.errors import ChannelError
from unalike.channels.stage import Grid
from unalike.data.schema import Schema
from unalike.data.sites import read_site_table, site_data
from unalike.data.sites.agreement import check_agreed
from unalike.data.sites.description import Description, describe
from unalike.errors import UserError
from unalike.federation.audit import Audit
from unalike.federation.column_site import ColumnSite
from unalike.federation.dealing import BOX, DEAL, KEY
from unalike.federation.deployed import SiteModels
from unalike.federation.envelope import SERVER, Envelope, Refused, pack, peek, read, shown, write
from unalike.federation.figures import packed
from unalike.federation.folders import SEEN
from unalike.federation.measuring import SUM, SiteMeasure
from unalike.federation.once import Once, read_json
from unalike.federation.others import Others
from unalike.federation.pairing import ADD, GREET
from unalike.federation.plan import Plan
from unalike.federation.public import public_table
from unalike.federation.row_turns import TurnWork
from unalike.federation.site_sums import Answer, SiteSums
from unalike.federation.summing import Occasion
from unalike.federation.tried import TriedModels
from unalike.federation.turns import AGAIN, BEGINS, TURN, WHOLE
from unalike.federation.vault import Vault
from unalike.federation.work import SiteWork
from unalike.runs.files import atomic_write, private_folder
from unalike.secure.crypto.primitives import signing_public

MOST_SCHEMAS = 10
"""So many codings of its table a site tries before it has trained: columns may have to be mended."""


@dataclass
class Site:
    """One party of a federation, in its own folder, with its own table.

    ``signer`` is the site's Ed25519 secret key; ``say`` gets one line for what a person there should know.
    ``device`` is where its nets are trained and tried, as in ``unalike run --device``.
    """

    folder: Path
    name: str
    plan: Plan
    table: str
    signer: bytes = field(repr=False)
    say: Callable[[str], None] = lambda line: None
    device: str = "cpu"

    def __post_init__(self) -> None:
        private_folder(self.folder)  # figures, models, the log: all of it tells of rows
        self.number = self.plan.number(self.name)
        self._audit = Audit(self.folder, self.signer)
        if self._audit.notice:
            self._tell(self._audit.notice)
        self._vault = Vault(self.folder / "state")
        seen = read_json(self.folder / SEEN)
        self._others = Others(self.folder, self.name, self.plan, signing_public(self.signer).hex())
        self._work: SiteWork | TurnWork | None = None
        self._tried: TriedModels | None = None
        self._once = Once(self.folder / "once.json")
        self._seen = max(tuple(Envelope(seen).number) if seen else (0, 0), self._once.number)
        self._measure: SiteMeasure | None = None
        self._server = {SERVER: bytes.fromhex(self.plan.server)}
        known = self.folder, self.name, self.plan, self.signer, self._server[SERVER], self._once
        self._sums = SiteSums(*known, self._others.keys)
        self.columns = read_site_table(self.table, self.plan.types, elsewhere=self.plan.splits_columns)
        self._public = public_table(self.folder, self.plan.public)
        self._columns: ColumnSite | None = None
        self._described: Description | None = None  # a table that does not fit is told here, never to the server
        if self.plan.splits_columns:
            mine = self.folder, self.name, self.plan, self.columns, self._once, self._vault
            self._columns = ColumnSite(*mine, self._others, self._sums, self._tell)
        else:
            self._described = self.describe()

    def describe(self) -> Description:
        """What the site tells of its table."""
        plan = self.plan
        return describe(self.columns, plan.label, plan.ignore, plan.missing, plan.test)

    def answer(self, raw: bytes) -> bytes:
        """The answer to a message, always signed; what is refused is logged and answered with the reason."""
        number, kind = [0, 0], "?"
        try:
            message = read(raw, self._server, self.name, self.plan.most_bytes)
            kind, number = message.kind, message.number
            self._check(message, number)
            if kind == TURN:
                return self._turn(raw, message)
            self._audit.note("in", raw, kind, number=number)
            header, body = self._act(message)
            answer = self._sealed("answer", number, header, body)
            self._audit.note("out", answer, kind)
            return answer
        except Exception as error:  # whatever a message does, the site lives on
            return self._refusal(raw, kind if kind != "?" else _claimed(raw), number, error)

    def _turn(self, raw: bytes, message: Envelope) -> bytes:
        """The answer in a turn: a round's first message has a line in the log, and the others are counted."""
        if first := message.header.get(BEGINS) is True:
            self._audit.note("in", raw, TURN, number=message.number, round=message.header.get("round"))
        header, body = self._act(message)
        answer = self._sealed("answer", message.number, header, body)
        if self._once.number < tuple(message.number):  # seen.json has that of other messages
            self._once.ask_all(number=message.number)
        if not first:
            self._audit.count("in", raw)
        self._audit.count("out", answer)
        return answer

    def _refusal(self, raw: bytes, kind: str, number: list[int], error: Exception) -> bytes:
        """The answer to a message that is refused, or that failed: the reason, without what is this site's own."""
        if isinstance(error, ChannelError):  # it tells the value of an entry
            reason = "its update does not fit the channel: it is not finite, or beyond the range; it prints more"
        elif isinstance(error, UserError):
            reason = shown(str(error).replace(str(self.folder), "the site's folder"))
        else:
            reason = f"the site failed ({type(error).__name__}); what it prints says more"
            with suppress(OSError):
                traceback.print_exception(error)
        answer = self._sealed("error", number, {"reason": reason}, b"")
        with suppress(UserError):  # a log that cannot be written: nothing leaves but this
            self._audit.note("in", raw, kind, f"refused: {reason}")
            self._audit.note("out", answer, kind, f"refused: {reason}")
        self._tell(f"Refused a message ({shown(kind, 40)}): {shown(error)}")
        return answer

    def _tell(self, line: str) -> None:
        """For a person, who may have closed the terminal: that must not cost an answer."""
        with suppress(OSError):
            self.say(line)

    def _sealed(self, kind: str, number: list[int], header: dict[str, Any], body: bytes) -> bytes:
        envelope = {"kind": kind, "sender": self.name, "receiver": SERVER, "answers": number}
        return write(Envelope({**header, **envelope}, body), self.signer)

    def _check(self, message: Envelope, number: list[int]) -> None:
        """Refuse another plan, and what was seen before. What is seen now is kept before anything is done."""
        if message.header.get("plan") != self.plan.digest:
            raise Refused("the server follows another plan than this site agreed to. Look at it, and join again")
        if tuple(number) <= self._seen:
            raise Refused(f"its number {number} was seen before: it is a replay, or out of order")
        self._check_heard(message.header.get("heard", {}))
        self._seen = tuple(number)
        if message.kind != TURN:  # of a turn, before its answer leaves, together with what was asked
            atomic_write(self.folder / SEEN, json.dumps({"number": number}).encode())

    def _check_heard(self, told: Any) -> None:
        """Refuse to go on where the server has an answer that this folder knows nothing of."""
        if not isinstance(told, dict):
            raise Refused("what it says that the server has heard cannot be read")
        heard = told.get(self.name, [0, 0])
        if self._seen < tuple(Envelope({"number": heard}).number):
            raise Refused(
                f"the server has this site's answer to message {heard}, but the last that this folder has seen is "
                f"{list(self._seen)}: it is an old backup, and has forgotten what it answered. Restore a newer one"
            )

    def _act(self, message: Envelope) -> Answer:
        acts: dict[str, Callable[[Envelope], Answer]] = {
            "hello": lambda asked: ({}, b""),  # the signature says who it is
            "describe": self._describe,
            "agree": self._agree,
            "exchange": lambda asked: self._ready(asked).answer(asked, self._vault),
            "sum": lambda asked: self._sums.step(asked, self._grid),
            GREET: lambda asked: self._sums.in_one_trip(asked, self._grid),
            ADD: lambda asked: self._sums.in_one_trip(asked, self._grid),
            TURN: lambda asked: self._talking(asked).turns.answer(asked, self._vault, self._sums),
            WHOLE: lambda asked: self._talking(asked).turns.keep(asked, self._vault),
            "evaluate": self._evaluate,
            "measure-support": lambda asked: self._measuring(asked).support(asked),
            "measure-policy": lambda asked: self._measuring(asked).agree(asked),
            "measure-compare": lambda asked: self._measuring(asked).compare(asked),
            SUM: lambda asked: self._sums.counts(asked, lambda again: self._measuring(again).vector(again)),
            BOX: lambda asked: self._sums.keys().tell(),
            DEAL: lambda asked: self._sums.take_keys(lambda keys: keys.deal(asked)),
            KEY: lambda asked: self._sums.take_keys(lambda keys: keys.take(asked)),
            "finish": self._finish,
        }
        if self._columns is not None:
            acts = self._columns.acts() | {kind: acts[kind] for kind in ("hello", GREET)}
        act = acts.get(message.kind)
        if act is None:
            raise Refused(f"a message of kind {message.kind[:40]!r} is not known here")
        return act(message)

    def _describe(self, message: Envelope) -> Answer:
        told = self._described
        assert told is not None
        self._tell(f"Told the server what the {len(told.columns)} columns hold; no row left.")
        return {"description": told.to_dict()}, b""

    def _agree(self, message: Envelope) -> Answer:
        """Code the own table as agreed, or say which column does not fit."""
        try:
            schema = Schema.from_dict(message.header["schema"])
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(f"the proposed schema is malformed: {error}") from None
        roster = self._others.check(message.header.get("roster"))
        assert self._described is not None
        check_agreed(schema, self._described)
        before = self._others.agreed.get("schema")
        if before and self._vault.versions and Schema.from_dict(before).digest != schema.digest:
            raise Refused("training has begun with another schema. Join again in another folder")
        # Whether rows fit a scale tells something of them: enough proposals would tell a column's extremes.
        self._once.ask("schema", schema.digest, f"this site has tried {MOST_SCHEMAS} other schemas", MOST_SCHEMAS)
        work = self._make_work(schema)
        self._others.keep(roster, schema=schema.to_dict())
        self._tell(f"Agreed: {len(schema.features)} features, {len(schema.classes)} classes.")
        return {"rows": work.rows, "model": work.digest, "schema": schema.digest}, b""

    def _grid(self, message: Envelope) -> tuple[Occasion, Grid]:
        if self.plan.several_trips:
            return self._talking(message).turns.grid(message)
        return self._ready(message).grid(message, self._vault)

    def _measuring(self, message: Envelope) -> SiteMeasure:
        if not self.plan.measure:
            raise Refused("this federation's plan says that sites are not measured")
        work = self._working(message)
        if self._measure is None:
            data = work.data
            self._measure = SiteMeasure(self.name, self.plan.parties, data, self.signer, self._once)
        return self._measure

    def _evaluate(self, message: Envelope) -> Answer:
        if self.plan.figures == "none":
            raise Refused("this federation's plan says that no figures leave a site")
        work = self._working(message)
        models = self._models(work)
        if models.lacks(message):
            return {AGAIN: True}, b""
        asked = models.asked(message)
        why = "this site has told the figures of another model of that round"
        self._once.ask(f"evaluate {work.round_of(message)}", asked, why)
        arrays, body = pack(packed(models.evaluation(message, self._vault)))
        return {"arrays": arrays}, body

    def _finish(self, message: Envelope) -> Answer:
        path = self.folder / "model.safetensors"
        figures = self._models(self._working(message)).finish(message, path, self._vault)
        self._sums.end()
        atomic_write(self.folder / "figures.json", json.dumps(figures, indent=1).encode())
        where = f"the model is in {path}" if figures else "this algorithm leaves no model at a site"
        self._tell(f"Training is over: {where}.")
        return {}, b""

    def _models(self, work: SiteWork | TurnWork) -> SiteModels | TriedModels:
        if isinstance(work, SiteWork):
            return SiteModels(work)
        if self._tried is None or self._tried.work is not work:
            self._tried = TriedModels(work)
        return self._tried

    def _ready(self, message: Envelope) -> SiteWork:
        """What the site works with, where its algorithm averages vectors."""
        work = self._working(message)
        if not isinstance(work, SiteWork):
            raise Refused(f"{self.plan.spec.algorithm} is talked through in turns, and has no exchanges")
        return work

    def _talking(self, message: Envelope) -> TurnWork:
        """What the site works with, where its algorithm is a protocol."""
        work = self._working(message)
        if not isinstance(work, TurnWork):
            raise Refused(f"{self.plan.spec.algorithm} has exchanges, and no turns")
        return work

    def _working(self, message: Envelope) -> SiteWork | TurnWork:
        """What the site works with, made anew after a restart from what it agreed to."""
        if "schema" not in self._others.agreed:
            raise Refused("nothing was agreed on yet")
        work = self._work or self._make_work(Schema.from_dict(self._others.agreed["schema"]))
        if message.header.get("schema") != work.schema.digest:
            raise Refused("the server uses another schema than was agreed on")
        return work

    def _make_work(self, schema: Schema) -> SiteWork | TurnWork:
        data = site_data(self.name, schema, self.columns, self.plan.missing, self.plan.test)
        if self.plan.protocol is None:
            given = self.number, self.signer, self._once, self._public, self.device
            self._work = SiteWork(self.plan, schema, data, *given)
        else:
            self._work = TurnWork(self.plan, schema, data, self.number, self._once)
        self._measure = None  # it counts coded rows
        return self._work


def _claimed(raw: bytes) -> str:
    try:
        return peek(raw).kind[:40]
    except Refused:
        return "?"

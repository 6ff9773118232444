"""What a site does where sites have other columns of the same people, message by message."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unalike.data.columns import Column
from unalike.data.sites.side_by_side import SidePeople, side_people
from unalike.federation.column_judge import alone_on_test, judged_by_use, margins_of
from unalike.federation.column_predict import PREDICT, PREDICTED, ColumnJobs
from unalike.federation.column_work import ColumnWork, offer_of
from unalike.federation.columns_agreed import ColumnsAgreed
from unalike.federation.contents import digest_of
from unalike.federation.envelope import Envelope, Refused, pack
from unalike.federation.figures import packed, parts_of, told_scores
from unalike.federation.folders import make_key, read_key
from unalike.federation.growth import arrays_digest
from unalike.federation.matched import Matched
from unalike.federation.once import Once
from unalike.federation.others import Others
from unalike.federation.pairing import occasion_of
from unalike.federation.plan import Plan
from unalike.federation.site_matching import BEGIN as MATCH_BEGIN
from unalike.federation.site_matching import KEEP as MATCH_KEEP
from unalike.federation.site_matching import STEP as MATCH_STEP
from unalike.federation.site_matching import SiteMatching
from unalike.federation.site_sums import Answer, SiteSums
from unalike.federation.turns import AGAIN, FIGURES, PURPOSE, TURN, WHOLE, SiteTurns, as_tensor
from unalike.federation.vault import Vault
from unalike.rounds.evaluation import chosen_scores
from unalike.runs.checkpoint import tensor_bytes
from unalike.runs.files import atomic_write
from unalike.scores import choose, goodness

OFFER, PROPOSAL = "offer", "columns"
"""In the answer to "describe", what a site tells of its columns; in "agree", what all are to agree on."""
MODEL_FILE, FIGURES_FILE = "model.safetensors", "figures.json"
_SECRET = Path("keys") / "secrets.key"


@dataclass
class ColumnSite:
    """One site of a plan by which sites have other columns of the same people, with its own table."""

    folder: Path
    name: str
    plan: Plan
    table: Sequence[Column]
    once: Once
    vault: Vault
    others: Others
    sums: SiteSums
    tell: Callable[[str], None]
    _work: ColumnWork | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.number, self._score = self.plan.number(self.name), choose(self.plan.spec.score, "classification")
        known = self.others, self.sums, self.tell  # a table that does not fit is told here, never to the server
        self.matching = SiteMatching(self.folder, self.name, self.plan, self.table, self.once, *known)
        self.jobs = ColumnJobs(self.folder, self.plan, self.tell)

    def acts(self) -> dict[str, Callable[[Envelope], Answer]]:
        """By kind of message, what this site does."""
        return {
            MATCH_BEGIN: self.matching.begin,
            MATCH_STEP: self.matching.step,
            MATCH_KEEP: self._keep_matching,
            "describe": self.describe,
            "agree": self.agree,
            TURN: self.turn,
            WHOLE: self.keep,
            "evaluate": self.evaluate,
            "finish": self.finish,
            PREDICT: self.begin_job,
            PREDICTED: self.end_job,
        }

    def _keep_matching(self, message: Envelope) -> Answer:
        """Go on with the people that were just matched."""
        answer = self.matching.keep(message)
        self._work = None
        return answer

    def describe(self, message: Envelope) -> Answer:
        """Tell how many columns there are, of how many people, and whether the labels are here."""
        offer = offer_of(*self._matched())
        self.tell(
            f"Told the server: {offer.columns} coded columns of {offer.people:,} people; nothing of anybody."
        )
        return {OFFER: offer.to_dict()}, b""

    def agree(self, message: Envelope) -> Answer:
        """Take part in what the sites' sizes make, if it goes with this site's own table."""
        roster = self.others.check(message.header.get("roster"))
        agreed = ColumnsAgreed.read(message.header.get(PROPOSAL))
        side, matched = self._matched()
        if len(agreed.columns) != len(self.plan.parties):
            raise Refused("it proposes columns of other sites than the plan has")
        agreed.check(offer_of(side, matched), self.number, self.name)
        before = self.others.agreed.get(PROPOSAL)
        if before and self.vault.versions and ColumnsAgreed.read(before).digest != agreed.digest:
            raise Refused("training has begun with other columns or people. Join again in another folder")
        self._work = self._make(agreed, side)
        self.others.keep(roster, **{PROPOSAL: agreed.to_dict()})
        holder = self.plan.parties[agreed.label_holder]
        self.tell(f"Agreed: {sum(agreed.columns)} columns of {agreed.people:,} people; {holder} has the labels.")
        model = columns_digest(self.plan, agreed)
        return {"rows": agreed.people, "model": model, "schema": agreed.digest}, b""

    def turn(self, message: Envelope) -> Answer:
        """What the site says in a turn of training, or of predicting people of the run or of new tables."""
        return self._turns(message).answer(message, self.vault, self.sums)

    def keep(self, message: Envelope) -> Answer:
        """Store the state after a whole round."""
        return self.working(message).turns.keep(message, self.vault)

    def evaluate(self, message: Envelope) -> Answer:
        """Tell how well the model does that has just been tried, in sums over the people of each use."""
        if self.plan.figures == "none":
            raise Refused("this federation's plan says that no figures leave a site")
        work, last = self.working(message), self._is_last(message)
        if not work.holds_label:
            raise Refused("this site has no labels, and no figures")
        margins = self._tried(work, message)
        if margins is None:
            return {AGAIN: True}, b""
        round = work.turns.round_of(message)
        asked = digest_of(margins.tobytes(), str(last).encode())
        self.once.ask(f"evaluate {round}", asked, "this site has told the figures of another model of that round")
        scores = chosen_scores(self._score, everything=True)
        found = judged_by_use(work, margins, scores)
        tallies = {
            use: one.tally(parts_of(told_scores(self._score, use, last=last))) for use, one in found.items()
        }
        arrays, body = pack(packed(tallies))
        worth = self._worth(work, found["test"].figures([self._score])[self._score.key]) if last else {}
        if last:
            figures: dict[str, Any] = {
                use: {"rows": len(one), "score": self._score.name, **one.figures(scores)}
                for use, one in found.items()
            }
            atomic_write(self.folder / FIGURES_FILE, json.dumps({**figures, **worth}, indent=1).encode())
        return {"arrays": arrays, FIGURES: worth}, body

    def finish(self, message: Envelope) -> Answer:
        """Keep this site's part of the model; nobody has the whole."""
        work = self.working(message)
        path, round = self.folder / MODEL_FILE, work.turns.round_of(message)
        part = work.protocol.model(work.me, work.turns.state_after(round, self.vault), {})
        if part is not None:
            named = {name: as_tensor(array) for name, array in sorted(part.items())}
            about = {
                "plan": self.plan.digest,
                "schema": work.agreed.digest,
                "party": self.name,
                "round": str(round),
            }
            atomic_write(path, tensor_bytes(named, {**about, "part_sha256": arrays_digest(part)}))
        self.sums.end()
        figures = self.folder / FIGURES_FILE
        if not (work.holds_label and figures.exists()):
            atomic_write(figures, b"{}")
        told = "" if part is None else f" Its SHA-256 is {arrays_digest(part)}."
        self.tell(f"Training is over: this site's part of the model is in {path}.{told}")
        return {}, b""

    def begin_job(self, message: Envelope) -> Answer:
        """Take part in a prediction of new people, with the table that somebody here has offered."""
        return self.jobs.begin(self.working(message), message), b""

    def end_job(self, message: Envelope) -> Answer:
        """A prediction is over: the label holder writes it down, and keys made for it are forgotten."""
        header = self.jobs.end(self.working(message), message)
        if not header:
            self.sums.end(occasion_of(message))
        return header, b""

    def working(self, message: Envelope) -> ColumnWork:
        """What the site works with, made anew after a restart from what it agreed to."""
        if PROPOSAL not in self.others.agreed:
            raise Refused("nothing was agreed on yet")
        if self._work is None:
            agreed, (side, matched) = ColumnsAgreed.read(self.others.agreed[PROPOSAL]), self._matched()
            agreed.check(offer_of(side, matched), self.number, self.name)
            self._work = self._make(agreed, side)
        if message.header.get("schema") != self._work.agreed.digest:
            raise Refused("the server goes on from something else than was agreed on")
        return self._work

    def _turns(self, message: Envelope) -> SiteTurns:
        work, purpose = self.working(message), message.header.get(PURPOSE, "train")
        occasion = occasion_of(message)
        if purpose == "train" and not occasion:
            return work.turns
        if purpose != "predict":
            raise Refused("it is of a conversation that this plan does not have")
        return self.jobs.turns(work, occasion) if occasion else work.trying

    def _matched(self) -> tuple[SidePeople, str]:
        """This site's columns of the people that were matched, and the hash of the matching."""
        rows = Matched.read(self.folder, self.plan, self.table)
        return side_people(self.table, rows, self.plan.people), matching_digest(
            self.plan, Matched.kept(self.folder, self.plan)
        )

    def _make(self, agreed: ColumnsAgreed, side: SidePeople) -> ColumnWork:
        make_key(self.folder / _SECRET)
        secret = read_key(self.folder / _SECRET)
        return ColumnWork(self.plan, agreed, side, self.number, secret, self.once)

    def _is_last(self, message: Envelope) -> bool:
        last = message.header.get("last", False)
        if type(last) is not bool:
            raise Refused("it does not say whether this is the last round")
        return last or message.header.get("round") == self.plan.spec.rounds

    def _tried(self, work: ColumnWork, message: Envelope) -> Any:
        """What was predicted for the people of the run; None where that is not here, as after a restart."""
        place = work.trying.place
        if place is None or place.round != work.turns.round_of(message) or "margins" not in place.state:
            return None
        return margins_of(place.state, len(work.trying.me.rows.train))

    def _worth(self, work: ColumnWork, together: float | None) -> dict[str, float]:
        """What the label holder could do alone, and what the others' columns add to that."""
        if together is None:
            return {}
        alone = alone_on_test(work, [self._score]).figures([self._score])[self._score.key]
        found = {"alone": alone, "gain": goodness(self._score.name, together) - goodness(self._score.name, alone)}
        return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}


def matching_digest(plan: Plan, matched: Matched) -> str:
    """What tells one matching of a plan's people from another, as far as sites tell of it."""
    return digest_of(b"matched", plan.digest.encode(), matched.session.encode(), str(len(matched.rows)).encode())


def columns_digest(plan: Plan, agreed: ColumnsAgreed) -> str:
    """SHA-256 of what a protocol starts from: where two sides agree, they have the same parts."""
    spec = plan.spec
    return digest_of(*(text.encode() for text in (plan.digest, agreed.digest, spec.algorithm, str(spec.model))))

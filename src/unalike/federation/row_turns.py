"""What a site with rows of its own brings to a protocol: its coded table, and its role in the turns."""

from __future__ import annotations

from unalike.algorithms.protocol import Arrays, Me, Protocol
from unalike.data.dataset import Dataset
from unalike.data.schema import Schema
from unalike.federation.envelope import Envelope
from unalike.federation.once import Once
from unalike.federation.plan import Plan
from unalike.federation.roles import site_of_rows, terms_digest
from unalike.federation.turns import SiteTurns
from unalike.federation.vault import Vault


class TurnWork:
    """One site's part of a run by a protocol between sites with other rows of the same columns."""

    def __init__(self, plan: Plan, schema: Schema, data: Dataset, number: int, once: Once | None = None) -> None:
        self.plan, self.schema, self.data, self.number, self.spec = plan, schema, data, number, plan.spec
        self.turns = SiteTurns(plan, site_of_rows(plan, schema, data, number), once)

    @property
    def protocol(self) -> Protocol:
        """The protocol by which the sites talk."""
        return self.turns.protocol

    @property
    def me(self) -> Me:
        """All that this site's role can see."""
        return self.turns.me

    @property
    def rows(self) -> int:
        """How many rows this site trains on."""
        return len(self.me.rows.train)

    @property
    def digest(self) -> str:
        """SHA-256 of what the run starts from."""
        return terms_digest(self.plan, self.schema)

    def round_of(self, message: Envelope) -> int:
        """The round that a message is about; 0 is what prepares."""
        return self.turns.round_of(message)

    def state_after(self, round: int, vault: Vault) -> Arrays:
        """What the site keeps after a whole round."""
        return self.turns.state_after(round, vault)

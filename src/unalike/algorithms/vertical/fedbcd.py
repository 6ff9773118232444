"""Block coordinate descent: several steps of each party between two exchanges of a linear model's scores."""

from __future__ import annotations

from unalike.algorithms.contract import algorithm
from unalike.algorithms.vertical.descent import LocalSteps
from unalike.algorithms.vertical.linear import FEWEST, LinearColumns, Protect, check_penalty
from unalike.errors import UserError
from unalike.secure.crypto.additive_keys import SAFE_BITS, Cipher

MOST_STEPS = 10_000
"""Steps on one batch; more would only solve that batch."""


@algorithm("fedbcd", paper="Liu et al. 2019, FedBCD (arXiv:1912.11976)")
class FedBcd(LinearColumns):
    """Linear models of split columns in fewer exchanges: q steps of every party on a batch, not one.

    After an exchange, as in ``vertical``, each party k takes q steps on the same batch with what it has heard,

        w_k <- w_k - lr (X_k^T r / |B| + l2 w_k + proximal (w_k - w_k at the exchange)).

    The label holder works out the residuals r anew in each step, from the others' scores of the exchange and its
    own as they are now; the others cannot, and take all q steps with the residuals of the exchange (the paper's
    parallel version; it lets every party hold what r needs). ``proximal`` is the paper's optional term against
    drifting apart. With q=1 it is ``vertical`` to the bit. Stale steps hurt near the optimum: lower q or
    --lr-decay then. What protects scores and residuals, and what parties learn, is as in ``vertical``: q steps
    need no more than one.
    """

    q: int = 5
    proximal: float = 0.0
    l2: float = 0.0
    protect: Protect = "auto"
    bits: int = SAFE_BITS
    cipher: Cipher = "okamoto-uchiyama"
    least_predicted: int = FEWEST

    def __post_init__(self) -> None:
        self.check("fedbcd")
        check_penalty("fedbcd", "proximal", self.proximal)
        if not 1 <= self.q <= MOST_STEPS:
            raise UserError(
                f"fedbcd's q must be from 1 to {MOST_STEPS:,} steps between exchanges, got {self.q}. Use 5."
            )

    @property
    def descent(self) -> LocalSteps:
        """The steps of a party between two exchanges: q."""
        return LocalSteps(self.q, self.l2, self.proximal)

"""Which stages go together, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from unalike.channels.stage import Bound, Coder, Hidden, Noise, Selected, Sparse
from unalike.errors import UserError

_CENTRAL = ("server", "shared")
FEWEST_HIDDEN = 3
"""Parties in a hidden sum: of two, each could take its own upload from the sum and read the other's."""


def check_order(parts: Sequence[Any], brief: Callable[[Any], str]) -> None:
    """Refuse stages in an order, or together, that would not do what they promise."""
    for first, second in pairwise(parts):
        one, other = brief(first), brief(second)
        if first.rank == second.rank:
            raise UserError(f"{one} and {other} do the same work in a channel. Keep one of them.")
        if first.rank > second.rank:
            raise UserError(f"{other} must come before {one} in a channel. Write {other}+{one}.")
    of = {part.rank: part for part in parts}
    noise, hidden = of.get(Noise.rank), of.get(Hidden.rank)
    lossy = of.get(Sparse.rank) or of.get(Coder.rank)
    if noise is not None:
        _check_noise(noise, of.get(Bound.rank), hidden, lossy, brief)
    if isinstance(lossy, Selected) and hidden is not None and Coder.rank not in of:
        if not lossy.alike:
            raise UserError(
                f"Under {brief(hidden)} all parties must send the same entries, but with {brief(lossy)} each "
                "draws its own. Write same=true."
            )
        return
    lossy = of.get(Coder.rank) or lossy
    if hidden is not None and lossy is not None:
        raise UserError(
            f"{brief(lossy)} saves nothing under {brief(hidden)}, which adds whole vectors on its own grid. "
            f"Leave {brief(lossy)} out."
        )


def check_cohort(hidden: Hidden | None, asked: int, brief: Callable[[Any], str]) -> None:
    """Refuse to hide uploads in a sum of so few parties that it hides none, in simulation as at real sites."""
    if hidden is not None and asked < FEWEST_HIDDEN:
        raise UserError(
            f"A hidden sum of two parties shows each the other's update: {brief(hidden)} needs three or more, "
            f"{asked} are asked. Add parties, raise --sample, or leave {brief(hidden)} out of --channel."
        )


def _check_noise(noise: Any, clip: Any, hidden: Any, lossy: Any, brief: Callable[[Any], str]) -> None:
    name = brief(noise)
    if clip is None or clip.norm != noise.needs:
        wanted = "clip(1.0)" if noise.needs == "l2" else "clip(1.0, l1)"
        raise UserError(
            f"{name} needs an {noise.needs} clip before it, or it hides nothing. Write {wanted}+{name}."
        )
    if noise.where == "shared" and hidden is None:
        raise UserError(
            f"{name}: a share of the noise does not hide a party whose upload is seen. Add +masked, or use "
            "where=party."
        )
    if noise.where == "server" and hidden is not None and hidden.parties_learn:
        raise UserError(
            f"{name}: under {brief(hidden)} the parties decrypt the sum, before the server adds noise. "
            "Use where=shared."
        )
    if noise.where in _CENTRAL and lossy is not None:
        raise UserError(
            f"{brief(lossy)} can lift an upload above its clip, and then the noise of {name} is too small. "
            "Use where=party, or leave it out."
        )

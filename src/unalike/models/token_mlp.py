"""A small net for rows of tokens: words or characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.errors import UserError
from unalike.models.model import register_model

if TYPE_CHECKING:
    from unalike.models.net import Net


@register_model("token-mlp", paper="after Bengio et al. 2003, JMLR 3")
class TokenMlp:
    """For text: a vector for each token, all of them side by side into one hidden layer."""

    reads: ClassVar[Literal["numbers", "tokens"]] = "tokens"

    words: int = 5002
    width: int = 16
    hidden: int = 64

    def __post_init__(self) -> None:
        for name, least, most in (("words", 2, 10**6), ("width", 1, 4096), ("hidden", 1, 100_000)):
            if not least <= getattr(self, name) <= most:
                got = getattr(self, name)
                raise UserError(f"token-mlp's {name} must be from {least} to {most:,}, got {got}.")

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for rows of ``shape[0]`` tokens."""
        from torch import nn

        from unalike.models.layers import Embed
        from unalike.models.net import Net

        body = nn.Sequential(
            Embed(self.words, self.width), nn.Linear(shape[0] * self.width, self.hidden), nn.ReLU()
        )
        return Net(body, nn.Linear(self.hidden, classes))

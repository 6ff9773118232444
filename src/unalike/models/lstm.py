"""A recurrent net for text: words or characters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.data.text import SPECIAL
from unalike.errors import UserError
from unalike.models.model import register_model
from unalike.models.word_vectors import fingerprint_vectors, read_vectors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from unalike.models.net import Net

_LIMITS = {"hidden": 8192, "width": 4096, "features": 100_000, "layers": 16}


@register_model("lstm", paper="Wang et al. 2023, rFedAvg, section VI; Li et al. 2020, FedProx, appendix C.1")
class Lstm:
    """For text: a vector for each token, a two-layer LSTM, then a fully connected layer (ReLU), the features.

    rFedAvg's net for Sentiment140; the paper gives 256 as the width of the output vector, the LSTM's own width of
    256 is FedProx's. A row's padding changes nothing. McMahan et al. 2017 take ``width=8`` for ``shakespeare``.

    ``vectors`` is a file of pre-trained word vectors in GloVe's text format, ``width`` numbers for each word; its
    content enters the run's key. They stay as they are unless ``train_vectors``. Without a file, vectors are
    learnt. The vocabulary is the data set's.
    """

    reads: ClassVar[Literal["numbers", "tokens"]] = "tokens"

    hidden: int = 256
    width: int = 50
    features: int = 256
    layers: int = 2
    vectors: str = ""
    train_vectors: bool = False

    def __post_init__(self) -> None:
        for name, most in _LIMITS.items():
            if not 1 <= getattr(self, name) <= most:
                raise UserError(f"lstm's {name} must be from 1 to {most:,}, got {getattr(self, name)}.")
        if self.train_vectors and not self.vectors:
            raise UserError("lstm's train_vectors is for a file of vectors. Without one they are always trained.")

    def fingerprint(self) -> str:
        """The SHA-256 of the file of vectors, or nothing."""
        return fingerprint_vectors(self.vectors) if self.vectors else ""

    def without_files(self) -> Lstm:
        """The same net for weights that are trained already, the word vectors among them."""
        return replace(self, vectors="", train_vectors=False)

    def with_vocabulary(self, words: tuple[str, ...]) -> LstmOver:
        """The model for tokens that mean these words."""
        if not words:
            raise UserError("lstm needs the word of every token. Give the data set its vocabulary as features.")
        import torch

        table = torch.from_numpy(read_vectors(self.vectors, words, self.width)) if self.vectors else None
        return LstmOver(self, words, table)

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """Refused: the vocabulary must be known first."""
        return self.with_vocabulary(()).build(shape, classes)


@dataclass(frozen=True, eq=False)
class LstmOver:
    """The LSTM over a vocabulary, its word vectors read."""

    options: Lstm
    words: tuple[str, ...]
    table: Tensor | None

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for rows of tokens."""
        if len(shape) != 1 or not shape[0]:
            raise UserError(f"lstm needs rows of tokens, got rows of shape {shape}. Choose another --model.")
        from torch import nn

        from unalike.models.layers import LastState
        from unalike.models.net import Net

        options = self.options
        padding = self.words.index(SPECIAL[0]) if SPECIAL[0] in self.words else None
        lstm = nn.LSTM(options.width, options.hidden, options.layers, batch_first=True)
        body = nn.Sequential(
            LastState(self._embed(), lstm, padding), nn.Linear(options.hidden, options.features), nn.ReLU()
        )
        return Net(body, nn.Linear(options.features, classes))

    def _embed(self) -> nn.Module:
        from torch import nn

        known = None if self.table is None else self.table.clone()
        embed = nn.Embedding(len(self.words), self.options.width, _weight=known)
        return embed.requires_grad_(known is None or self.options.train_vectors)

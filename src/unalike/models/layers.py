"""Layers of our nets that torch has not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Norm = Callable[[int], nn.Module]
_UNKNOWN = 1


class LastState(nn.Module):
    """The upper layer's state after the last token of each row that is not padding; zeros after no token.

    The net reads from left to right and padding comes last, so what follows the last token changes nothing.
    """

    def __init__(self, embed: nn.Module, lstm: nn.LSTM, padding: int | None) -> None:
        super().__init__()
        self.embed = embed
        self.lstm = lstm
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        """[rows, length] tokens to [rows, hidden] numbers."""
        states: Tensor = self.lstm(self.embed(x))[0]
        if self.padding is None:
            return states[:, -1]
        places = torch.arange(1, x.shape[1] + 1, device=x.device)
        length = torch.where(x == self.padding, 0, places).amax(dim=1)
        last = (length - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
        return states.gather(1, last)[:, 0] * (length > 0)[:, None]


class Embed(nn.Module):
    """Each token's vector, one after the other; a token beyond the vocabulary is the unknown one."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words = words
        self.vectors = nn.Embedding(words, width)

    def forward(self, x: Tensor) -> Tensor:
        """[rows, length] tokens to [rows, length x width] numbers."""
        known = torch.where(x < self.words, x, _UNKNOWN)
        vectors: Tensor = self.vectors(known)
        return vectors.flatten(start_dim=-2)


class ResidualBlock(nn.Module):
    """``relu(residual(x) + shortcut(x))``, He et al. 2016, eq. 1 and 2; basic or bottleneck (figure 5).

    Where the shape changes the shortcut is a projection (option B). The stride is in the 3x3 convolution.
    """

    def __init__(self, before: int, width: int, stride: int, norm: Norm, bottleneck: bool) -> None:
        super().__init__()
        after = 4 * width if bottleneck else width
        if bottleneck:
            steps = [(before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)]
        else:
            steps = [(before, width, 3, stride), (width, after, 3, 1)]
        layers: list[nn.Module] = []
        for inputs, outputs, kernel, step in steps:
            layers += [convolution(inputs, outputs, kernel, step), norm(outputs), nn.ReLU()]
        self.residual = nn.Sequential(*layers[:-1])
        same = stride == 1 and before == after
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(convolution(before, after, 1, stride), norm(after))
        )

    def forward(self, x: Tensor) -> Tensor:
        """[rows, channels, height, width] to the same with this block's channels and stride."""
        return torch.relu(self.residual(x) + self.shortcut(x))


class MeanOverPixels(nn.Module):
    """Averages each channel over all pixels (global average pooling)."""

    def forward(self, x: Tensor) -> Tensor:
        """[rows, channels, height, width] to [rows, channels]."""
        return x.mean(dim=(-2, -1))


def convolution(before: int, after: int, kernel: int, stride: int) -> nn.Conv2d:
    """A convolution without a bias that leaves the size as it is but for its stride."""
    made = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")  # He et al. 2015, section 2.2
    return made

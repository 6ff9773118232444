"""A channel: what lies between a party's upload and the server's sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, TypeVar, cast, dataclass_transform

import numpy as np

from unalike.channels import grid
from unalike.channels.errors import ChannelError, NotFinite
from unalike.channels.layout import Array, Layout, Summand, Upload, Vectors
from unalike.channels.own import check_own
from unalike.channels.rules import check_cohort, check_order
from unalike.channels.sent import Sent, kept_rest, sent_by, with_rest
from unalike.channels.setting import ChannelSetting
from unalike.channels.stage import Bound, Coder, Grid, Hidden, Noise, Selected, Sparse
from unalike.errors import UserError
from unalike.own_code import explained
from unalike.registry import CompositionRegistry

C = TypeVar("C", bound=type)
Method = TypeVar("Method", bound=Callable[..., Any])


def _in_one_line(method: Method) -> Method:
    """A channel's method in which a mistake in a stage of the user's own is told in one line."""

    @wraps(method)
    def told(self: Channel, *given: Any, **named: Any) -> Any:
        with explained(*self.parts):
            return method(self, *given, **named)

    return cast(Method, told)


@dataclass(frozen=True, eq=False)
class Coded:
    """A party's upload as it leaves the party: bytes, or a grid that is only ever added."""

    data: bytes | None = field(default=None, repr=False)
    grid: Grid | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Channel:
    """Stages in order. All methods are pure; what comes from the other side is never trusted."""

    parts: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for part in self.parts:
            check_own(part)
        check_order(self.parts, CHANNELS.brief)

    def check_cohort(self, asked: int) -> None:
        """Refuse a number of parties in a round that this channel cannot serve."""
        check_cohort(self.hidden, asked, CHANNELS.brief)

    @cached_property
    def clip(self) -> Bound | None:
        """The stage that limits how long an upload may be, or None."""
        found: Bound | None = self._part(Bound)
        return found

    @cached_property
    def noise(self) -> Noise | None:
        """The stage that hides a party in random numbers, or None."""
        found: Noise | None = self._part(Noise)
        return found

    @cached_property
    def hidden(self) -> Hidden | None:
        """The stage that adds uploads without showing a single one, or None."""
        found: Hidden | None = self._part(Hidden)
        return found

    @cached_property
    def chosen(self) -> Selected | None:
        """The stage that leaves out entries which both sides work out, or None."""
        found: Selected | None = self._part(Selected)
        return found

    @property
    def hides_single(self) -> bool:
        """Whether the server sees nothing but sums."""
        return self.hidden is not None

    @property
    def tells_single(self) -> bool:
        """Whether figures of a single upload may be kept: not of sums, nor of what the server has yet to noise."""
        return self.hidden is None and (self.noise is None or self.noise.where != "server")

    @property
    def uniform_weights(self) -> bool:
        """Whether all parties weigh the same, and send no loss: a row count and a loss are data."""
        return self.noise is not None

    @property
    def scale(self) -> float:
        """The size of the noise on the sum, in the units of uploads; 0 without noise."""
        return self.noise.multiplier * self.clip.bound if self.noise and self.clip else 0.0

    @_in_one_line
    def encode(self, upload: Upload, memory: Vectors, setting: ChannelSetting) -> tuple[Coded, Vectors]:
        """The party's side: what leaves it, and what it keeps for the next time (``memory`` is what it kept)."""
        layout = upload.layout
        vector = layout.join(upload.vectors, setting.party)
        head = [] if self.uniform_weights else [upload.weight, *([upload.loss or 0.0] if layout.loss else [])]
        if not np.isfinite(head).all():
            raise NotFinite(f"Party {setting.party}'s weight or loss is not finite: {head}. Lower --lr.")
        if self.clip is not None:
            vector = self.clip.clip(vector)
        noisy = self._noised_by_party(vector, setting)
        sent = self._sent(layout, setting)
        if self.hidden is not None:
            return self._on_grid(self.hidden, noisy, head, memory, sent, setting)
        data, kept = self._compress(noisy.astype(layout.dtype), memory, sent, setting)
        return Coded(data=np.array(head, "<f8").tobytes() + data), kept

    @_in_one_line
    def decode(self, data: bytes, layout: Layout, setting: ChannelSetting) -> Upload:
        """The server's side, where it sees single uploads: the upload that these bytes carry."""
        if self.hides_single:
            raise ChannelError("This channel shows sums only: use from_grid.")
        count = 0 if self.uniform_weights else 1 + layout.loss
        numbers, rest = data[: 8 * count], data[8 * count :]
        if len(numbers) != 8 * count:
            raise ChannelError(f"The message must begin with {8 * count} bytes of weight and loss.")
        head = np.frombuffer(numbers, "<f8").tolist()
        if not np.isfinite(head).all() or (head and head[0] < 0):
            raise ChannelError(f"Weight and loss must be finite, and the weight not below zero, got {head}.")
        sent = self._sent(layout, setting)
        vector = self._decompress(rest, sent)
        if not np.isfinite(vector).all():
            raise ChannelError("The message carries values that are not finite.")
        if self.clip is not None and self._arrives_clipped and not self.clip.holds(vector):
            raise ChannelError(f"The upload is longer than its clip, {self.clip.bound:g}: it was not clipped.")
        weight, loss = head[0] if head else 1.0, head[1] if len(head) > 1 else None
        return Upload(layout.split(sent.scaled(vector)), layout, weight, loss)

    @_in_one_line
    def grid_length(self, layout: Layout, setting: ChannelSetting) -> int:
        """How many whole numbers each party adds to a hidden sum, which the server must know before it asks."""
        if self.hidden is None:
            raise ChannelError("This channel has no grid: use decode.")
        head = 0 if self.uniform_weights else 1 + layout.loss
        entries = np.zeros(self._sent(layout, setting).count + head, np.int64)
        return len(self.hidden.split(entries, setting.cohort))

    @_in_one_line
    def from_grid(self, total: Grid, layout: Layout, setting: ChannelSetting) -> Summand:
        """The server's side, where it sees sums only: the sum of messages from the sum of grids."""
        if self.hidden is None:
            raise ChannelError("This channel has no grid: use decode.")
        count = 0 if self.uniform_weights else 1 + layout.loss
        sent = self._sent(layout, setting)
        values = grid.decode(total, sent.count + count, self.hidden, setting)
        vector, head = sent.spread(values[: sent.count]), values[sent.count :] * self._weight_scale(setting)
        vector = sent.scaled(vector * layout.weights(self._weight_scale(setting)))
        weight = float(head[0]) if count else float(setting.cohort)
        return Summand(layout.split(vector), weight, float(head[1]) if count > 1 else None)

    @_in_one_line
    def finish(self, total: Summand, layout: Layout, setting: ChannelSetting, answered: int) -> Summand:
        """The sum of ``answered`` messages as the server may use it: with its noise, and the public weight."""
        noise = self.noise
        if noise is None:
            return total
        if noise.where == "shared" and answered < setting.quorum:
            raise ChannelError(
                f"{answered} parties answered, but the shares of noise are made for {setting.quorum}: their sum "
                "would hide too little. Wait for more, or agree on a smaller quorum."
            )
        vectors = total.vectors
        if noise.where == "server":
            vector = layout.join(vectors).astype(np.float64)
            vector = vector + noise.draw(len(vector), self.scale, 1, setting.random("noise"))
            vectors = layout.split(vector)
        # The public number of the cohort: how many really answered may depend on their data.
        return replace(total, vectors=vectors, weight=float(setting.cohort), loss=None)

    @property
    def _arrives_clipped(self) -> bool:
        """Whether nothing that may lift an upload above its clip comes after it at the party."""
        alone = self.noise is None or self.noise.where == "server"
        return alone and self._part(Coder) is None and not self._remembers

    @property
    def _remembers(self) -> bool:
        """Whether a party adds to an upload what of earlier ones did not get through."""
        return self._part(Sparse) is not None or (self.chosen is not None and self.chosen.keep)

    @property
    def _towards_zero(self) -> bool:
        """On the grid, rounding to the nearest could lift an upload above its clip, which the noise relies on."""
        return self.noise is not None and self.noise.where == "server"

    def _weight_scale(self, setting: ChannelSetting) -> float:
        return 1.0 if self.uniform_weights else setting.scale

    def _noised_by_party(self, vector: Array, setting: ChannelSetting) -> Array:
        noise = self.noise
        if noise is None or noise.where == "server":
            return vector
        shares = setting.quorum if noise.where == "shared" else 1
        drawn: Array = vector + noise.draw(len(vector), self.scale, shares, setting.random("noise"))
        return drawn

    def _sent(self, layout: Layout, setting: ChannelSetting) -> Sent:
        return sent_by(self.chosen, layout, setting)

    def _on_grid(
        self,
        hidden: Hidden,
        vector: Array,
        head: list[float],
        memory: Vectors,
        sent: Sent,
        setting: ChannelSetting,
    ) -> tuple[Coded, Vectors]:
        """Whole numbers, and what was not sent, where that is kept for the next time."""
        layout, kept = sent.layout, {}
        if self._remembers:
            body, numbers = np.split(vector, [layout.size - layout.numbers])
            body = with_rest(body, memory, setting)
            kept = kept_rest(body - sent.spread(sent.take(body), len(body)), memory, layout, setting)
            vector = np.concatenate([body, numbers])
        values = grid.weighted(vector, layout, head, self._weight_scale(setting))
        values = np.concatenate([sent.take(values[: layout.size]), values[layout.size :]])
        places = sent.take(np.arange(layout.size))
        return Coded(grid=grid.encode(values, layout, hidden, setting, self._towards_zero, places)), kept

    def _compress(
        self, vector: Array, memory: Vectors, sent: Sent, setting: ChannelSetting
    ) -> tuple[bytes, Vectors]:
        """Bytes, and what did not get through, where that is kept for the next time."""
        random, (sparse, coder), layout = setting.random("rounding"), self._coders, sent.layout
        body, numbers = np.split(vector, [layout.size - layout.numbers])
        plain = numbers.astype(layout.item).tobytes()
        if self._remembers:
            body = with_rest(body, memory, setting)
        data = coder.encode(sent.take(body), random) if sparse is None else sparse.encode(body, coder, random)
        if not self._remembers:
            return plain + data, {}
        left = body - self._body(data, len(body), sent)
        return plain + data, kept_rest(left, memory, layout, setting)

    def _decompress(self, data: bytes, sent: Sent) -> Array:
        layout = sent.layout
        length, size = layout.numbers * layout.item.itemsize, layout.size - layout.numbers
        numbers, rest = Coder().decode(data[:length], layout.numbers, layout.item), data[length:]
        return np.concatenate([self._body(rest, size, sent), numbers])

    def _body(self, data: bytes, size: int, sent: Sent) -> Array:
        """What arrives of the entries that may be compressed, with zeros for what was not sent."""
        sparse, coder = self._coders
        if sparse is not None:
            return sparse.decode(data, size, sent.layout.item, coder)
        return sent.spread(coder.decode(data, sent.count - sent.layout.numbers, sent.layout.item), size)

    @cached_property
    def _coders(self) -> tuple[Sparse | None, Coder]:
        """What chooses entries, and what turns them into bytes."""
        return self._part(Sparse), self._part(Coder) or Coder()

    def _part(self, kind: Any) -> Any:
        return next((part for part in self.parts if isinstance(part, kind)), None)


CHANNELS = CompositionRegistry("channel", Channel)
"""Stages by name, joined by ``+``."""


@dataclass_transform(frozen_default=True)
def register_channel(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a stage of channels."""
    return CHANNELS.register(name, paper=paper)


def parse_channel(text: str | None) -> Channel:
    """The channel that ``text`` describes; nothing lies in between for None and ``none``."""
    if text is None or text.strip() == "none":
        return Channel()
    built = CHANNELS.build(text)
    if not isinstance(built, Channel):  # what the registry was made with
        raise UserError(f"{text!r} is not a channel.")
    return built

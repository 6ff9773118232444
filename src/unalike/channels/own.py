"""Stages that users wrote themselves: each is tried on a short vector before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unalike.channels.layout import Layout
from unalike.channels.setting import ChannelSetting
from unalike.channels.stage import Bound, Coder, Hidden, Noise, Selected, Sparse
from unalike.errors import UserError
from unalike.own_code import called, check_signature, is_own, place

_VECTOR = np.array([0.5, -2.0, 0.0, 3.0], np.float32)
_SIZE, _ITEM = len(_VECTOR), np.dtype("<f4")


def check_own(part: Any) -> None:
    """Refuse a stage of the user's own that is of no kind, or whose methods do not fit its kind, in one line."""
    if not is_own(part):
        return
    check = next((check for kind, check in _CHECKS.items() if isinstance(part, kind)), None)
    if check is None:
        kinds = ", ".join(kind.__name__ for kind in _CHECKS)
        raise UserError(
            f"{type(part).__name__} is no kind of stage. Let it inherit one of unalike.channels.stage: {kinds}."
        )
    check(part)


def _bound(part: Bound) -> None:
    _whole(part, "clip", called(part, "clip", Bound.clip, _VECTOR.copy(), returns=np.ndarray))


def _noise(part: Noise) -> None:
    _whole(part, "draw", called(part, "draw", Noise.draw, _SIZE, 1.0, 1, _random(), returns=np.ndarray))


def _sparse(part: Sparse) -> None:
    data = called(part, "encode", Sparse.encode, _VECTOR.copy(), Coder(), _random(), returns=bytes)
    _whole(part, "decode", called(part, "decode", Sparse.decode, data, _SIZE, _ITEM, Coder(), returns=np.ndarray))


def _chosen(part: Selected) -> None:
    layout = Layout((("delta", (_SIZE,)),), layers=(("body", _SIZE - 1), ("head", 1)))
    found = called(part, "choose", Selected.choose, layout, ChannelSetting(3, party=0), returns=tuple)
    _whole(part, "choose", np.asarray(found[0]))


def _coder(part: Coder) -> None:
    data = called(part, "encode", Coder.encode, _VECTOR.copy(), _random(), returns=bytes)
    _whole(part, "decode", called(part, "decode", Coder.decode, data, _SIZE, _ITEM, returns=np.ndarray))


def _hidden(part: Hidden) -> None:
    called(part, "largest", Hidden.largest, 3, returns=int)
    check_signature(part, "add", Hidden.add)  # a sum may be slow


_CHECKS: Mapping[type, Callable[[Any], None]] = {
    Bound: _bound,
    Noise: _noise,
    Sparse: _sparse,
    Selected: _chosen,
    Coder: _coder,
    Hidden: _hidden,
}


def _whole(part: object, method: str, found: np.ndarray[Any, Any]) -> None:
    if found.shape != (_SIZE,):
        raise UserError(f"{place(part, method)} must return {_SIZE} entries here, got the shape {found.shape}.")


def _random() -> np.random.Generator:
    return np.random.default_rng(0)

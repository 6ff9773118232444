"""Crop and mirror: the same as padding, slicing and flipping one image at a time, only faster."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import pad

from unalike.data.augment import crop_flip, draw
from unalike.errors import UserError


def one_at_a_time(x: Tensor, top: Tensor, left: Tensor, flip: Tensor, padding: int) -> Tensor:
    height, width = x.shape[-2:]
    made = []
    for image, t, l, f in zip(x.flatten(0, -4), top.flatten(), left.flatten(), flip.flatten(), strict=True):  # noqa: E741
        padded = pad(image.double()[None], (padding,) * 4, mode="reflect")[0].to(x.dtype)
        cropped = padded[:, t : t + height, l : l + width]
        made.append(torch.flip(cropped, (-1,)) if f else cropped)
    return torch.stack(made).view(x.shape)


def drawn(seed: int, shape: tuple[int, ...], padding: int) -> list[Tensor]:
    return [torch.from_numpy(part) for part in draw(np.random.default_rng(seed), shape, padding)]


@settings(max_examples=150, deadline=None)
@given(
    lead=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    channels=st.integers(1, 4),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    data=st.data(),
    dtype=st.sampled_from([torch.uint8, torch.int64, torch.float32, torch.float64, torch.bool]),
)
def test_equal_to_padding_slicing_and_flipping(lead, channels, height, width, data, dtype):
    padding = data.draw(st.integers(0, min(height, width) - 1))
    shape = (*lead, channels, height, width)
    x = torch.from_numpy(np.random.default_rng(1).integers(0, 256, shape)).to(dtype)
    before = x.clone()
    where = drawn(data.draw(st.integers(0, 2**32)), tuple(lead), padding)
    found = crop_flip(x, *where, padding=padding)
    assert found.dtype == dtype
    assert torch.equal(found, one_at_a_time(x, *where, padding))
    assert torch.equal(x, before)


def test_every_place_and_both_sides():
    places = [torch.tensor(part) for part in np.indices((9, 9, 2)).reshape(3, -1).tolist()]
    top, left, flip = places[0], places[1], places[2].bool()
    x = torch.arange(3 * 32 * 32).view(1, 3, 32, 32).expand(162, 3, 32, 32)
    assert torch.equal(crop_flip(x, top, left, flip), one_at_a_time(x, top, left, flip, 4))


def test_images_that_are_not_contiguous():
    x = torch.rand(5, 8, 8, 3).permute(0, 3, 1, 2)
    where = drawn(3, (5,), 4)
    assert torch.equal(crop_flip(x, *where), one_at_a_time(x, *where, 4))


def test_the_middle_is_the_image_itself():
    x = torch.rand(2, 3, 1, 32, 32)
    middle = torch.full((2, 3), 4)
    assert torch.equal(crop_flip(x, middle, middle, torch.zeros(2, 3, dtype=torch.bool)), x)
    assert torch.equal(crop_flip(x, middle, middle, torch.ones(2, 3, dtype=torch.bool)), x.flip(-1))


@pytest.mark.parametrize("padding", [-1, 8, 9])
def test_padding_must_be_less_than_the_image(padding):
    where = [torch.zeros(2, dtype=torch.int64)] * 2
    with pytest.raises(UserError, match=f"sides, 8 and 10, got {padding}"):
        crop_flip(torch.rand(2, 1, 8, 10), *where, torch.zeros(2, dtype=torch.bool), padding=padding)


def test_draws_are_uniform_and_depend_on_the_generator_alone():
    top, left, flip = draw(np.random.default_rng(0), (300, 300))
    assert top.shape == left.shape == flip.shape == (300, 300)
    assert flip.dtype == bool
    for part in (top, left):
        assert np.abs(np.bincount(part.reshape(-1), minlength=9) / 90_000 - 1 / 9).max() < 0.005
        assert part.max() == 8
    assert abs(flip.mean() - 0.5) < 0.01
    assert abs(np.corrcoef([top.reshape(-1), left.reshape(-1), flip.reshape(-1)])[0, 1]) < 0.02
    again = draw(np.random.default_rng(0), (300, 300))
    assert all((a == b).all() for a, b in zip((top, left, flip), again, strict=True))
    assert draw(np.random.default_rng(0), (5,), padding=0)[0].tolist() == [0] * 5


def test_faster_than_one_at_a_time():
    x = torch.rand(640, 3, 32, 32)
    where = drawn(0, (640,), 4)

    def seconds(function) -> float:
        start = time.perf_counter()
        function(x, *where, 4)
        return time.perf_counter() - start

    fast, slow = (min(seconds(function) for _ in range(5)) for function in (crop_flip, one_at_a_time))
    assert fast < slow / 3, f"{fast / 640 * 1e6:.1f} against {slow / 640 * 1e6:.1f} microseconds an image"

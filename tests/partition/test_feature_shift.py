"""Shifts: party 0 as it was, the last party with the whole strength, images turned exactly and nearly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import make_partition, seen_by
from unalike.partition.distorted import prepared
from unalike.partition.feature_shift import rotate

KINDS = ("rotation", "brightness", "colour", "scale", "shift", "impulse")
rng = np.random.default_rng(0)


def table(rows: int = 3000, columns: int = 6) -> Dataset:
    x = rng.normal(size=(rows, columns)).astype(np.float32) * np.arange(1, columns + 1, dtype=np.float32)
    y = np.arange(rows) % 3
    return Dataset("table", x, y, x[:5], y[:5], ("a", "b", "c"))


def pictures(rows: int = 200, channels: int = 3) -> Dataset:
    x = rng.integers(0, 256, (rows, channels, 9, 9)).astype(np.uint8)
    y = np.arange(rows) % 3
    shift = np.full((channels, 1, 1), 120, np.float32)
    return Dataset("pictures", x, y, x[:5], y[:5], ("a", "b", "c"), shift=shift, scale=shift / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_party_0_sees_the_data_as_they_are_and_the_last_one_does_not(kind: str) -> None:
    data = pictures()
    partition = make_partition(f"feature-shift({kind}, 0.5)", data, 4, 0)
    was = [prepared(data.x[rows], data) for rows in partition.rows]
    seen = [seen_by(data, partition, party)[0] for party in range(4)]
    np.testing.assert_array_equal(seen[0], was[0])
    assert all(x.dtype == np.float32 for x in seen)
    far = [np.abs(a - b).mean() for a, b in zip(seen, was, strict=True)]
    assert far[1] > 0
    assert 0.1 * far[1] < far[3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parties", [1, 3])
def test_no_strength_changes_nothing(kind: str, parties: int) -> None:
    data = pictures(60)
    partition = make_partition(f"feature-shift({kind}, 0)", data, parties, 0)
    for party, rows in enumerate(partition.rows):
        np.testing.assert_allclose(seen_by(data, partition, party)[0], prepared(data.x[rows], data), atol=1e-6)


@settings(max_examples=30)
@given(side=st.integers(1, 12), turns=st.integers(0, 11), channels=st.integers(1, 3))
def test_four_right_angles_are_none(side: int, turns: int, channels: int) -> None:
    x = np.random.default_rng(side).normal(size=(3, channels, side, side))
    once = rotate(x, 90 * turns, 0.0)
    np.testing.assert_array_equal(once, np.rot90(x, turns % 4, axes=(-2, -1)))  # counter-clockwise
    for _ in range(3):
        once = rotate(once, 90 * turns, 0.0)
    np.testing.assert_array_equal(once, x)


@pytest.mark.parametrize("angle", [17.0, 45.0, 123.0, 90.0001])
def test_other_angles_against_scipy(angle: float) -> None:
    x = rng.normal(size=(2, 2, 15, 15))
    wanted = ndimage.rotate(x, angle, axes=(-1, -2), reshape=False, order=1, mode="grid-constant", cval=-3.0)
    # scipy too mixes pixels at the edge with the background
    np.testing.assert_allclose(rotate(x, angle, -3.0), wanted, atol=1e-9)


def test_blocks_of_rows_are_turned_alike() -> None:
    x = rng.normal(size=(2500, 1, 4, 4)).astype(np.float32)
    whole = rotate(x, 30, 0.0)
    np.testing.assert_array_equal(whole[2000:2010], rotate(x[2000:2010], 30, 0.0))


def test_an_oblong_image_keeps_its_frame() -> None:
    x = rng.normal(size=(2, 1, 4, 7))
    assert rotate(x, 90, 0.0).shape == x.shape
    np.testing.assert_array_equal(rotate(x, 180, 0.0), x[..., ::-1, ::-1])


def test_party_i_is_turned_by_i_times_the_angle() -> None:
    digits = load_dataset("digits")
    partition = make_partition("feature-shift(rotation, 90)", digits, 4, 0)
    for party, rows in enumerate(partition.rows):
        wanted = np.rot90(digits.x[rows] / 16, party, axes=(-2, -1))
        np.testing.assert_array_equal(seen_by(digits, partition, party)[0], wanted.astype(np.float32))


def test_tables_are_scaled_and_shifted_by_feature() -> None:
    data = table()
    scaled = make_partition("feature-shift(scale, 0.7)", data, 3, 1)
    was = data.x[scaled.rows[2]]
    factor = seen_by(data, scaled, 2)[0].astype(float) / was
    np.testing.assert_allclose(factor.std(axis=0), 0, atol=1e-5)
    assert (np.abs(np.log(factor.mean(axis=0))) <= 0.7 + 1e-5).all()
    assert len(np.unique(factor.mean(axis=0).round(4))) == 6
    shifted = make_partition("feature-shift(shift, 2)", data, 3, 1)
    moved = seen_by(data, shifted, 2)[0].astype(float) - data.x[shifted.rows[2]]
    np.testing.assert_allclose(moved.std(axis=0), 0, atol=1e-5)
    assert (np.abs(moved.mean(axis=0)) <= 2 * 1.1 * np.arange(1, 7)).all()  # of each feature's own deviation


def test_impulse_noise_hits_the_stated_fraction() -> None:
    data = table(6000)
    partition = make_partition("feature-shift(impulse, 0.4)", data, 3, 0)
    for party, level in ((1, 0.2), (2, 0.4)):
        seen, was = seen_by(data, partition, party)[0], data.x[partition.rows[party]]
        hit = seen != was
        assert abs(hit.mean() - level) < 5 * np.sqrt(level / hit.size)
        low, high = data.x[::2].min(axis=0), data.x[::2].max(axis=0)  # 6,000 rows: every second one is looked at
        assert np.logical_or(seen == low, seen == high)[hit].all()
        assert abs((seen == high)[hit].mean() - 0.5) < 0.05


def test_an_impulse_hits_all_channels_of_a_pixel_and_colours_stay_in_range() -> None:
    data = pictures()
    partition = make_partition("feature-shift(impulse, 0.5)", data, 2, 0)
    seen, was = seen_by(data, partition, 1)[0], prepared(data.x[partition.rows[1]], data)
    extreme = (was == was.min()) | (was == was.max())
    hit = (seen != was) | extreme
    assert (hit.all(axis=1) == hit.any(axis=1)).mean() > 0.97
    for kind in ("colour", "brightness"):
        partition = make_partition(f"feature-shift({kind}, 3)", data, 2, 0)
        seen = seen_by(data, partition, 1)[0]
        assert prepared(data.x, data).min() <= seen.min() <= seen.max() <= prepared(data.x, data).max()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("feature-shift(rotation, 90)", r"rotation is for images, but table has rows of shape \(6,\)\. Use scale"),
        ("feature-shift(colour, 1)", "colour is for images"),
        ("feature-shift(scale, -1)", r"strength must be >= 0, got -1\.0"),
        ("feature-shift(impulse, 1.5)", r"at most 1, got 1\.5"),
        ("feature-shift(blur, 1)", "kind must be one of rotation, brightness"),
        ("feature-shift(scale)", "needs strength"),
    ],
)
def test_wrong_shifts(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_partition(text, table(50), 2, 0)

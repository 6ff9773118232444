"""FedProx's synthetic parties: the distributions of its section 5.1."""

from __future__ import annotations

import numpy as np
import pytest

from unalike.data import Dataset, load_dataset
from unalike.data.synthetic import Synthetic
from unalike.errors import UserError


def everyone(data: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.concatenate([data.x, data.x_test]),
        np.concatenate([data.y, data.y_test]),
        np.concatenate([data.group, data.group_test]),
    )


def test_shapes_sizes_and_split() -> None:
    data = load_dataset("synthetic(1, 1)")
    assert (data.shape, data.x.dtype, len(data.classes)) == ((60,), np.float32, 10)
    assert len(data.group_names) == 30
    train, test = np.bincount(data.group), np.bincount(data.group_test)
    assert (train + test).min() >= 50
    np.testing.assert_array_equal(test, np.rint(0.2 * (train + test)))
    assert len(load_dataset("synthetic(parties=7)").group_names) == 7


def test_sizes_are_lognormal_and_can_be_limited() -> None:
    sizes = np.bincount(everyone(load_dataset("synthetic(parties=400)"))[2])
    logs = np.log(sizes - 49.5)
    assert abs(np.median(logs) - 4) < 5 * 2 / np.sqrt(400)
    assert abs(logs.std() - 2) < 0.4
    limited = np.bincount(everyone(load_dataset("synthetic(parties=400, largest=300)"))[2])
    np.testing.assert_array_equal(limited, np.minimum(sizes, 300))


def test_features_vary_as_the_paper_says() -> None:
    x, _, group = everyone(load_dataset("synthetic(0, 4, parties=300, largest=2000)"))
    big = [k for k in range(300) if (group == k).sum() == 2000]
    variances = np.mean([x[group == k].var(axis=0) for k in big], axis=0)
    np.testing.assert_allclose(variances, np.arange(1, 61) ** -1.2, rtol=0.1)
    means = np.stack([x[group == k].mean(axis=0) for k in range(300)])
    assert abs(means.mean(axis=1).var() - (4 + 1 / 60)) < 5 * 4 * np.sqrt(2 / 300)  # B_k has the variance beta
    assert abs(means.var(axis=1).mean() - 1) < 0.1  # v_k has the variance 1 around B_k


def test_alpha_is_the_variance_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[float, float]] = []

    class Recorder:
        def __init__(self, rng: np.random.Generator) -> None:
            self.rng = rng

        def normal(self, mean: float, deviation: float, size: object = None) -> object:
            if size is None:
                drawn.append((mean, float(deviation)))
            return self.rng.normal(mean, deviation, size)

        def __getattr__(self, name: str) -> object:
            return getattr(self.rng, name)

    make = np.random.default_rng
    Synthetic(alpha=4, beta=9)._party(Recorder(make(0)), 50, np.zeros((61, 10)))  # type: ignore[arg-type]
    assert drawn == [(0, 2.0), (0, 3.0)]


def test_labels_follow_a_linear_model_of_each_party() -> None:
    """Parties prefer different classes; those of the IID data share one model."""
    _, y, group = everyone(load_dataset("synthetic(0, 0, seed=3, largest=2000)"))
    shares = np.stack([np.bincount(y[group == k], minlength=10) / (group == k).sum() for k in range(30)])
    assert shares.max(axis=1).mean() > 0.3  # parties have favourite classes
    assert len(set(shares.argmax(axis=1))) > 4  # and not the same ones
    iid = everyone(load_dataset("synthetic(iid=true, seed=3, largest=2000)"))
    alike = np.stack([np.bincount(iid[1][iid[2] == k], minlength=10) / (iid[2] == k).sum() for k in range(30)])
    assert alike.std(axis=0).max() < 0.15 < shares.std(axis=0).max()
    assert np.abs(iid[0].mean(axis=0)).max() < 0.1
    # One linear model explains all parties of the IID data, so an affine least squares fit finds it well.
    design = np.column_stack([iid[0], np.ones(len(iid[0]))])
    fit = np.linalg.lstsq(design, np.eye(10)[iid[1]], rcond=None)[0]
    assert ((design @ fit).argmax(axis=1) == iid[1]).mean() > 0.7


def test_parameters_decide() -> None:
    first, again = load_dataset("synthetic(0.5, 0.5)"), load_dataset("synthetic(alpha=0.5, beta=0.5, seed=0)")
    np.testing.assert_array_equal(first.x, again.x)
    for other in ("synthetic(0.5, 0.6)", "synthetic(0.5, 0.5, seed=1)"):
        assert not np.array_equal(first.x, load_dataset(other).x)


def test_alpha_as_published_changes_no_label() -> None:
    """u_k adds u_k * (sum of x + 1) to every class's score: the docstring says so, and here it is seen."""
    plain, shifted = load_dataset("synthetic(0, 1)"), load_dataset("synthetic(9, 1)")
    np.testing.assert_array_equal(plain.x, shifted.x)
    np.testing.assert_array_equal(plain.y, shifted.y)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("synthetic(-1)", "alpha must be >= 0, got -1"),
        ("synthetic(beta=-1)", "beta must be >= 0"),
        ("synthetic(seed=-1)", "seed must be >= 0"),
        ("synthetic(parties=0)", "parties must be from 1 to 10,000, got 0"),
        ("synthetic(parties=1000000000)", "parties must be from 1 to 10,000, got 1000000000"),
        ("synthetic(largest=10)", "largest must be 0 or >= 50, got 10"),
        ("synthetic(1, 1, iid=true)", "iid needs alpha = beta = 0"),
    ],
)
def test_mistakes(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_dataset(text)

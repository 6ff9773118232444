"""The compiled core has the bits of numpy, for any number of threads, and says when there is none."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engines.compiled.helpers import NEEDS_COMPILER
from tests.trees.grown_model import CLASSES, grown_arrays
from tests.trees.test_grow import CHOICES, made, same
from tests.trees.xgboost_arrays import example
from unalike.models.trees import Trees
from unalike.trees import library, walking
from unalike.trees.bins import bin_rows
from unalike.trees.cuts import Cuts
from unalike.trees.ensemble import Ensemble
from unalike.trees.grow import Growing, grow, histograms, leaves
from unalike.trees.objective import objective_of

pytestmark = NEEDS_COMPILER


def by_numpy(call):
    """What ``call`` gives without the compiled core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "core", lambda: None)
        patch.setattr(walking, "core_for", lambda walks: None)
        return call()


@settings(max_examples=120, deadline=None)
@given(
    st.integers(0, 10**6),
    CHOICES,
    st.integers(1, 3),
    st.tuples(st.integers(1, 400), st.integers(1, 8), st.integers(0, 20), st.sampled_from([0.0, 0.1, 0.7])),
    st.sampled_from([1.0, 0.6]),
)
def test_a_tree_has_the_bits_of_numpy(seed, choice, threads, shape, share):
    rows, features, cuts, missing = shape
    choice = Trees(**{**vars(choice), "rising": tuple(j for j in choice.rising if j < features)})
    choice = Trees(**{**vars(choice), "falling": tuple(j for j in choice.falling if j < features)})
    x, cuts, g, h = made(seed, rows, features, cuts, missing)
    random = np.random.default_rng(seed)
    allowed = random.random(features) < 0.8
    sample = None if share == 1 else np.flatnonzero(random.random(rows) < share)
    margins = random.normal(size=(2, rows, 2))
    margins[1] = margins[0]
    # Binned anew for numpy: nothing that the core keeps may help.
    ours = grow(bin_rows(x, cuts), g, h, choice, allowed, sample, margins[0, :, 1], threads)
    theirs = by_numpy(lambda: grow(bin_rows(x, cuts), g, h, choice, allowed, sample, margins[1, :, 1]))
    same(ours, theirs)
    assert margins[0].tobytes() == margins[1].tobytes()
    assert ours.value.tobytes() == theirs.value.tobytes()


@pytest.mark.parametrize("least_rows", [1, 30])
@pytest.mark.parametrize("grow_by", ["levels", "leaves"])
def test_many_rows_and_threads(least_rows, grow_by):
    """So many rows that sums are moved on before they overflow, and work is shared."""
    x, cuts, g, h = made(1, rows=60_000, features=9, most_cuts=300)
    g *= 1000
    h *= 4000
    choice = Trees(least_rows=least_rows, grow=grow_by, least_weight=0.1)
    theirs = by_numpy(lambda: grow(bin_rows(x, cuts), g, h, choice))
    binned = bin_rows(x, cuts)
    for threads in (1, 2, 5):
        margins = np.zeros(len(x))
        same(grow(binned, g, h, choice, margins=margins, threads=threads), theirs)
        assert np.array_equal(margins, theirs.value[leaves(binned, theirs)])
    nodes = np.zeros(1, np.int32)
    full = [histograms(binned, g, h, Growing.start(len(x), choice), nodes, c) for c in (2, 3)]
    assert np.array_equal(full[0], full[1][..., :2])
    assert np.array_equal(
        full[1], by_numpy(lambda: histograms(binned, g, h, Growing.start(len(x), choice), nodes, 3))
    )


def test_many_nodes_and_several_parts_of_rows_for_each_thread():
    x, cuts, g, h = made(2, rows=140_000, features=4, most_cuts=300)
    choice = Trees(least_rows=1, least_weight=0.0, depth=9)
    theirs = by_numpy(lambda: grow(bin_rows(x, cuts), g, h, choice))
    split, depth = np.flatnonzero(theirs.left >= 0), np.zeros(len(theirs.left), int)
    for node in split:
        depth[theirs.left[node]] = depth[theirs.right[node]] = depth[node] + 1
    assert (depth[split] == 7).sum() > 64  # histograms that are wanted on the next level: more than a batch
    for threads in (1, 2):
        margins = np.zeros(len(x))
        binned = bin_rows(x, cuts)
        same(grow(binned, g, h, choice, margins=margins, threads=threads), theirs)
        assert np.array_equal(margins, theirs.value[leaves(binned, theirs)])


@pytest.mark.parametrize("rows", [None, np.arange(0, 500, 3)])
def test_margins_after_a_tree_are_those_before_and_what_it_says(rows):
    x, cuts, g, h = made(4, rows=500)
    before = np.random.default_rng(0).normal(size=(500, 2))
    kept, after, binned = before.copy(), np.full((500, 2), np.nan), bin_rows(x, cuts)
    tree = grow(binned, g, h, Trees(), None, rows, after[:, 1], before=before[:, 1])
    assert np.array_equal(after[:, 1], before[:, 1] + tree.value[leaves(binned, tree)])
    assert np.isnan(after[:, 0]).all()
    assert np.array_equal(before, kept)
    again = np.zeros((500, 2))
    by_numpy(lambda: grow(bin_rows(x, cuts), g, h, Trees(), None, rows, again[:, 1], before=before[:, 1]))
    assert np.array_equal(again[:, 1], after[:, 1])
    with pytest.raises(ValueError, match="must lie as those after it"):
        grow(binned, g, h, Trees(), margins=np.zeros(500), before=before[:, 1])


def test_wide_codes():
    """More bins in a column than a byte can name."""
    random = np.random.default_rng(0)
    x = random.random((1000, 30)).astype(np.float32)
    cuts = Cuts(np.sort(x, axis=0).T.reshape(-1), np.arange(31) * 1000)
    x[random.random(x.shape) < 0.2] = np.nan
    binned = bin_rows(x, cuts)
    assert binned.codes.dtype == np.uint16
    g, h = random.integers(-1000, 1000, (2, 1000)).astype(np.int32)
    for least_rows in (1, 4):
        choice, margins = Trees(least_rows=least_rows, least_weight=0.0, depth=3), np.zeros((2, 1000))
        ours = grow(binned, g, np.abs(h), choice, margins=margins[0], threads=2)
        same(ours, by_numpy(lambda c=choice, m=margins[1]: grow(binned, g, np.abs(h), c, margins=m)))
        assert np.array_equal(*margins)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["binary", "softmax", "squared-error", "poisson"]),
    st.booleans(),
    st.sampled_from([1, 100, 3000]),
    st.integers(1, 3),
)
def test_gradients_have_the_bits_of_numpy(seed, name, weighted, rows, threads):
    random = np.random.default_rng(seed)
    classes = {"binary": 2, "softmax": 5}.get(name, 0)
    objective = objective_of(Trees(objective=name), classes, (1.5, 0.7))
    margins = random.normal(size=(rows, objective.outputs)) * random.choice([1, 2, 30] if classes else [1])
    y = random.integers(0, classes, rows) if classes else random.poisson(2.0, rows) * 1.0
    weights = random.random(rows) if weighted else None
    ours = objective.gradients(margins, y, weights, threads)
    theirs = by_numpy(lambda: objective.gradients(margins, y, weights))
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("objective", ["binary", "softmax"])
@pytest.mark.parametrize("form", [np.asarray, np.float64, scipy.sparse.csr_matrix])
def test_trained_trees_say_of_rows_what_they_say_in_numpy(objective, form):
    x, y = example(objective)
    arrays, choice, _ = grown_arrays(objective, x, y, rounds=5, depth=4)
    model = Ensemble.of(arrays, choice, CLASSES[objective])
    random = np.random.default_rng(0)
    rows = random.normal(size=(1003, x.shape[1])).astype(np.float32)
    for gone in (np.nan, np.inf, 0.0):
        rows[random.random(rows.shape) < 0.1] = gone
    assert library.core() is not None
    for first, last in ((0, None), (1, None), (2, 5), (3, 3)):
        ours = model.margins(form(rows), first, last)
        assert ours.tobytes() == by_numpy(lambda a=first, b=last: model.margins(form(rows), a, b)).tobytes()


def test_few_rows_do_not_wait_for_a_compiler(monkeypatch):
    library.core.cache_clear()
    monkeypatch.setattr(library, "load", None)
    assert walking.core_for(10**6) is None


def test_without_a_compiler_one_line_says_so(monkeypatch, capsys):
    library.core.cache_clear()
    monkeypatch.setenv("CC", "no-such-compiler")
    x, cuts, g, h = made(1)
    grow(bin_rows(x, cuts), g, h, Trees())
    grow(bin_rows(x, cuts), g, h, Trees())
    library.core.cache_clear()
    line = capsys.readouterr().err
    assert line.startswith("Trees are grown by numpy: there is no C compiler (no-such-compiler). ")
    assert line.count("\n") == 1


TRAPPED = """
import numpy as np
from unalike.native import compiler
compiler.FLAGS = (*compiler.FLAGS, "-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
from tests.trees.test_grow import made
from unalike.models.trees import Trees
from unalike.trees import library, walking
from unalike.trees.bins import bin_rows
from unalike.trees.grow import grow
assert library.core() is not None
for seed in range(8):
    x, cuts, g, h = made(seed, rows=600)
    for least_rows in (1, 5):
        for by in ("levels", "leaves"):
            grow(bin_rows(x, cuts), g, h, Trees(least_rows=least_rows, grow=by, least_weight=0.0))
"""


def test_nothing_undefined_is_computed(tmp_path):
    """The core stops at once where a sum overflows, as it would if it read memory that nobody has written."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    more = {"UNALIKE_CACHE": str(folder), "MALLOC_PERTURB_": "165"}  # glibc: fresh memory is no zeros
    done = subprocess.run(
        [sys.executable, "-c", TRAPPED], env={**os.environ, **more}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("first", "second"), [(2**18, 1), (1, 2**19)])
def test_packed_sums_of_middling_derivatives_do_not_overflow(first, second):
    x, g, h = (
        np.zeros((40_000, 1), np.float32),
        np.full(40_000, first, np.int32),
        np.full(40_000, second, np.int32),
    )
    x[::2] = 1
    binned = bin_rows(x, Cuts(np.array([0.5], np.float32), np.array([0, 1])))
    found = histograms(binned, g, h, Growing.start(len(x), Trees()), np.array([0]), 2)[0]
    assert found.tolist() == [[20_000 * first, 20_000 * second]] * 2 + [[0, 0]]

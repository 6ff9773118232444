import subprocess
import sys
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.image import imread

from unalike.errors import UserError
from unalike.report.figures import MOST_NUMBERED, curve, drawing, label_heat_map, new_figure, save, training_curves


def rows(values, key="accuracy", start=1):
    return [{"round": number, key: value} for number, value in enumerate(values, start)]


@pytest.fixture
def axes():
    with drawing():
        yield new_figure(5, 4).add_subplot()


def mesh_of(axes):
    (mesh,) = [artist for artist in axes.collections if isinstance(artist, QuadMesh)]
    return mesh


def test_heat_map_writes_each_count_into_its_cell_and_colours_it_by_share(axes):
    counts = np.array([[3, 0, 1], [0, 1000, 1000]])
    label_heat_map(axes, counts, ["a", "b"], ["x", "y", "z"])
    assert np.allclose(mesh_of(axes).get_array(), [[0.75, 0, 0.25], [0, 0.5, 0.5]])
    written = {tuple(np.floor(text.get_position()).astype(int)): text.get_text() for text in axes.texts}
    assert written == {(c, p): f"{counts[p, c]:,}" for p in range(2) for c in range(3)}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "y", "z"]
    assert axes.yaxis_inverted()


def test_numbers_can_be_read_on_every_colour(axes):
    counts = np.array([[k, 100 - k] for k in range(2, 60, 2)])
    label_heat_map(axes, counts, [str(k) for k in range(len(counts))], ["x", "y"])
    mesh = mesh_of(axes)
    mesh.update_scalarmappable()
    for text, background in zip(axes.texts, mesh.get_facecolors(), strict=True):
        lighter, darker = sorted((luminance(text.get_color()), luminance(background)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) > 3  # WCAG's least contrast for such marks


def luminance(colour):
    channels = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_a_party_without_rows_is_drawn(axes):
    label_heat_map(axes, np.array([[0, 0], [1, 2]]), ["a", "b"], ["x", "y"])
    assert mesh_of(axes).get_array()[0].tolist() == [0, 0]


def test_large_heat_map_has_colours_and_few_names_but_no_numbers(tmp_path):
    counts = np.random.default_rng(0).integers(0, 50, (200, 62))
    with drawing():
        figure = new_figure(8, 8)
        axes = figure.add_subplot()
        label_heat_map(axes, counts, [f"party {k}" for k in range(200)], [str(c) for c in range(62)])
    assert not axes.texts
    assert np.allclose(mesh_of(axes).get_array(), counts / counts.sum(axis=1, keepdims=True))
    assert 2 <= len(axes.get_yticks()) <= MOST_NUMBERED
    assert len(axes.get_xticks()) <= MOST_NUMBERED
    assert len(figure.axes) == 2, "a colour bar takes the place of the numbers"
    svg, _ = save(figure, tmp_path / "large")
    assert svg.stat().st_size < 1_000_000
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(not one.overlaps(other) for one, other in pairwise(boxes))


@pytest.mark.parametrize(("parties", "labels"), [(["a"], ["x", "y"]), (["a", "b"], ["x"])])
def test_heat_map_refuses_names_that_do_not_fit(axes, parties, labels):
    with pytest.raises(UserError, match=r"shape \(2, 2\)"):
        label_heat_map(axes, np.ones((2, 2), int), parties, labels)


def test_curves_are_the_mean_over_seeds_with_a_band_of_one_deviation(axes):
    training_curves(axes, {"fedavg": [rows([0.1, 0.5]), rows([0.3, 0.9])], "one": [rows([0.2, 0.4])]})
    fedavg, one = axes.lines
    assert fedavg.get_label() == "fedavg"
    assert np.allclose(fedavg.get_xydata(), [[1, 0.2], [2, 0.7]])
    assert np.allclose(one.get_xydata(), [[1, 0.2], [2, 0.4]])
    (band,) = axes.collections  # one seed has none
    deviation = np.std([0.5, 0.9], ddof=1)
    heights = band.get_paths()[0].vertices[:, 1]
    assert np.isclose(heights.max(), 0.7 + deviation)
    assert fedavg.get_color() != one.get_color()
    assert fedavg.get_linestyle() != one.get_linestyle() or fedavg._dash_pattern != one._dash_pattern


@pytest.mark.parametrize("last", [2, 3, 7, 12, 25, 300])
def test_rounds_are_counted_in_whole_numbers(axes, last):
    training_curves(axes, {"fedavg": [rows([0.5] * last)]})
    ticks = axes.get_xticks()
    assert (ticks == ticks.round()).all()


def test_rounds_that_some_seed_did_not_evaluate_are_left_out():
    seeds = [[*rows([0.1, 0.2]), {"round": 3}, {"round": 4, "accuracy": None}], rows([0.5, 0.6], start=2)]
    rounds, values = curve(seeds)
    assert rounds.tolist() == [2]
    assert values.tolist() == [[0.2], [0.5]]


def test_a_key_reaches_inside():
    rounds, values = curve(
        [[{"round": 1, "parties": {"worst": 0.25}}, {"round": 2, "parties": None}]], "parties.worst"
    )
    assert (rounds.tolist(), values.tolist()) == ([1], [[0.25]])


@pytest.mark.parametrize("seeds", [[], [[]], [[{"round": 1}]]])
def test_curves_without_the_figure_are_refused(axes, seeds):
    with pytest.raises(UserError, match="'accuracy'"):
        training_curves(axes, {"fedavg": seeds})


def picture():
    with drawing():
        figure = new_figure(3, 2)
        training_curves(figure.add_subplot(), {"fedavg": [rows([0.1, 0.9])]})
    return figure


def test_saved_files_are_whole_not_blank_and_the_same_each_time(tmp_path):
    saved = save(picture(), tmp_path / "new" / "figure.v1")
    assert [path.name for path in saved] == ["figure.v1.svg", "figure.v1.png"]
    assert ElementTree.fromstring(saved[0].read_bytes()).tag.endswith("svg")
    assert b"<dc:date>" not in saved[0].read_bytes()
    pixels = imread(saved[1])
    assert pixels.shape[:2] == (400, 600)
    assert pixels[..., :3].std() > 0.01
    again = save(picture(), tmp_path / "again")
    assert [path.read_bytes() for path in saved] == [path.read_bytes() for path in again]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.png", "again.svg", "new"]


def test_saving_below_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as refused:
        save(picture(), tmp_path / "file" / "figure")
    assert "\n" not in str(refused.value)
    assert "file" in str(refused.value)


def test_the_users_settings_neither_change_nor_matter(tmp_path):
    plain = [path.read_bytes() for path in save(picture(), tmp_path / "plain")]
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 30, "axes.facecolor": "black"}):
        before = dict(matplotlib.rcParams)
        changed = [path.read_bytes() for path in save(picture(), tmp_path / "changed")]
        assert dict(matplotlib.rcParams) == before
    assert changed == plain


def test_matplotlib_is_loaded_when_something_is_drawn_and_pyplot_never():
    code = """
import sys
import unalike.demo.picture as picture
assert not any(name.startswith("matplotlib") for name in sys.modules), "loaded too early"
from unalike.report.figures import drawing, new_figure, training_curves
with drawing():
    training_curves(new_figure(3, 2).add_subplot(), {"a": [[{"round": 1, "accuracy": 0.5}]]})
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_curve_is_of_the_runs_score_unless_another_figure_is_named():
    rows = [{"round": 1, "train_loss": 2.0}, {"round": 2, "score": "macro-f1", "macro_f1": 0.7, "loss": 1.0}]
    assert curve([rows])[1].tolist() == [[0.7]]
    assert curve([rows], "loss")[1].tolist() == [[1.0]]
    assert curve([[{"round": 1, "accuracy": 0.5}]])[1].tolist() == [[0.5]]

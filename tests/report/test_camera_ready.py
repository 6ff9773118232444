from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import pytest

from tests.report.made import mixed_page, record, small_page, two_algorithms, two_settings
from tests.report.pages import written
from unalike.report.camera_ready import camera_ready, file_names
from unalike.report.page import page_of_records

KINDS = ("curves", "communication", "fairness")


def test_every_setting_has_its_figures_as_svg_and_pdf(tmp_path):
    written = camera_ready(two_settings(), tmp_path / "figures")
    names = {f"digits-{part}-{kind}.{end}" for part in ("iid", "label-dirichlet-0.5") for kind in KINDS
             for end in ("svg", "pdf")}  # fmt: skip
    assert {path.name for path in written} == names
    for path in written:
        content = path.read_bytes()
        if path.suffix == ".svg":
            ElementTree.fromstring(content)
        else:
            assert content.startswith(b"%PDF")
            assert b"/FontFile2" in content  # TrueType, embedded; Type 3 fonts are refused by publishers
            assert b"/Type3" not in content


def test_figures_are_the_same_every_time_and_leave_no_trace(tmp_path):
    before = dict(matplotlib.rcParams)
    first = {path.name: path.read_bytes() for path in camera_ready(small_page(), tmp_path / "a")}
    second = {path.name: path.read_bytes() for path in camera_ready(small_page(), tmp_path / "b")}
    assert first == second
    assert dict(matplotlib.rcParams) == before


def test_what_is_not_known_is_not_drawn(tmp_path):
    names = {path.stem for path in camera_ready(small_page(held_out=False), tmp_path)}
    assert names == {"digits-iid-curves", "digits-iid-communication"}
    empty = page_of_records("t", [replace(record(), rounds=(), figures={})])
    assert camera_ready(empty, tmp_path) == []


@pytest.mark.parametrize("name", ["../../x", "a/b", "<script>", "..", "name with blanks", "é" * 300])
def test_file_names_are_plain_and_stay_in_the_folder(name):
    page = page_of_records("t", [*two_algorithms(dataset=name), *two_algorithms(dataset=f"{name} ")])
    names = file_names(page)
    assert len(set(names)) == 2
    for made in names:
        assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
        assert not made.startswith(".")
        assert len(made) < 100


def test_more_algorithms_than_colours_are_drawn(tmp_path):
    many = [record(f"fedprox(mu={number})", seed) for number in range(9) for seed in (0, 1)]
    assert len(camera_ready(page_of_records("t", many), tmp_path)) == 6


def test_axes_say_the_score_and_its_unit(monkeypatch, tmp_path):
    drawn = {}
    monkeypatch.setattr(
        "unalike.report.camera_ready.save", lambda figure, path, kinds: drawn.update({path.name: figure}) or []
    )
    camera_ready(mixed_page(), tmp_path)
    words = {
        name: " ".join(written(figure)) for name, figure in drawn.items() if not figure.draw_without_rendering()
    }
    for kind in ("curves", "communication"):
        assert "test RMSE" in words[f"diabetes-iid-{kind}"]
        assert "%" not in words[f"diabetes-iid-{kind}"]
        assert " 100 " in words[f"diabetes-iid-{kind}"]  # a tick: RMSEs fall from 117
        assert "test accuracy" in words[f"digits-iid-{kind}"]
        assert "60%" in words[f"digits-iid-{kind}"]
    assert "RMSE on a party's held-out rows" in words["diabetes-iid-fairness"]
    assert "80%" in words["digits-iid-fairness"]
    curve = drawn["diabetes-iid-curves"].axes[0].lines[0].get_ydata()
    assert curve[-1] == pytest.approx(58.7)

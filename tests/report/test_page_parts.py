import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.made import error_record, record, small_page, two_algorithms, two_settings
from unalike.report.page import page_of_records, page_of_run, render
from unalike.report.page.numbers import (
    MOST_POINTS,
    curves,
    degrees,
    fairness,
    megabytes,
    reached,
    short,
    strip,
    thin,
)
from unalike.report.page.parties import MOST_LABELS, MOST_PARTIES, Looker, heat_map, principal_components
from unalike.report.page.sections import _training
from unalike.report.page.summary import lead, summary
from unalike.report.page.tables import fairness_part
from unalike.runs.results import Line, settings
from unalike.runs.run import run


@given(st.integers(0, 5000), st.integers(2, 400))
def test_thinned_places_keep_both_ends(count, most):
    found = thin(count, most)
    assert len(found) <= max(most, 0)
    assert found == sorted(set(found))
    assert found[:1] + found[-1:] == ([0, count - 1] if count else [])
    if count <= most:
        assert found == list(range(count))


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_short_numbers_are_near_and_short(value):
    made = short(value)
    assert made == pytest.approx(value, rel=5.1e-4)
    assert len(f"{made:.12g}".lstrip("-").replace(".", "").replace("0", "").split("e")[0]) <= 4


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_json_lacks_is_none(value):
    assert short(value) is None


def test_a_curve_with_holes_and_a_nan_has_only_what_all_seeds_have():
    one, two = record(seed=0), record(seed=1)
    broken = [dict(row) for row in two.rounds]
    broken[1]["accuracy"], broken[2]["accuracy"] = None, math.nan
    found = curves(Line("fedavg", (one, replace(two, rounds=tuple(broken)))))
    assert found["score"]["round"] == [1, 4]
    assert len(found["score"]["mean"]) == len(found["score"]["std"]) == len(found["score"]["sent"]) == 2
    assert found["loss"]["round"] == [1, 2, 3, 4]


def test_one_seed_has_no_band():
    assert curves(Line("fedavg", (record(),)))["score"]["std"] == []


def test_bytes_add_up():
    assert megabytes(record()) == pytest.approx({1: 1.5, 2: 3.0, 3: 4.5, 4: 6.0})


def test_rounds_to_a_target_count_the_seeds_that_reach_it():
    line = Line("fedavg", (record(seed=0, end=0.8), record(seed=1, end=0.4), record(seed=2, end=0.6)))
    found = reached(line, 50)
    assert (found.reached, found.seeds) == (2, 3)
    assert found.rounds.mean == pytest.approx((3 + 4) / 2)
    assert found.megabytes.mean == pytest.approx((4.5 + 6) / 2)
    assert reached(line, 90).rounds is None
    assert reached(Line("fedavg", (record(end=0.29),)), 29).reached == 1  # 100 * 0.29 is a little less


def test_fairness_pools_the_parties_and_averages_over_seeds():
    found = fairness(Line("fedavg", (record(seed=0), record(seed=1))))
    assert found.values == pytest.approx((20, 20, 50, 50, 60, 60, 90, 90))
    assert found.worst_tenth.mean == pytest.approx(20)
    assert strip("fedavg", found)["box"] == pytest.approx([20, 42.5, 55, 67.5, 90])
    assert fairness(Line("fedavg", (record(held_out=False),))) is None


def test_a_personal_model_is_what_the_parties_are_tried_with():
    one = record()
    own = {**one.figures["parties"], "mean": 0.99, "worst": 0.9, "worst_10_percent": 0.9, "each": [0.9, 1.0]}
    found = fairness(Line("x", (replace(one, figures={**one.figures, "personal": own}),)))
    assert found.personal
    assert found.mean.mean == pytest.approx(99)


def test_many_parties_make_a_small_strip():
    one = record()
    each = list(np.linspace(0, 1, 5000))
    figures = {**one.figures, "parties": {**one.figures["parties"], "each": each}}
    made = strip("x", fairness(Line("x", (replace(one, figures=figures),))))
    assert len(made["values"]) == MOST_POINTS
    assert (made["values"][0], made["values"][-1]) == (0, 100)


def test_degrees_are_over_seeds_not_over_algorithms():
    found = degrees(small_page().settings[0].lines)
    assert found["label"].seeds == 3
    assert found["label_expected"].mean == pytest.approx(0.005)


@given(st.integers(1, 300), st.integers(1, 90), st.integers(0, 2**32 - 1))
def test_a_heat_map_is_small_and_loses_no_row(parties, labels, seed):
    counts = np.random.default_rng(seed).integers(0, 9, (parties, labels))
    made = heat_map(counts, tuple(map(str, range(parties))), tuple(map(str, range(labels))))
    shown = np.array(made["counts"])
    assert shown.sum() == counts.sum()
    assert shown.shape == (len(made["parties"]), len(made["labels"]))
    assert shown.shape == (min(parties, MOST_PARTIES), min(labels, MOST_LABELS))
    assert bool(made["said"]) == (parties > MOST_PARTIES or labels > MOST_LABELS)
    if parties <= MOST_PARTIES and labels <= MOST_LABELS:
        assert (shown == counts).all()


def test_parties_of_one_main_label_come_together():
    counts = np.zeros((200, 4), int)
    counts[np.arange(200), np.arange(200) % 4] = 5
    shown = np.array(heat_map(counts, tuple(map(str, range(200))), tuple("abcd"))["counts"])
    main = shown.argmax(axis=1)
    assert (np.diff(main) >= 0).all()
    assert set(main) == {0, 1, 2, 3}


def test_components_are_the_directions_of_most_variance():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 5)) * [0.1, 7, 0.1, 2, 0.1] + 3
    places, explained = principal_components(rows)
    assert abs(np.corrcoef(places[:, 0], rows[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(places[:, 1], rows[:, 3])[0, 1]) > 0.99
    assert explained == pytest.approx([49 / 53, 4 / 53], abs=0.02)
    assert (principal_components(rows)[0] == places).all()


@pytest.mark.parametrize("rows", [np.ones((4, 3)), np.arange(5.0)[:, None], np.ones((1, 1))])
def test_components_of_little_are_finite(rows):
    places, explained = principal_components(rows)
    assert places.shape == (len(rows), 2)
    assert np.isfinite(places).all()
    assert np.isfinite(explained).all()


def test_features_are_those_of_the_rows_as_the_parties_see_them(tmp_path):
    run(dataset="digits", partition="feature-noise(5)", rounds=1, parties=30, runs=tmp_path)
    from unalike.runs.results import read_records

    (setting,) = settings(read_records(tmp_path))
    found = Looker(1).look(setting).features
    assert len(found["party"]["names"]) == 10
    assert found["party"]["others"] == 20
    assert -1 in found["party"]["of"]
    assert Looker(100).look(setting).features["x"].__len__() < 400
    said = Looker(1, use_data=False).look(setting)
    assert said.heat is None
    assert "--no-data" in said.problem


def test_weights_that_are_gone_leave_the_heat_map(tmp_path):
    made = run(dataset="digits", rounds=1, parties=3, runs=tmp_path)
    (made.run_dir / "weights.safetensors").unlink()
    from unalike.runs.results import read_records

    found = Looker(1).look(settings(read_records(tmp_path))[0])
    assert found.heat is not None
    assert found.features is None
    assert "No finished run" in found.feature_problem


def test_a_clear_lead_is_a_win_and_a_small_one_is_not():
    clear = lead(small_page().settings[0])
    assert clear.clear
    assert (clear.first, clear.second) == ("scaffold", "fedavg")
    assert clear.by == pytest.approx(10)
    close = [record("fedavg", s, e) for s, e in enumerate((0.6, 0.8))]
    close += [record("scaffold", s, e) for s, e in enumerate((0.62, 0.82))]
    said = " ".join(summary(page_of_records("t", close)))
    assert "not called a win" in said
    assert "more than one" not in said


def test_pooled_rows_never_lead():
    """They are what could be had if rows might leave, not an algorithm to take."""
    pooled = [record("pooled", seed, 0.9) for seed in range(3)]
    assert lead(page_of_records("t", [*two_algorithms(), *pooled]).settings[0]).first == "scaffold"


def test_newcomers_have_a_column_where_there_are_some():
    page = small_page()
    assert "Newcomers" not in fairness_part(page, page.settings[0])
    made = [replace(one, figures={**one.figures, "newcomers": {"mean": 0.4321}}) for one in two_algorithms()]
    page = page_of_records("t", made)
    said = fairness_part(page, page.settings[0])
    assert "Newcomers" in said
    assert "43.2" in said


def test_one_seed_is_never_a_win():
    page = page_of_records("t", [record("fedavg", end=0.1), record("scaffold", end=0.9)])
    assert not lead(page.settings[0]).clear
    assert "may be chance" in " ".join(summary(page))


def test_equal_accuracies_are_no_win():
    even = [record(name, seed, 0.5) for name in ("fedavg", "scaffold") for seed in (0, 1)]
    assert not lead(page_of_records("t", even).settings[0]).clear


def test_the_summary_counts_wins_over_settings():
    said = " ".join(summary(two_settings()))
    assert "scaffold in 2 of 2 (2 clear) settings" in said
    assert "12 finished runs: 2 settings" in said


def test_the_summary_counts_seeds():
    whole = [record(algorithm, seed) for algorithm in ("fedavg", "fednova") for seed in (0, 1)]
    assert "2 algorithms, 2 seeds each" in summary(page_of_records("t", whole))[0]
    assert "2 algorithms, up to 2 seeds each" in summary(page_of_records("t", whole[:-1]))[0]


def test_the_summary_of_one_run_claims_nothing_about_noise():
    said = " ".join(summary(page_of_run(record(end=0.8))))
    assert "a test accuracy of 80.0 % after 4 rounds" in said
    assert "One seed tells nothing about noise" in said
    assert "labels differ from all parties' by 0.37 of 1; chance alone would show 0.005" in said


def test_the_summary_tells_one_degree_of_all_settings_once():
    said = " ".join(summary(two_settings()))
    assert said.count("labels differ from all parties' by 0.37 of 1 in every setting.") == 1
    assert "to 0.37" not in said


def test_of_equals_nobody_leads():
    even = [record(name, seed, 0.5) for name in ("fedavg", "fednova", "scaffold") for seed in range(2)]
    low = [record("fedprox", seed, 0.4) for seed in range(2)]
    page = page_of_records("t", [*even, *low])
    assert lead(page.settings[0]).equals == ("fedavg", "fednova", "scaffold")
    assert "fedavg, fednova and scaffold end equally good, at accuracy 50.0 %: none leads." in " ".join(
        summary(page)
    )
    same = "The worst tenth of the parties fares equally with fedavg, fednova, fedprox and scaffold: "
    assert same in " ".join(summary(page))
    text = render(page, use_data=False)
    assert "△" not in text
    assert "▲" not in text
    assert text.count("50.0±0.0 =") == 3
    twice = page_of_records("t", [*even, *(replace(one, spec={**one.spec, "lr": 0.5}) for one in even)])
    assert "In all 2 settings several algorithms share the highest" in " ".join(summary(twice))
    ahead = [replace(one, spec={**one.spec, "lr": 0.7}) for one in two_algorithms()]
    mixed = " ".join(summary(page_of_records("t", [*even, *ahead])))
    assert "scaffold in 1 of 2 (1 clear) settings; in 1 of 2 several are equal." in mixed


def test_the_target_is_what_fedavg_ends_with():
    page = small_page()
    assert page.goal(page.settings[0]) == 70
    assert replace(page, target=0.42).goal(page.settings[0]) == 42
    other = page_of_records("t", [one for one in two_algorithms() if one.algorithm == "scaffold"])
    assert other.goal(other.settings[0]) == 80


def test_a_note_is_a_sentence_below_its_table_not_a_cell():
    page = small_page()
    page = replace(page, compared=tuple(replace(one, note=f"why {one.algorithm}") for one in page.compared))
    written = render(page)
    tables, notes = re.findall(r"<table.*?</table>", written, re.S), re.findall(r">([^<>]*: why [^<>]*)<", written)
    assert notes == [f"{one.algorithm}: why {one.algorithm}" for one in page.compared]
    assert not any("why " in one for one in tables)


def test_a_close_error_is_no_win_and_equal_ones_lead_nowhere():
    close = [error_record("fedavg", s, e) for s, e in enumerate((50.0, 60.0))]
    close += [error_record("scaffold", s, e) for s, e in enumerate((49.0, 59.0))]
    found = lead(page_of_records("t", close).settings[0])
    assert (found.first, found.by, found.clear) == ("scaffold", pytest.approx(1), False)
    even = [error_record(name, seed, 50.0) for name in ("fedavg", "scaffold") for seed in (0, 1)]
    assert lead(page_of_records("t", even).settings[0]).tied


def test_of_numbers_the_parties_hold_ranges(tmp_path):
    run(dataset="diabetes", partition="label-dirichlet(0.3)", rounds=1, parties=4, runs=tmp_path)
    from unalike.runs.results import read_records

    (setting,) = settings(read_records(tmp_path))
    found = Looker(1).look(setting)
    names = found.heat["labels"]
    assert len(names) == 10
    assert all(" to " in name for name in names)
    assert found.features["label"]["names"] == names
    assert 300 < len(found.features["label"]["of"]) <= np.array(found.heat["counts"]).sum()


def test_features_are_those_of_the_best_model_where_less_is_better(tmp_path):
    from unalike.runs.results import read_records

    for algorithm in ("fedavg", "fedprox(mu=10.0)"):
        run(dataset="diabetes", algorithm=algorithm, rounds=2, parties=3, runs=tmp_path)
    (setting,) = settings(read_records(tmp_path))
    errors = {line.algorithm: line.value.mean for line in setting.lines}
    assert Looker(1).look(setting).features["algorithm"] == min(errors, key=errors.get)
    assert len(set(errors.values())) == 2


def test_without_a_global_model_the_page_opens_with_a_curve_that_there_is():
    rounds = tuple({**row, "accuracy": None, "loss": None} for row in record("local").rounds)
    (setting,) = settings([replace(record("local"), rounds=rounds)])
    text = str(_training(setting))
    assert "Test accuracy" not in text
    assert 'data-metric="train_loss" aria-pressed="true"' in text
    (both,) = settings([replace(record("local"), rounds=rounds), record("fedavg")])
    assert 'data-metric="score" aria-pressed="true"' in str(_training(both))


def test_the_page_of_trees_shows_what_they_go_by():
    trees = {"importance": {"age": 0.7, "sex<b>": 0.3}}
    records = [replace(one, figures={**one.figures, **trees}) for one in two_algorithms()]
    page = render(page_of_records("runs", records), use_data=False)
    assert "What the trees go by" in page
    assert "70.0%" in page
    assert "sex<b>" not in page
    odd = [replace(one, figures={**one.figures, "importance": {"age": "much", "sex": 0.3}}) for one in records]
    assert "30.0%" in render(page_of_records("runs", odd), use_data=False)
    assert "What the trees go by" not in render(page_of_records("runs", two_algorithms()), use_data=False)


def test_parties_with_columns_are_shown_as_such(tmp_path):
    fields = {"algorithm": "vertical", "model": "logistic", "partition": "vertical(3)", "rounds": 2}
    made = run(dataset="heart", runs=tmp_path, **fields)
    page = render(page_of_run(made.record))
    assert "Who has what" in page
    assert "has what is predicted" in page
    assert "people whom all of them know" in page
    assert "The label holder&#x27;s own columns alone" in page or "The label holder's own columns alone" in page
    assert "labels differ from all parties" not in page
    assert "Local optimiser" not in page, "it decides nothing"

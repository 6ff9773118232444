"""Runs side by side: one line for seeds alone, differences named, noise told."""

import dataclasses
import re
import shutil

import pytest
from matplotlib.figure import Figure

import unalike
from tests.report.made import record
from unalike.errors import UserError
from unalike.notebook.comparison import _compared, compare
from unalike.runs.results import Record


def of(*records: Record):
    return _compared(list(records))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    fields = {"dataset": "heart", "partition": "natural", "rounds": 2}
    return [
        unalike.run(algorithm=text, seed=seed, runs=runs, **fields)
        for text in ("fedavg", "ditto")
        for seed in (0, 1)
    ]


def test_seeds_are_one_line_with_their_mean(results):
    made = compare(results)
    assert {line.algorithm for line in made.lines} == {"fedavg", "ditto"}
    row = next(row for row in made.rows if row["algorithm"] == "fedavg")
    assert row["seeds"] == [0, 1]
    assert row["value"] == pytest.approx((results[0].accuracy + results[1].accuracy) / 2)
    worst = [result.figures["parties"]["worst"] for result in results[:2]]
    assert row["worst_party"] == pytest.approx(sum(worst) / 2)
    assert row["std"] is not None
    assert made.differing == ("algorithm",)
    assert made.common["rounds"] == 2


def test_personal_models_are_what_parties_would_use(results):
    row = next(row for row in compare(results).rows if row["algorithm"] == "ditto")
    worst = [result.figures["personal"]["worst"] for result in results[2:]]
    assert row["worst_party"] == pytest.approx(sum(worst) / 2)


def test_folders_are_as_good_as_results(results):
    runs = results[0].run_dir.parent
    for given in (runs, str(runs), [runs], [result.run_dir for result in results]):
        assert compare(given).rows == compare(results).rows


def test_a_run_counts_once(results):
    assert compare([results[0], results[0], results[0].run_dir]).rows[0]["seeds"] == [0]
    assert compare(results[0]).rows == compare([results[0]]).rows


def test_the_best_comes_first_and_a_lead_is_called_by_its_size():
    made = of(
        *(record("fedavg", seed, 0.7 + seed / 1000) for seed in (0, 1)),
        *(record("scaffold", seed, 0.8) for seed in (0, 1)),
    )
    assert [line.algorithm for line in made.lines] == ["scaffold", "fedavg"]
    assert "scaffold leads fedavg" in " ".join(made.notes)
    noisy = of(
        *(record("fedavg", seed, 0.7 + seed / 5) for seed in (0, 1)),
        *(record("scaffold", seed, 0.81) for seed in (0, 1)),
    )
    assert "no clear win" in " ".join(noisy.notes)


def test_one_seed_is_no_evidence():
    made = of(record("fedavg", end=0.7), record("scaffold", end=0.8))
    assert "One seed tells nothing about noise." in made.notes
    assert "leads" not in " ".join(made.notes)
    assert all(row["std"] is None for row in made.rows)


@pytest.mark.parametrize(
    "field", [{"rounds": 8}, {"dataset": "heart"}, {"parties": 5}, {"partition": "shards(2)"}]
)
def test_what_cannot_be_compared_is_named_and_nobody_wins(field):
    (name,) = field
    made = of(record("fedavg", end=0.7), record("scaffold", end=0.8, **field))
    assert made.not_comparable == (name,)
    assert made.notes[0].startswith("Not like for like")
    assert name in made.notes[0]
    assert "scaffold is highest" not in " ".join(made.notes)
    assert "△" not in str(made)


def test_other_settings_that_differ_are_in_the_lines_names():
    made = of(record("fedavg"), record("fedavg", lr=0.5, end=0.9))
    assert made.differing == ("lr",)
    assert [line.algorithm for line in made.lines] == ["lr 0.5", "lr 0.1"]
    assert str(made).startswith("Run ")
    assert "All: algorithm fedavg, " in str(made)
    both = of(record("fedavg"), record("scaffold", lr=0.5))
    assert {line.algorithm for line in both.lines} == {"fedavg, lr 0.1", "scaffold, lr 0.5"}


def test_unlike_seeds_are_told():
    made = of(record("fedavg", 0), record("fedavg", 1), record("scaffold", 0))
    assert any("same seeds" in note for note in made.notes)


def test_rows_that_changed_behind_a_name_are_told():
    one, other = record("fedavg"), record("scaffold")
    made = of(
        *(
            dataclasses.replace(each, figures={**each.figures, "data_sha256": sha})
            for each, sha in ((one, "a"), (other, "b"))
        )
    )
    assert any("rows behind" in note for note in made.notes)


def test_other_scores_share_no_column():
    number = record("scaffold")
    number = dataclasses.replace(number, figures={**number.figures, "score": "auroc", "auroc": 0.9})
    made = of(record("fedavg"), number)
    assert "score" in made.not_comparable
    assert "Test score" in str(made)
    with pytest.raises(UserError, match="Say what to draw"):
        made.plot()


def test_models_for_all_and_models_for_each_are_drawn_by_what_parties_would_use(results):
    alone = unalike.run(dataset="heart", partition="natural", rounds=2, algorithm="local")
    axes = compare([results[0], results[2], alone]).plot(ax=Figure().subplots())
    ends = {line.get_label(): line.get_ydata()[-1] for line in axes.lines}
    assert ends["fedavg"] == results[0].figures["parties"]["mean"]
    assert ends["ditto"] == results[2].figures["personal"]["mean"]
    assert ends["local"] == alone.figures["personal"]["mean"]
    assert "<polyline" in compare([results[0], alone])._repr_html_()


def test_its_table_is_a_frame(results):
    pytest.importorskip("pandas")
    made = compare(results)
    assert list(made.table["value"]) == [row["value"] for row in made.rows]
    assert set(made.table["seeds"]) == {"0 1"}
    pytest.importorskip("polars")
    assert type(made.table_frame("polars")).__module__.startswith("polars")


def test_it_draws_a_curve_for_each_line_with_a_band(results):
    axes = compare(results).plot(ax=Figure().subplots())
    assert [line.get_label() for line in axes.lines] == [line.algorithm for line in compare(results).lines]
    assert len(axes.collections) == 2
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"fedavg", "ditto"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "nothing to compare"),
        ([3], "got 3"),
        (["none"], "no finished run in none"),
        ("none", "no finished run in none"),
    ],
)
def test_what_is_no_run_is_refused_in_one_line(given, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=says) as caught:
        compare(given)
    assert "\n" not in str(caught.value)


def test_an_unfinished_run_is_refused(results, tmp_path):
    folder = tmp_path / results[0].run_dir.name
    folder.mkdir()
    (folder / "spec.toml").write_text((results[0].run_dir / "spec.toml").read_text())
    with pytest.raises(UserError, match="unfinished"):
        compare([folder])
    with pytest.raises(UserError, match="no finished run"):
        compare(tmp_path)
    shutil.copytree(results[1].run_dir, tmp_path / results[1].run_dir.name)
    made = compare(tmp_path)
    assert made.rows[0]["seeds"] == [1]
    assert "Left out, since they are not finished: 1 runs in the folders." in made.notes


def test_on_a_terminal_it_is_a_table_that_lines_up(results):
    head, *rows = str(compare(results)).splitlines()[:3]
    assert repr(compare(results)) == str(compare(results))
    end = head.index("Worst party") + len("Worst party")
    assert all(re.fullmatch(r"[\d.±–]+", row[:end].split()[-1]) for row in rows)

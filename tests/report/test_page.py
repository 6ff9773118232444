import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.made import (
    error_record,
    mixed_page,
    record,
    small_page,
    two_algorithms,
    two_errors,
    two_settings,
)
from unalike.data import sql
from unalike.errors import UserError
from unalike.ranking.blocks import run_blocks
from unalike.ranking.comparison import compare
from unalike.ranking.leaderboard import leaderboard
from unalike.ranking.published import Cell
from unalike.report.latex import latex_table
from unalike.report.page import page_of_records, page_of_run, page_of_study, render, write_run_page
from unalike.report.page.markup import data, tag
from unalike.report.page.render import _NAMES
from unalike.runs.results import Record, read_record
from unalike.runs.results import settings as gather
from unalike.runs.run import run
from unalike.runs.spec import RunSpec
from unalike.scores import SCORES, Score
from unalike.studies.study import Study, StudyResults, Tuned

EVIL = "</script><script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1>&amp;{{data}}"
VOID = {"meta", "link", "img", "br", "input"}


class Reader(HTMLParser):
    """The elements in order, whether they close as they open, and the page's own data."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.wrong, self.attributes = [], [], [], []
        self.words, self.data = [], ""
        self.feed(text)
        self.close()
        self.wrong += self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, words):
        if self.open and self.open[-1] == "script":
            self.data = self.data or words
        elif self.open and self.open[-1] != "style":
            self.words.append(words)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def read(page):
    return Reader(render(page, use_data=False))


def test_the_page_is_whole_and_asks_for_nothing():
    found = read(two_settings())
    assert not found.wrong
    assert {"link", "img", "iframe", "object", "base", "form"}.isdisjoint(found.tags)
    fetched = [value for _, key, value in found.attributes if key in ("src", "href", "action", "srcset", "data")]
    assert all(value.startswith("#s") for value in fetched)
    policy = next(v for _, key, v in found.attributes if key == "content" and "default-src" in v)
    assert policy.startswith("default-src 'none'")
    style = render(two_settings(), use_data=False).split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_every_part_is_there_in_order():
    text = read(two_settings()).text
    places = [
        text.index(part)
        for part in (
            "Two settings",
            "12 finished runs",
            "The setting",
            "All results",
            "How unalike the parties are",
            "Training",
            "Final accuracy",
            "Fairness across parties",
            "Communication against accuracy",
            "Rounds to target",
            "Features by party",
            "Cost",
            "Versions",
        )
    ]
    assert places == sorted(places)
    for figure in ("0.370", "0.005", "70.0±1.0", "80.0±1.0", "compiled", "a chain of layers", "2.13.0"):
        assert figure in text


def test_what_the_script_draws_is_what_was_recorded():
    found = json.loads(read(small_page()).data)
    (one,) = found["settings"]
    fedavg, scaffold = one["lines"]
    assert (fedavg["name"], scaffold["name"]) == ("fedavg", "scaffold")
    assert fedavg["score"]["round"] == [1, 2, 3, 4]
    assert fedavg["score"]["mean"] == pytest.approx([17.5, 35, 52.5, 70])
    assert fedavg["score"]["std"][-1] == pytest.approx(1)
    assert fedavg["score"]["sent"] == pytest.approx([1.5, 3, 4.5, 6])
    assert fedavg["loss"]["mean"] == pytest.approx([2, 1, 0.6667, 0.5])
    assert one["target"] == 70
    assert one["fair"][0]["values"] == pytest.approx(sorted([20, 50, 60, 90] * 3))
    assert found["places"] == {"fedavg": 0, "scaffold": 1}


def evil_page(text):
    made = [
        replace(each, figures={**each.figures, "why_this_engine": text, "torch": text})
        for each in two_algorithms(dataset=text, partition=text, model=text)
    ]
    failed = Record("x", {"dataset": text, "algorithm": text, "partition": text}, "failed", problem=text)
    page = page_of_records(
        text, [*made, replace(failed, spec={**made[0].spec, "algorithm": f"z{text}", "seed": 9})]
    )
    noted = tuple(replace(one, note=text) for one in page.compared)
    return replace(page, about=text, compared=noted, notes=(text,), commands=(text,), tuned=((text,) * 4,))


def test_a_name_cannot_become_markup():
    plain, found = read(evil_page("name")), read(evil_page(EVIL))
    assert not found.wrong
    assert found.tags == plain.tags
    assert found.tags.count("script") == 2
    assert EVIL in "".join(found.words)
    assert json.loads(found.data)["settings"]


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=30))
def test_no_text_changes_the_structure(text):
    text = f"x{text}"  # a title of blanks alone is left out
    found = read(evil_page(text))
    assert not found.wrong
    assert found.tags == read(evil_page("name")).tags


@given(
    st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=6)
)
def test_data_come_back_as_they_were_and_end_no_element(value):
    made = data(value)
    assert json.loads(made) == value
    assert not set(made) & set("<>&\u2028\u2029")


def test_data_refuse_what_json_lacks():
    with pytest.raises(ValueError):
        data(float("nan"))


def test_attributes_are_escaped():
    assert tag("a", "<", href='"x') == '<a href="&quot;x">&lt;</a>'


def test_published_numbers_stand_beside_ours_with_words_for_the_verdict(monkeypatch):
    found = tuple(gather(two_algorithms()))
    cells = [Cell("digits", "iid", "fedavg", 69.5, 0.4), Cell("digits", "iid", "scaffold", 60.0, 0.5)]
    monkeypatch.setattr("unalike.ranking.comparison.published", lambda table: iter(cells))
    page = replace(small_page(), compared=tuple(compare(found, "any")), source="A paper")
    text = read(page).text
    assert "69.5±0.4 +0.5 ✓ yes" in text
    assert "60.0±0.5 +20.0 ✗ no" in text
    assert "Of 2 published numbers, 1 is matched" in text
    assert "Published" not in read(small_page()).text


def test_the_target_says_where_it_is_from():
    assert "a test accuracy of at least 70 % (what fedavg ends with)" in read(small_page()).text
    lone = page_of_records("t", [one for one in two_algorithms() if one.algorithm == "scaffold"])
    assert "a test accuracy of at least 80 % (what scaffold ends with)" in read(lone).text


def test_without_held_out_rows_it_says_so():
    text = read(small_page(held_out=False)).text
    assert "No rows were held out" in text
    assert "Worst tenth" not in text


def test_a_stopped_run_says_how_far_it_went():
    whole = record()
    stopped = Record("k", whole.spec, "unfinished", {}, whole.rounds[:2])
    text = read(page_of_run(stopped)).text
    assert "2 of 4 rounds are played" in text
    assert "40.0" in text
    assert "not finished" not in read(page_of_run(whole)).text


def test_failures_have_their_reasons_and_are_in_no_figure():
    bad = Record("b", record("fedavg", 7).spec, "failed", problem="The loss is NaN in round 3.")
    page = page_of_records("t", [*two_algorithms(), bad])
    text = read(page).text
    assert "Runs that failed" in text
    assert "The loss is NaN in round 3." in text
    assert "6 finished runs" in text


def test_a_run_that_was_never_evaluated_still_has_a_page():
    one = record()
    bare = Record("k", one.spec, "finished", {"rounds": 4}, ())
    found = read(page_of_run(bare))
    assert not found.wrong
    nothing = Record("k", one.spec, "unfinished", {}, ())
    assert "0 of 4 rounds" in read(page_of_run(nothing)).text


def test_data_that_are_not_at_hand_are_a_sentence():
    text = Reader(render(small_page(dataset="no-such-set"))).text
    assert "The data are not at hand: " in text
    assert "Features are not shown." in text


def test_the_command_repeats_the_run(tmp_path):
    made = run(dataset="digits", rounds=1, parties=3, algorithm="fedprox(mu=0.5)", drop_last=True, runs=tmp_path)
    (command,) = page_of_run(read_record(made.run_dir)).commands
    assert command.startswith("unalike run --dataset digits --parties 3 --algorithm 'fedprox(mu=0.5)' --rounds 1")
    assert "--drop-last" in command
    assert "--lr" not in command  # as by default


def test_the_command_has_the_parties_where_the_partition_would_make_others():
    """Ten are usual, but a natural partition has as many as the data, unless it is told."""
    dealt = record(dataset="femnist", partition="natural(minimum=0)", parties=10)
    assert "--parties 10" in page_of_run(dealt).commands[0]
    assert "--parties" not in page_of_run(record(parties=10)).commands[0]


def test_a_real_run_shows_its_parties_and_features(tmp_path):
    made = run(dataset="heart", partition="natural", rounds=2, runs=tmp_path)
    size = write_run_page(read_record(made.run_dir), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert size == len(text.encode())
    (one,) = json.loads(Reader(text).data)["settings"]
    assert len(one["heat"]["parties"]) == 4
    rows = sum(map(sum, one["heat"]["counts"]))
    features = one["features"]
    assert len(features["x"]) == len(features["party"]["of"]) == len(features["label"]["of"])
    assert rows - 4 <= len(features["x"]) <= rows  # all of them, but for rounding
    assert set(features["party"]["of"]) == {0, 1, 2, 3}
    assert "heart" in text
    assert str(tmp_path) not in text


def test_a_damaged_run_is_left_out_and_the_page_says_so():
    hurt = replace(
        record("fedavg"),
        state="unfinished",
        figures={},
        problem="digits-fedavg-0: rounds.jsonl: line 2 is not as it was written.",
    )
    made = page_of_records("Runs", [record("fedprox"), hurt])
    text = f"A run is left out, since it is damaged: {hurt.problem}"
    assert made.notes == (text,)
    assert page_of_study(study(damaged=[hurt])).notes == (text,)
    assert f"It is damaged: {hurt.problem}" in page_of_run(hurt).notes[0]


def study(**changes):
    made = small_page()
    about = Study("tiny", "A study", "What\nit is.", target=0.75)
    tuned = {"digits, iid: fedprox": Tuned({}, "fedprox", "fedprox(0.1)", {"fedprox(0.1)": 50.0}, "accuracy")}
    usual = {"settings": list(made.settings), "compared": list(made.compared), "tuned": tuned, "failed": []}
    usual |= {"damaged": [], "done": 6, "total": 6, "scale": 1.0}
    return StudyResults(about, **(usual | changes))


def test_a_study_has_its_target_tuning_and_command(tmp_path):
    page = page_of_study(study(), tmp_path)
    text = read(page).text
    assert "First round with a test accuracy of at least 75 % (the study's target)" in text
    assert "0 of 3" in text  # FedAvg ends at 70 %
    assert "fedprox(0.1): accuracy 50.0 %" in text
    assert page.commands == ("unalike study run tiny",)  # a page may be sent to others: no paths of this machine
    assert page_of_study(study(), Path("mine")).commands == ("unalike study run tiny --runs mine",)
    assert page_of_study(study()).commands == ("unalike study run tiny",)
    own = list(page_of_records("t", [record("mine", code="a1b2")]).settings)
    assert page_of_study(study(settings=own)).commands[0].endswith("# with the same --plugin or file of your own")
    assert "runs are done" not in text


def test_a_study_that_is_not_whole_or_full_says_so():
    empty = gather([Record("k", record(partition="x").spec, "unfinished")])
    both = [*small_page().settings, *empty]
    page = page_of_study(study(done=6, total=9, scale=0.1, settings=both))
    text = read(page).text
    assert "6 of 9 runs are done" in text
    assert "At scale 0.1: 10 % of the study's rounds" in text
    assert "1 of 2 settings have no finished run" in text
    assert len(page.settings) == 1
    assert "--scale 0.1" in page.commands[0]
    odd = page_of_study(study(scale=0.1234567), only=["dataset=digits, seed=1"])
    assert odd.commands == ("unalike study run tiny --scale 0.1234567 --only 'dataset=digits, seed=1'",)


def test_at_a_smaller_scale_no_agreement_with_a_paper_is_claimed_or_denied():
    found = gather([record(dataset="mnist"), record("scaffold", dataset="mnist")])
    for scale in (1.0, 0.5):
        compared = compare(found, "niid-bench-table3", judged=scale == 1.0)
        text = read(page_of_study(study(settings=found, compared=compared, scale=scale))).text
        assert "99.1" in text  # the paper's FedAvg
        assert (scale == 1.0) == ("✗ no" in text or "✓ yes" in text) == ("matched within two" in text)


def test_one_algorithm_tuned_to_different_values_is_one_column_and_colour():
    many = [
        *two_algorithms(),
        record("fedprox(mu=0.1)"),
        *two_algorithms(partition="shards(k=2)"),
        record("fedprox(mu=1.0)", partition="shards(k=2)"),
    ]
    page = page_of_records("t", many)
    assert set(page.families.values()) == {"fedavg", "fedprox", "scaffold"}
    assert len(set(page.places.values())) == 3
    clash = page_of_records("t", [record("fedprox(mu=0.1)"), record("fedprox(mu=1.0)")])
    assert len(set(clash.places.values())) == 2


def test_settings_that_share_a_partition_are_told_apart():
    page = page_of_records("t", [*two_algorithms(batch_size=64), *two_algorithms(batch_size=16)])
    assert page.names == [("digits", "iid, batch size 16"), ("digits", "iid, batch size 64")]


def test_a_large_study_is_a_small_file():
    rows = tuple(
        {"round": n, "accuracy": 0.123456789 * (n % 7), "loss": 1.23456789 / n, "train_loss": 9.87654321 / n,
         "bytes_up": 123456, "bytes_down": 123456, "seconds": 1.0}
        for n in range(1, 1001)
    )  # fmt: skip
    many = [
        replace(record(name, seed, partition=f"label-dirichlet({beta})"), rounds=rows)
        for beta in range(1, 5)
        for name in ("fedavg", "fedprox", "fednova", "scaffold")
        for seed in range(2)
    ]
    text = render(page_of_records("t", many), use_data=False)
    lines = json.loads(Reader(text).data)["settings"][0]["lines"]
    assert len(lines[0]["score"]["mean"]) == 300
    assert len(text) - len(render(small_page(), use_data=False)) < 4 * 90_000  # of 4 algorithms, with all points


def test_a_disk_that_refuses_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        write_run_page(record(), tmp_path / "file" / "page.html", use_data=False)


def test_no_machine_path_or_host_is_in_the_shipped_files():
    text = render(small_page(), use_data=False)
    hosts = set(re.findall(r"https?://[^\s\"']+", text))
    assert hosts <= {"http://www.w3.org/2000/svg"}


# ---- other scores than accuracy


def test_an_error_is_told_as_it_is_and_the_lowest_is_best():
    text = read(page_of_records("t", two_errors())).text
    for said in (
        "scaffold ends with the lowest test RMSE, 53.200±0.500, 5.500 below fedavg, which is more than one",
        "Final RMSE",
        "53.200±0.500 ▲",
        "The lowest is best.",
        "▲ scaffold leads fedavg by 5.500: more than one standard deviation.",
        "a test RMSE of at most 58.7 (what fedavg ends with)",
        "Communication against RMSE",
        "fares best with scaffold: RMSE 73.200±0.500 on its own held-out rows.",
        "Score rmse",
    ):
        assert said in text
    assert "ccuracy" not in text.split("Versions")[0]


def test_what_the_script_draws_of_an_error():
    (one,) = json.loads(read(page_of_records("t", two_errors())).data)["settings"]
    fedavg = one["lines"][0]["score"]
    assert fedavg["mean"] == pytest.approx([117.4, 88.05, 64.57, 58.7], rel=1e-3)
    scale = one["scales"]["score"]
    assert (scale["name"], scale["unit"], scale["low"], scale["high"], scale["up"]) == (
        "test RMSE",
        "",
        0,
        None,
        -1,
    )
    assert one["target"] == 58.7
    assert one["fair"][0]["tenth"] == pytest.approx(78.7)
    (other,) = json.loads(read(small_page()).data)["settings"]
    scale = other["scales"]["score"]
    assert (scale["name"], scale["unit"], scale["high"], scale["up"]) == ("test accuracy, %", " %", 100, 1)


def test_settings_of_different_scores_say_which():
    text = read(mixed_page()).text
    assert "Data set Partition Score fedavg scaffold" in text
    assert "diabetes iid RMSE (lowest is best) 58.700±0.500 53.200±0.500 ▲" in text
    assert "digits iid accuracy, % (highest is best) 70.0±1.0 80.0±1.0 ▲" in text
    assert "Best mean score: scaffold in 2 of 2 (2 clear) settings" in text
    assert "Score" not in read(two_settings()).text.split("All results")[1].split("How unalike")[0]


def test_a_stopped_regression_has_the_last_round_that_was_evaluated():
    whole = error_record()
    rounds = (*whole.rounds[:2], {"round": 3, "train_loss": 1.0, "bytes_up": 1, "bytes_down": 1, "seconds": 1.0})
    text = read(page_of_run(Record("k", whole.spec, "unfinished", {}, rounds))).text
    assert "3 of 4 rounds are played" in text
    assert "a test RMSE of 79.800 after 3 rounds" in text


def test_the_target_of_a_study_is_in_the_units_of_its_score():
    about = replace(study().study, target=55.0)
    found = replace(study(settings=list(page_of_records("t", two_errors()).settings)), study=about)
    text = read(page_of_study(found)).text
    assert "First round with a test RMSE of at most 55 (the study's target)" in text
    assert "3 of 3" in text


def test_the_tasks_other_scores_stand_below():
    text = read(page_of_records("t", [
        replace(one, figures={**one.figures, "r2": 0.4 + 0.1 * one.seed, "mae": None}) for one in two_errors()
    ])).text  # fmt: skip
    assert (
        "Other scores The same models by other scores: mean ± standard deviation. Best is the highest R2." in text
    )
    assert text.count("0.500±0.100") == 2
    assert "Other scores" not in read(small_page()).text


def test_every_field_of_a_spec_has_a_name_on_the_page():
    elsewhere = {"algorithm", "seed", "engine", "device", "threads"}
    assert {field.name for field in RunSpec.options()} == _NAMES.keys() | elsewhere


def test_a_new_score_is_an_entry_in_the_table_and_nothing_else(monkeypatch):
    made = Score("gini", "classification", "down", "fraction", (), lambda tally: 0.0, "what it says", title="Gini")
    monkeypatch.setitem(SCORES, "gini", made)
    records = [
        replace(one, figures={**one.figures, "score": "gini", "gini": one.figures["accuracy"]})
        for one in two_algorithms()
    ]
    page = page_of_records("t", records)
    assert "fedavg ends with the lowest test Gini, 70.0±1.0 %, 10.0 points below scaffold" in read(page).text
    assert r"\textbf{70.0$\pm$1.0} & 80.0$\pm$1.0" in latex_table(page)
    assert leaderboard(run_blocks(page.settings))[0].entries[0].algorithm == "fedavg"


def test_no_database_is_asked_because_a_record_names_it(monkeypatch):
    def asked(*_):
        raise AssertionError("a password may be in the environment")

    monkeypatch.setitem(sql._ASK, "postgresql", asked)
    address = "sql:postgresql://me@elsewhere.example/x(query='select 1 as a, 2 as y')"
    assert "The data are not at hand: they are in a database" in Reader(render(small_page(dataset=address))).text
    one = record()
    mine = Record("k", {**one.spec, "dataset": address}, "finished", one.figures, one.rounds)
    assert "elsewhere.example" in page_of_run(mine).commands[0]

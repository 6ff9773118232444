"""Who wins a search does not depend on order, number of processes or interruptions; test rows take no part."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies.tuning.fake_trials import finish, look, noise, plan, play
from unalike.runs.results import Record
from unalike.studies.schedule import Schedule
from unalike.studies.tuning.rungs import cost

OPTIONS = {"trials": 7, "seeds": (100, 101)}


def searched(runs, rng=None, lives=1, made=None, **world):
    made = made or plan(**OPTIONS)
    played = finish(made, runs, rng, lives, **world)
    (search,) = made.tunings
    return search, search.winner(look(runs)), played


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    _, winner, played = searched(tmp_path_factory.mktemp("reference"))
    return winner, sorted(played)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32))
def test_any_order_and_any_interruption_give_the_same_winner_and_play_the_same_rounds(
    tmp_path_factory, reference, seed
):
    rng = random.Random(seed)
    _, winner, played = searched(tmp_path_factory.mktemp("lives"), rng, lives=rng.randrange(1, 5))
    assert (winner, sorted(played)) == reference
    assert len(set(played)) == len(played)  # no round twice


def test_the_rounds_are_those_of_the_plan(tmp_path):
    search, _, played = searched(tmp_path)
    assert len(played) == search.spent + 2 * 9  # and the untuned run with two seeds
    assert search.spent == cost(search.rungs, 2) == search.allowance.budget


def test_the_best_third_goes_on_and_the_best_of_the_last_rung_wins(tmp_path):
    search, winner, _ = searched(tmp_path)
    heats = search.heats(look(tmp_path))
    assert [len(heat.entered) for heat in heats] == [7, 2, 1]
    for heat, after in zip(heats, [*heats[1:], None], strict=True):
        best = sorted(heat.entered, key=lambda number: -heat.scores[number])
        assert set(heat.kept) == set(best[: len(after.entered) if after else 1])
    finals = search.finals(look(tmp_path))
    assert set(finals) == {0, *heats[-1].entered}
    assert winner == max(finals, key=finals.get)


def test_scores_of_a_rung_are_means_over_seeds_after_its_round(tmp_path):
    search, _, _ = searched(tmp_path)
    heat = search.heats(look(tmp_path))[0]
    for number, score in heat.scores.items():
        values = [100 * noise(run.spec, heat.rung.round) for run in search.candidates[number].runs]
        assert score == pytest.approx(sum(values) / 2)


def test_what_is_best_on_test_rows_does_not_matter(tmp_path):
    by_rate = {"score": lambda spec, number: spec.lr / 2, "test": lambda value: 1 - value}
    search, winner, _ = searched(tmp_path / "one", **by_rate)
    rates = [run.fields["lr"] for run in search.candidates[1:]]
    assert search.candidates[winner].fields["lr"] == max(rates)
    for other in (lambda value: value, lambda value: 0.5):  # the same validation rows, other test rows
        assert searched(tmp_path / str(id(other)), **(by_rate | {"test": other}))[1] == winner


def test_of_equals_the_lower_number_wins_and_the_untuned_run_before_all(tmp_path):
    search, winner, _ = searched(tmp_path, score=lambda spec, number: 0.5)
    heats = search.heats(look(tmp_path))
    assert [heat.kept for heat in heats] == [(1, 2), (1,), (1,)]
    assert winner == 0


def test_a_trial_that_diverges_is_worst_and_the_others_go_on(tmp_path):
    def fails(spec, number):
        return spec.lr > 0.1 or (spec.lr > 0.02 and number > 2 and spec.seed == 101)

    search, winner, _ = searched(
        tmp_path, fails=fails, score=lambda spec, number: 0.5 + spec.lr / 3, made=plan(trials=9, seeds=(100, 101))
    )
    heats = search.heats(look(tmp_path))
    assert None in heats[0].scores.values()
    kept = [search.candidates[number].fields["lr"] for number in heats[-1].kept]
    assert all(rate <= 0.1 for rate in kept)
    assert search.candidates[winner].fields.get("lr", 0.01) <= 0.02


def test_where_everything_fails_there_is_a_reason(tmp_path):
    search, winner, _ = searched(tmp_path, fails=lambda spec, number: True)
    choice = search.choose(look(tmp_path))
    assert (winner, choice.algorithm) == (None, "")
    assert "it diverged" in choice.problem


def test_an_error_is_better_the_smaller_it_is(tmp_path):
    made = plan(**OPTIONS, dataset="digits", score="brier")
    (search,) = made.tunings

    def seen(planned):
        rows = tuple(
            {"round": number, "score": "brier", "validation_brier": planned.spec.lr} for number in range(1, 10)
        )
        return Record(planned.key, planned.spec.to_dict(), "finished", {"score": "brier"}, rows)

    winner = search.winner(seen)
    rates = {one.number: one.fields.get("lr", one.runs[0].spec.lr) for one in search.candidates}
    assert rates[winner] == min(rates.values())


def test_a_choice_waits_for_the_open_rung(tmp_path):
    made = plan(**OPTIONS)
    (search,) = made.tunings
    schedule = Schedule(made, tmp_path)
    assert search.choose(look(tmp_path)).algorithm == search.choose(look(tmp_path)).problem == ""
    assert {job.until for job in schedule.pending.values()} == {1, 9}  # the first rung, and the untuned runs
    assert schedule.progress(1).total == search.steps == 2 * (1 + 7 + 2 + 1)


def test_progress_counts_every_stop_and_comes_to_an_end(tmp_path):
    made, rng = plan(**OPTIONS), random.Random(3)
    seen = []
    schedule = Schedule(made, tmp_path)
    under_way = []
    while not schedule.over:
        while len(under_way) < 2 and (job := schedule.take()) is not None:
            under_way.append(job)
        job = under_way.pop(rng.randrange(len(under_way)))
        play(tmp_path, job)
        schedule.finished(job)
        now = schedule.progress(2)
        seen.append(now.done)
        assert now.done + now.failed <= now.total
    assert seen == list(range(1, now.total + 1))
    assert (now.part, now.seconds_left) == (1.0, 0.0)

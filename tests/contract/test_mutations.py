"""The tests notice: every mutation in the list makes at least one property fail.

A mutation is put in place by compiling the changed text of its file and giving the new code to the functions that
are already loaded, wherever they have been imported. The properties are the tests of this suite themselves: first
those that call the changed function, the cheapest before the others.
"""

import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import pytest
import torch

import unalike
from tests import test_scores
from tests.algorithms import (
    test_adaptive,
    test_contract,
    test_fedadagrad,
    test_fedadam,
    test_fedavg,
    test_fedavgm,
    test_fednova,
    test_fedprox,
    test_fedyogi,
    test_moon,
    test_qfedavg,
    test_rfedavg,
    test_rfedavg_plus,
    test_scaffold,
)
from tests.algorithms.personal import test_meta
from tests.contract import mutations
from tests.contract.calls import in_order, watched
from tests.rounds import (
    test_asks,
    test_batch_norm,
    test_by_party,
    test_personal,
    test_phases,
    test_traffic,
    test_train_measure,
)
from tests.runs import test_regression, test_score
from unalike.algorithms import FedAdagrad, FedAdam, FedYogi
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised
from unalike.errors import UserError
from unalike.rounds.work import LocalWork
from unalike.runs.check import check_engines_agree, check_purity

ROOT = Path(unalike.__file__).parent
ONE, STACK = Sequential(), Vectorised()

SCAFFOLD = [
    (test_scaffold.test_option_ii_with_unequal_steps_and_momentum, ONE),
    (test_scaffold.test_absent_parties_keep_their_control_variate,),
    (test_scaffold.test_option_i_is_the_gradient_of_all_rows_at_the_received_model, "sequential"),
    (test_scaffold.test_control_variates_start_at_zero_so_the_first_round_is_fedavgs, "vectorised", "ii"),
    (test_scaffold.test_reaches_the_optimum_of_its_objective_and_c_stays_the_mean, STACK, "ii", "uniform", 0.0),
    (test_scaffold.test_reaches_the_optimum_of_its_objective_and_c_stays_the_mean, STACK, "i", "size", 0.5),
    (test_scaffold.test_the_servers_rate_scales_its_step_and_moves_no_optimum, STACK, 0.5),
    (test_scaffold.test_reaches_it_with_three_of_ten, STACK, "ii", "uniform", 0.0),
    (test_scaffold.test_reaches_it_with_three_of_ten, STACK, "ii", "size", 0.0),
]
FEDNOVA = [
    (test_fednova.test_is_fedavg_at_equal_steps, "vectorised", 0.9),
    (test_fednova.test_removes_the_bias_of_unequal_steps, ONE, 0.9),
]
FEDPROX = [(test_fedprox.test_a_round_has_the_closed_form, ONE, 3.0, LocalWork(4, epochs=2), [2, 6])]
QFEDAVG = [
    (test_qfedavg.test_a_round_is_the_papers, STACK, 3.0, 1024),
    (test_qfedavg.test_a_round_is_the_papers, ONE, 0.5, 2),
    (test_qfedavg.test_a_party_without_loss_is_no_trouble,),
]
EVERYBODY, SOME, ONE_OTHER = [1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 0, 0, 1]
RFEDAVG = [
    (test_rfedavg.test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences, SOME, 3),
    (test_rfedavg.test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences, ONE_OTHER, 0),
    (test_rfedavg.test_has_the_objective_of_rfedavg_plus, EVERYBODY),
    (test_rfedavg.test_delta_is_the_mean_over_all_rows_under_the_partys_own_trained_model, "sequential", 5),
    (test_rfedavg.test_absent_parties_keep_their_delta_and_parties_never_seen_do_not_count, "vectorised"),
    (test_rfedavg.test_the_first_round_has_no_regulariser_and_lam_zero_never_has, "sequential", "rfedavg"),
    (test_rfedavg.test_noise_has_its_standard_deviation_and_is_fresh_for_each_round_and_party, "rfedavg"),
    (check_purity, "rfedavg"),
]
RFEDAVG_PLUS = [
    (test_rfedavg_plus.test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences, 5.0, 1.0, 3),
    (test_rfedavg_plus.test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences, 0.0, 0.0, 0),
    (test_rfedavg_plus.test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences, 1.0, 0.0, 0),
    (test_rfedavg_plus.test_delta_is_the_mean_over_all_rows_under_the_new_global_model, "sequential", 5),
    (test_rfedavg_plus.test_the_server_has_the_sum_of_the_last_deltas_of_all_who_were_ever_there, "vectorised"),
    (test_rfedavg.test_the_first_round_has_no_regulariser_and_lam_zero_never_has, "vectorised", "rfedavg+"),
]
MOON = [
    (test_moon.test_the_loss_is_equation_4_and_its_gradient_equals_finite_differences, 0.2, 3),
    (test_moon.test_the_two_other_models_are_frozen,),
    (test_moon.test_a_party_keeps_its_own_trained_model_also_when_absent, "sequential"),
    (test_moon.test_frozen_models_leave_the_running_statistics_alone,),
]
SERVERS = [
    (test_fedavgm.test_the_velocity_is_a_sum_of_decaying_updates, 0.5, 0.3),
    (test_fedadagrad.test_is_torchs_adagrad_on_the_mean_updates, 1.0, 0.5),
    (test_fedadagrad.test_the_second_moment_is_the_sum_of_squares, 0.8),
    (test_fedadam.test_moments_are_decaying_means, 0.9, 0.99, 1e-3),
    (test_fedyogi.test_moments_by_hand, 0.5, 0.9, 2.0),
    (test_fedyogi.test_a_second_moment_that_is_the_square_stays,),
    *((test_adaptive.test_starts_at_the_least_adaptivity, cls) for cls in (FedAdagrad, FedAdam, FedYogi)),
]
CARRIERS = [
    (test_fednova.test_removes_the_bias_of_unequal_steps, ONE, 0.9),
    (test_fedavg.test_a_round_over_whole_parties_is_plain_pytorch, "sequential"),
    (test_fedavg.test_one_step_is_gradient_descent_on_the_whole, STACK),
    *(
        (test_train_measure.test_all_rows_are_seen_under_the_partys_own_trained_weights, kind, 3)
        for kind in ("sequential", "stacked")
    ),
    (test_rfedavg.test_noise_has_its_standard_deviation_and_is_fresh_for_each_round_and_party, "rfedavg+"),
    (test_train_measure.test_the_share_of_all_rows_that_the_cohort_holds, "stacked"),
    (test_traffic.test_a_row_counts_vectors_times_parties, "vectorised", "float64", 8),
    (test_rfedavg_plus.test_the_server_has_the_sum_of_the_last_deltas_of_all_who_were_ever_there, "vectorised"),
    (test_batch_norm.test_average_is_the_weighted_mean_of_the_partys_statistics,),
    (test_batch_norm.test_local_statistics_stay_where_they_are,),
    (test_batch_norm.test_local_statistics_cost_nothing_and_the_server_sees_none, "fedavg"),
    (test_batch_norm.test_local_parties_evaluate_with_their_own_and_the_global_figure_is_their_mean,),
    (test_batch_norm.test_parties_that_never_took_part_are_not_in_the_global_figure,),
    (test_scaffold.test_option_ii_with_unequal_steps_and_momentum, ONE),
    (test_contract.test_sums_do_not_depend_on_arrival,),
    (check_engines_agree, "scaffold"),
]
SCORES = [
    *((test_scores.test_scores_of_classification_are_those_of_scikit_learn, case) for case in ("skilled", "ties")),
    (test_scores.test_auroc_by_histograms_is_within_its_bound, "skilled"),
    (test_scores.test_the_bound_is_reached_where_a_bin_holds_all_pairs_the_right_way_round,),
    (test_scores.test_scores_of_regression_are_those_of_scikit_learn, 0),
    (test_scores.test_better_follows_the_direction_of_the_score,),
    *((test_scores.test_what_no_rows_can_have_is_refused, how) for how in test_scores.WRONG),
    (test_score.test_party_by_party_is_the_same_as_each_alone,),
    (test_regression.test_figures_are_in_the_units_of_the_table,),
    (test_regression.test_the_worst_party_has_the_highest_error_and_the_selected_round_the_lowest,),
    (test_regression.test_a_linear_net_converges_to_ridge_regression, 1, "iid", 1, 1500),
]
SECOND_EDITION = [
    (test_by_party.test_each_party_has_its_own_row_and_what_everybody_gets, "sequential", "train"),
    (test_by_party.test_rows_reach_start_loss_and_the_declared_terms, "vectorised"),
    (test_by_party.test_bytes_are_those_of_a_row,),
    *((test_phases.test_each_phase_has_its_own_work, engine) for engine in ("sequential", "vectorised")),
    (test_phases.test_the_batches_of_the_last_phase_are_those_of_a_training_of_one, "sequential"),
    (test_phases.test_phases_on_public_rows, "sequential"),
    *((test_phases.test_what_a_phase_keeps_the_next_one_starts_from_with_new_momentum, e) for e in (ONE, STACK)),
    *(
        (test_phases.test_only_the_named_part_moves, engine, part, model)
        for engine in ("sequential", "vectorised", "compiled")
        for part, model in (("head", "mlp(6,4)"), ("norm", "test-layer-norm"))
    ),
    (test_phases.test_a_proximal_term_with_a_strength_for_each_weight, ONE, torch.tensor([0.5, 3.0])),
    (test_phases.test_batch_normal_is_a_new_draw_in_each_step_and_phase, "sequential"),
    (test_meta.test_the_fixed_point_tells_the_orders_apart, ONE, "fo", 1, "same"),
    *((test_asks.test_the_rows_that_are_measured, "sequential", rows) for rows in ("validation", "public")),
    (test_asks.test_those_who_are_not_asked_stay_in_the_round, "sequential"),
    (test_asks.test_prepare_is_played_once_with_all_parties_and_counted_in_round_one, "sequential"),
    (test_asks.test_what_prepares_has_phases_of_its_own,),
    (test_personal.test_newcomers_are_never_asked_and_count_nowhere,),
    (test_personal.test_fine_tuning_is_plain_training_from_the_global_model, "sequential", "fedavg"),
    (test_personal.test_adapting_has_all_of_a_phase, "sequential"),
]
CHECKS = {
    "SCAFFOLD": SCAFFOLD,
    "FEDNOVA": FEDNOVA,
    "FEDPROX": FEDPROX,
    "QFEDAVG": QFEDAVG,
    "RFEDAVG": RFEDAVG,
    "RFEDAVG_PLUS": RFEDAVG_PLUS,
    "MOON": MOON,
    "SERVERS": SERVERS,
    "CARRIERS": CARRIERS,
    "SCORES": SCORES,
    "SECOND_EDITION": SECOND_EDITION,
}
MUTATIONS = [(group, mutation) for group in CHECKS for mutation in getattr(mutations, group)]
for found in pkgutil.iter_modules(
    [str(Path(__file__).parent / "breakages")]
):  # each file: what is broken, and the tests that notice
    family = importlib.import_module(f"tests.contract.breakages.{found.name}")
    CHECKS[found.name] = family.CHECKS
    MUTATIONS += [(found.name, mutation) for mutation in family.MUTATIONS]


def codes_of(code, found=None):
    """The code of every function and method in a compiled file, by qualified name."""
    found = {} if found is None else found
    for part in code.co_consts:
        if isinstance(part, CodeType):
            found[part.co_qualname] = part
            codes_of(part, found)
    return found


def functions_of(module):
    """The functions and methods that a module defines, without what decorators put around them."""
    for owner in [module, *(value for value in vars(module).values() if inspect.isclass(value))]:
        if getattr(owner, "__module__", module.__name__) != module.__name__:
            continue
        for value in list(vars(owner).values()):
            for inside in ("fget", "func", "__func__"):  # property, cached property, class method
                value = getattr(value, inside, None) or value
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                yield inspect.unwrap(value)


def mutate(monkeypatch, mutation):
    """Give the loaded functions of the file the code that they have with the changed text; which it was."""
    path = ROOT / mutation.file
    source = path.read_text(encoding="utf-8")
    assert source.count(mutation.old) == 1, f"{mutation.file} has {source.count(mutation.old)} x {mutation.old!r}"
    changed = source.replace(mutation.old, mutation.new)
    before, after = (codes_of(compile(text, str(path), "exec", dont_inherit=True)) for text in (source, changed))
    module = importlib.import_module("unalike." + mutation.file.removesuffix(".py").replace("/", "."))
    changes = []
    for function in functions_of(module):
        name = function.__code__.co_qualname
        if name in before and before[name] != after[name]:
            monkeypatch.setattr(function, "__code__", after[name])
            changes.append((str(path), name))
    assert len(changes) == 1, f"{mutation.old!r} is in {len(changes)} functions"
    return changes[0]


def failing(checks):
    """The first check that fails, with its reason, or None. Any other error is not a property that was noticed."""
    others = []
    for check, *arguments in checks:
        try:
            check(*arguments)
        except (AssertionError, UserError, pytest.fail.Exception) as error:
            return check.__name__, str(error)
        except Exception as error:
            others.append(error)
    if others:
        raise others[0]
    return None


@cache
def known(group):
    """The checks of a group as they pass before anything is changed, with what each calls."""
    return [watched(*check) for check in CHECKS[group]]


@pytest.mark.parametrize("group", CHECKS)
def test_nothing_fails_as_it_is(group):
    assert len(known(group)) == len(CHECKS[group])


@pytest.mark.parametrize(
    ("group", "mutation"), MUTATIONS, ids=[f"{m.file.split('/')[-1]}: {m.what}" for _, m in MUTATIONS]
)
def test_is_noticed(group, mutation, monkeypatch):
    checks = known(group)
    assert failing(in_order(checks, *mutate(monkeypatch, mutation))) is not None


def test_every_algorithm_is_mutated():
    mutated = {mutation.file for _, mutation in MUTATIONS}
    written = {str(path.relative_to(ROOT)) for path in (ROOT / "algorithms").rglob("[a-z]*.py")}
    # FedAvg has no code of its own; the checks of users' algorithms and their words are no part of any, nor are
    # tables of names and reasons.
    without = {"algorithms/fedavg.py", "algorithms/checked.py", "algorithms/outlines.py", "algorithms/instead.py"}
    assert written - mutated == without | {"algorithms/trees/reasons.py"}


def test_a_mutation_is_undone(monkeypatch):
    first = mutations.FEDPROX[0]
    with monkeypatch.context() as patch:
        mutate(patch, first)
        assert failing(FEDPROX)
    assert failing(FEDPROX) is None

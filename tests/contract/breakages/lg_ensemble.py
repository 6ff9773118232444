"""LG-FedAvg's ensemble for new devices: one-line mutations, and the tests that must notice."""

from tests.algorithms.personal import test_lg_ensemble
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/personal/lg_ensemble.py",
        ("parties that never were asked answer too", 'party.received["lent"][seen]', 'party.received["lent"]'),
        (
            "weights are averaged, not outputs",
            'in party.received["lent"][seen]]',
            'in [party.received["lent"][seen].mean(dim=0)]]',
        ),
        ("those who were asked use the ensemble", 'if party.state["asked"] > 0 or not', "if not"),
        ("newcomers use the initial layers", "or not seen.any():", "or seen.any():"),
        (
            "absent parties are forgotten",
            'lent, seen = server["lent"].clone(), server["seen"].clone()',
            'lent, seen = server["lent"].clone(), server["seen"] * 0',
        ),
        (
            "another party's layers are replaced",
            'lent[number], seen[number] = upload["own"], 1',
            'lent[number - 1], seen[number] = upload["own"], 1',
        ),
        (
            "the layers of the round before are lent",
            '{**upload, "own": state["own"]}',
            '{**upload, "own": party.state["own"]}',
        ),
    ),
]
CHECKS = [
    (test_lg_ensemble.test_a_newcomers_prediction_is_the_mean_of_all_local_models, "lg-fedavg-ensemble"),
    (test_lg_ensemble.test_those_who_were_asked_use_their_own_and_train_as_in_lg_fedavg,),
]

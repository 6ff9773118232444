"""How many parties deploy the model of their own planted group."""

import pytest

from tests.algorithms.clustered.planted import SIGNS, opposed
from unalike.errors import UserError
from unalike.runs.clusters import clusters_in, clusters_of, right
from unalike.runs.run import run
from unalike.runs.small import play, small_simulation


def test_names_of_clusters_do_not_count():
    assert right([2, 2, 0, 1], [0, 0, 1, 2]) == 1.0
    assert right([0, 0, 0, 0], [0, 1, 2, 3]) == 0.25
    assert right([0, 0, 1, 1], [0, 0, 0, 1]) == 0.75
    assert right([0, 1, 2, 3], [0, 0, 1, 1]) == 0.5  # a group in two clusters is half right


def test_each_party_has_the_number_of_the_model_that_it_deploys():
    simulation = play(opposed("ifca", models=(1, -1), newcomers=0.25), 1)
    assert clusters_of(simulation) == list(SIGNS)
    assert right(clusters_of(simulation), SIGNS) == 1.0


def test_a_runs_folder_tells_it_too(tmp_path):
    settings = {
        "dataset": "digits", "partition": "copies(2)+feature-shift(rotation, 180)", "parties": 4, "rounds": 2,
        "algorithm": "groups(clusters=2)", "model": "logistic", "epochs": 1,
    }  # fmt: skip
    run(runs=tmp_path, **settings)
    (folder,) = (path.parent for path in tmp_path.rglob("result.json"))
    assert clusters_in(folder) == [0, 1, 0, 1]


def test_other_algorithms_have_none(tmp_path):
    with pytest.raises(UserError, match=r"do not choose between models\. Try ifca"):
        clusters_of(small_simulation("fedavg"))
    with pytest.raises(UserError, match="holds no run"):
        clusters_in(tmp_path)

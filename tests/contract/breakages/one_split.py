"""FL+HC and k-means on local models, broken on purpose, and the tests that notice."""

from tests.algorithms.clustered import test_one_split
from tests.contract.mutations import of_file
from unalike.engines.vectorised import Vectorised

MUTATIONS = [
    *of_file(
        "algorithms/clustered/one_split.py",
        ("clustered a round too early", 'int(now["round"]) <= self.rounds', 'int(now["round"]) < self.rounds'),
        ("the joint model does not wait", "if len(numbers) < replies.population", "if False"),
        (
            "only those of the last round count",
            "for group in groups]), numbers)",
            "for group in groups]), list(replies.each))",
        ),
        ("old updates are clustered", '(now["latest"] > self.rounds)', '(now["latest"] > 0)'),
        ("the root is the initial model", 'after["w"][0] = root', "pass"),
        ("local training is short", 'Phase("alone", epochs=self.epochs)', 'Phase("alone")'),
        ("nothing is trimmed", "if not self.trim", "if True"),
        (
            "groups begin at the initial model",
            "self.step(branched(made, 0, parts), numbers)",
            "branched(made, 0, parts)",
        ),
    ),
    *of_file(
        "algorithms/clustered/grouping.py",
        ("a metric for all", "_SCIPY[metric]", '"euclidean"'),
        ("a linkage for all", "merged(distances, linkage)", 'merged(distances, "single")'),
        ("centres stay", "centres[group] = trimmed_mean(vectors[labels == group], trim)", "pass"),
        ("the worst of the outcomes", "min(outcomes", "max(outcomes"),
        ("trimmed at one end", "values[out : len(vectors) - out]", "values[out:]"),
    ),
]
CHECKS = [
    (test_one_split.test_clusters_are_merged_by_the_metric_and_the_linkage,),
    (test_one_split.test_planted_groups_are_found_after_the_joint_rounds, Vectorised(), "average"),
    (test_one_split.test_the_joint_model_waits_until_everybody_has_trained_from_it,),
    (test_one_split.test_models_are_grouped_before_round_one, 0.0),
    (test_one_split.test_models_are_grouped_before_round_one, 0.2),
    (test_one_split.test_everybody_trains_long_before_round_one,),
    (test_one_split.test_k_means_is_as_good_as_that_of_scikit_learn,),
    (test_one_split.test_trimmed_means_bear_a_liar,),
]

"""What can go wrong with clusters of parties, and the tests that notice."""

from tests.algorithms.clustered import test_by_loss, test_fesem, test_fixed
from tests.contract.mutations import of_file
from unalike.engines.sequential import Sequential

ONE = Sequential()
MUTATIONS = [
    *of_file(
        "algorithms/clustered/clusters.py",
        (
            "validation rows choose",
            "Ask(self.kind, payload)",
            'Ask(self.kind, payload, rows="validation" if self.kind != "train" else "train")',
        ),
        ("shares of clusters are not divided out", " / share.where(share > 0, 1)}", "}"),
        ("an empty cluster is divided by zero", "share.where(share > 0, 1)", "share"),
        ("an empty cluster is reset", 'server["w"] + replies', 'server["w"] * (share > 0) + replies'),
        (
            "all clusters are averaged",
            'replies.mean["delta"] / share.where(share > 0, 1)',
            'replies.mean["delta"].sum(dim=0)',
        ),
        (
            "an update goes to all clusters",
            "sent[:, None] * (w - self.start(party))",
            "(w - self.start(party)).expand(len(sent), -1)",
        ),
        (
            "training starts from the first model",
            'at(party.received["w"], self.member(party).argmax())',
            'party.received["w"][0]',
        ),
        (
            "members of FeSEM start from their own models",
            'return at(party.received["w"], self.member(party).argmax())',
            'return party.state.get("w", at(party.received["w"], self.member(party).argmax()))',
        ),
        ("what was chosen is forgotten", '"member": self.member(party)}', '"member": party.state["member"]}'),
        ("clusters of one are opened", '["members"] >= self.least', '["members"] >= 1'),
        ("more members than least are needed", '["members"] >= self.least', '["members"] > self.least'),
        ("parties may leave clusters that are counted", "if task.least_opened > self.least:", "if False:"),
        ("members are not counted where sums hide", "if task.least_opened > 1:", "if False:"),
        (
            "the worst model is deployed",
            'party.measured["losses"].argmin())',
            'party.measured["losses"].argmax())',
        ),
        (
            "the first model is deployed",
            'at(party.received["w"], party.measured["losses"].argmin())',
            'party.received["w"][0]',
        ),
        (
            "an ensemble is one model",
            'return party.received["w"] if self.tried == "ensemble"',
            'return party.received["w"][0] if self.tried == "ensemble"',
        ),
        ("models start alike", "task.initial(k) for k", "w for k"),
    ),
    *of_file(
        "algorithms/clustered/by_loss.py",
        (
            "the worst model is trained",
            'return party.measured["losses"].argmin()',
            'return party.measured["losses"].argmax()',
        ),
        ("a gradient step uphill", "-party.lr * party.measured", "party.lr * party.measured"),
        ("gradients without a rate", "-party.lr * party.measured", "-party.measured"),
        (
            "gradients of the first model",
            "party.task.gradient(self.start(party), batch)",
            'party.task.gradient(party.received["w"][0], batch)',
        ),
        (
            "clusters of few open their gradients",
            '"delta": self.sent(party)[:, None] * step',
            '"delta": self.member(party)[:, None] * step',
        ),
        ("chosen in every round", "(party.round - 1) % self.every == 0", "True"),
        ("never chosen again", "(party.round - 1) % self.every == 0", "False"),
        ("chosen in the rounds before forks", "(party.round - 1) % self.every", "party.round % self.every"),
        (
            "who comes between forks takes the first",
            "before.argmax().where(before.sum() > 0, best)",
            "before.argmax()",
        ),
    ),
    *of_file(
        "algorithms/clustered/fesem.py",
        ("distances are sums of differences", '- party.state["w"]) ** 2).sum', '- party.state["w"]).abs()).sum'),
        ("the farthest centre", "gaps.argmin()", "gaps.argmax()"),
        ("everybody begins at the first centre", "party.normal(self.clusters).argmax()", "0"),
        ("the party's model is lost", '{**kept, "w": w}', "kept"),
        ("centres start from nothing", 'return {"w": w.expand', 'return {"w": (w * 0).expand'),
    ),
    *of_file(
        "algorithms/clustered/fixed.py",
        ("groups by somebody else's number", "party.number % self.clusters", "(party.number + 1) % self.clusters"),
        ("groups that are named do not count", "if not self.of:", "if True:"),
        ("groups in reverse", "party.number.new_tensor(self.of)", "party.number.new_tensor(self.of[::-1])"),
        ("the model of the first group", 'at(party.received["w"], self.choice(party))', 'party.received["w"][0]'),
        ("groups start from nothing", 'return {"w": w.expand', 'return {"w": (w * 0).expand'),
    ),
    *of_file(
        "rounds/local.py",
        ("one block of rows chooses", "MEASURE_ROWS):", "MEASURE_ROWS)[:1]:"),
    ),
    *of_file(
        "rounds/judging.py",
        ("logits are averaged", "each.log_softmax(dim=2).logsumexp(dim=0) - math.log(len(w))", "each.mean(dim=0)"),
        ("one net of an ensemble", "in w.unbind()]", "in w[:1]]"),
    ),
    *of_file(
        "runs/rules.py",
        ("sums of one are opened", "1 if channel.hidden is None else FEWEST_HIDDEN + asked - needed", "1"),
    ),
]
CHECKS = [
    (test_by_loss.test_a_model_moves_by_the_mean_of_its_members_and_an_empty_cluster_keeps_its_model, ONE),
    (test_by_loss.test_gradients_are_summed_over_members_and_divided_by_all, ONE),
    (test_by_loss.test_all_training_rows_choose, ONE),
    (test_by_loss.test_held_out_and_validation_rows_do_not_choose,),
    (test_by_loss.test_models_start_apart,),
    (test_by_loss.test_the_fork_chooses_at_times_only,),
    (test_by_loss.test_who_first_comes_between_forks_chooses_then,),
    (test_by_loss.test_newcomers_and_parties_that_were_never_asked_get_the_right_model, "ifca", {}),
    (test_by_loss.test_an_ensemble_is_the_mean_of_what_the_models_predict,),
    (test_by_loss.test_the_mean_of_all_models_is_the_global_one_too,),
    (test_by_loss.test_a_cluster_of_few_is_never_opened_where_single_uploads_are_hidden, "gradient", "masked"),
    (test_by_loss.test_as_many_must_be_there_as_least_says,),
    (test_by_loss.test_more_must_be_there_where_parties_may_be_missing,),
    (test_fesem.test_the_nearest_is_by_squared_distance, ONE),
    (test_fesem.test_members_start_from_their_centre_and_an_empty_cluster_keeps_it, ONE),
    (test_fesem.test_who_has_no_model_yet_takes_a_centre_at_random,),
    (test_fesem.test_centres_start_from_the_runs_weights,),
    (test_fixed.test_groups_are_those_that_are_named, ONE),
    (test_fixed.test_all_groups_start_from_the_runs_weights,),
    (test_fixed.test_parties_and_newcomers_use_the_model_of_their_group,),
]

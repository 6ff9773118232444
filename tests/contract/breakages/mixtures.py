"""What breaks APFL and L2GD, bugs of published code among it."""

from tests.algorithms.personal import test_apfl, test_l2gd
from tests.contract.mutations import of_file
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised

ONE, STACK = Sequential(), Vectorised()
CHECKS = [
    (test_apfl.test_rounds_are_the_papers, STACK, True, 0.9),
    (test_apfl.test_rounds_are_the_papers, ONE, True, 0.0),
    (test_apfl.test_gradients_at_the_mixture_of_the_weights_equal_finite_differences, 3),
    (test_apfl.test_the_share_is_clipped,),
    (test_apfl.test_who_comes_late_begins_with_what_it_receives,),
    (test_apfl.test_newcomers_train_the_shared_model_and_nobody_else_does, "sequential"),
    (test_l2gd.test_rounds_are_the_papers_iterations, ONE, 0.3, 0.8),
    (test_l2gd.test_newcomers_take_local_steps_from_the_mean, "sequential"),
    (test_l2gd.test_the_server_has_the_mean_of_all_who_ever_took_part, ONE),
    (test_l2gd.test_who_comes_late_begins_with_the_mean,),
    (test_l2gd.test_coins_are_fair_and_public, 0.7),
]
MUTATIONS = [
    *of_file(
        "algorithms/terms.py",
        ("the own gradient is taken at the own model", "share * own + (1 - share) * w.detach()", "own"),
        (
            "outputs are mixed, not weights",
            "fit(share * own + (1 - share) * w.detach(), track=False)",
            "task.loss_of(share * task.logits(own, batch) + (1 - share) * task.logits(w.detach(), batch), batch)",
        ),
        ("the shared model steps on both gradients", "(1 - share) * w.detach()", "(1 - share) * w"),
        ("the shared model steps twice", "return fit(w, track=True) +", "return 2 * fit(w, track=True) +"),
        ("shares are swapped", "share * own + (1 - share) * w.d", "(1 - share) * own + share * w.d"),
    ),
    *of_file(
        "algorithms/personal/apfl.py",
        ("the own model becomes the mixture", '{"v": own, "a"', '{"v": self.personal(party), "a"'),
        (
            "the share's gradient is at the own model",
            "gradient(share * own + (1 - share) * shared",
            "gradient(own",
        ),
        ("the share's gradient forgets the shared model", "(own - shared).dot", "own.dot"),
        ("the share goes uphill", "share - party.lr", "share + party.lr"),
        ("the share leaves its range", ".clamp(0, 1)", ""),
        ("the share is forgotten", '"a": self._share(party)', '"a": party.state["a"]'),
        (
            "the own model begins where the run began",
            'party.state["v"], party.received["w"])',
            'party.state["v"], party.state["v"])',
        ),
        ("who never trained mixes", "mixture, shared)", "mixture, mixture)"),
        ("everybody trains before use", "return not known", "return True"),
    ),
    *of_file(
        "algorithms/personal/l2gd.py",
        ("the pull has the rate of a step", "self.lam * (1 - self.p) / self.p", "self.lam"),
        ("everybody takes steps before use", "return not known", "return True"),
        ("a newcomer takes one step", "steps=round(1 / self.p)", "steps=1"),
        ("the pull forgets lam", "party.lr * self.lam *", "party.lr *"),
        ("one pull for several", " ** self.coins(party.task, party.round)[0]", ""),
        ("pulled away from the mean", "(1 - kept) * party", "(kept - 1) * party"),
        ("pulls and steps are swapped", "self.coins(task, round)[1]", "self.coins(task, round)[0]"),
        ("the coin is turned round", "_tossed(task.seed, round, self.p)", "_tossed(task.seed, round, 1 - self.p)"),
        ("the coin is the same in every round", "_tossed(task.seed, round, ", "_tossed(task.seed, 0, "),
        ("a party is counted twice", '"x": w - self.personal(party)', '"x": w'),
        ("only what training changed is counted", '"x": w - self.personal(party)', '"x": w - self.start(party)'),
        ("a party is new each time", '"known": known * 0 + 1', '"known": known'),
        ("the mean is of those who answered", 'replies.sum["x"] / count', 'replies.sum["x"] / replies.size'),
        ("who comes late counts as nothing", '"new": 1 - known', '"new": 0 * known'),
        (
            "who comes late begins where the run began",
            'party.state["x"], party.received["w"])',
            'party.state["x"], party.state["x"])',
        ),
        (
            "everybody uses the mean",
            'party.state["x"], party.received["w"])',
            'party.received["w"], party.received["w"])',
        ),
    ),
]

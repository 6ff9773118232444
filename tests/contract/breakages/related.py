"""What can be wrong with FedAMP, HeurFedAMP and MOCHA, and the tests that notice."""

from tests.algorithms.personal import test_related as tests
from tests.contract.mutations import of_file
from unalike.algorithms import FedAmp, Mocha
from unalike.engines.sequential import Sequential

ONE = Sequential()
MUTATIONS = of_file(
    "algorithms/personal/related.py",
    (
        "nothing pulls: the term is centred at the model itself",
        'return party.received["mu"], party.received["u"]',
        'return party.received["mu"], self.start(party)',
    ),
    ("the pull is not used", 'return party.received["mu"]', 'return party.received["mu"] * 0'),
    ("absent parties' models are forgotten", 'w, seen = server["w"].clone()', 'w, seen = server["w"] * 0'),
    ("absent parties are forgotten", ', server["seen"].clone()', ', server["seen"] * 0'),
    (
        "parties never seen are mixed in",
        'server["seen"] > 0',
        'server["seen"] >= 0',
    ),
    ("all count in the mean for newcomers", "(known if len(known) else w).mean", "w.mean"),
    ("newcomers keep the initial model", "> 0, party.state", ">= 0, party.state"),
    (
        "a party forgets that it trained",
        'party.state["trained"] * 0 + 1',
        'party.state["trained"]',
    ),
    ("training starts from the pull", "return self.personal(party)", 'return party.received["u"]'),
    ("distances are not squared", "gaps = (squares", "gaps = torch.sqrt(squares"),
    ("all together are as near as one", "self.share / others * torch", "self.share * torch"),
    ("the mean is over all pairs twice", "gaps.sum() / (len(w) * others)", "gaps.sum() / len(w)"),
    ("far is near", "torch.exp(-gaps", "torch.exp(gaps"),
    ("one's own model is mixed in twice", "return others + (1", "return xi + (1"),
    ("rows do not sum to 1", "(1 - others.sum(dim=1))", "(1 - others.sum(dim=1) / 2)"),
    ("another party's mixture", "self.mixture(w) @ w", "self.mixture(w).flip(0) @ w"),
    ("lengths count, not angles", "(products / norms / norms[:, None] - 1)", "(products - 1)"),
    ("one's own model is in the softmax", "- 1)).fill_diagonal_(0)", "- 1))"),
    ("the others have all of it", "(1 - self.own) * alike", "alike"),
    ("a sum in place of the mean of all products", "roots / roots.sum()", "squares / squares.sum()"),
    ("Sigma in place of Omega", "directions / spectrum", "directions * spectrum"),
    ("a ridge that grows with the parties", "self.ridge / count", "self.ridge"),
    ("Sigma's trace is above 1", "/ (1 + self.ridge)", "/ 1"),
    ("the row of another party", "others.to(w) @ w, (", "others.to(w).flip(0) @ w, ("),
    ("pushed away from related parties", "others = -(omega", "others = (omega"),
    ("all pulls are as strong", "(self.lam / len(w) * own)", "(self.lam * own / own)"),
    ("the paper's lam", "(self.lam / len(w) * own)", "(self.lam * own)"),
    ("one's own model in its own centre", "own[:, None]).fill_diagonal_(0)", "own[:, None])"),
)
CHECKS = [
    (tests.test_fedamps_mixtures_are_means_and_far_groups_do_not_see_each_other,),
    (tests.test_fedamps_distances_are_in_units_of_their_mean,),
    (tests.test_heurfedamps_mixture_is_a_softmax_of_cosines_beside_ones_own_share,),
    (tests.test_mochas_omega_is_the_inverse_of_the_root_of_all_products, 3, 5),
    (tests.test_mochas_pull_on_parties_that_have_nothing_in_common_is_a_weight_decay,),
    (tests.test_mochas_parties_are_pulled_by_their_own_row_of_omega,),
    *(
        (tests.test_only_parties_that_were_seen_are_mixed_and_the_others_get_their_mean, c)
        for c in (FedAmp, Mocha)
    ),
    (tests.test_without_a_pull_it_is_training_alone, ONE, FedAmp),
    (tests.test_newcomers_use_the_mean_of_the_models_that_were_seen, "fedamp"),
    (tests.test_parties_minimise_their_own_loss_near_their_own_pull, ONE, FedAmp),
    (tests.test_two_parties_of_fedamp_rest_where_loss_and_pull_are_in_balance, "one"),
    (tests.test_mocha_with_a_fixed_relation_reaches_the_optimum,),
]

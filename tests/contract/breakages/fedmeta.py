"""What breaks FedMeta, with MAML and with Meta-SGD, and the tests that notice."""

from tests.algorithms.personal import test_fedmeta
from tests.contract.mutations import of_file
from unalike.algorithms import FedMetaSgd
from unalike.engines.sequential import Sequential

ONE = Sequential()
MUTATIONS = [
    *of_file(
        "algorithms/personal/fedmeta.py",
        ("H is left out", 'if self.order == "exact" else 0', "if False else 0"),
        ("H is added", "outer - through", "outer + through"),
        ("H is that of the query rows", "alpha * outer, support)", "alpha * outer, query)"),
        ("the party's step goes uphill", "w - alpha * inner", "w + alpha * inner"),
        (
            "the gradient is that before the step",
            "task.gradient(w - alpha * inner, query)",
            "task.gradient(w, query)",
        ),
        ("support rows are tried on themselves", "alpha * inner, query)", "alpha * inner, support)"),
        ("the server goes uphill", "server[key] - lr * step", "server[key] + lr * step"),
        ("parties count by their rows", "return equal_weight(party)", "return party.size"),
        ("query rows hold the support rows too", "real - chosen, real)", "real, real)"),
        ("the rates' gradient has the wrong sign", "-inner * outer", "inner * outer"),
        ("the rates' gradient lacks the party's own", "-inner * outer", "-outer"),
        ("the rates are learnt as fast as the start", '"alpha": self.alpha_lr}', '"alpha": self.server_lr}'),
        ("the learnt rates are not used", 'return party.received["alpha"]', "return self.alpha"),
        ("Adam's bias stays", "first / (1 - BETA1**steps)", "first"),
        ("the model is adapted at the run's rate", "grad * self.alpha_of(party) * pace", "grad * pace"),
    ),
    *of_file(
        "models/derivatives.py",
        ("H is applied twice", "curved: Tensor = grad(slope)(w.detach())", "curved = 2 * grad(slope)(w.detach())"),
    ),
]
CHECKS = [
    (test_fedmeta.test_the_fixed_point_tells_the_orders_apart, ONE, "exact", 2),
    (test_fedmeta.test_meta_sgd_learns_its_rates_by_their_gradient, ONE),
    (test_fedmeta.test_without_a_step_of_its_own_it_is_fedsgd, ONE, FedMetaSgd),
    (test_fedmeta.test_the_servers_steps_are_those_of_torchs_adam,),
    (test_fedmeta.test_a_round_is_autograd_through_the_step_on_the_support_rows, "sequential", 0.2),
    (test_fedmeta.test_parties_use_their_model_after_a_step_of_the_learnt_rates, "sequential"),
]

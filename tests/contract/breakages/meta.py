"""What breaks Per-FedAvg and Reptile, and the tests that notice."""

from tests.algorithms.personal import test_meta
from tests.contract.mutations import of_file
from unalike.engines.sequential import Sequential

ONE = Sequential()
MUTATIONS = [
    *of_file(
        "algorithms/personal/meta.py",
        ("H is left out of every order", 'or self.order == "fo":', 'or self.order != "":'),
        ("H is added", "gradient - self.alpha * self._bend", "gradient + self.alpha * self._bend"),
        ("H has no alpha before it", "gradient - self.alpha * self._bend", "gradient - self._bend"),
        ("the step of alpha goes uphill", "descend(here, first, self.alpha)", "descend(here, first, -self.alpha)"),
        ("both ends of the difference are one", "task.gradient(w - step, batch)", "task.gradient(w, batch)"),
        ("the model is adapted at the run's rate", 'if party.phase == "adapt" else None', "if False else None"),
        ("several passes go as far as one", "self.alpha * self.adapt_epochs)", "self.alpha)"),
        ("Reptile's rate is forgotten", 'self.server_lr * replies.mean["delta"]', 'replies.mean["delta"]'),
        ("Reptile goes away from the mean", '+ self.server_lr * replies.mean["delta"]', '- replies.mean["delta"]'),
    ),
    *of_file(
        "algorithms/terms.py",
        ("the gradient is that before the step", "w + (there - here), second", "w, second"),
        (
            "the same rows serve as D and D'",
            "first, second = dealt(party, batch, 2) if",
            "first, second = dealt(party, batch, 2)[:1] * 2 if",
        ),
        ("padding is dealt out", "real * (place == k)", "(place == k) * 1.0"),
        ("a part without rows is the mean of nothing", "torch.where(mask.sum() > 0, mask, real)", "mask"),
    ),
    *of_file(
        "algorithms/personal/descent.py",
        ("momentum goes further than is counted", "party.lr * party.step_sum", "party.lr * party.steps"),
        ("each batch goes as far as a pass", "party.lr * party.step_sum", "party.lr"),
        ("parties count by their rows", "return party.size / party.size", "return party.size"),
    ),
]
CHECKS = [
    *(
        (test_meta.test_the_fixed_point_tells_the_orders_apart, ONE, order, power, "same")
        for order, power in (("fo", 1), ("hf", 2), ("exact", 2))
    ),
    (test_meta.test_reptile_goes_a_part_of_the_way_to_the_plain_mean, ONE, 0.5),
    *((test_meta.test_a_batch_is_dealt_out_by_its_real_rows, count, 3) for count in (2, 7)),
    (test_meta.test_batches_are_apart,),
    (test_meta.test_parties_use_their_model_after_one_step_on_all_their_training_rows, "sequential"),
    *(
        (test_meta.test_passes_go_as_far_as_as_many_steps_on_all_rows, size, optimiser)
        for size, optimiser in ((1, "sgd"), (64, "sgd(momentum=0.9)"))
    ),
]

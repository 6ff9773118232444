"""Breakages of judging many personal models at once."""

from tests.contract.mutations import of_file
from tests.rounds import test_evaluation, test_together
from unalike.rounds import together


class _As:
    """A monkeypatch that leaves everything as it is."""

    @staticmethod
    def setattr(*_):
        pass


MUTATIONS = [
    *of_file(
        "rounds/together.py",
        ("padding is judged, too", "if real.all():", "if real.any():"),
        ("the lines come in the order of the blocks", "if order == numbers:", "if order:"),
        (
            "all parties of a stack have the first one's model",
            "torch.stack([w for w, _ in models])",
            "torch.stack([models[0][0] for _ in models])",
        ),
        (
            "in turn, everybody has the last one's model",
            "outputs_of(task, w, Batch(own, true",
            "outputs_of(task, models[-1][0], Batch(own, true",
        ),
    ),
    *of_file(
        "rounds/evaluation.py",
        (
            "validation rows pass for held-out ones",
            "np.concatenate(parts) for",
            "np.concatenate(parts[::-1]) for",
        ),
        ("own models on rows with their labels alone", "rows.test_by_all, chosen", "rows.test_by_labels, chosen"),
    ),
]
CHECKS = [
    (test_together.test_as_one_by_one, {}, "accuracy", together.STACK_ROWS, _As),
    (
        test_together.test_as_one_by_one,
        {"model": "test-norm-body", "batch_size": 64},
        "accuracy",
        together.STACK_ROWS,
        _As,
    ),
    (test_together.test_as_one_by_one, {"model": "mlp(6,4)|logistic"}, "accuracy", together.STACK_ROWS, _As),
    (test_evaluation.test_personal_models_on_all_test_rows,),
    (test_together.test_validation_and_held_out_rows_are_told_apart, {}),
]

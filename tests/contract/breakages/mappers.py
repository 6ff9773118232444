"""What breaks Mapper and Dapper, bugs of published code among it."""

from tests.algorithms.personal import test_mapper
from tests.contract.mutations import of_file
from unalike.engines.sequential import Sequential

CHECKS = [
    (test_mapper.test_mappers_rounds_are_the_papers, Sequential(), (0.2, 0.7), None),
    (test_mapper.test_dappers_models_are_trained_on_the_mixture_of_rows, Sequential()),
    (test_mapper.test_dappers_newcomers_take_the_middle_of_the_grid,),
    (test_mapper.test_mapper_chooses_on_validation_rows,),
    (test_mapper.test_dapper_chooses_on_validation_rows_and_deploys_with_its_choice, "sequential"),
]
MUTATIONS = of_file(
    "algorithms/personal/mapper.py",
    ("Mapper chooses on training rows", 'phase=SHARED, rows="validation"', "phase=SHARED"),
    (
        "only the last party counts",
        '* 0 + 1}\n        return {"delta": w - party.received["w"]}',
        '* 0 + 1}\n        return {"delta": (party.number == 2) * (w - party.received["w"])}',
    ),
    ("the worst is chosen", "losses.argmin()", "losses.argmax()"),
    (
        "the own gradient is taken at the own model",
        'share * w + (1 - share) * party.received["w"], batch',
        "w, batch",
    ),
    (
        "the shared model is trained as if there were no own",
        "party.task.loss(self._mixture(party, self._choice(party), w), batch)",
        "party.task.loss(w, batch)",
    ),
    ("the choice is between own models", "share * v + (1 - share) * shared for", "v for"),
    (
        "one own model for all shares",
        "_with_row(self._own(party), int(party.phase), w)",
        "0 * self._own(party) + w",
    ),
    ("own models begin anew", "else self._own(party)[int(party.phase)]", 'else party.received["w"]'),
    ("the shared model is left out", "@ self._own(party)) + (1 - share) *", "@ self._own(party)) + 0 *"),
    ("Dapper chooses on training rows", 'self.send(task, server), rows="validation"', "self.send(task, server)"),
    (
        "public rows count as own ones",
        "share * own + (1 - share) * party.task",
        "(1 - share) * own + share * party.task",
    ),
    ("the same public rows in each step", "batch.step * self.rows + torch", "torch"),
    ("public rows are left out", "* party.task.loss(w, self._public(party.task, batch), track=False)", "* own"),
    ("the choice is forgotten", '"lam": _best(party).dot(w.new_tensor(self.grid))', '"lam": state["lam"]'),
    ("the choice is not used", 'party.state["lam"] if', "self.grid[0] if"),
    ("newcomers take the first of the grid", "self.grid[len(self.grid) // 2]", "self.grid[0]"),
    (
        "one model for all shares",
        '_with_row(party.state["models"], int(party.phase), w)',
        '0 * party.state["models"] + w',
    ),
)

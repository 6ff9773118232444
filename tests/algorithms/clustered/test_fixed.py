"""Groups that are known before training: one FedAvg in each of them."""

import pytest
import torch

from tests.algorithms.clustered.planted import GROUPS, SIGNS, group_means, members, opposed, rounds_from
from tests.helpers import ENGINES, EVERY_ENGINE
from unalike.algorithms import Groups
from unalike.errors import UserError
from unalike.runs.small import play, small_simulation


@EVERY_ENGINE
def test_one_group_is_fedavg_to_the_bit(engine):
    one = play(small_simulation("groups(clusters=1)", engine=engine), 3).state
    average = play(small_simulation("fedavg", engine=engine), 3).state
    assert torch.equal(one.server["w"][0], average.server["w"])


@ENGINES
@pytest.mark.parametrize("of", [GROUPS, ()], ids=["named", "modulo"])
def test_each_group_ends_at_its_own_optimum(engine, of):
    """The planted groups are the parties' numbers modulo 3, so both ways to name them are the same."""
    models, states = rounds_from(Groups(3, of=of), torch.zeros(3, 2, dtype=torch.float64), 60, engine=engine)
    assert members(states) == list(GROUPS)
    assert torch.allclose(models, group_means(), atol=1e-9)


@ENGINES
def test_groups_are_those_that_are_named(engine):
    named = (1, 0, 2, 2, 2, 1, 0)
    start = torch.zeros(3, 2, dtype=torch.float64)
    assert members(rounds_from(Groups(3, of=named), start, 1, engine=engine)[1]) == list(named)
    assert members(rounds_from(Groups(3), start, 1, engine=engine)[1]) == [k % 3 for k in range(7)]


def test_all_groups_start_from_the_runs_weights():
    simulation = small_simulation("groups(clusters=3)")
    assert torch.equal(simulation.state.server["w"], simulation.initial.expand(3, -1))


def test_parties_and_newcomers_use_the_model_of_their_group():
    simulation = play(opposed(f"groups(clusters=2, of={SIGNS})", models=(0.1, 0.1), newcomers=0.25), 3)
    models = simulation.models(simulation.state)
    for number, group in enumerate(SIGNS):
        assert torch.equal(models.personal(number)[0], simulation.state.server["w"][group])
    assert simulation.figures(simulation.state)["newcomers"]["worst"] > 0.9
    by_loss = play(opposed(f"groups(clusters=2, of={SIGNS}, tried=loss)", newcomers=0.25), 3)
    assert torch.equal(by_loss.models(by_loss.state).personal(1)[0], by_loss.state.server["w"][SIGNS[1]])


def test_a_group_of_few_is_never_opened_where_single_uploads_are_hidden():
    hidden = opposed("groups(clusters=2, of=(0, 0, 0, 1, 1))", (0, 0, 0, 1, 1), channel="masked")
    before = hidden.state.server["w"]
    after = play(hidden, 1).state.server["w"]
    assert (after[0] != before[0]).any()
    assert torch.equal(after[1], before[1])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("groups(clusters=2, of=(0, 2, 1, 0, 0, 0))", r"Groups\.of must name groups from 0 to 1, got 2"),
        ("groups(clusters=2, of=(0, 1))", r"Groups\.of must name a group for each of 6 parties, got 2"),
        ("groups(clusters=0)", r"Groups\.clusters must be >= 1, got 0"),
        ("groups(tried=best)", "tried"),
    ],
)
def test_bad_groups_are_refused(text, line):
    with pytest.raises(UserError, match=line):
        small_simulation(text)

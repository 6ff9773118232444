"""Cohorts by declared label counts at real sites: in the plan, told before consent, the bits of simulation."""

import pytest

from tests.federation.inside import HOSPITALS, World
from unalike.cli.federation.terms import show_terms
from unalike.data.table import read_table
from unalike.errors import UserError
from unalike.federation.plan import Plan
from unalike.federation.terms import terms_of

COUNTS = "30 10|5 40|20 20"
TRAIN = {"algorithm": "fedavg", "model": "mlp(6)", "rounds": 3, "sample": 0.67}
GOOD = {"name": "heart", "parties": sorted(HOSPITALS), "server": "ab" * 32, "address": "localhost:1"}


@pytest.mark.parametrize("rule", ["label-balanced", "clustered"])
def test_sites_work_out_who_is_asked_and_the_bits_are_those_of_simulation(tmp_path, rule):
    world = World.make(tmp_path, train=TRAIN | {"cohort": f'{rule}(declared="{COUNTS}")'})
    result = world.serve()
    simulation, rows = world.simulation(world.played)
    assert result["server_sha256"] == simulation.state.server_digest()
    assert [len(row["members"]) for row in rows] == [2, 2, 2]


def test_a_plan_that_does_not_declare_counts_is_refused():
    with pytest.raises(UserError, match="label counts of each party, which are not known here"):
        Plan.from_mapping({**GOOD, "train": TRAIN | {"cohort": "label-balanced"}})
    with pytest.raises(UserError, match="goes by losses that the server alone would know"):
        Plan.from_mapping({**GOOD, "train": TRAIN | {"cohort": "power-of-choice"}})
    with pytest.raises(UserError, match="are of 2 parties, but 3"):
        Plan.from_mapping({**GOOD, "train": TRAIN | {"cohort": 'clustered(declared="1 2|3 4")'}})


def test_a_plan_without_a_rule_has_the_digest_of_a_time_without_rules():
    plan = Plan.from_mapping({**GOOD, "train": TRAIN})
    assert "cohort" not in plan.train
    assert plan.digest == Plan.from_mapping({**GOOD, "train": TRAIN | {"cohort": "uniform"}}).digest
    chosen = TRAIN | {"cohort": f'clustered(declared="{COUNTS}")'}
    assert Plan.from_mapping({**GOOD, "train": chosen}).digest != plan.digest


def test_a_site_is_told_what_the_plan_tells_of_it(tmp_path, capsys):
    world = World.make(tmp_path, train=TRAIN | {"cohort": f'label-balanced(declared="{COUNTS}")'})
    name = world.plan.parties[1]
    terms = terms_of(world.plan, name, read_table(f"csv:{tmp_path / 'tables' / name}.csv"))
    show_terms(terms, name, "the table")
    told = " ".join(capsys.readouterr().out.split())
    assert "2 of 3 sites in a round, chosen by declared label counts." in told
    assert f"{name} 5 40" in told

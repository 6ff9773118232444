"""What a person must mend reaches the file that ``run`` reads, in one line."""

from dataclasses import replace

from tests.federation.inside import World
from unalike.federation import attempts
from unalike.federation.attempts import Attempts


def test_a_changed_plan_is_refused_by_the_site_and_told_to_the_server(tmp_path):
    world = World.make(tmp_path)
    replace(world.plan, train={**world.plan.train, "rounds": 50}).write(tmp_path / "server")
    attempts.serve(world.transport, tmp_path / "server")
    outcome = Attempts(tmp_path / "server").outcome()
    assert outcome.how == "refused"
    assert "another plan" in outcome.reason
    assert "\n" not in outcome.reason


def test_columns_that_do_not_fit_are_named_with_their_site(tmp_path):
    world = World.make(tmp_path)
    path = tmp_path / "tables" / "va.csv"
    head, *rows = path.read_text().splitlines()
    assert head.split(",")[4] == "chol"
    words = [
        ",".join([*row.split(",")[:4], "high" if i % 2 else "low", *row.split(",")[5:]])
        for i, row in enumerate(rows)
    ]
    path.write_text("\n".join([head, *words]) + "\n")
    world.start(13, "va")
    attempts.serve(world.transport, tmp_path / "server")
    outcome = Attempts(tmp_path / "server").outcome()
    assert outcome.how == "refused"
    assert "column chol" in outcome.reason
    assert "va has texts" in outcome.reason

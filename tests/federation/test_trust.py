"""Nobody is believed: a site that says it is another, two sums that would show one update, a plan that changed."""

from dataclasses import replace

import pytest

from tests.federation.inside import World
from tests.federation.test_serving import assert_same
from unalike.crypto.primitives import new_secret
from unalike.federation import attempts
from unalike.federation.attempts import Attempts
from unalike.federation.site import Site
from unalike.federation.summing import Unmasked
from unalike.federation.wire import Refused


def test_who_claims_to_be_another_party_is_not_believed(tmp_path):
    world = World.make(tmp_path)
    table = f"csv:{tmp_path / 'tables' / 'va.csv'}"
    thief = Site(tmp_path / "thief", "va", world.plan, table, new_secret())
    world.transport.sites = {1: thief, **world.transport.sites, 99: thief}
    world.serve()
    assert_same(world, world.simulation()[0])
    assert not (tmp_path / "thief" / "agreed.json").exists()


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


def test_one_exchange_is_unmasked_for_one_set_of_parties(tmp_path):
    first = Unmasked(tmp_path / "unmasked.json")
    first.once("1-0", ["b", "a", "c"])
    again = Unmasked(tmp_path / "unmasked.json")  # after a restart
    again.once("1-0", ["a", "b", "c"])
    with pytest.raises(Refused, match="one party"):
        again.once("1-0", ["a", "b"])
    again.once("1-1", ["a", "b"])

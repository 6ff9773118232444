"""An algorithm of one's own between real sites: mistakes are a line, and tell nobody what is in a site's rows."""

import pytest

from tests.federation.inside import World
from unalike.algorithms import Algorithm, algorithm
from unalike.errors import UserError
from unalike.federation.envelope import peek

NAME = "broken-at-a-site"


def mine(**methods):
    algorithm(NAME)(type("Mine", (Algorithm,), methods | {"__module__": __name__, "__doc__": "Mine."}))


def test_the_server_notices_before_any_site_is_asked(tmp_path):
    mine(upload=lambda self, party, w: {"delta": w - party.received["w"]})
    world = World.make(tmp_path, train={"algorithm": NAME})
    with pytest.raises(UserError, match=r"Mine.upload \(test_own_algorithm.py, line \d+\) must return two dicts"):
        world.serve()


def test_what_fails_on_a_sites_rows_stays_there(tmp_path, capsys):
    def loss(self, party, w, batch):
        if len(batch.y) > 4:  # not on the four made-up rows that the server tries first
            raise ValueError(f"the first patient is {batch.x[0].tolist()}")
        return party.task.loss(w, batch)

    mine(loss=loss)
    world = World.make(tmp_path, train={"algorithm": NAME}, deadline=1)
    with pytest.raises(UserError):
        world.serve()
    reasons = [peek(raw).header["reason"] for _, _, raw in world.transport.log if peek(raw).kind == "error"]
    assert reasons
    assert set(reasons) == {"the site failed (ValueError); what it prints says more"}
    assert "the first patient is" in capsys.readouterr().err  # for the people at the site

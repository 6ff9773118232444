"""Training first, then a pass over all rows with what training gave: ``Ask("train+measure")``."""

import numpy as np
import pytest
import torch

from tests.algorithms.regularised import features_by_hand, loss_by_hand
from tests.helpers import recorded, use_algorithm
from unalike.algorithms import Algorithm, Ask
from unalike.algorithms.contract import Phase
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised
from unalike.runs.small import distance, play, small_simulation

ENGINES = {"sequential": Sequential(), "stacked": Vectorised(), "one by one": Vectorised(chunk_bytes=1)}
EACH = pytest.mark.parametrize("engine", ENGINES)


class LooksBack(Algorithm):
    """Uploads what the pass over all rows saw under the trained model."""

    needs_each = True
    kind = "train+measure"

    def round(self, task, server):
        replies = yield Ask(self.kind, self.send(task, server))
        return self.fold(task, server, replies)

    def measure(self, party, batch):
        w = party.received["w"] if party.trained is None else party.trained
        return {"loss": party.task.loss(w, batch), "phi": batch.mean(party.task.features(w, batch))}

    def upload(self, party, w):
        trained = w * 0 if party.trained is None else party.trained
        return {"delta": w - party.received["w"], "trained": trained, **party.measured}, party.state


def played(algorithm, engine, rounds=2, **fields):
    """A simulation of it in float64, and the replies of its last round."""
    simulation = small_simulation("fedavg", dtype="float64", **fields)
    use_algorithm(simulation, algorithm).engine = ENGINES[engine]
    play(simulation, rounds - 1)
    before, replies = simulation.state.server["w"], recorded(simulation)
    play(simulation, 1)
    return simulation, before, replies[-1]


@EACH
def test_the_pass_after_training_knows_the_steps_of_the_last_phase(engine):
    class Counts(LooksBack):
        def phases(self, task, round):
            return Phase("many", steps=30), Phase("last", epochs=1)

        def measure(self, party, batch):
            return {"steps": batch.mean(party.steps.expand(len(batch.y)))}

    simulation, _, replies = played(Counts(), engine)
    for number, upload in replies.each.items():
        rows = len(simulation.federation.parties[number].train)
        assert upload["steps"] == -(-rows // simulation.spec.batch_size)


@EACH
@pytest.mark.parametrize("most", [3, 16, 1024])
def test_all_rows_are_seen_under_the_partys_own_trained_weights(engine, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unalike.rounds.local.MEASURE_ROWS", most)
        simulation, before, replies = played(LooksBack(), engine)
    assert sorted(replies.each) == simulation.cohort(2)
    for number, upload in replies.each.items():
        trained = before + upload["delta"]
        assert torch.allclose(upload["trained"], trained, rtol=0, atol=1e-14)
        rows = torch.from_numpy(simulation.federation.parties[number].train)
        x, y = (part.numpy() for part in simulation.federation.train.take(rows))
        phi = features_by_hand(simulation.task, trained, x).mean(axis=0)
        assert np.allclose(upload["phi"], phi, rtol=0, atol=1e-12)
        assert float(upload["loss"]) == pytest.approx(loss_by_hand(simulation.task, trained, x, y), abs=1e-12)


@EACH
def test_training_is_that_of_any_other_exchange(engine):
    simulation, _, _ = played(LooksBack(), engine)
    plain = play(small_simulation("fedavg", dtype="float64", engine="sequential"), 2)
    assert distance(simulation.state.tensors(), plain.state.tensors())[0] < 1e-12


@EACH
def test_before_training_there_are_no_trained_weights(engine):
    class LooksAhead(LooksBack):
        kind = "measure+train"

    simulation, before, replies = played(LooksAhead(), engine)
    for number, upload in replies.each.items():
        assert not upload["trained"].any()
        rows = torch.from_numpy(simulation.federation.parties[number].train)
        x, y = (part.numpy() for part in simulation.federation.train.take(rows))
        assert float(upload["loss"]) == pytest.approx(loss_by_hand(simulation.task, before, x, y), abs=1e-12)


@EACH
def test_the_share_of_all_rows_that_the_cohort_holds(engine):
    simulation, _, replies = played(LooksBack(), engine, public=0, held_out=0, validation=0)
    sizes = np.array([len(party.train) for party in simulation.federation.parties])
    assert sizes.tolist() == [3, 8, 11, 16, 37, 50]
    assert replies.share == pytest.approx(sizes[simulation.cohort(2)].sum() / sizes.sum())
    assert 0 < replies.share < 1
    _, _, everybody = played(LooksBack(), engine, sample=1.0)
    assert everybody.share == 1

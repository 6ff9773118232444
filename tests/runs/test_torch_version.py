"""A checkpoint names the version of torch: its bits are not mixed with those of another one."""

import pytest
import torch

import unalike
from tests.federation.inside import World
from unalike.errors import UserError
from unalike.runs.folder import RunDirectory
from unalike.runs.run import Watcher
from unalike.runs.small import small_dataset

FIELDS = {"partition": "natural", "epochs": 1, "rounds": 4, "model": "mlp(4)"}


class Stopping(Watcher):
    """Remembers what is said, and stops the run after a round."""

    def __init__(self, after=None):
        self.after, self.said, self.played = after, [], []

    def say(self, message):
        self.said.append(message)

    def round_done(self, row):
        self.played.append(row["round"])
        if row["round"] == self.after:
            raise KeyboardInterrupt


def go(runs, watcher):
    return unalike.run(data=small_dataset(), runs=runs, watcher=watcher, checkpoint_seconds=0, **FIELDS)


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_run_goes_on_with_the_same_torch_alone(tmp_path, monkeypatch, upgraded):
    whole = go(tmp_path / "whole", Stopping())
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "runs", Stopping(after=2))
    if upgraded:
        monkeypatch.setattr(torch, "__version__", "9.9.0")
    watcher = Stopping()
    result = go(tmp_path / "runs", watcher)
    assert watcher.played == ([1, 2, 3, 4] if upgraded else [3, 4])
    assert any("another version of torch than 9.9.0 made it" in line for line in watcher.said) == upgraded
    assert result.figures["torch"] == torch.__version__
    assert result.figures["weights_sha256"] == whole.figures["weights_sha256"]


@pytest.mark.parametrize("moved", [False, True])
def test_a_run_says_that_it_goes_on_on_another_kind_of_cpu(tmp_path, monkeypatch, moved):
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, Stopping(after=2))
    here = torch.backends.cpu.get_cpu_capability()
    if moved:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "OTHER")
    watcher = Stopping()
    result = go(tmp_path, watcher)
    assert watcher.played == [3, 4]
    said = [line for line in watcher.said if "another kind of CPU" in line]
    assert [f"({here}, here OTHER)" in line for line in said] == [True] * moved
    assert result.figures["cpu"] == ("OTHER" if moved else here)


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_federation_goes_on_with_the_same_torch_alone(tmp_path, monkeypatch, upgraded):
    """Whether to begin anew is for its people to decide: sites have taken part."""
    world = World.make(tmp_path)
    append = RunDirectory.append_round

    def stop(self, row):
        append(self, row)
        if row["round"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunDirectory, "append_round", stop)
    with pytest.raises(KeyboardInterrupt):
        world.serve()
    monkeypatch.setattr(RunDirectory, "append_round", append)
    if not upgraded:
        assert world.serve()["rounds"] == 3
        return
    monkeypatch.setattr(torch, "__version__", "9.9.0")
    with pytest.raises(UserError, match=r"holds a training of another torch \(.*, now 9.9.0\). Go on with that"):
        world.serve()

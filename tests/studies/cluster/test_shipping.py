"""A run's folder goes to another host and back, and is whole whenever that is interrupted."""

from __future__ import annotations

import pytest

from unalike.errors import UserError
from unalike.runs import files
from unalike.runs.record import read_run
from unalike.runs.run import run
from unalike.runs.spec import RunSpec
from unalike.studies.cluster import shipping
from unalike.studies.cluster.shipping import packed, unpack

SPEC = RunSpec(dataset="digits", rounds=3, steps=1, engine="sequential")


def contents(folder):
    return packed(folder)[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that stopped after two rounds, and what it came to."""
    runs = tmp_path_factory.mktemp("made")
    run(SPEC, runs=runs, until=2, checkpoint_seconds=0)
    half = packed(runs / SPEC.folder)
    whole = run(SPEC, runs=runs)
    return half, packed(runs / SPEC.folder), whole.figures["weights_sha256"]


def test_a_run_goes_on_where_its_folder_was_sent(tmp_path, made):
    (half, names), _, weights = made
    assert "result.json" not in half
    unpack(tmp_path / SPEC.folder, half, names)
    assert run(SPEC, runs=tmp_path).figures["weights_sha256"] == weights


def test_only_what_has_changed_is_sent_and_what_is_gone_is_removed(tmp_path, made):
    (half, names), (whole, later), _ = made
    here, there = tmp_path / "here", tmp_path / "there"
    unpack(here, half, names)
    known = {}
    unpack(there, *packed(here, known))
    assert packed(here, known)[0] == {}
    (there / "lock").touch()  # of the process that receives
    (there / "lease-1").touch()
    unpack(here, {name: data for name, data in whole.items() if half.get(name) != data}, later)
    changed, now = packed(here, known)
    assert "spec.toml" not in changed
    unpack(there, changed, now)
    assert contents(there) == contents(here) == whole
    assert (there / "lock").exists()
    assert (there / "lease-1").exists()


def test_whenever_it_is_interrupted_the_folder_is_one_that_a_killed_process_leaves(tmp_path, made, monkeypatch):
    """Never a result without its rounds and weights, never a checkpoint ahead of the rounds."""
    (half, names), (whole, later), weights = made
    for count in range(len(whole)):
        runs = tmp_path / str(count)
        folder = runs / SPEC.folder
        unpack(folder, half, names)
        written = []

        def write(path, data, written=written, count=count):
            if len(written) == count:
                raise OSError("killed")
            written.append(path)
            files.atomic_write(path, data)

        monkeypatch.setattr(shipping, "atomic_write", write)
        with pytest.raises(OSError, match="killed"):
            unpack(folder, whole, later)
        monkeypatch.setattr(shipping, "atomic_write", files.atomic_write)
        found = read_run(folder, weights=True)
        assert found.damage is None
        assert found.result is None
        said = []
        assert run(SPEC, runs=runs, watcher=Heard(said)).figures["weights_sha256"] == weights
        assert said == [f"Going on after round {3 if count > 3 else 2} of 3."] or "Going on" in said[0]


class Heard:
    def __init__(self, said):
        self.say = said.append
        self.started = self.round_done = lambda what: None


@pytest.mark.parametrize("name", ["../other", "/etc/passwd", "a/../../b", "a\\b"])
def test_a_file_beside_the_folder_is_refused(tmp_path, name):
    with pytest.raises(UserError, match="not in the run's folder"):
        unpack(tmp_path / "run", {name: b"x"}, [name])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../spec.toml", "/tmp/spec.toml", "own/../../spec.toml", "..\\spec.toml"])
def test_a_file_outside_the_folder_is_not_written_whether_it_is_listed_or_not(tmp_path, name):
    folder = tmp_path / "run"
    for names in ([name], []):
        with pytest.raises(UserError, match=r"which is not in the run's folder\. Is it your cluster\?"):
            unpack(folder, {name: b"x"}, names)
    assert not list(tmp_path.iterdir())

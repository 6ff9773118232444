"""``unalike.run``: train once from Python, with fields that editors know and progress that people see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from unalike.data import Dataset, load_dataset
from unalike.engines.many.machines import Machines
from unalike.notebook.display import following
from unalike.runs import run as engine
from unalike.runs.checkpoint import CHECKPOINT_SECONDS
from unalike.runs.fields import with_fields
from unalike.runs.paused import Paused
from unalike.runs.result import Result
from unalike.runs.spec import RunSpec

if TYPE_CHECKING:
    from unalike.runs.run_fields import RunFields


def run(
    spec: RunSpec | None = None,
    *,
    runs: Path | str | None = None,
    data: Dataset | None = None,
    watcher: engine.Watcher | None = None,
    progress: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    load: Callable[[str], Dataset] = load_dataset,
    workers: int | None = None,
    cluster: str | None = None,
    worker_cpus: float | None = None,
    mixed_workers: bool = False,
    **fields: Unpack[RunFields],
) -> Result:
    """Train once. ``run(dataset="heart", partition="natural", algorithm="fedprox(mu=0.1)")``

    What is trained is said by the fields of RunSpec, or by a RunSpec. With ``runs`` the run has a folder there,
    named by its key: the same call goes on where a stopped one left off, to the same bits, and returns a finished
    one's result at once. ``data`` replaces the registered data set; a hash of it is then the data set in the
    spec, so that other data are another run. ``progress`` draws a bar; where it is not said, in a notebook and on
    a terminal. ``watcher`` follows the rounds in its place. ``load`` reads a registered data set, for a caller
    that keeps it between runs. ``workers`` are processes of this machine, or of the Ray ``cluster`` at an address
    (``"auto"``: the one that is there), that share the parties' work; they change no bit of the outcome.
    """
    machines = Machines.said(workers, cluster, worker_cpus, mixed=mixed_workers)
    with following(watcher, progress) as one:
        return engine.run(
            spec,
            runs=runs,
            data=data,
            watcher=one,
            checkpoint_seconds=checkpoint_seconds,
            load=load,
            machines=machines,
            **fields,
        )


def run_until(
    until: int,
    spec: RunSpec | None = None,
    *,
    runs: Path | str,
    data: Dataset | None = None,
    watcher: engine.Watcher | None = None,
    progress: bool | None = None,
    **fields: Unpack[RunFields],
) -> Result | Paused:
    """Train once, as :func:`run` does, but stop after round ``until`` where rounds are left then.

    A stopped run is a :class:`Paused`; ``run``, or ``run_until`` with a later round, goes on to the bits
    of a run that never stopped. A run that is finished gives its result.
    """
    with following(watcher, progress) as one:
        return engine.run(spec, runs=runs, data=data, watcher=one, until=until, **fields)


with_fields(run)
with_fields(run_until)

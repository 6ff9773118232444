"""Where ``unalike study run`` makes runs: ``--on``, ``--cluster`` and ``--ship``."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unalike.errors import UserError, unknown

if TYPE_CHECKING:
    from unalike.studies.place import Place
    from unalike.studies.study_file import Study

_PLACES = ("processes", "ray")


@contextmanager
def place_of(
    on: str,
    address: str | None,
    study: Study,
    runs: Path,
    workers: int | None,
    plugins: Sequence[Path] | None,
    *,
    ship: bool,
) -> Iterator[Place]:
    """The place that the flags ask for; a cluster on this machine ends with it."""
    if on not in _PLACES:
        raise unknown("place for --on", on, _PLACES)
    if workers is not None and workers < 1:
        raise UserError(f"--workers must be at least 1, got {workers}.")
    if on == "processes":
        for flag, given in (("--cluster", address is not None), ("--ship", ship)):
            if given:
                raise UserError(f"{flag} is for runs on a cluster. Add: --on ray")
        yield _processes(study, runs, workers, plugins)
        return
    from unalike.cli.plugin import load_plugins
    from unalike.studies.cluster.connection import cluster
    from unalike.studies.cluster.ray_place import RayPlace
    from unalike.studies.processes import cpu_count

    prepare = partial(load_plugins, tuple(path.resolve() for path in plugins)) if plugins else None
    each = study.wants.cpus
    cpus = math.ceil(workers * each) if workers else max(cpu_count(), math.ceil(each))
    with cluster(address, cpus=cpus) as ray:
        yield RayPlace(ray, runs, study.wants, workers=workers, ship=ship, prepare=prepare)


def _processes(study: Study, runs: Path, workers: int | None, plugins: Sequence[Path] | None) -> Place:
    from unalike.studies.processes import Processes, default_count

    module = "unalike.cli.study.worker" if plugins else "unalike.studies.worker"
    command = [sys.executable, "-m", module, *map(str, plugins or ()), str(runs)]
    return Processes(command, workers or default_count(study.wants))

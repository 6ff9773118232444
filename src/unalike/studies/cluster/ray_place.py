"""Ray as the place of a study: each run is a task, and Ray chooses the host that has what it needs."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.runs.claim import claim
from unalike.runs.files import atomic_write, make_folder
from unalike.runs.lease import InUse
from unalike.studies.cluster.shipping import packed, unpack
from unalike.studies.cluster.task import SHIP_SECONDS, Said, Shipment, StudyTerms, make_here
from unalike.studies.making import Errand
from unalike.studies.place import Event
from unalike.studies.presence import FOLDER
from unalike.studies.schedule import Job
from unalike.studies.wants import Wants

_LOOK_SECONDS = 2.0
"""How often it is asked which hosts there are."""
_VARIABLES = ("UNALIKE_DATA",)
_LOST = {
    "NodeDiedError": "its host died",
    "OutOfMemoryError": "out of memory",
    "WorkerCrashedError": "its process died",
    "LocalRayletDiedError": "its host died",
}


class Mailbox:
    """The actor that hosts tell what happens, on the study's own host."""

    def __init__(self) -> None:
        self._said: list[tuple[int, Said]] = []
        self._stopping = False

    def tell(self, number: int, said: Said) -> bool:
        """Something has happened to a run; whether it is to stop."""
        self._said.append((number, said))
        return self._stopping

    def take(self) -> list[tuple[int, Said]]:
        """What was told since the last time."""
        said, self._said = self._said, []
        return said

    def stop(self) -> None:
        """Have all runs stop when they next tell something."""
        self._stopping = True


def make_there(number: int, errand: Errand, terms: StudyTerms, shipment: Shipment | None, mail: Any) -> Said:
    """The task, on whatever host Ray has chosen."""
    import ray

    def tell(said: Said) -> bool:
        return bool(ray.get(mail.tell.remote(number, said)))

    if tell({"event": "began", "host": socket.gethostname(), "pid": os.getpid()}):
        return {"event": "stopped"}
    return make_here(errand, terms, shipment, tell)


@dataclass
class _Flight:
    """A run that was given to the cluster."""

    number: int
    job: Job
    host: str = ""
    """Where it is being made; nothing before it has begun."""
    claims: ExitStack = field(default_factory=ExitStack)


class RayPlace:
    """Makes runs on a cluster that this process is connected to (``ray`` is the module)."""

    lost = "A worker was lost"

    def __init__(
        self,
        ray: Any,
        runs: Path,
        wants: Wants,
        *,
        workers: int | None = None,
        ship: bool = False,
        prepare: Callable[[], None] | None = None,
        ship_seconds: float = SHIP_SECONDS,
    ) -> None:
        """``workers``: so many runs at once, else as many as there is room for. ``ship``: no shared folder."""
        self._ray, self._runs, self._wants, self._workers, self._ship = ray, runs.resolve(), wants, workers, ship
        self._flights: dict[Any, _Flight] = {}
        self._numbers = itertools.count()
        self._events: list[Event] = []
        self._looked, self._slots = -_LOOK_SECONDS, 1
        self._check_room()
        self._probe = None if ship else self._leave_probe()
        environment = tuple((name, os.environ[name]) for name in _VARIABLES if name in os.environ)
        probe = "" if self._probe is None else self._probe.relative_to(self._runs).as_posix()
        terms = StudyTerms(
            str(self._runs), probe, environment=environment, prepare=prepare, ship_seconds=ship_seconds
        )
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._mail = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        self._terms = ray.put(terms)
        self._task = ray.remote(make_there).options(
            num_cpus=wants.cpus,
            num_gpus=wants.gpus,
            memory=wants.memory,
            max_retries=0,  # the study itself decides what is made again
            scheduling_strategy="SPREAD",
        )

    def _leave_probe(self) -> Path:
        make_folder(self._runs / FOLDER)
        probe = self._runs / FOLDER / f"probe-{secrets.token_hex(8)}"
        atomic_write(probe, b"")
        return probe

    def _check_room(self) -> None:
        """Refuse runs that no host has room for: they would wait for ever."""
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(map(self._wants.fit, alive)):
            raise UserError(
                f"No host of the cluster has what [resources] asks for one run: {self._wants.told()}. Lower "
                "that, or start a larger host first."
            )

    @property
    def slots(self) -> int:
        """As many runs as the hosts that are alive have room for, or as were asked for."""
        if self._workers is not None:
            return self._workers
        if time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._slots = max(1, sum(map(self._wants.fit, alive)))
        return self._slots

    def room(self, waiting: int) -> int:
        """How many more runs the cluster can take."""
        return min(waiting, self.slots - len(self._flights))

    def start(self, job: Job, errand: Errand) -> None:
        """Give the run to the cluster; where it is shipped, its folder here is kept from others meanwhile."""
        flight, shipment = _Flight(next(self._numbers), job), None
        if self._ship:
            folder = self._runs / job.spec.folder
            make_folder(folder)
            try:
                flight.claims.enter_context(claim(folder))
            except InUse:
                self._events.append(Event("busy", job))
                return
            shipment = Shipment(folder.name, packed(folder)[0])
        flight_of = self._task.remote(flight.number, errand, self._terms, shipment, self._mail)
        self._flights[flight_of] = flight

    def events(self, timeout: float) -> list[Event]:
        """What was told, and which runs have ended."""
        ended: list[Any] = []
        if self._flights:
            ended, _ = self._ray.wait(list(self._flights), num_returns=1, timeout=timeout)
        elif not self._events:
            time.sleep(timeout)
        by_number = {flight.number: flight for flight in self._flights.values()}
        for number, said in self._ray.get(self._mail.take.remote()):
            if (flight := by_number.get(number)) is not None:  # else it was given up before
                self._hear(flight, said)
        for reference in ended:
            self._end(reference)
        events, self._events = self._events, []
        return events

    def _hear(self, flight: _Flight, said: Said) -> None:
        if said["event"] == "began":
            flight.host = f" (pid {said['pid']} on {said['host']})"
        if "files" in said:
            unpack(self._runs / flight.job.spec.folder, said["files"], said["names"])
        if said["event"] in ("round", "said"):
            self._events.append(Event(said["event"], flight.job, said.get("round", 0), said.get("problem", "")))

    def _end(self, reference: Any) -> None:
        flight, errors = self._flights.pop(reference), self._ray.exceptions
        job = flight.job
        with flight.claims:
            try:
                said = self._ray.get(reference)
            except errors.TaskCancelledError:
                return
            except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:  # not the run's: see ``make``
                words = str(error).strip().splitlines()[-1]
                self._events.append(Event("broken", problem=f"The cluster's hosts cannot make runs: {words}"))
                return
            except errors.RayError as error:
                name = type(error).__name__
                self._events.append(Event("gone", job, problem=_LOST.get(name, name) + flight.host))
                return
            if "files" in said:
                unpack(self._runs / job.spec.folder, said["files"], said["names"])
        if said["event"] != "stopped":
            self._events.append(Event(said["event"], job, problem=said.get("problem", "")))

    def stop(self, patience: float) -> None:
        """Have all runs saved and, where they are shipped, sent; those that take longer are ended."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.get(self._mail.stop.remote())
            for reference, flight in self._flights.items():
                if not flight.host:  # it waits for a host
                    self._ray.cancel(reference)
            end = time.monotonic() + patience
            while self._flights and time.monotonic() < end:
                self.events(0.2)
            for reference in self._flights:
                self._ray.cancel(reference, force=True)
        for flight in self._flights.values():
            flight.claims.close()
        self._flights.clear()
        if self._probe is not None:
            self._probe.unlink(missing_ok=True)

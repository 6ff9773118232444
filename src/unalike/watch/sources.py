"""What can be followed: one run, a folder of runs, or a study with the runs that it has yet to make."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unalike.runs.files import list_folder
from unalike.watch.follower import FILES, FollowedRun, told
from unalike.watch.locks import Held

if TYPE_CHECKING:
    from unalike.studies.plan import StudyPlan
    from unalike.studies.planned import Planned
    from unalike.studies.study_file import Study

_PRESENCE, _RUNNING = ".studies", ".running"


class OneRun:
    """A single run, by its folder."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    def runs(self) -> Iterable[Path]:
        """The folder, while it is there."""
        return [self._path] if self._path.is_dir() else []

    def planned(self, path: Path) -> Mapping[str, Any]:
        """Nothing is known of a run before its spec is written."""
        return {}

    def about(self, runs: Mapping[str, FollowedRun], held: Held) -> dict[str, Any]:
        """The run's name; where the folder has gone, that it has."""
        return {"kind": "run", "title": self._path.name, "empty": "The run's folder is not there any more."}


class RunsIn:
    """All runs in a folder, those that begin later too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: set[str] = set()

    def runs(self) -> Iterable[Path]:
        """Every folder in it that is a run's."""
        try:
            with os.scandir(self._folder) as entries:
                names = [entry.name for entry in entries if not entry.name.startswith(".")]
        except OSError:
            names = []
        self._known = {name for name in names if name in self._known or self._is_run(name)}
        return [self._folder / name for name in sorted(self._known)]

    def _is_run(self, name: str) -> bool:
        try:
            return any((self._folder / name / file).exists() for file in FILES)
        except OSError:
            return False

    def planned(self, path: Path) -> Mapping[str, Any]:
        """Nothing is known of a run before its spec is written."""
        return {}

    def about(self, runs: Mapping[str, FollowedRun], held: Held) -> dict[str, Any]:
        """The folder's name, and what to do while it is empty."""
        name = self._folder.resolve().name or str(self._folder)
        empty = f"There are no runs in {self._folder} yet. Start one in another terminal: unalike run"
        return {"kind": "runs", "title": f"Runs in {name}", "empty": empty}


class StudyRuns:
    """The runs of a study: those that are there, and those that are to come."""

    def __init__(self, study: Study, plan: StudyPlan, folder: Path) -> None:
        self._study, self._plan, self._folder = study, plan, folder
        self._specs: dict[Path, Mapping[str, Any]] = {}
        self._tuning = [path for run in plan.tuning_runs() if (path := self._place(run))]
        self._chosen: dict[int, Planned] = {}
        self._states: list[str] = []
        self._failures = [run.problem for run in plan.tuning_runs() if run.spec is None]
        for goal in plan.goals:
            self._place(goal.planned)
        self._grid = self._make_grid()

    def _place(self, planned: Planned | None) -> Path | None:
        if planned is None or planned.spec is None:
            return None
        path = self._folder / planned.spec.folder
        self._specs[path] = planned.spec.to_dict()
        return path

    def runs(self) -> Iterable[Path]:
        """Every run whose parameters are known."""
        return list(self._specs)

    def planned(self, path: Path) -> Mapping[str, Any]:
        """What the plan says of a run that has not begun."""
        return self._specs.get(path, {})

    def about(self, runs: Mapping[str, FollowedRun], held: Held) -> dict[str, Any]:
        """The grid, how far the study is, and whether a process is at it."""
        self._choose(runs)
        name = f"{self._study.name}."
        locks = [path for path in list_folder(self._folder / _PRESENCE) if path.name.startswith(name)]
        lost = [goal.planned.problem for goal in self._plan.goals if goal.planned and not goal.planned.spec]
        return {
            "kind": "study",
            "title": self._study.title,
            "total": self._plan.total,
            "processes": sum(path.suffix == _RUNNING and held(path) for path in locks),
            "tuning": [path.name for path in self._tuning],
            "lost": sorted({*lost, *self._failures}),
            "grid": self._grid,
            "eta": _seconds_left(runs.values(), self._plan.total),
            "empty": "No run of the study has begun.",
        }

    def _choose(self, runs: Mapping[str, FollowedRun]) -> None:
        """Find the runs that tuning has decided on: looked for whenever one of its runs begins or ends."""
        from unalike.studies.planned import look_at

        states = [runs[path.name].state if path.name in runs else "" for path in self._tuning]
        if states == self._states:
            return
        self._states = states
        for number, goal in enumerate(self._plan.goals):
            if goal.tuning is None or number in self._chosen:
                continue
            choice = goal.tuning.choose(lambda planned: look_at(planned, self._folder))
            if choice.algorithm:
                self._chosen[number] = goal.tuned(choice.algorithm, choice.fields)
                self._place(self._chosen[number])
                self._grid = self._make_grid()

    def _make_grid(self) -> dict[str, Any]:
        """Settings by algorithms: in every cell the runs of all seeds; one that is not decided yet is null."""
        columns: dict[str, None] = {}
        rows: dict[tuple[str, ...], dict[str, list[str | None]]] = {}
        apart = self._apart()
        for number, goal in enumerate(self._plan.goals):
            planned = self._chosen.get(number) or goal.planned
            spec = goal.fields if planned is None or planned.spec is None else planned.spec.to_dict()
            where = (
                told("dataset", spec.get("dataset", "digits")),
                told("partition", spec.get("partition", "iid")),
            )
            more = tuple(f"{name} {spec.get(name)}" for name in apart)
            algorithm = told("algorithm", goal.fields.get("algorithm", "fedavg"))
            columns.setdefault(algorithm)
            path = None if planned is None or planned.spec is None else planned.spec.folder
            rows.setdefault((*where, *more), {}).setdefault(algorithm, []).append(path)
        return {
            "columns": list(columns),
            "rows": [{"title": list(title), "cells": cells} for title, cells in rows.items()],
        }

    def _apart(self) -> list[str]:
        """The axes beside data set, partition, algorithm and seed in which the runs differ."""
        values: dict[str, set[str]] = {}
        for goal in self._plan.goals:
            for name, value in goal.fields.items():
                values.setdefault(name, set()).add(repr(value))
        usual = ("dataset", "partition", "algorithm", "seed")
        return [name for name, found in values.items() if len(found) > 1 and name not in usual]


def _seconds_left(runs: Iterable[FollowedRun], total: int) -> float | None:
    """About how long the rounds that are left take, if they are as those that were, by as many as run now."""
    known = list(runs)
    each = [run.seconds_a_round for run in known if run.seconds_a_round is not None]
    working = sum(run.state == "running" for run in known)
    if not each or not working:
        return None
    left = sum(max(0, run.rounds - run.done) for run in known if run.state in ("running", "waiting", "stopped"))
    unknown = total - len(known)
    left += unknown * max((run.rounds for run in known), default=0)
    return round(sum(each) / len(each) * left / working, 1)

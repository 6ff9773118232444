"""``unalike federation run`` and ``stop``: submit the training to the running server and follow it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import typer
from filelock import Timeout

from unalike.cli.federation.needs import algorithm_of, need_extra, need_server
from unalike.cli.federation.server import STOP_SERVE
from unalike.cli.program import program
from unalike.cli.show import costs, draw, duration, figures_table, print_json, privacy_line, say
from unalike.cli.signals import StopRequested
from unalike.cli.tail import Tail
from unalike.errors import TryLater, UserError
from unalike.federation.attempts import Attempts, Outcome, is_served
from unalike.federation.folders import JOBS, TRAIN, ServerFolder
from unalike.federation.plan import Plan
from unalike.runs.files import file_lock
from unalike.runs.headline import headline
from unalike.runs.record import read_rounds, read_run

_LOOK = 0.1
_FAILED = 1


def run(folder: Path, *, as_json: bool, quiet: bool) -> None:
    """Let the running server train, and follow it to the end; a finished training's result is shown at once."""
    need_extra()
    plan = Plan.read(need_server(folder))
    ServerFolder(folder).roster(plan)  # who is missing is told at once
    result = _finished(folder, plan)
    if result is not None:
        if not quiet:
            say("This training was finished before: here is its stored result.")
    else:
        done(folder, follow(folder, plan, TRAIN, quiet=quiet), "run")
        result = read_run(folder / "run").result or {}
    _print(folder, plan, result, as_json=as_json)


def done(folder: Path, outcome: Outcome, command: str) -> None:
    """Nothing, where the job was done; else the end of the command, with the reason."""
    if outcome.how == "stopped":
        say(f"Stopped. Go on with: {program()} federation {command} {folder}")
        raise typer.Exit(130)
    if outcome.how in ("refused", "put off"):
        raise (TryLater if outcome.how == "put off" else UserError)(outcome.reason)
    if outcome.how == "failed":
        say(f"Error: the server failed: {outcome.reason} The terminal of the server says more.")
        raise typer.Exit(_FAILED)


def stop(folder: Path, *, everything: bool) -> None:
    """Ask the training to stop and wait for it; ``everything``: end the server too."""
    attempts = Attempts(need_server(folder))
    job = attempts.wanted
    if job is not None:
        what, command = JOBS.get(job, JOBS[TRAIN])
        attempts.ask_to_stop()
        if wait_until_idle(attempts):
            draw(f"The {what} is stopped. Go on with: {program()} federation {command} {folder}")
        else:
            draw(f"The {what} was asked to stop and is still busy. Look: {program()} federation status {folder}")
    else:
        draw(f"No training is under way in {folder}.")
    if everything and is_served(folder):
        (folder / STOP_SERVE).touch(0o600)
        draw("The server ends within a second.")
    elif everything:
        draw(f"Nobody serves {folder}.")


def _finished(folder: Path, plan: Plan) -> dict[str, Any] | None:
    """The stored result of this plan, if every site has the final model."""
    result = read_run(folder / "run", weights=True).result
    done = result is not None and result["key"] == plan.spec.key and not result.get("not_reached")
    return result if done else None


def follow(folder: Path, plan: Plan, job: str, *, quiet: bool) -> Outcome:
    """Have the job done by the server, and say how it goes, to the end; where nobody serves, this command does."""
    from unalike.federation.serving import Serving

    try:
        with file_lock(folder / ".run.lock", 1.0), ExitStack() as stack:
            follower = Onlooker(folder, plan, job, quiet=quiet)
            follower.submit()  # before it is served: what is left of an earlier try must not be taken up
            if not is_served(folder):
                try:
                    serving = stack.enter_context(Serving(folder, plan, follower.say))
                except BaseException:  # the port is taken, say: nobody else shall do it later, unasked
                    follower.attempts.withdraw()
                    raise
                follower.say(f"Serving at {serving.address} until this is done.")
            return follower.follow()
    except Timeout:
        raise UserError(
            f"Another process follows the training in {folder}. Look: {program()} federation status {folder}"
        ) from None


class Onlooker:
    """Submits a job to whoever serves the folder, and shows how it goes."""

    def __init__(self, folder: Path, plan: Plan, job: str, *, quiet: bool) -> None:
        self.folder, self.plan, self.job, self.quiet = folder, plan, job, quiet
        self.attempts = Attempts(folder)
        self.log = Tail(folder / "log.txt")
        self.round = len(read_rounds(folder / "run"))

    def follow(self) -> Outcome:
        """Follow the job to its end, from wherever it is; Ctrl-C asks it to stop and waits until it has."""
        try:
            return self._until_outcome()
        except StopRequested:
            self.attempts.ask_to_stop()
            self.say("Stopping ...")
            wait_until_idle(self.attempts)
            return Outcome("stopped")

    def submit(self) -> None:
        """Have the job done, unless it is under way already."""
        wanted = self.attempts.wanted
        if wanted is None or not self.attempts.working:
            self.attempts.submit(self.job)
        elif wanted != self.job:
            raise UserError(
                f"The server is busy with something else ({wanted}). Wait for it, or: "
                f"{program()} federation stop {self.folder}"
            )
        else:
            self.say("Following what is under way.")

    def _until_outcome(self) -> Outcome:
        there = True
        while (outcome := self.attempts.outcome()) is None:
            self.show()
            if is_served(self.folder) != there:
                there = not there
                self.say(
                    "The server is back."
                    if there
                    else f"The server is gone. Start it again: {program()} federation serve {self.folder}"
                )
            time.sleep(_LOOK)
        self.show()
        return outcome

    def show(self) -> None:
        """What is new in the log and in the record."""
        for line in self.log.lines():
            text = line.partition(" ")[2]
            if not text.startswith("Round "):  # the record says more
                self.say(text)
        rows = read_rounds(self.folder / "run")
        for row in rows[self.round :]:
            self.say(_line(row, rows, self.plan), round=row["round"])
        self.round = len(rows)

    def say(self, line: str, **about: Any) -> None:
        """Show a line to the user, unless the command was given ``--quiet``."""
        if not self.quiet:
            say(line, **about)


def wait_until_idle(attempts: Attempts, seconds: float = 60.0) -> bool:
    """Whether nobody is at the job any more, after at most this long."""
    end = time.monotonic() + seconds
    while attempts.working and attempts.outcome() is None:
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK)
    return True


def _line(row: dict[str, Any], rows: list[dict[str, Any]], plan: Plan) -> str:
    done, rounds = row["round"], plan.spec.rounds
    answered = row.get("answered") or [[]]
    parts = [f"round {done:>{len(str(rounds))}}/{rounds}", f"{len(answered[-1])} of {row['cohort']} sites"]
    parts += headline(row)
    if done < rounds:
        recent = [each["seconds"] for each in rows[-5:]]
        parts.append(f"ETA {duration(sum(recent) / len(recent) * (rounds - done))}")
    return "  ".join(parts)


def _print(folder: Path, plan: Plan, result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({**result, "run_dir": str(folder / "run")})
        return
    left = result.get("not_reached") or []
    draw(
        f"{plan.name}: {algorithm_of(plan)} on {len(plan.parties)} sites",
        "",
        figures_table(result),
        "",
        costs(result),
        *privacy_line(result),
        f"server_sha256 {result['server_sha256']}",
        f"{_where(plan, folder)}; every round: {folder / 'run' / 'rounds.jsonl'}",
        *(
            [f"Not reached with the final model: {', '.join(left)}. Run this again when they are back."]
            if left
            else []
        ),
    )


def _where(plan: Plan, folder: Path) -> str:
    """Where the model is when a training is over."""
    if plan.splits_columns:
        return "The model: every site keeps its own part, in its folder"
    return f"The model: {folder / 'run' / 'weights.safetensors'}"

"""``unalike federation run`` and ``stop``: submit the training to the running server and follow it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from filelock import Timeout

from unalike.cli.federation.needs import algorithm_of, need_flower, need_server
from unalike.cli.federation.server import STOP_SERVE
from unalike.cli.program import program
from unalike.cli.progress import headline
from unalike.cli.show import costs, draw, duration, figures_table, print_json, privacy_line, say
from unalike.cli.signals import StopRequested
from unalike.cli.tail import Tail
from unalike.errors import UserError
from unalike.federation.attempts import Attempts, Outcome
from unalike.federation.folders import TRAIN, ServerFolder
from unalike.federation.plan import Plan
from unalike.runs.files import file_lock
from unalike.runs.record import read_rounds, read_run

if TYPE_CHECKING:
    from unalike.federation.transport.flower.control import Control

TRIES = 5
"""How often the training is started again without having got further."""
_LOOK = 0.3
_ASK_LINK = 5.0
_PATIENCE = 600.0
"""Seconds for the server to come back, or to begin."""
_FAILED = 1


def run(folder: Path, *, as_json: bool, quiet: bool) -> None:
    """Let the running server train, and follow it to the end; a finished training's result is shown at once."""
    need_flower()
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
    if outcome.how == "refused":
        raise UserError(outcome.reason)
    if outcome.how == "failed":
        say(f"Error: the server failed: {outcome.reason} See {folder / 'flower' / 'runner.log'}")
        raise typer.Exit(_FAILED)


def stop(folder: Path, *, everything: bool) -> None:
    """Ask the training to stop and wait for it; ``everything``: end the server too."""
    attempts = Attempts(need_server(folder))
    if attempts.working and attempts.outcome() is None:
        attempts.ask_to_stop()
        end = time.monotonic() + 60
        while attempts.working and attempts.outcome() is None and time.monotonic() < end:
            time.sleep(_LOOK)
        if attempts.working and attempts.outcome() is None:
            draw(f"The training was asked to stop and is still busy. Look: {program()} federation status {folder}")
        else:
            draw(f"The training is stopped. Go on with: {program()} federation run {folder}")
    else:
        draw(f"No training is under way in {folder}.")
    if everything:
        (folder / STOP_SERVE).touch(0o600)
        draw("The server ends within a second.")


def _finished(folder: Path, plan: Plan) -> dict[str, Any] | None:
    """The stored result of this plan, if every site has the final model."""
    result = read_run(folder / "run", weights=True).result
    done = result is not None and result["key"] == plan.spec.key and not result.get("not_reached")
    return result if done else None


def follow(folder: Path, plan: Plan, job: str, *, quiet: bool) -> Outcome:
    """Let the running server do the job, and say how it goes, to the end; a user's mistake there is one here."""
    try:
        with file_lock(folder / ".run.lock"):
            return Supervisor(folder, plan, job, quiet=quiet).follow()
    except Timeout:
        raise UserError(
            f"Another process follows the training in {folder}. Look: {program()} federation status {folder}"
        ) from None


class Supervisor:
    """Submits the training, shows how it goes, and submits it again when its process dies."""

    def __init__(self, folder: Path, plan: Plan, job: str, *, quiet: bool) -> None:
        from unalike.federation.transport.flower.control import Control

        self.folder, self.plan, self.job, self.quiet = folder, plan, job, quiet
        self.control: Control = Control(folder)
        self.attempts = Attempts(folder)
        self.log = Tail(folder / "log.txt")
        self.round = len(read_rounds(folder / "run"))
        self.tries = 0

    def follow(self) -> Outcome:
        """Follow the training to its end, from wherever it is; Ctrl-C asks it to stop and waits until it has."""
        try:
            return self._until_outcome(self._take_up() or self.submit())
        except StopRequested:
            self.attempts.ask_to_stop()
            self.say("Stopping ...")
            end = time.monotonic() + 60
            while self.attempts.working and self.attempts.outcome() is None and time.monotonic() < end:
                time.sleep(_LOOK)
            return Outcome("stopped")

    def submit(self) -> int:
        """Hand the job to the running server as a new attempt, and note its number."""
        self.attempts.clear()
        ServerFolder(self.folder).set_job(self.job)
        run_id = self.control.submit()
        self.attempts.submitted(run_id)
        return run_id

    def _take_up(self) -> int | None:
        """The try that is under way although nobody follows it, if there is one."""
        run_id = self.attempts.run_id
        if run_id is not None and self.attempts.working:
            if ServerFolder(self.folder).job() != self.job:
                raise UserError(
                    f"The server is busy with something else (training or measuring). Wait for it, or: "
                    f"{program()} federation stop {self.folder}"
                )
            self.say("Following the training that is under way.")
            return run_id
        return None

    def _until_outcome(self, run_id: int) -> Outcome:
        began = asked = time.monotonic()
        while True:
            self.show()
            outcome = self.attempts.outcome()
            if outcome is not None:
                return outcome
            now = time.monotonic()
            if self._died() or (now - asked > _ASK_LINK and self._ended(run_id)):
                run_id = self._again(run_id)
                began = asked = time.monotonic()
            elif self.attempts.working is None and now - began > _PATIENCE:
                raise UserError(f"The server did not begin. See {self.folder / 'flower' / 'runner.log'}")
            elif now - asked > _ASK_LINK:
                asked = now
            time.sleep(_LOOK)

    def _died(self) -> bool:
        """Whether the process is gone without a word; it may have had the last one just now."""
        return self.attempts.working is False and self.attempts.outcome() is None

    def _ended(self, run_id: int) -> bool:
        """Whether the link says that the try is over, or is not there any more."""
        try:
            over = self.control.state(run_id).status == "finished"
        except UserError:  # the link may be gone for a moment only
            over = not self.attempts.working
        return over and self.attempts.outcome() is None

    def _again(self, run_id: int) -> int:
        """Start the training again, where the server is there; it goes on from the last checkpoint."""
        self.tries += 1
        if self.tries > TRIES:
            raise UserError(
                f"The server's process died {self.tries} times in a row without finishing a round. See "
                f"{self.folder / 'flower' / 'runner.log'}"
            )
        self.say("The server's process is gone; the training goes on from the last whole round.")
        end, told = time.monotonic() + _PATIENCE, False
        while True:
            try:
                return self.submit()
            except UserError:
                if time.monotonic() > end:
                    raise
                if not told:
                    self.say(f"Waiting for the server: {program()} federation serve {self.folder}")
                told = True
                time.sleep(1.0)

    def show(self) -> None:
        """What is new in the log and in the record."""
        for line in self.log.lines():
            text = line.partition(" ")[2]
            if not text.startswith("Round "):  # the record says more
                self.say(text)
        rows = read_rounds(self.folder / "run")
        for row in rows[self.round :]:
            self.say(_line(row, rows, self.plan))
            self.tries = 0
        self.round = len(rows)

    def say(self, line: str) -> None:
        """Show a line to the user, unless the command was given ``--quiet``."""
        if not self.quiet:
            say(line)


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
        f"The model: {folder / 'run' / 'weights.safetensors'}; every round: {folder / 'run' / 'rounds.jsonl'}",
        *(
            [f"Not reached with the final model: {', '.join(left)}. Run this again when they are back."]
            if left
            else []
        ),
    )

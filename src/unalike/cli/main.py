"""The entry point: finds the command, and turns every mistake of the user into one line."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.main import get_command

import unalike
from unalike.cli.commands import App, Command, Group
from unalike.cli.lines import say, say_as_text
from unalike.cli.program import program
from unalike.cli.signals import STOPPED, StopRequested, StopSignals
from unalike.errors import SeveralMistakes, TryLater, UserError, shown

_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
USER_ERROR = 2
TRY_LATER = 75
"""EX_TEMPFAIL of sysexits.h: nothing is wrong with the command, and a supervisor may try it again."""
BROKEN_PIPE = 1
_LONGEST = 300
"""Characters of an error that repeats what was typed."""

_COMMANDS = {
    "demo": ("unalike.cli.demo", "demo", "See what unalike data do to training, in about a minute."),
    "data": ("unalike.cli.data", "data", "Look at a data set, or at the columns of your own table."),
    "run": ("unalike.cli.run", "run", "Train once; the same command goes on with a stopped run."),
    "runs": ("unalike.cli.runs", "app", "List, show and compare runs."),
    "report": (
        "unalike.cli.report",
        "report",
        "Write a page about a run or a study: charts, tables, all in one file.",
    ),
    "watch": ("unalike.cli.watch", "watch", "Follow runs, a study or a federation live on a page."),
    "partition": ("unalike.cli.partition", "partition", "Split a data set between parties: look, measure, save."),
    "measure": ("unalike.cli.measure", "measure", "Measure how unlike the parties are; nobody sees their data."),
    "recommend": ("unalike.cli.recommend", "recommend_algorithm", "Which algorithm fits, and why."),
    "leaderboard": (
        "unalike.cli.leaderboard",
        "show_leaderboard",
        "Rank algorithms by your runs or a paper's table.",
    ),
    "study": (
        "unalike.cli.study.commands",
        "app",
        "Run a grid of runs in parallel, beside the papers' numbers.",
    ),
    "tune": ("unalike.cli.tune", "tune", "Choose learning rates and other parameters on validation rows."),
    "federation": (
        "unalike.cli.federation.commands",
        "app",
        "Train between real sites, each of which keeps its own rows.",
    ),
    "predict": (
        "unalike.cli.predict",
        "predict",
        "Use a trained model on new rows: of a run, or of a federation's site.",
    ),
    "export": ("unalike.cli.export", "export", "Write a trained model for other programs, or its model card."),
    "list": ("unalike.cli.listing", "list_parts", "List algorithms, data sets, partitions and other parts."),
}

# Click's own errors have no public name in newer versions of typer, which carry click inside.
_UsageError: Any = typer.BadParameter.__base__


class _Commands(Group):
    """Commands that are imported when they are called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: Command(name, help=line) for name, (_, _, line) in _COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The real command in place of the line that stands for it in the help."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, None if found is None else _load(name), rest


def _load(name: str) -> Any:
    module, attribute, _ = _COMMANDS[name]
    command = getattr(import_module(module), attribute)
    if not isinstance(command, App):
        function, command = command, App()
        command.command(name)(function)
    return get_command(command)


app = App(
    group=_Commands,
    add_completion=True,
    epilog="To begin: unalike demo, then unalike run. Examples: unalike run --help.",
)


def _entry() -> Any:
    """The whole command line, whose ``--install-completion`` first looks whether it knows the shell."""
    command = get_command(app)
    for parameter in command.params:
        if parameter.name in ("install_completion", "show_completion"):
            parameter.callback = _for_known_shell(parameter.callback)
    return command


def _for_known_shell(act: Any) -> Any:
    def check(ctx: Any, parameter: Any, wanted: Any) -> Any:
        if wanted and not ctx.resilient_parsing:
            from shellingham import ShellDetectionFailure, detect_shell

            try:
                shell = detect_shell()[0]
            except ShellDetectionFailure:
                shell = "unknown"
            if shell not in _SHELLS:
                raise UserError(f"The shell here is {shell}; completion is for {', '.join(_SHELLS)}. Start one.")
        return act(ctx, parameter, wanted)

    return check


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"unalike {unalike.__version__}")
        raise typer.Exit


@app.callback()
def _unalike(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Federated learning for data that are unalike (non-IID): split, measure, train, compare."""


def call(args: Sequence[str], signals: StopSignals | None = None) -> int:
    """Run the command line ``args`` and return its exit code. Only bugs end in an exception."""
    try:
        code = _entry().main(list(args) or ["--help"], prog_name="unalike", standalone_mode=False)
        sys.stdout.flush()  # here, where a closed pipe can still be answered
        return code if isinstance(code, int) else 0
    except StopRequested as stop:
        return _stopped(args, stop.where, stop.chosen)
    except SeveralMistakes as error:
        return max(map(_refuse, str(error).splitlines()))
    except UserError as error:
        return _refuse(str(error), TRY_LATER if isinstance(error, TryLater) else USER_ERROR)
    except _UsageError as error:
        return _refuse(_usage(error))
    except BrokenPipeError:
        _send_nowhere(sys.stdout, sys.stderr)
        return BROKEN_PIPE
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return _refuse(f"The name {shown(error.filename)} is too long for a file. Check it.")
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _send_nowhere(sys.stdout)
        return _refuse("No space left where the output goes. Free some, or send it elsewhere.")
    except Exception as error:
        if signals is not None and signals.seen:  # some libraries wrap what interrupts their import
            return _stopped(args, "")
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # NumPy's words, and PyTorch's
            return _refuse("There is not enough memory for that. Use smaller numbers, or a smaller model.")
        raise
    finally:
        say_as_text()  # whatever this command had asked for


def _refuse(message: str, code: int = USER_ERROR) -> int:
    say(f"Error: {' '.join(message.splitlines())}", "error")
    return code


def _usage(error: Any) -> str:
    message = str(error.format_message())
    message = message if len(message) <= _LONGEST else f"{message[:_LONGEST]}..."
    near = getattr(error, "possibilities", None)
    if near:
        message = f"{error.message.rstrip('.')}. Did you mean {near[0]}?"
    command = error.ctx.command_path if error.ctx is not None else "unalike"
    end = "" if message.endswith((".", "?")) else "."
    return f"{message}{end} Try: {command} --help"


def _stopped(args: Sequence[str], where: str, chosen: Sequence[str] = ()) -> int:
    if chosen:
        args = [*_without_auto(args), *chosen]
    again = f" Go on with: {program()} {shlex.join(args)}" if _resumable(args) else ""
    say(f"Stopped{where}.{again}")
    return STOPPED


def _without_auto(args: Sequence[str]) -> list[str]:
    """The words without ``--algorithm auto``; other options may be auto too."""
    words = list(args)
    for place in range(len(words) - 1, 0, -1):
        if words[place - 1 : place + 1] == ["--algorithm", "auto"]:
            del words[place - 1 : place + 1]
    return [each for each in words if each != "--algorithm=auto"]


def _resumable(args: Sequence[str]) -> bool:
    return list(args[:1]) in (["run"], ["tune"]) or list(args[:2]) == ["study", "run"]


def _send_nowhere(*streams: TextIO) -> None:
    """Nobody can read on: drop the rest, so that Python's own last flush is quiet too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


def main(signals: StopSignals) -> None:
    """The ``unalike`` command, once ``signals`` are answered."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: >&-
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        # A terminal without these characters shows question marks instead of a traceback.
        getattr(sys, name).reconfigure(errors="replace")
    signals.farewell = lambda: _stopped(sys.argv[1:], "")
    sys.exit(call(sys.argv[1:], signals))

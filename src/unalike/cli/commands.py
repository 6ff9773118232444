"""What all commands share: plain help pages that leave nothing out, and one suggestion for a mistyped name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import typer
import typer.core
from typer.core import TyperCommand, TyperGroup

from unalike.errors import UserError, nearest

F = TypeVar("F", bound=Callable[..., Any])

# Plain help starts faster and suits a pipe. With rich, typer would also write \[required] into it.
typer.core.HAS_RICH = False


class Command(TyperCommand):
    """A command whose help page tells what its arguments are."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The sections on arguments and options."""
        _write_parameters(self, ctx, formatter)


class Group(TyperGroup):
    """A command that has commands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The sections on options and commands."""
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Every command with the whole first sentence of its help, on several lines where it is long."""
        commands = [(name, self.commands[name].get_short_help_str(1000)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called; for one that is not there, the one that was probably meant."""
        name = args[0]
        if name in self.commands or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = nearest(name, self.commands)
        remedy = f"Did you mean {near!r}?" if near else f"Try: {ctx.command_path} --help"
        raise UserError(f"No such command {name!r}. {remedy}")


class App(typer.Typer):
    """A typer application that makes these commands."""

    def __init__(self, *, group: type[Group] = Group, **settings: Any) -> None:
        plain: dict[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}
        super().__init__(cls=group, **({"add_completion": False} | plain | settings))

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """Decorator for a function that becomes a command."""
        return super().command(name, cls=Command, **settings)


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    arguments, options = [], []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and parameter.param_type_name == "argument":
            arguments.append((record[0], _help_of_argument(command, parameter.name)))
        elif record is not None:
            options.append(record)
    for title, records in (("Arguments", arguments), ("Options", options)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _help_of_argument(command: Any, name: str) -> str:
    """What the function says of its argument: newer versions of click lose it on its way through typer."""
    annotation = inspect.signature(command.callback, eval_str=True).parameters[name].annotation
    return next((str(each.help) for each in get_args(annotation)[1:] if getattr(each, "help", None)), "")

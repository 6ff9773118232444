"""Parts that users wrote themselves: mistakes in them are told in one line, their source enters a run's key."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from unalike.errors import UserError

_LONGEST = 300
"""Characters of somebody else's error message in ours."""
_REMEDIES = {
    "data-dependent control flow": "it branches on a tensor's value, which a stack of parties has many of. Use "
    "torch.where.",
    "cannot assign to field": "a part never changes. What it is to remember belongs into a state (an algorithm's "
    "init_server and init_party).",
}
"""What to do where an error of Python or PyTorch says these words: its own advice is for others."""


def is_own(part: object) -> bool:
    """Whether a part, or a class of parts, is from outside this package."""
    cls = part if isinstance(part, type) else type(part)
    return not cls.__module__.startswith("unalike.")


def called(part: object, method: str, like: Callable[..., Any], *arguments: Any, returns: type[Any]) -> Any:
    """What a part's method returns; a wrong signature, an error in it or another type is told in one line."""
    check_signature(part, method, like)
    with explained(part):
        value = getattr(part, method)(*arguments)
    if not isinstance(value, returns):
        what = "nothing" if returns is type(None) else f"a {returns.__name__}"
        raise UserError(f"{place(part, method)} must return {what}, got {type(value).__name__}.")
    return value


def check_signature(part: object, method: str, like: Callable[..., Any]) -> None:
    """Refuse a part whose method is missing or cannot take the arguments that ``like`` takes."""
    expected = list(inspect.signature(like).parameters)[1:]
    call, wanted = getattr(part, method, None), f"def {method}(self, {', '.join(expected)})"
    if not callable(call):
        raise UserError(f"{type(part).__name__}.{method} must be a method. Write {wanted}.")
    try:
        inspect.signature(call).bind(*expected)
    except TypeError as error:
        raise UserError(
            f"{place(part, method)} takes {inspect.signature(call)}, but is called with ({', '.join(expected)}): "
            f"{error}. Write {wanted}."
        ) from None


def place(part: object, method: str) -> str:
    """A part's method and where it is written, e.g. ``Mine.fold (mine.py, line 12)``."""
    code = getattr(inspect.unwrap(getattr(type(part), method)), "__code__", None)
    where = f" ({_where(code, code.co_firstlineno)})" if code else ""
    return f"{type(part).__name__}.{method}{where}"


@contextmanager
def explained(*parts: object) -> Iterator[None]:
    """What fails in here inside a method of a user's own part becomes one line; the cause is kept with it.

    A part's fields may be parts, too. A class stands for any part of it, such as one that is being made.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        own = [part for each in parts for part in _with_fields(each) if is_own(part)]
        line = _explanation(own, error)
        if line is None:
            raise
        raise UserError(line) from error


def _with_fields(part: object) -> list[object]:
    """A part, and the parts that its fields are."""
    if isinstance(part, type) or not dataclasses.is_dataclass(part):
        return [part]
    values = (getattr(part, field.name, None) for field in dataclasses.fields(part))
    return [part, *(each for value in values if dataclasses.is_dataclass(value) for each in _with_fields(value))]


def _explanation(parts: list[object], error: Exception) -> str | None:
    """Which method of a part failed, where in the part's own file, and why; None where it was none of theirs."""
    frames = list(traceback.walk_tb(error.__traceback__))
    methods = [(frame, name) for frame, _ in frames for part in parts if (name := _method(frame, part))]
    if not methods:
        return None
    frame, name = methods[-1]
    code = frame.f_code
    # The last line in the method's file: it may be that of a function which the method calls.
    where = _where(code, [n for each, n in frames if each.f_code.co_filename == code.co_filename][-1])
    text = str(error).strip('"')  # Python puts a KeyError's sentence into quotes
    remedy = next((remedy for words, remedy in _REMEDIES.items() if words in text), "")
    reason = " ".join(f"{type(error).__name__}: {remedy or text}".split())
    reason = f"{reason[:_LONGEST]}..." if len(reason) > _LONGEST else f"{reason.rstrip('.')}."
    given = _given(frame) if isinstance(error, KeyError) else ""
    return f"{name} failed ({where}): {reason}{given}"


def _given(frame: FrameType) -> str:
    """The names that a method could have read: those in the dictionaries that it was given."""
    found = dict(frame.f_locals)
    party = found.pop("party", None)
    found |= {f"party.{name}": getattr(party, name, None) for name in ("received", "state", "measured")}
    code = frame.f_code
    arguments = {*code.co_varnames[: code.co_argcount], "party.received", "party.state", "party.measured"}
    told = [
        f"{name} has {', '.join(map(repr, value)) or 'nothing'}"
        for name, value in found.items()
        if name in arguments and isinstance(value, Mapping)
    ]
    return f" Given: {'; '.join(told)}." if told else ""


def _method(frame: FrameType, part: object) -> str | None:
    """The part's method that a frame runs, such as ``Mine.fold``, if it runs one."""
    code = frame.f_code
    me = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    cls = part if isinstance(part, type) else type(part)
    if me is None or (type(me) is not cls if isinstance(part, type) else me is not part):
        return None
    functions = ((name, value) for each in cls.__mro__ for name, value in vars(each).items() if callable(value))
    found = next((name for name, value in functions if getattr(value, "__code__", None) is code), None)
    return f"{cls.__name__}.{found}" if found and found != "__setattr__" else None


def _where(code: CodeType, line: int) -> str:
    """A line of a method's file; for a method that a user's class inherits from this package, from what class."""
    file = Path(code.co_filename)
    if file.is_relative_to(Path(__file__).parent):
        return f"inherited from {code.co_qualname.rpartition('.')[0]}"
    return f"{file.name}, line {line}"


def source_of(cls: type) -> str:
    """The text that defines a class from outside: its file, and the files beside it that it imports.

    Where the file lies above this library or the environment (in a checkout), these are not beside it.
    """
    module = sys.modules.get(cls.__module__)
    home = _file_of(module)
    if module is None or home is None:
        try:
            return inspect.getsource(cls)
        except (OSError, TypeError):
            return cls.__qualname__
    texts: dict[str, str] = {}
    waiting: list[ModuleType] = [module]
    while waiting:
        current = waiting.pop()
        file = _file_of(current)
        if file is None or str(file) in texts or not file.is_relative_to(home.parent) or _installed(file):
            continue
        texts[str(file)] = file.read_text(encoding="utf-8")
        for value in list(vars(current).values()):
            used = (
                value
                if isinstance(value, ModuleType)
                else sys.modules.get(getattr(value, "__module__", None) or "")
            )
            if used is not None:
                waiting.append(used)
    return "\n".join(texts[name] for name in sorted(texts))


def _installed(file: Path) -> bool:
    return "site-packages" in file.parts or file.is_relative_to(Path(__file__).parent)


def _file_of(module: ModuleType | None) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name) if name and name.endswith(".py") and Path(name).is_file() else None

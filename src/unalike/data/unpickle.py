"""Reads the public pickles of CIFAR without running anything that they say.

Python's unpickler calls what a file names. This one is a small machine of its own over the instructions that
plain data need: numbers, texts, bytes, lists, tuples, dicts, and arrays of uint8. The few names that numpy writes
are constants here; "calling" one of them is a case below, and there is no other. Whatever is made is made of bytes
that are in the file, so a small file cannot ask for much memory.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError

LARGEST_FILE = 2**29  # bytes; CIFAR-100's training file has 155 million
MOST_STEPS = 2_000_000  # instructions; the same file has some 300,000
_REMEDY = "Nothing in it was run. Download it again and unpack it."


class Name(Enum):
    """What a pickled uint8 array names. Constants: there is nothing in them to call or to change."""

    RECONSTRUCT = "numpy.core.multiarray _reconstruct"
    FROM_BUFFER = "numpy.core.numeric _frombuffer"
    ARRAY = "numpy ndarray"
    TYPE = "numpy dtype"
    ENCODE = "_codecs encode"  # how Python 3 writes bytes for Python 2
    UINT8 = "uint8"  # what dtype("u1") gives; not a name that a file may ask for


class _Refused(Exception):
    """The file asks for something that plain data do not need."""


class _Damaged(Exception):
    """The file's instructions make no sense."""


class _Pending:
    """An array: its content comes after it is first named, and the memo may refer to it before that."""

    def __init__(self, value: Array | None = None) -> None:
        self.value = value


def read_pickle(path: Path) -> dict[str, Any]:
    """The dict in the file: values are uint8 arrays (read-only), lists, tuples, numbers, texts and bytes.

    Keys that Python 2 wrote as bytes are given as texts. A file that holds anything else is refused.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(f"{path} has more than {LARGEST_FILE} bytes: not the public file. {_REMEDY}")
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. {_REMEDY}") from None
    try:
        found = Machine().run(content)
        if not isinstance(found, dict):
            raise _Damaged
        return {_text(key): _finished(value) for key, value in found.items()}
    except _Refused as error:
        raise UserError(f"{path} is not plain data: it {error}. {_REMEDY}") from None
    except (_Damaged, LookupError, TypeError, AttributeError, ValueError, OverflowError):
        raise UserError(f"{path} is damaged or not a pickle of plain data. {_REMEDY}") from None


class Machine:
    """The stack, the memo and the instructions of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []  # the stacks below each MARK
        self.memo: dict[int, Any] = {}  # a dict, not an array: the file chooses the numbers

    def run(self, content: bytes) -> Any:
        """What the instructions in ``content`` leave on the stack."""
        for step, (instruction, argument, _) in enumerate(pickletools.genops(io.BytesIO(content))):
            if step >= MOST_STEPS:
                raise _Refused(f"has more than {MOST_STEPS} instructions")
            if instruction.name in _PUSH:
                self.stack.append(argument)
            elif instruction.name in _DO:
                _DO[instruction.name](self, argument)
            else:
                raise _Refused(f"uses the pickle instruction {instruction.name}")
        return self.stack.pop()

    def pop(self, count: int) -> list[Any]:
        """The uppermost values, the lowest of them first."""
        if len(self.stack) < count:
            raise _Damaged
        values = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return values

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def mark(self) -> None:
        """Put the stack aside and begin a new one: pickle's instruction MARK."""
        self.outer.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        """The values since the last MARK."""
        values, self.stack = self.stack, self.outer.pop()
        return values

    def append(self, values: list[Any]) -> None:
        """Add the values to the list on the stack."""
        target = self.stack[-1]
        if type(target) is not list:
            raise _Damaged
        target.extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Add keys and values, in turn, to the dict on the stack."""
        target, keys = self.stack[-1], values[::2]
        # Only plain keys: the hash of tuples within tuples can take for ever.
        if type(target) is not dict or len(values) % 2 or any(type(key) not in (str, bytes, int) for key in keys):
            raise _Damaged
        target.update(zip(keys, values[1::2], strict=True))

    def name(self, module: Any, name: Any) -> None:
        """Push the constant for a name, if it is one of those that arrays of uint8 need."""
        if type(module) is not str or type(name) is not str:  # the text of tuples within tuples has no end
            raise _Damaged
        text = f"{module} {name}".replace("numpy._core.", "numpy.core.", 1)
        if text not in _KNOWN:
            raise _Refused(f"asks for {f'{module}.{name}'[:80]!r}")
        self.stack.append(_KNOWN[text])

    def build(self) -> None:
        """Give an array its content. (The type's state says byte order and the like: of no use to bytes.)"""
        target, state = self.pop(2)
        if isinstance(target, _Pending) and target.value is None:
            _, shape, kind, fortran, raw = state
            target.value = _array(raw, kind, shape, "F" if fortran else "C")
        elif target is not Name.UINT8:
            raise _Refused("sets the state of something that is no array")
        self.stack.append(target)


def _call(name: Any, arguments: Any) -> Any:
    """What the call of a constant stands for: every case there is."""
    if type(arguments) is not tuple:
        raise _Damaged
    match (name, *arguments):
        case (Name.RECONSTRUCT, Name.ARRAY, _, _):
            return _Pending()
        case (Name.FROM_BUFFER, raw, kind, shape, "C" | "F" as order):
            return _Pending(_array(raw, kind, shape, order))
        case (Name.TYPE, "u1", _, _):
            return Name.UINT8
        case (Name.ENCODE, str() as text, "latin1" | "latin-1"):
            return text.encode("latin-1")
    asked = name.value.replace(" ", ".") if isinstance(name, Name) else "something that is no function"
    raise _Refused(f"calls {asked} in a way that uint8 arrays do not need")


def _array(raw: Any, kind: Any, shape: Any, order: Any) -> Array:
    if kind is not Name.UINT8:
        raise _Refused("holds an array that is not uint8")
    if isinstance(raw, str):  # a string of Python 2
        raw = raw.encode("latin-1")
    if type(raw) not in (bytes, bytearray) or not all(type(length) is int and length >= 0 for length in shape):
        raise _Damaged
    return np.frombuffer(raw, np.uint8).reshape(shape, order=order)  # a ValueError if there are too few bytes


def _text(key: Any) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


def _finished(value: Any) -> Any:
    """The array itself. One inside a list stays an object without use, which no reader takes for data."""
    if not isinstance(value, _Pending):
        return value
    if value.value is None:
        raise _Damaged
    return value.value


_KNOWN = {name.value: name for name in Name if name is not Name.UINT8}

# Instructions whose argument is the value. Python 2's strings come as text, one character a byte.
_PUSH = frozenset(
    (
        *("BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINSTRING", "BINSTRING"),
        *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_DO: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": lambda _, __: None,
    "FRAME": lambda _, __: None,
    "STOP": lambda _, __: None,
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "MARK": lambda m, _: m.mark(),
    "TUPLE": lambda m, _: m.push(tuple(m.since_mark())),
    "TUPLE1": lambda m, _: m.push(tuple(m.pop(1))),
    "TUPLE2": lambda m, _: m.push(tuple(m.pop(2))),
    "TUPLE3": lambda m, _: m.push(tuple(m.pop(3))),
    "APPEND": lambda m, _: m.append(m.pop(1)),
    "APPENDS": lambda m, _: m.append(m.since_mark()),
    "SETITEM": lambda m, _: m.set_items(m.pop(2)),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "BINPUT": lambda m, number: m.memo.update({number: m.stack[-1]}),
    "LONG_BINPUT": lambda m, number: m.memo.update({number: m.stack[-1]}),
    "MEMOIZE": lambda m, _: m.memo.update({len(m.memo): m.stack[-1]}),
    "BINGET": lambda m, number: m.push(m.memo[number]),
    "LONG_BINGET": lambda m, number: m.push(m.memo[number]),
    "GLOBAL": lambda m, text: m.name(*text.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.name(*m.pop(2)),
    "REDUCE": lambda m, _: m.push(_call(*m.pop(2))),
    "BUILD": lambda m, _: m.build(),
}

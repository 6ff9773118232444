"""Nets of the user's own: any ``nn.Module`` whose ``forward(x)`` returns logits, by its file or as an object."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from unalike import own_files
from unalike.errors import UserError, shown
from unalike.models.model import MODELS, register_model
from unalike.models.names import untold
from unalike.part_text import show, value_of

if TYPE_CHECKING:
    from torch import nn

    from unalike.models.head import Anatomy
    from unalike.models.net import Net

ModelLike: TypeAlias = "str | nn.Module | type[nn.Module] | Callable[..., nn.Module]"
"""What ``unalike.run(model=...)`` takes: a text, a module, its class, or a function (shape=, classes=)."""


@runtime_checkable
class OwnNet(Protocol):
    """A model that is a module of the user's own, which has to be taken apart into a body and a head."""

    @property
    def head(self) -> str:
        """The name of the layer that makes the logits; nothing: it is found; "none": there is none."""
        ...

    def make(self, shape: tuple[int, ...], classes: int) -> object:
        """A fresh module for such rows."""
        ...

    @property
    def who(self) -> str:
        """What it is called in a line about a mistake."""
        ...


@register_model("module")
class FileModule:
    """Your own net: module:FILE.py:NAME, a class or function in your file whose nn.Module returns logits.

    ``NAME`` is called with what is written in the brackets, module:nets.py:Net(width=64), and, where it takes
    arguments of these names, with ``shape``, that of a row, and ``classes``. ``head`` names the linear layer that
    makes the logits; without it that layer is found, and "none" trains a net that has no such layer.
    """

    reads: ClassVar[str] = "both"
    collects: ClassVar[str] = "options"

    where: str
    head: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not all(self._place):
            raise UserError(f"module needs a file and a name in it, got {self.where!r}. Write module:nets.py:Net.")

    @property
    def _place(self) -> tuple[str, str]:
        file, _, name = self.where.rpartition(":")
        return file, name

    @property
    def who(self) -> str:
        """The name in the file, and the file."""
        file, name = self._place
        return f"{name} ({Path(file).name})"

    def files(self) -> tuple[own_files.CodeFile, ...]:
        """The files that building this net runs, with hashes of their contents. None of them is run."""
        return own_files.code_files(self._place[0])

    def fingerprint(self) -> str:
        """SHA-256 of the file and of those beside it that it imports."""
        return own_files.code_digest(self._place[0])

    def make(self, shape: tuple[int, ...], classes: int) -> object:
        """What the name in the file makes; the file is run if it was named by the user."""
        file, name = self._place
        maker: Any = own_files.load(file)
        for part in name.split("."):
            if not hasattr(maker, part):
                raise UserError(f"{file} has no {name}. Check the name after the last colon.")
            maker = getattr(maker, part)
        return _called(maker, self.who, shape, classes, dict(self.options))

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for rows of numbers."""
        return own_net_maker(self, shape, "numbers", classes)()


class _InMemory:
    """A net that a Python program gave, and that no file has."""

    reads: ClassVar[str] = "both"
    name: str
    sha256: str
    head: str

    @property
    def who(self) -> str:
        """The name of the class, function or module."""
        return self.name

    def make(self, shape: tuple[int, ...], classes: int) -> object:
        """The module, or what the class or function makes."""
        from torch import nn

        given = _given.get((self.name, self.sha256))
        if given is None:
            raise UserError(
                f"The net {self.name} was given by a Python program and is not kept here. Give it again, "
                "unalike.run(model=...), or put it into a file: --model module:FILE.py:NAME."
            )
        return given if isinstance(given, nn.Module) else _called(given, self.who, shape, classes, {})

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """The net for rows of numbers."""
        return own_net_maker(self, shape, "numbers", classes)()


@register_model("pretrained")
class Pretrained(_InMemory):
    """A module with its weights that a Python program gave to unalike.run(model=...): named by its hash."""

    name: str = ""
    sha256: str = ""
    head: str = ""


@register_model("typed")
class TypedIn(_InMemory):
    """A class or function of a notebook that was given to unalike.run(model=...): named by its source's hash."""

    name: str = ""
    sha256: str = ""
    head: str = ""


_given: dict[tuple[str, str], Any] = {}
_unkept: dict[str, str] = {}
"""By what stands in place of a fingerprint, why there is none."""
_numbers = itertools.count(1)


def module(what: ModelLike, *, head: str = "", **options: Any) -> str:
    """The text of a net of your own, for ``model=``: where its head must be named, or options be given."""
    if isinstance(what, str):
        raise UserError(f"module needs a class, a function or a module, got {what!r}. Write it as model={what!r}.")
    if isinstance(what, functools.partial) and not what.args:
        return module(what.func, head=head, **{**what.keywords, **options})
    from torch import nn

    if isinstance(what, nn.Module):
        if options:
            raise UserError(f"A module that is there takes no options, got {', '.join(options)}. Give its class.")
        return _in_memory(Pretrained, what, type(what).__name__, head)
    if not callable(what):
        raise UserError(f"model must be text, a torch module, its class or a function, got {shown(what)}.")
    name = getattr(what, "__qualname__", type(what).__name__)
    file = _file_of(what, name)
    if file is None or untold(what) or not all(map(_can_be_written, options.values())):
        return _in_memory(TypedIn, functools.partial(what, **options) if options else what, name, head)
    return MODELS.describe(FileModule(f"{file}:{name}", head, tuple(sorted(options.items()))))


def model_text(value: Any) -> str:
    """The text of a model that was given as an object; a text is one already."""
    if isinstance(value, str):
        return value
    if any(entry.cls is type(value) for entry in MODELS):
        return MODELS.describe(value)
    return module(value)


def name_code(text: str) -> None:
    """Let the files of a model's text be run, because the user wrote the text."""
    if "module" in text:
        for model in MODELS.terms(MODELS.build(text)):
            if isinstance(model, FileModule):
                own_files.allow_code(model._place[0])


def check_named(text: str) -> None:
    """Refuse a model's text whose files the user has not named; nothing is run."""
    for model in MODELS.terms(MODELS.build(text)):
        if isinstance(model, FileModule):
            own_files.check_allowed(model._place[0])


def files_of(text: str) -> tuple[own_files.CodeFile, ...]:
    """The files of the user's own that building a model's nets runs, with their hashes. None of them is run."""
    models = MODELS.terms(MODELS.build(text))
    return tuple(dict.fromkeys(f for m in models if isinstance(m, FileModule) for f in m.files()))


def why_unkept(text: str) -> str | None:
    """Why a run of this model cannot be recorded: its net has no fingerprint. None where it can."""
    models = MODELS.terms(MODELS.build(text))
    whys = (_unkept.get(m.sha256) for m in models if isinstance(m, _InMemory))
    return next((why for why in whys if why), None)


def own_net_maker(model: OwnNet, shape: tuple[int, ...], kind: str, outputs: int) -> Callable[[], Net]:
    """What makes the nets of a model of the user's own; the first one is looked at, and says how all are."""
    import torch

    from unalike.models.head import copied, examine, take_apart
    from unalike.models.net import Net

    rows = torch.zeros(2, *shape, dtype=torch.int64 if kind == "tokens" else torch.float32)
    found: list[Anatomy] = []

    def make() -> Net:
        made = copied(model.make(shape, outputs), model.who)
        if isinstance(made, Net):
            return made
        if not found:
            found.append(examine(made, rows, outputs, model.head, model.who))
        return take_apart(made, found[0], rows)

    return make


def _in_memory(cls: type[Any], what: Any, name: str, head: str) -> str:
    from unalike.models.fingerprint import Unknowable, fingerprint

    try:
        sha256 = fingerprint(what)[:16]
    except Unknowable as error:
        sha256 = f"none-{next(_numbers)}"
        _unkept[sha256] = f"The net {name} has no fingerprint ({error}): this run is not recorded."
    _given[name, sha256] = what
    return MODELS.describe(cls(name, sha256, head))


def _can_be_written(value: Any) -> bool:
    """Whether a value is the same again after it stood in a text, as a function is not."""
    try:
        return bool(value_of(show(value)) == value)
    except ValueError:
        return False


def _file_of(what: Any, name: str) -> str | None:
    """The file in which a class or function can be found by its name, as a path; None where there is none."""
    from unalike.models.fingerprint import is_own_file

    home = sys.modules.get(getattr(what, "__module__", None) or "")
    file = getattr(home, "__file__", None)
    if home is None or file is None or Path(file).suffix != ".py" or not Path(file).is_file():
        return None
    if "<" in name or not is_own_file(file):
        return None
    found: Any = home
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not what:
        return None
    own_files.remember(home, file)
    path, here = Path(file).resolve(), Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def _called(maker: Any, who: str, shape: tuple[int, ...], classes: int, options: Mapping[str, Any]) -> object:
    """What a class or function makes: it gets its options, and ``shape`` and ``classes`` if it takes them."""
    from torch import nn

    from unalike.models.head import in_one_line

    if isinstance(maker, nn.Module) or not callable(maker):
        raise UserError(
            f"{who} is a {type(maker).__name__} that is there already. Name a class or a "
            "function that makes the net."
        )
    known: dict[str, Any] = {"shape": shape, "classes": classes}
    try:
        signature = inspect.signature(maker)
        given = {name: value for name, value in known.items() if name in signature.parameters} | dict(options)
        signature.bind(**given)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{who} cannot be called: {error}. Write its arguments after the name, such as NAME(width=64); those "
            "that it calls shape and classes are given by the data."
        ) from None
    try:
        return maker(**given)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{who} fails when it is made: {in_one_line(error)}") from error

"""An algorithm of the user's own: what its methods take and return is checked where they are called.

Without this a wrong return value goes on until some line of the engine cannot use it, and the error says nothing
of the method that made it. Algorithms of this package are left as they are: tests vouch for them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from torch import Tensor

from unalike.algorithms.contract import (
    Algorithm,
    Ask,
    ByParty,
    Kind,
    MeasuredRows,
    Phase,
    Replies,
    Sends,
    Vectors,
    parts_of,
)
from unalike.algorithms.exchange import is_work
from unalike.algorithms.outlines import outline_of
from unalike.algorithms.protocol import Protocol
from unalike.algorithms.terms import Ahead
from unalike.errors import UserError
from unalike.own_code import check_signature, is_own, place

if TYPE_CHECKING:
    from unalike.models.task import Task

_SCRIPTS = ("prepare", "round")
"""Methods that are generators of exchanges."""
_NEEDS = (
    *("needs_each", "needs_sgd", "needs_features", "needs_exact", "needs_whole"),
    *("measures_personal", "keeps_statistics"),
)
"""What is needed around an algorithm, and so around one that it is the base of."""


def checked(algorithm: object) -> Algorithm:
    """The algorithm, ready to be used by an engine; one that cannot be is refused in one line."""
    if isinstance(algorithm, Protocol):
        raise UserError(
            f"{type(algorithm).__name__} is a protocol; this is for algorithms that train nets. Choose another."
        )
    if not isinstance(algorithm, Algorithm):
        name = type(algorithm).__name__
        raise UserError(f"{name} is no Algorithm. Write: class {name}(Algorithm), from unalike import Algorithm.")
    for field in dataclasses.fields(algorithm):
        if isinstance(base := getattr(algorithm, field.name), Algorithm):
            if base.pools:
                raise UserError(
                    f"{field.name} cannot be one that has all rows at one place. Try {field.name}=fedavg."
                )
            _take_base(algorithm, field.name, checked(copy.copy(base)))  # copied: it may be the default of all
    if not is_own(algorithm):
        return algorithm
    if algorithm.sends not in get_args(Sends):
        known = ", ".join(get_args(Sends))
        raise UserError(f"{type(algorithm).__name__}.sends must be one of {known}, got {algorithm.sends!r}.")
    for name in (*_RULES, *_SCRIPTS):
        check_signature(algorithm, name, getattr(Algorithm, name))
    # On the object itself, so that the base class's methods, which call each other, meet the checks too.
    watched = {name: _watched(algorithm, name, rule) for name, rule in _RULES.items()}
    for name, method in (watched | {name: _watched_script(algorithm, name) for name in _SCRIPTS}).items():
        object.__setattr__(algorithm, name, method)
    return algorithm


def _take_base(algorithm: Algorithm, field: str, base: Algorithm) -> None:
    """Use a base, and need what it needs: the class of the algorithm around it cannot know."""
    needs = {name: getattr(algorithm, name) or getattr(base, name) for name in _NEEDS}
    for name, value in {field: base, "plain": algorithm.plain | base.plain, **needs}.items():
        object.__setattr__(algorithm, name, value)


class _Rule(NamedTuple):
    """What a method must return: in words, where ``format`` fills in its arguments, and as a test of both."""

    what: str
    holds: Callable[..., bool]


def _are_vectors(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(v, Tensor) and isinstance(k, str) for k, v in value.items())


def _is_payload(value: object, task: Task) -> bool:
    if not isinstance(value, dict):
        return False
    plain = {key: each.values if isinstance(each, ByParty) else each for key, each in value.items()}
    rows = [each for each in value.values() if isinstance(each, ByParty)]
    return _are_vectors(plain) and all(_are_rows(each, task.population) for each in rows)


def _are_rows(rows: ByParty, parties: int) -> bool:
    """Whether ``which`` names a row of ``values`` for each party."""
    which, whole = rows.which, isinstance(rows.which, Tensor) and not rows.which.is_floating_point()
    if not whole or which.dim() != 1 or not rows.values.dim() or len(which) != parties:
        return False
    return bool(which.min() >= 0) and bool(which.max() < len(rows.values))


def _are_phases(value: object, least: int, task: Task) -> bool:
    if not isinstance(value, tuple) or len(value) < least or not all(isinstance(one, Phase) for one in value):
        return False
    named = {part for one in value for part in parts_of(one.trains)} - {"norm"}
    return all(is_work(one) for one in value) and named <= task.slices.keys()


def _is_number(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0


def _is_vector(value: object, task: Task) -> bool:
    return isinstance(value, Tensor) and value.dim() == 1 and value.dtype == task.dtype


def _are_models(value: object, task: Task) -> bool:
    return isinstance(value, Tensor) and value.dtype == task.dtype and value.shape[-1:] == (task.size,)


def _are_two(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(_are_vectors, value))


def _are_numbers_then_vectors(value: object, task: Task, numbers: int, vectors: int) -> bool:
    """A tuple of so many numbers and then so many tensors, none of which is one number."""
    if not isinstance(value, tuple) or len(value) != numbers + vectors:
        return False
    given = all(isinstance(one, int | float) or _is_number(one) for one in value[:numbers])
    return given and all(
        isinstance(one, Tensor) and one.dim() and one.dtype == task.dtype for one in value[numbers:]
    )


def _is_proximal(value: object, task: Task) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return value is None
    mu, centre = value
    if not _is_vector(centre, task):
        return False
    return isinstance(mu, int | float) or (isinstance(mu, Tensor) and mu.shape in ((), centre.shape))


def _is_loss(value: object, w: Tensor) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0 and (value.requires_grad or not w.requires_grad)


_NAMED = _Rule("a dict of named tensors, such as {{'w': w}}", lambda value, *_: _are_vectors(value))
_ANSWER = _Rule(
    "two dicts of named tensors, what leaves the party and the state that it keeps",
    lambda value, *_: _are_two(value),
)
_WORK = (
    "each of which trains a part of the net (head, body, norm, a name in task.slices, or '' for all), for epochs "
    "or steps above 0, not both, on rows that are own, public or own+public, with a share above 0 and at most 1, "
    "and of own rows alone, a part (i, n, deal) with i from 0 to n - 1"
)
_RULES = {
    "init_server": _Rule(
        "a dict of named tensors, such as {{'w': w}}, with w of {0.dtype}",
        lambda value, task, w: _are_vectors(value) and value.get("w", w).dtype == w.dtype,
    ),
    "send": _Rule(
        "a dict of named tensors, such as {{'w': w}}, or of ByParty(values, which) where a party gets a row of "
        "its own: which has the number of a row, from 0, for each of the {0.population} parties",
        lambda value, task, server: _is_payload(value, task),
    ),
    "phases": _Rule(
        f"a tuple of one Phase or more, {_WORK}",
        lambda value, task, round: _are_phases(value, 1, task),
    ),
    "adapt": _Rule(
        f"a tuple of Phase, {_WORK}",
        lambda value, task: _are_phases(value, 0, task),
    ),
    "adapts": _Rule("True or False", lambda value, known: isinstance(value, bool)),
    "keeps_statistics_of": _Rule("True or False", lambda value, task: isinstance(value, bool)),
    "keep": _NAMED,
    "fold": _NAMED,
    "init_party": _NAMED,
    "measure": _NAMED,
    "upload": _ANSWER,
    "report": _ANSWER,
    "offer": _ANSWER,
    "global_model": _Rule(
        "a vector ({0.dtype}) of the net's {0.size} weights, several of them [k, {0.size}], or None",
        lambda value, task, server: value is None or _are_models(value, task),
    ),
    "personal": _Rule(
        "a vector ({0.task.dtype}) of the net's {0.task.size} weights",
        lambda value, party: _is_vector(value, party.task) and len(value) == party.task.size,
    ),
    "weight": _Rule("one number as a tensor, such as party.size", lambda value, party: _is_number(value)),
    "start": _Rule("a vector ({0.task.dtype}) of weights", lambda value, party: _is_vector(value, party.task)),
    "proximal": _Rule(
        "None, or mu (a number, or one for each weight) and a vector ({0.task.dtype}), the centre",
        lambda value, party: _is_proximal(value, party.task),
    ),
    "linear": _Rule(
        "None, or a vector ({0.task.dtype})",
        lambda value, party: value is None or _is_vector(value, party.task),
    ),
    "labels": _Rule(
        "None, or a vector of whole numbers, a label for each row",
        lambda value, party: value is None or (isinstance(value, Tensor) and not value.is_floating_point()),
    ),
    "near": _Rule(
        "None, or lam (a number) and a vector ({0.task.dtype}), the target",
        lambda value, party: value is None or _are_numbers_then_vectors(value, party.task, 1, 1),
    ),
    "teach": _Rule(
        "None, or lam and heat (numbers) and a teacher ({0.task.dtype}): a vector of weights or a table of logits",
        lambda value, party: value is None or _are_numbers_then_vectors(value, party.task, 2, 1),
    ),
    "contrast": _Rule(
        "None, or mu and heat (numbers) and two vectors ({0.task.dtype}) of weights",
        lambda value, party: value is None or _are_numbers_then_vectors(value, party.task, 2, 2),
    ),
    "ahead": _Rule(
        "None, or Ahead(rate, steps, pull, apart)",
        lambda value, party: value is None or isinstance(value, Ahead),
    ),
    "pace": _Rule(
        "None, or what gradients are multiplied by: a number",
        lambda value, party: value is None or isinstance(value, int | float) or _is_number(value),
    ),
    "scales": _Rule(
        "None, or a vector ({0.task.dtype}) with a number for each class",
        lambda value, party: value is None or _is_vector(value, party.task),
    ),
    "beside": _Rule(
        "None, or the share of a second model: a number",
        lambda value, party: value is None or isinstance(value, int | float) or _is_number(value),
    ),
    "loss": _Rule(
        "one number as a tensor that has a gradient, such as batch.mean(losses)",
        lambda value, party, w, batch: _is_loss(value, w),
    ),
    "correct": _Rule(
        "a vector like grad, {2.shape}",
        lambda value, party, w, grad: isinstance(value, Tensor) and value.shape == grad.shape,
    ),
}


def _watched(algorithm: Algorithm, name: str, rule: _Rule) -> Callable[..., Any]:
    method = getattr(algorithm, name)

    def call(*arguments: Any) -> Any:
        value = method(*arguments)
        if not rule.holds(value, *arguments):
            raise _wrong(algorithm, name, rule.what.format(*arguments), value)
        if name == "phases" and len(value) > 1 and not algorithm.overrides("keep"):
            raise _nothing_kept(algorithm, value)
        return value

    return call


def _watched_script(algorithm: Algorithm, name: str) -> Callable[..., Generator[Ask, Replies, Vectors]]:
    method: Callable[..., Any] = getattr(algorithm, name)

    def call(*arguments: Any) -> Generator[Ask, Replies, Vectors]:
        rounds = method(*arguments)
        if not isinstance(rounds, Generator):
            what = "a generator: yield an Ask, and return the server's state at the end"
            raise _wrong(algorithm, name, what, rounds)
        replies = None
        while True:
            try:
                ask = rounds.send(replies)
            except StopIteration as end:
                if not _are_vectors(end.value):
                    raise _wrong(algorithm, name, "the server's state, a dict of tensors", end.value) from None
                state: Vectors = end.value
                return state
            _check_ask(algorithm, name, ask, arguments[0])
            replies = yield ask

    return call


def _check_ask(algorithm: Algorithm, name: str, ask: object, task: Task) -> None:
    if not isinstance(ask, Ask):
        raise _wrong(algorithm, name, "each exchange as an Ask(kind, payload)", ask, verb="yield")
    for value, known in ((ask.kind, get_args(Kind)), (ask.rows, get_args(MeasuredRows))):
        if value not in known or not isinstance(ask.phase, str):
            raise UserError(
                f"{place(algorithm, name)} must yield an Ask of one of {', '.join(known)}, got {value!r}."
            )
    if not _is_payload(ask.payload, task):
        what = (
            "an Ask whose payload is a dict of named tensors, or of ByParty(values, which), a row for each party"
        )
        raise _wrong(algorithm, name, what, ask.payload, verb="yield")
    to = ask.to
    if to is not None and (not isinstance(to, tuple) or not to or not all(type(n) is int for n in to)):
        raise _wrong(algorithm, name, "an Ask whose `to` is None or a tuple of parties' numbers", to, verb="yield")


def _nothing_kept(algorithm: Algorithm, phases: tuple[Phase, ...]) -> UserError:
    return UserError(
        f"{place(algorithm, 'phases')} returns {len(phases)} phases, but {type(algorithm).__name__} has no keep. "
        "Each phase begins at start(party), so what comes of the first would be lost. Write keep(self, party, w), "
        "which puts it into the party's state, and a start that takes it from there."
    )


def _wrong(algorithm: Algorithm, name: str, what: str, value: object, verb: str = "return") -> UserError:
    return UserError(f"{place(algorithm, name)} must {verb} {what}, got {outline_of(value)}.")

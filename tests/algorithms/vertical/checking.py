"""What every protocol of columns must hold, checked on any one of them: ``check_columns(protocol, blocks, y)``.

Steps are pure and change nothing that they are given; wrong mail is refused by its sender's name; the order of
mail does not matter; states keep their layout, and a run goes on from those of any round with the same bits; the
conversation that predicts gives the bits of the joined model; one party alone trains too.
"""

from dataclasses import replace
from importlib import import_module

import numpy as np

from tests.algorithms.vertical.talking import joined, play, predicted, roles_of, terms_of
from unalike.algorithms.protocol import SERVER, Say, WrongMail
from unalike.rounds.conversation import InProcess, converse


def check_columns(protocol, blocks, y, *, spoil_rounds=(0, 1), new_rows=40, validation=0, apart=None, **terms):
    """Check a protocol of columns on people whom parties know by ``blocks``; ``terms`` are those of terms_of.

    Mail is spoilt in the rounds of ``spoil_rounds``. The states after training are returned, with the roles.
    """

    def roles():
        return roles_of(terms_of(blocks, y, **terms), blocks, y, validation, apart)

    last = terms_of(blocks, y, **terms).rounds
    whole, _ = play(protocol, roles())
    check_steps(protocol, roles(), last, spoil_rounds)
    assert_same(play(protocol, roles(), carrier=Backwards)[0], whole, "the order of mail matters")
    check_resumed(protocol, roles, whole, last)
    others = [block[:new_rows][::-1].copy() for block in blocks]
    check_predictions(protocol, roles(), whole, others)
    check_alone(protocol, blocks, y, validation, **terms)
    return roles(), whole


def check_steps(protocol, roles, last, spoil_rounds):
    """Every step is made twice, the second time with nothing remembered; then with mail that is spoilt."""
    states = {me.number: protocol.start(me) for me in roles}
    for round in range(last + 1):
        layouts = {number: layout(kept) for number, kept in states.items()}
        watching = Watching(protocol, roles, states, spoil=round in spoil_rounds)
        converse(watching, [me.number for me in roles], round)
        states = watching.states
        kept = {number: layout(own) for number, own in states.items()}
        assert kept == layouts, f"round {round} changes what is kept from {layouts} to {kept}"


def check_resumed(protocol, roles, whole, last):
    """From what was kept after any round, fresh roles that remember nothing come to the same states."""
    for stop in range(last):
        first, _ = play(protocol, roles(), last=stop)
        saved = {number: {name: array.copy() for name, array in kept.items()} for number, kept in first.items()}
        then, _ = play(protocol, roles(), first=stop + 1, states=saved)
        assert_same(then, whole, f"another outcome after a stop in round {stop}")


def check_predictions(protocol, roles, states, blocks):
    """The conversation that predicts gives the margins of the joined model, to the bit."""
    terms = roles[0].terms
    arrays = joined(protocol, roles, states)
    before = {number: bytes_of(kept) for number, kept in states.items()}
    said = predicted(protocol, roles, states, blocks)
    assert {number: bytes_of(kept) for number, kept in states.items()} == before, "predicting changes states"
    model = reader_of(protocol, terms).of(arrays, terms.model, terms.classes, terms.target)
    x = np.concatenate(blocks, axis=1)
    margins = model.margins(x)
    assert said.dtype == margins.dtype == np.float64
    assert said.shape == margins.shape == (len(x), 1 if terms.classes in (0, 2) else terms.classes)
    assert np.isfinite(margins).all()
    assert said.tobytes() == margins.tobytes(), f"predictions differ by {np.abs(said - margins).max()}"
    again = reader_of(protocol, terms).of(arrays, terms.model, terms.classes, terms.target)
    assert model.sha256 == again.sha256


def check_alone(protocol, blocks, y, validation, **terms):
    """With nobody but the label holder it trains, predicts, and its model can be joined."""
    holder = terms.get("label_holder", 0)
    own = [blocks[holder]]
    alone = roles_of(terms_of(own, y, **terms | {"label_holder": 0}), own, y, validation)
    states, _ = play(protocol, alone)
    check_predictions(protocol, alone, states, own)


class Watching(InProcess):
    """Makes every step twice, on arrays that cannot be written to, and then again with each array spoilt."""

    def __init__(self, protocol, roles, states, spoil):
        super().__init__(protocol, roles, states)
        self._spoil = spoil

    def step(self, number, turn, inbox):
        me, state = self._roles[number], held(self.states[number])
        given = {sender: held(arrays) for sender, arrays in inbox.items()}
        before = said_bytes(state, Say(mail=given))
        after = self._protocol.step(me, state, turn, given)
        outcome = said_bytes(*after)
        again = self._protocol.step(replace(me, kept={}), state, turn, given)
        assert said_bytes(*again) == outcome, f"party {number}, {turn}: a step made again gives something else"
        assert said_bytes(state, Say(mail=given)) == before, f"party {number}, {turn}: changes what it is given"
        if self._spoil:
            for sender, name, what, wrong in spoilt(given):
                self._refused(me, state, turn, wrong, sender, f"{name!r} of {sender} {what}", outcome)
        return after

    def _refused(self, me, state, turn, wrong, sender, what, outcome):
        try:
            found = self._protocol.step(replace(me, kept={}), state, turn, wrong)
        except WrongMail as error:
            if error.sender != sender:
                raise AssertionError(f"party {me.number}, {turn}: blames {error.sender} for {what}") from error
            return
        assert said_bytes(*found) == outcome, f"party {me.number}, {turn}: takes {what}"


class Backwards(InProcess):
    """Carries the mail of later senders first, and each sender's arrays in the other order."""

    def step(self, number, turn, inbox):
        other = {sender: dict(reversed(arrays.items())) for sender, arrays in reversed(list(inbox.items()))}
        return super().step(number, turn, other)


def spoilt(inbox):
    """Inboxes in which one array has another type or shape, is no number, or is not there."""
    for sender, arrays in inbox.items():
        for name, array in arrays.items():
            other = np.float32 if array.dtype != np.float32 else np.float64
            longer = (
                np.concatenate([array, array[-1:]]) if array.ndim and len(array) else np.zeros((2, 2, 2, 2, 2))
            )
            ways = {"of another type": array.astype(other), "of another shape": longer.astype(array.dtype)}
            if array.dtype.kind == "f" and array.size:
                ways |= {f"with {bad}": with_first(array, bad) for bad in (np.nan, np.inf)}
            for what, wrong in ways.items():
                yield sender, name, what, {**inbox, sender: {**arrays, name: wrong}}
            rest = {key: each for key, each in arrays.items() if key != name}
            yield sender, name, "left out", {**inbox, sender: rest}


def with_first(array, value):
    """The same array, but for its first number."""
    changed = array.copy()
    changed.reshape(-1)[0] = value
    return changed


def reader_of(protocol, terms):
    """The class that reads the arrays of a joined model."""
    module, _, name = (protocol.predictor or str(terms.model.predictor)).partition(":")
    return getattr(import_module(module), name)


def layout(arrays):
    """Names, types and shapes of arrays."""
    return {name: (array.dtype.name, array.shape) for name, array in arrays.items()}


def held(arrays):
    """The same arrays, which nobody can write to."""
    views = {name: array.view() for name, array in arrays.items()}
    for view in views.values():
        view.flags.writeable = False
    return views


def bytes_of(arrays):
    """All that is in arrays, equal for equal bytes."""
    return sorted((name, array.dtype.name, array.shape, array.tobytes()) for name, array in arrays.items())


def said_bytes(state, say):
    """All that a step leaves, equal for equal bytes."""
    mail = [(whom, bytes_of(arrays)) for whom, arrays in sorted(say.mail.items())]
    return bytes_of(state), mail, say.to, bytes_of(say.add or {}), sorted(say.figures.items())


def assert_same(one, other, what):
    """Both have the same states of all roles, to the bit."""
    assert one.keys() == other.keys()
    for number in sorted(one):
        who = "the server" if number == SERVER else f"party {number}"
        assert bytes_of(one[number]) == bytes_of(other[number]), f"{what}: {who} differs"

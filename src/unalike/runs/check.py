"""``check_algorithm``: what every algorithm must hold, its own paper's properties aside.

Run it on an algorithm of your own: ``check_algorithm("my-algorithm(mu=0.1)")``. It raises AssertionError with
one line that says which promise of the contract is broken, or UserError where a method fails or returns something
else than the contract says: the same line that a run would end in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.contract import ByParty, Vectors
from unalike.algorithms.protocol import Protocol
from unalike.channels import Summand
from unalike.engines.sequential import Sequential
from unalike.engines.several import PerNet
from unalike.engines.table import ENGINES
from unalike.engines.vectorised import Vectorised
from unalike.errors import UserError
from unalike.rounds.gather import Engine
from unalike.rounds.ledger import Ledger
from unalike.rounds.order import Reply
from unalike.rounds.state import State
from unalike.runs.simulation import Simulation
from unalike.runs.small import ROUNDS, can_be_stacked, distance, play, small_simulation

UNREPEATABLE = (
    "Two runs with one seed differ on the same engine: it draws random numbers outside of the streams (use "
    "party.normal, batch.normal or task.generator), or keeps a state in the class or in a module (use init_server "
    "and init_party)."
)
UNSAVED = "Something that a later round needs is in no state: keep it in what init_server and init_party give."
HALF = ROUNDS // 2


def check_algorithm(text: str, say: Callable[[str], None] = print, **fields: Any) -> None:
    """Check the algorithm that ``text`` describes; ``fields`` change the spec it is tried with.

    ``say`` gets one line where everything holds.
    """
    part: Any = ALGORITHMS.build(text)
    if isinstance(part, Protocol):
        raise UserError(f"{text} is a protocol. Use check_protocol.")
    assert ALGORITHMS.build(ALGORITHMS.describe(part)) == part, f"{text}: its text does not give it back"
    plays = _Plays(text, fields)
    check_phases(text, **fields)
    _engines_agree(plays)
    _resume(plays)
    _purity(plays)
    check_own_rows(text, **fields)
    check_adapt(text, **fields)
    say(
        f"{text} holds the contract: engines agree, a resumed run has the same bits, methods change nothing that "
        "they are given, and a party depends on what it is sent alone."
    )


class _Plays:
    """Runs of one algorithm from beginning to end, each played once, whatever is looked at in it."""

    def __init__(self, text: str, fields: dict[str, Any]) -> None:
        self.text, self.fields = text, fields
        self.stacks = can_be_stacked(small_simulation(text, **fields))
        self._known: dict[str, tuple[Vectors, str, str]] = {}
        self._halves: dict[str, Vectors] = {}

    @property
    def engines(self) -> list[str]:
        """All engines, without the one that would hand a net that cannot be stacked on to the first."""
        return [name for name in ENGINES if self.stacks or name != "vectorised"]

    def of(self, engine: str) -> tuple[Vectors, str, str]:
        """The state in the end, its digest, and what a round changed that it was given; nothing if it did not."""
        if engine not in self._known:
            simulation = small_simulation(self.text, engine=engine, **self.fields)
            found = [self._round(simulation, engine) for _ in range(HALF)]
            self._halves[engine] = {name: value.clone() for name, value in simulation.state.tensors().items()}
            found += [self._round(simulation, engine) for _ in range(HALF, ROUNDS)]
            changed = next(filter(None, found), "")
            self._known[engine] = simulation.state.tensors(), simulation.state.digest(), changed
        return self._known[engine]

    def half(self, engine: str) -> State:
        """The state in the middle, as a checkpoint would have saved it."""
        self.of(engine)
        return State.of(HALF, self._halves[engine])

    def _round(self, simulation: Simulation, engine: str) -> str:
        """Play a round; what it changed in place, or of absent parties."""
        before = {name: value.clone() for name, value in simulation.state.tensors().items()}
        after, _ = simulation.play_round()
        given, found = simulation.state.tensors(), ""
        if strange := sorted(before.keys() ^ given.keys()):
            simulation.state = after
            return f"a round changed in place whether there is {strange[0]} ({engine})"
        changed, key = distance(before, given)
        if changed:
            found = f"a round changed {key} in place ({engine})"
        for number in set(simulation.state.parties) - set(simulation.cohort(after.round)):
            changed, key = distance(dict(simulation.state.parties[number]), dict(after.parties[number]))
            if changed:
                found = found or f"absent party {number}'s {key} changed ({engine})"
        simulation.state = after
        return found


def check_engines_agree(text: str, **fields: Any) -> None:
    """All engines give the same server and party states, to 1e-5 in float32 and 1e-10 in float64.

    The compiled one takes part in float32, where there is a compiler; stacks where the net can be stacked, and in
    float64 stacks of a single party too.
    """
    _engines_agree(_Plays(text, fields))


def _engines_agree(plays: _Plays) -> None:
    text, fields, stacks = plays.text, plays.fields, plays.stacks
    stacked = {"stacked": Vectorised(), "stacked one by one": Vectorised(chunk_bytes=1)} if stacks else {}
    names = {"vectorised": "stacked"}  # as a message calls it
    single = {names.get(name, name): plays.of(name)[0] for name in plays.engines}
    double: dict[str, Engine] = {"sequential": Sequential(), **stacked}
    for dtype, tolerance, known, others in (
        ("float32", 1e-5, single, {}),
        ("float64", 1e-10, {}, double),
    ):
        states = dict(known)
        for name, engine in others.items():
            simulation = small_simulation(text, dtype=dtype, **{"evaluate_every": ROUNDS, **fields})
            simulation.engine = PerNet([engine] * len(simulation.tasks))
            states[name] = play(simulation, ROUNDS).state.tensors()
        for name, other in states.items():
            worst, key = distance(states["sequential"], other)
            assert worst <= tolerance, (
                f"{text}: sequential and {name} differ by {worst:.1e} in {key} after {ROUNDS} rounds ({dtype}). "
                f"{_why_engines_differ(text, name, fields)}"
            )


def _why_engines_differ(text: str, name: str, fields: dict[str, Any]) -> str:
    """What to look at, found by playing it in other ways."""
    if (
        play(small_simulation(text, **fields), 2).state.digest()
        != play(small_simulation(text, **fields), 2).state.digest()
    ):
        return UNREPEATABLE
    engine = "compiled" if name == "compiled" else "vectorised"
    whole = {**fields, "batch_size": 1, "dtype": "float64"}  # no batch is short, so none is padded
    one, other = (small_simulation(text, **{**whole, "engine": how}) for how in ("sequential", engine))
    gap, _ = distance(play(one, 1).state.tensors(), play(other, 1).state.tensors())
    if gap <= 1e-10:
        return (
            "With whole batches they agree: a short batch is padded in a stack, and padding is averaged or "
            "counted. Average over rows with batch.mean, never .mean() or .sum(), and do not use len(batch.y)."
        )
    return (
        "They differ with whole batches too: look for what depends on how many parties are computed at once, such "
        "as a sum over a tensor's first axis, or an in-place change of what a method was given."
    )


def check_resume(text: str, **fields: Any) -> None:
    """A run cut in two through its saved tensors gives the same bits, and so does a second run."""
    _resume(_Plays(text, fields))


def _resume(plays: _Plays) -> None:
    text, fields = plays.text, {"evaluate_every": ROUNDS, **plays.fields}
    for engine in plays.engines:
        _, whole, _ = plays.of(engine)
        second = small_simulation(text, engine=engine, **fields)
        second.state = plays.half(engine)
        play(second, ROUNDS - HALF)
        if second.state.digest() == whole:
            continue
        again = play(small_simulation(text, engine=engine, **fields), ROUNDS)
        why = UNREPEATABLE if again.state.digest() != whole else UNSAVED
        raise AssertionError(f"{text}: resumed differs from uninterrupted ({engine}). {why}")


def check_phases(text: str, **fields: Any) -> None:
    """``phases`` and ``adapt`` are functions: asked again, or of another object, they say the same."""
    one, other = (small_simulation(text, **fields) for _ in range(2))
    for round in (0, 1, 2, 2, 1, 0):
        said = [each.algorithm.phases(each.task, round) for each in (one, one, other)]
        assert said[0] == said[1] == said[2], (
            f"{text}: phases of round {round} are {said[0]}, and asked again {said[1]} and {said[2]}. A site "
            "works them out itself: they may depend on the round, the task and the hyper-parameters alone."
        )
    assert one.algorithm.adapt(one.task) == other.algorithm.adapt(other.task), f"{text}: adapt says other phases"


def check_own_rows(text: str, **fields: Any) -> None:
    """A party depends on what its order holds alone: not on what others are sent, wherever that is remembered."""
    simulation = play(small_simulation(text, engine="sequential", **fields), 1)
    algorithm, task, server = simulation.algorithm, simulation.task, simulation.state.server
    ledger = Ledger(simulation.state.buffers, own_buffers=dict(simulation.state.own_buffers))
    ask = next(algorithm.round(task, dict(server)))
    if not any(isinstance(value, ByParty) for value in ask.payload.values()):
        return
    me = (ask.to or simulation.cohort(2))[0]
    order = simulation.order(ask, me, 2, ledger)
    (before,) = simulation.engine.answer(simulation.crew, [order])
    # Whatever a method remembers of the server's state outside of the payload is now of another state.
    next(algorithm.round(task, {key: _others_moved(value, me, task.population) for key, value in server.items()}))
    (after,) = simulation.engine.answer(simulation.crew, [order])
    changed, key = distance(_said(before), _said(after))
    assert changed == 0, (
        f"{text}: party {me}'s {key} changed with what other parties are sent. A party may use its own row of a "
        "ByParty alone: look for a state that is kept in the class or in a module."
    )


def _others_moved(value: Tensor, me: int, parties: int) -> Tensor:
    """The server's value with the rows of all other parties changed, where it has a row for each."""
    if not value.dim() or len(value) != parties or not value.is_floating_point():
        return value
    moved = value + 1
    moved[me] = value[me]
    return moved


def _said(reply: Reply) -> Vectors:
    assert isinstance(reply.message, Summand)
    return {**reply.message.vectors, **{f"state/{key}": value for key, value in reply.state.items()}}


def check_adapt(text: str, **fields: Any) -> None:
    """Adapting a personal model leaves no trace: the next round has the same bits as without an evaluation."""
    simulation = small_simulation(text, **fields)
    if not simulation.adapts:
        return
    every = [play(small_simulation(text, **{**fields, "evaluate_every": n}), 2).state for n in (1, ROUNDS + 1)]
    assert every[0].digest() == every[1].digest(), (
        f"{text}: training goes another way where models are adapted and evaluated in between. adapt, personal "
        "and the loss of its phases must change nothing that they are given, and remember nothing."
    )


def check_purity(text: str, **fields: Any) -> None:
    """A round changes nothing it was given, and leaves absent parties' states alone."""
    _purity(_Plays(text, fields))


def _purity(plays: _Plays) -> None:
    for engine in plays.engines:
        _, _, changed = plays.of(engine)
        assert not changed, f"{plays.text}: {changed}"

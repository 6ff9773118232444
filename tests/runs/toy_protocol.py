"""A small protocol for tests: a perceptron of whole numbers, trained by sums alone."""

import hashlib

import numpy as np

from unalike.algorithms import algorithm
from unalike.algorithms.protocol import NOTHING, SERVER, SUM, Protocol, Say, want
from unalike.models import register_model

GRID = 256


@register_model("toy-linear")
class ToyLinear:
    """Whole numbers times whole numbers: no rounding, in whatever order rows come."""

    predictor = f"{__name__}:ToyPredictor"
    rows: float = 1.0
    patience: int = 0


def whole(x):
    x = np.asarray(x.toarray() if hasattr(x, "indptr") else x, np.float64)
    return np.hstack([np.rint(x * GRID).astype(np.int64), np.full((len(x), 1), GRID, np.int64)])


class ToyPredictor:
    """The perceptron in use."""

    def __init__(self, arrays, target):
        self.steps, self.trees, self.target = arrays["steps"], int(arrays["grown"][0]), target
        self.objective = self

    @classmethod
    def of(cls, arrays, settings, classes, target):
        return cls(arrays, target)

    @property
    def sha256(self):
        return hashlib.sha256(self.steps.tobytes()).hexdigest()

    def margins(self, x, first=0, last=None):
        return whole(x) @ self.steps[: self.trees][first:last].sum(axis=0) / GRID**2

    def predict(self, margins):
        return margins[:, 0] * self.target[1] + self.target[0]

    def row_losses(self, margins, y):
        return (margins[:, 0] - (y - self.target[0]) / self.target[1]) ** 2


class ToyProtocol(Protocol):
    """What all toys share: parties add gradients, the server tells everybody the step."""

    models = ("toy-linear",)
    only_sums = True

    def start(self, me):
        width, outputs = me.terms.features + 1, max(1, me.terms.classes)
        if me.number == SERVER:
            steps = np.zeros((me.terms.rounds, width, outputs), np.int64)
            return {"steps": steps, "grown": np.zeros(1, np.int64), "rows": np.zeros(1, np.int64)}
        return {"w": np.zeros((width, outputs), np.int64)}

    def step(self, me, state, turn, inbox):
        if me.number == SERVER:
            return self.lead(me, state, turn, inbox)
        if turn.round == 0:
            own = {"rows": np.array([len(me.rows.train)])} if turn.number == 0 else None
            return state, Say(add=own)
        if turn.number == 0:
            return state, Say(add={"gradient": self.gradient(me, state)})
        told = want(inbox, SERVER, "step", "int64", state["w"].shape)
        return {"w": state["w"] + told}, NOTHING

    def lead(self, me, state, turn, inbox):
        if SUM not in inbox:
            return state, NOTHING
        if turn.round == 0:
            return {**state, "rows": want(inbox, SUM, "rows", "int64", (1,))}, NOTHING
        gradient = want(inbox, SUM, "gradient", "int64", state["steps"].shape[1:])
        after, step = self.stepped(state, gradient)
        return after, Say(mail={number: {"step": step} for number in range(me.terms.parties)})

    def stepped(self, state, gradient):
        step = -gradient // (4 * state["rows"][0])
        steps, grown = state["steps"].copy(), state["grown"] + 1
        steps[grown[0] - 1] = step
        return {**state, "steps": steps, "grown": grown}, step

    def gradient(self, me, state):
        own = me.rows
        x = me.remember("whole", lambda: whole(own.x[own.train]))
        scores, y = x @ state["w"], own.y[own.train]
        if not me.terms.classes:
            shift, scale = me.terms.target
            wrong = scores - np.rint((y - shift) / scale * GRID**2).astype(np.int64)[:, None]
            return x.T @ (wrong // GRID) // GRID
        answers = np.eye(scores.shape[1], dtype=np.int64)
        return x.T @ (answers[scores.argmax(axis=1)] - answers[y])

    def model(self, me, state, server):
        if me.number != SERVER:
            return None
        return {"steps": server["steps"], "grown": server["grown"]}

    def finished(self, server):
        grown = int(server["grown"][0])
        if grown and not server["steps"][grown - 1].any():
            return "no row is wrong any more"
        return None


@algorithm("toy-perceptron")
class ToyPerceptron(ToyProtocol):
    """A perceptron, trained by sums."""


@algorithm("toy-quick")
class ToyQuick(ToyProtocol):
    """The same with a short cut for one party that has all rows."""

    def whole_round(self, me, server, party, round):
        if round == 0:
            return {**server, "rows": np.array([len(me.rows.train)])}, party
        after, step = self.stepped(server, self.gradient(me, party))
        return after, {"w": party["w"] + step}

    def said(self, me, server, round):
        size = server["steps"][0].nbytes
        return ({"gradient": size}, {"step": size}) if round else ({"rows": 8}, {})


@algorithm("toy-alone")
class ToyAlone(ToyProtocol):
    """Every party for itself: nothing is said."""

    only_sums = False
    sends = "nothing"

    def start(self, me):
        kept = super().start(me)
        if me.number == SERVER:
            return {"grown": kept["grown"]}
        steps = np.zeros((me.terms.rounds, *kept["w"].shape), np.int64)
        return {**kept, "steps": steps, "grown": np.zeros(1, np.int64)}

    def step(self, me, state, turn, inbox):
        if turn.round == 0:
            return state, NOTHING
        if me.number == SERVER:
            return {"grown": state["grown"] + 1}, NOTHING
        rows = {**state, "rows": np.array([len(me.rows.train)])}
        after, step = self.stepped(rows, self.gradient(me, state))
        return {**{k: after[k] for k in state}, "w": state["w"] + step}, NOTHING

    def model(self, me, state, server):
        if me.number == SERVER:
            return None
        return {"steps": state["steps"], "grown": state["grown"]}

    def finished(self, server):
        return None

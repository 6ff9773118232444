"""A stand-in for Ray in one process: calls are answered at once, everything is pickled on its way, any order."""

import pickle
import random
from contextlib import contextmanager
from types import SimpleNamespace


class Lost(Exception):
    """What Ray raises where a worker is gone."""


class TaskError(Lost):
    """What Ray raises where a call itself failed."""


def sent(value):
    """What arrives of a value."""
    return pickle.loads(pickle.dumps(value, protocol=5))


class Ref:
    def __init__(self, value):
        self.value = value


class Actor:
    def __init__(self, desk, cls, given):
        self.desk, self.alive = desk, True
        self.made = cls(*(desk.get(one) if isinstance(one, Ref) else sent(one) for one in given))

    def __getattr__(self, method):
        return SimpleNamespace(remote=lambda *given: self.call(method, given))

    def call(self, method, given):
        if method == "answer":
            self.desk.answers += 1
            if self.desk.answers in self.desk.dies_at:
                self.alive = False
        if not self.alive:
            return Ref(Lost("killed"))
        arrived = [self.desk.get(one) if isinstance(one, Ref) else sent(one) for one in given]
        return Ref(pickle.dumps(getattr(self.made, method)(*arrived)))


class Desk:
    """``dies_at``: the numbers of the answers, over all workers, with which a worker dies."""

    exceptions = SimpleNamespace(RayError=Lost, RayTaskError=TaskError)

    def __init__(self, seed=0, dies_at=()):
        self.random, self.dies_at, self.answers, self.started = random.Random(seed), set(dies_at), 0, 0

    def put(self, value):
        return Ref(pickle.dumps(value, protocol=5))

    def get(self, ref):
        if isinstance(ref.value, Lost):
            raise ref.value
        return pickle.loads(ref.value)

    def wait(self, refs, num_returns, timeout):
        mixed = list(refs)
        self.random.shuffle(mixed)
        count = self.random.randint(1, len(mixed))
        return (mixed[:count], mixed[count:]) if num_returns == 1 else (mixed[:0], mixed)

    def kill(self, actor):
        actor.alive = False

    def remote(self, cls):
        def start(*given):
            self.started += 1
            return Actor(self, cls, given)

        return SimpleNamespace(options=lambda **said: SimpleNamespace(remote=start))

    @contextmanager
    def connected(self, machines, cpus, data_bytes):
        yield self, machines.workers

"""A tree of models at the server: every node is the model of a group of parties, and a group may be split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, ByParty, Party, Payload, Replies, Vectors

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


class NodeModels(Algorithm):
    """FedAvg in each group of parties; the groups are the leaves of a tree that subclasses grow.

    The server's state, with room for a fixed number of nodes: ``w`` the nodes' models, ``parent`` (-1: none),
    ``born`` the round in which a node's parent was split (-1: no such node yet; the root: 0), ``direction`` the
    mean of the unit updates by which its members were told apart; for each party its ``group`` (a leaf), its
    ``latest`` round, and the ``update`` and the ``size`` that it sent then.

    A party is sent its own leaf's model alone. A split node keeps the model that it had. Newcomers, who never
    answer, stay at the root and get its model. Running statistics of batch norm are shared by all groups, unless
    each party keeps its own (``--batch-norm local``).
    """

    needs_each: ClassVar[bool] = True
    plain: ClassVar[frozenset[str]] = frozenset({"size"})

    def nodes(self, task: Task) -> int:
        """For how many nodes there is room."""
        raise NotImplementedError

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The root alone, with all parties in it."""
        rows, parties = self.nodes(task), task.population
        whole = w.new_zeros(rows).long()
        born = whole - 1
        born[0] = 0
        return {
            "w": w.expand(rows, -1).clone(),
            "parent": whole - 1,
            "born": born,
            "direction": w.new_zeros((rows, len(w))),
            "group": w.new_zeros(parties).long(),
            "latest": w.new_zeros(parties).long(),
            "update": w.new_zeros((parties, len(w))),
            "size": w.new_zeros(parties),
            "round": w.new_zeros(()).long(),
        }

    def send(self, task: Task, server: Vectors) -> Payload:
        """To every party the model of its own group."""
        return {"w": ByParty(server["w"], server["group"])}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update, and the number of rows that it counts with in the group's mean."""
        return {"delta": w - party.received["w"], "size": party.size}, party.state

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Note the updates, split groups where it is time, and average in each group."""
        grown = self.grow(noted(server, replies.each), replies.population)
        return moved(grown, list(replies.each))

    def grow(self, server: Vectors, population: int) -> Vectors:
        """The server's state with the splits of this round; ``population`` parties can be asked."""
        return server

    def global_model(self, task: Task, server: Vectors) -> None:
        """There is no one model for all."""
        return

    def personal(self, party: Party) -> Tensor:
        """The model of the party's group."""
        return party.received["w"]


def noted(server: Vectors, uploads: Mapping[int, Vectors]) -> Vectors:
    """The server's state in the next round, with what the parties sent in it."""
    now = server["round"] + 1
    after = {**server, "round": now, **{key: server[key].clone() for key in ("update", "size", "latest")}}
    for number, upload in uploads.items():
        after["update"][number] = upload["delta"]
        after["size"][number] = upload["size"]
        after["latest"][number] = now
    return after


def weighted_mean(server: Vectors, numbers: Sequence[int]) -> Tensor:
    """The mean of these parties' updates, in which each counts by its rows."""
    total = server["update"][numbers[0]] * server["size"][numbers[0]]
    for number in numbers[1:]:  # one after the other, as sums of a round are made: one group alone is FedAvg
        total = total + server["update"][number] * server["size"][number]
    return total / float(server["size"][list(numbers)].double().sum())


def moved(server: Vectors, numbers: Sequence[int]) -> Vectors:
    """Every group's model after its step: the mean update of those of its members who are among ``numbers``."""
    w, group = server["w"].clone(), server["group"].tolist()
    for node in sorted({group[number] for number in numbers}):
        w[node] = w[node] + weighted_mean(server, [number for number in numbers if group[number] == node])
    return {**server, "w": w}


def branched(server: Vectors, node: int, groups: Sequence[Sequence[int]]) -> Vectors:
    """A node split into groups of parties: each is a new node that begins with the model of its parent."""
    keys = ("w", "parent", "born", "direction", "group")
    after = {**server, **{key: server[key].clone() for key in keys}}
    for child, members in enumerate(groups, start=count(server)):
        after["w"][child] = server["w"][node]
        after["parent"][child] = node
        after["born"][child] = server["round"]
        after["direction"][child] = directions(server["update"][list(members)]).mean(dim=0)
        after["group"][list(members)] = child
    return after


def count(server: Vectors) -> int:
    """How many nodes there are."""
    return int((server["born"] >= 0).sum())


def directions(updates: Tensor) -> Tensor:
    """Updates [parties, weights] as unit vectors; one that is zero stays zero."""
    norms = updates.norm(dim=1, keepdim=True)
    unit: Tensor = updates / norms.where(norms > 0, norms + 1)
    return unit

"""FedKT: teachers of every party vote on public rows, its students vote again, and one net learns the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Party, Phase, Replies, Sends, Vectors, algorithm
from unalike.algorithms.fedrs import check_classes
from unalike.algorithms.knowledge.distil import Course, distil, table, taken
from unalike.algorithms.knowledge.ensemble import course_of, no_statistics
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("fedkt", paper="Li et al. 2021 (arXiv:2010.01017), Algorithm 1")
class FedKt(Algorithm):
    """Votes on public rows in place of models: one exchange, in which every party sends one table of counts.

    A party deals its rows into ``teachers`` parts (the paper's t), ``partitions`` times over (s), and trains a
    teacher on each part. The t teachers of a partition vote on the label of every public row, and a student learns
    what most say. Then the party's s students vote. With ``consistent`` a public row gets s votes from a party
    whose students all agree, and none from another (the paper's consistent voting); without it, each student's
    vote counts. The server adds the parties' votes and trains a net on the rows that got any, with the label of
    most (of equals the first), in ``passes`` over the public rows, by Adam at ``rate``, falling along a cosine.

    The sum of votes is all that the server needs, so it may be hidden (``--channel masked``). Departures: the
    paper sends the students, and the server lets them vote; here votes alone leave a party. Teachers and students
    begin at the weights that were sent. In further rounds these are the last net's, which the paper does not have.

    Differential privacy. At the server (the paper's L1, for a party): noise on the sum is the channel's,
    ``clip(B, l1)+laplace(1/(g B))`` with B = s x public rows: it clips nothing, puts noise of scale 1/g on every
    count, and states epsilon in each round's record. At the party (its L2, for one row of a party): ``gamma`` g
    puts Laplace noise of scale 1/g on every count of its teachers' votes; :meth:`row_epsilon` is what it hides.
    That noise derives from the run's seed: it protects from those who do not know the seed, so at real sites,
    whose plan has it, from nobody: use the channel's there.
    """

    plain: ClassVar[frozenset[str]] = frozenset({"votes"})
    sends: ClassVar[Sends] = "scores on public rows"
    partitions: int = 2
    teachers: int = 5
    consistent: bool = True
    epochs: int = 0
    student_epochs: int = 0
    gamma: float = 0.0
    passes: int = 20
    rate: float = 1e-3

    def __post_init__(self) -> None:
        Course(lr=self.rate)
        leasts = {"partitions": 1, "teachers": 1}
        for name in ("partitions", "teachers", "epochs", "student_epochs", "gamma", "passes"):
            least = leasts.get(name, 0)
            if not getattr(self, name) >= least:
                raise UserError(f"FedKt.{name} must be at least {least}, got {getattr(self, name)}.")

    def row_epsilon(self, public: int) -> float:
        """What ``gamma`` hides of one row of a party, who sends votes on that many public rows; delta is 0.

        A row is in one part of each partition. Another row in its place changes one teacher's vote, which moves
        two counts by one: 2 gamma for each public row and partition, which add up.
        """
        return 2 * self.gamma * self.partitions * public if self.gamma else float("inf")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The net that learns, and the number of rounds so far."""
        no_statistics(task, "FedKt")
        check_classes(task, "FedKt")
        _ = task.public  # which says what is missing
        return {"w": w, "rounds": w.new_zeros(())}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """Votes of the teachers and of the students, of which nothing is kept from round to round."""
        votes = w.new_zeros(len(task.public.y), task.classes)
        return {"taught": votes, "votes": votes}

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """For each partition, its teachers, each on a part of the rows; then its student, on public rows."""
        found: list[Phase] = []
        for deal in range(self.partitions):
            names = ["teacher"] * (self.teachers - 1) + [f"last teacher {deal}"]
            for which, name in enumerate(names):
                found.append(Phase(name, epochs=self.epochs or None, part=(which, self.teachers, deal)))
            found.append(Phase("student", epochs=self.student_epochs or None, rows="public"))
        return tuple(found)

    def labels(self, party: Party) -> Tensor | None:
        """Of own rows their own; of public rows, those that the teachers voted for."""
        return party.state["taught"].argmax(dim=-1) if party.phase == "student" else None

    def keep(self, party: Party, w: Tensor) -> Vectors:
        """The votes so far, with those of the teacher or student that has just been trained."""
        state, vote = party.state, votes_of(party.task, w)
        if party.phase == "student":
            return {"taught": state["taught"] * 0, "votes": state["votes"] + vote}
        taught = state["taught"] + vote
        if self.gamma and party.phase.startswith("last"):
            deal = int(party.phase.split()[-1])
            taught = taught + laplace(party, taught.numel(), deal).reshape(taught.shape) / self.gamma
        return {**state, "taught": taught}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The students' votes: where they must agree, s or none."""
        votes = self.keep(party, w)["votes"]
        if self.consistent:
            votes = votes * (votes == self.partitions)
        return {"votes": votes}, {"taught": votes * 0, "votes": votes * 0}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """A net that has learnt the label of most votes, on the rows that got any."""
        votes, rounds = replies.sum["votes"], server["rounds"] + 1
        rows = (votes.amax(dim=1) > 0).nonzero()[:, 0]
        if not len(rows):
            return {**server, "rounds": rounds}
        label, course = votes[rows].argmax(dim=1), course_of(task, len(rows), self.passes, self.rate)
        w = distil(task, server["w"], taken(task.public, rows), label, course, task.generator(int(rounds)))
        return {"w": w, "rounds": rounds}


def votes_of(task: Task, w: Tensor) -> Tensor:
    """A net's vote on every public row: 1 at the label that it gives it."""
    import torch

    label = table(lambda batch: task.logits(w, batch), task.public).argmax(dim=-1)
    return (label[:, None] == torch.arange(task.classes, device=label.device)).to(w.dtype)


def laplace(party: Party, count: int, which: int) -> Tensor:
    """Laplace numbers of scale 1: z1 z2 + z3 z4 of standard normal ones has that distribution."""
    first, second, third, fourth = (party.normal(count, 4 * which + k) for k in range(4))
    return first * second + third * fourth

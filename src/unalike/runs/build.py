"""From a spec to what is trained: the net, and the data split between the parties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from unalike.data import Dataset, load_dataset, trainable
from unalike.data.gaps import refuse_gaps
from unalike.engines.job import choose_device
from unalike.errors import UserError
from unalike.models import MODELS, Model, Net, ReadsWords, Task, without_running_statistics
from unalike.models.byte_scale import ByteScale
from unalike.models.loss import check_loss, choose_loss
from unalike.models.own import OwnNet, own_net_maker
from unalike.models.start import frozen, started
from unalike.own_code import check_signature, explained, is_own, place
from unalike.partition import PARTITIONS, Partition, as_seen, make_partition
from unalike.rounds.federation import Federation, SplitRows, take_public
from unalike.rounds.rows import Rows, batch_of
from unalike.runs.begin import read_weights
from unalike.runs.meaning import is_grown, trainer_of
from unalike.runs.spec import RunSpec


def make_tasks(spec: RunSpec, data: Dataset, device: torch.device, parties: int = 0) -> tuple[Task, ...]:
    """The task of each net that the spec names, for such data."""
    refuse_gaps(data)
    dtype = {"float32": torch.float32, "float64": torch.float64}[spec.dtype]
    objective = choose_loss(spec.loss, data.task)
    check_loss(objective, len(data.classes))
    models = MODELS.terms(MODELS.build(str(spec.model)))
    if len(models) > 1 and (spec.init or spec.freeze):
        raise UserError(f"init and freeze are for one net, but {spec.model} is {len(models)}. Name one --model.")
    tasks = tuple(
        Task(
            net_maker(spec, model, data),
            seed=spec.seed,
            dtype=dtype,
            device=device,
            population=parties,
            objective=objective,
            shape=data.shape,
            classes=len(data.classes),
            byte_scale=ByteScale.of(data),
        )
        for model in models
    )
    for task in tasks:
        task.nets = tasks
    return tasks


def net_maker(spec: RunSpec, model: Model, data: Dataset) -> Callable[[], Net]:
    """What makes one of the run's nets for these data, as they are before the first round."""
    outputs = choose_loss(spec.loss, data.task).outputs(len(data.classes))
    rows = RowKind(data.shape, data.kind, data.features, data.name)
    fresh = fresh_net_maker(model, rows, outputs)
    weights = read_weights(spec.init) if spec.init else None

    def make() -> Net:
        net = fresh()
        if weights is not None:
            net = started(net, weights, str(spec.init))
        net = without_running_statistics(net) if spec.batch_norm == "drop" else net
        return frozen(net, spec.freeze.split(",")) if spec.freeze else net

    return make


@dataclass(frozen=True)
class RowKind:
    """What a net must know of the rows that it is made for: all that is needed to make it without them."""

    shape: tuple[int, ...]
    kind: str = "numbers"
    features: tuple[str, ...] = ()
    name: str = "the data"


def fresh_net_maker(model: Model, rows: RowKind, outputs: int) -> Callable[[], Net]:
    """What makes nets of a model for such rows, with so many outputs: body and head, freshly initialised."""
    if is_grown(model):
        raise UserError(f"{MODELS.brief(model)} is no net, and this is for nets alone. Choose another --model.")
    reads = getattr(model, "reads", "numbers")
    if reads not in (rows.kind, "both"):
        raise UserError(
            f"{MODELS.brief(model)} reads {reads}, but the rows of {rows.name} are {rows.kind}. Choose another "
            f"--model, or another form of the data set, such as sent140(form=bag)."
        )
    with explained(model):
        known = model.with_vocabulary(rows.features) if isinstance(model, ReadsWords) else model
    if isinstance(known, OwnNet):
        return own_net_maker(known, rows.shape, rows.kind, outputs)
    check_signature(known, "build", Model.build)

    def make() -> Net:
        with explained(known):
            net = known.build(rows.shape, outputs)
        if is_own(known):
            _try(net, known, rows, outputs)
        return net

    return make


def _try(net: Net, model: Model, rows: RowKind, outputs: int) -> None:
    """Refuse a net of the user's own that is no body and head, or that does not take these rows."""
    made = place(model, "build")
    if not isinstance(net, Net):
        raise UserError(
            f"{made} must return a Net, which has a body that makes the features and a head that makes logits of "
            f"them, got {type(net).__name__}. Write: return Net(nn.Sequential(...), nn.Linear(width, classes)), "
            "or name the module itself: --model module:FILE.py:NAME."
        )
    zeros = torch.zeros(2, *rows.shape, dtype=torch.int64 if rows.kind == "tokens" else torch.float32)
    try:
        with torch.no_grad():
            answer = net.eval()(zeros)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise UserError(f"The net of {made} fails on rows of shape {rows.shape}: {reason}.") from error
    finally:
        net.train()
    shapes = [tuple(part.shape) for part in answer] if isinstance(answer, tuple) else type(answer).__name__
    if not isinstance(shapes, list) or len(shapes) != 2 or shapes[0] != (2, outputs):
        raise UserError(
            f"The net of {made} must give (logits, features), {outputs} logits for each row, but gives "
            f"{shapes} for 2 rows of shape {rows.shape}."
        )


def build_federation(spec: RunSpec, data: Dataset | None = None, split: Partition | None = None) -> Federation:
    """The data, split between the parties, and the task they share; ``split`` is how, where that is known."""
    data = whole = load_dataset(spec.dataset) if data is None else trainable(data)
    dtype = {"float32": torch.float32, "float64": torch.float64}[spec.dtype]
    device = choose_device(spec.device, dtype)
    tasks = make_tasks(spec, data, device)
    public = None
    if spec.public and data.public is not None:
        raise UserError(f"{data.name} has public rows of its own. Leave --public {spec.public} out.")
    given = data.public
    if spec.public:
        data, x, y = take_public(data, spec.public, spec.seed)
        given = x, y
    if given is not None:
        public = Rows(*given, data, dtype, device)
        for task in tasks:
            task.public = batch_of(public, torch.arange(len(public), device=device))
    partition = split = split or _partition(spec, data)
    if spec.augment != "none" and len(data.shape) != 3:
        raise UserError(f"--augment {spec.augment} needs images, but {data.name} has rows of shape {data.shape}.")
    data, partition = as_seen(data, partition)
    for task in tasks:
        task.population = partition.parties
    federation = Federation(data, partition, *tasks, public=public, **shares_of(spec))
    federation.made_of = whole, split
    return federation


def split_rows(spec: RunSpec, data: Dataset | None = None) -> SplitRows:
    """The data, split between the parties, for a protocol: there is no net, and so no task."""
    data = load_dataset(spec.dataset) if data is None else trainable(data)
    data, partition = as_seen(data, _partition(spec, data))
    return SplitRows(data, partition, **shares_of(spec))


def split_columns(spec: RunSpec, data: Dataset | None = None) -> tuple[Dataset, Partition]:
    """The data, and who has which columns of it and knows which people."""
    data = load_dataset(spec.dataset) if data is None else trainable(data)
    partition = make_partition(spec.partition, data, spec.parties, spec.seed)
    if partition.columns is None:
        brief = PARTITIONS.brief(PARTITIONS.build(spec.partition))
        raise UserError(
            f"{brief} splits rows, but {_name(spec)} wants other columns of the same people at each. "
            'Use --partition "vertical(2)", or an algorithm for rows.'
        )
    return data, partition


def _name(spec: RunSpec) -> str:
    return spec.algorithm.partition("(")[0]


def _of_columns(model: str) -> str:
    """The algorithm that trains such a model of split columns; where none does, one with its model."""
    found = trainer_of(model.partition("(")[0], "columns")
    return found if found != "fedavg" else "vertical --model logistic"


def _partition(spec: RunSpec, data: Dataset) -> Partition:
    """How the rows are split; refused where the training cannot use that."""
    if spec.test_by == "labels" and data.task != "classification":
        raise UserError(f"--test-by labels needs classes, but {data.name} has numbers to predict. Leave it out.")
    partition = make_partition(spec.partition, data, spec.parties, spec.seed)
    if partition.columns is not None:
        brief = PARTITIONS.brief(PARTITIONS.build(spec.partition))
        raise UserError(
            f"{brief} splits columns, but {_name(spec)} needs whole rows. Use --algorithm "
            f"{_of_columns(spec.model or '')}, or split rows."
        )
    return partition


def shares_of(spec: RunSpec) -> dict[str, Any]:
    """What each party has its rows for."""
    return {
        name: getattr(spec, name) for name in ("seed", "validation", "held_out", "newcomers", "evaluate_parties")
    }

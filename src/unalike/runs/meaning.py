"""Which options of a run mean something to what it trains, and one line for each that does not.

Nets take all of them. A protocol, such as histogram for boosted trees, takes those that every run has, and those
that it says it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from unalike.errors import UserError
from unalike.runs.parts import registry

if TYPE_CHECKING:  # the command line starts without numpy
    from unalike.algorithms.protocol import Protocol
    from unalike.runs.spec import RunSpec

EVERYWHERE = frozenset(
    (
        *("dataset", "partition", "parties", "model", "algorithm", "rounds", "seed", "code"),
        *("validation", "held_out", "score", "evaluate_every", "test_by", "newcomers", "evaluate_parties"),
        *("channel", "engine", "threads"),
    )
)
"""The fields of a spec that every training has a use for."""
ROWS_ALONE = frozenset(("channel", "newcomers", "test_by", "evaluate_parties"))
"""Those of them that mean something only where parties hold other rows."""
_OF_COLUMNS = {
    "channel": "nothing is sent to a server; what is hidden, and how, the algorithm itself says",
    "newcomers": "all parties have their columns of each person",
    "test_by": "parties know the same people",
    "evaluate_parties": "parties know the same people",
}
"""Why an option has no meaning where columns are split."""


USUAL = ("histogram", "secureboost", "split-net", "vertical")
"""Protocols that are named first where several train a model: they ask least of parties."""


def protocol_of(algorithm: str, model: str) -> Protocol | None:
    """The protocol that a run plays; None where nets are trained. Refuses what does not go together."""
    from unalike.algorithms.protocol import Protocol

    algorithms, models = registry("algorithm"), registry("model")
    part, terms = algorithms.build(algorithm), models.terms(models.build(model))
    grown = [models.entry_of(term).name for term in terms if is_grown(term)]
    if grown and len(terms) > 1:
        raise UserError(f"{grown[0]} cannot be one of several nets, as in {model!r}. Name one --model.")
    if not isinstance(part, Protocol):
        return _instead(algorithms.entry_of(part).name, grown[0]) if grown else None
    name = models.entry_of(terms[0]).name
    if len(terms) > 1 or name not in part.models:
        known = " or ".join(part.models)
        raise UserError(
            f"{algorithms.brief(part)} trains {known}, not {model.partition('(')[0]}. "
            f"Use --model {part.models[0]}{_or_another(name, part.splits)}."
        )
    return part


def _or_another(model: str, splits: str) -> str:
    found = trainer_of(model, splits)
    return "" if found == "fedavg" and splits == "columns" else f", or --algorithm {found}"


def trainer_of(model: str, splits: str) -> str:
    """An algorithm that trains such a model of rows, or of columns: the usual one, if there is one."""
    from unalike.algorithms.protocol import Protocol

    entries = registry("algorithm")
    found = [one.name for one in entries if issubclass(one.cls, Protocol) and one.cls.splits == splits]
    found.sort(key=lambda name: name not in USUAL)
    return next((name for name in found if model in entries.build(name).models), "fedavg")


def is_grown(model: object) -> bool:
    """Whether a model is one that protocols train, and no net: it says by what its arrays predict."""
    return bool(getattr(model, "predictor", ""))


def _instead(algorithm: str, model: str) -> Protocol:
    """The protocol that does for such a model what a baseline does for nets."""
    from unalike.algorithms.instead import INSTEAD

    if algorithm in INSTEAD:
        made: Protocol = registry("algorithm").build(INSTEAD[algorithm])
        return made
    raise UserError(f"{model} are not averaged. Use --algorithm histogram.")


def without_meaning(options: Iterable[str], protocol: Protocol | type[Protocol] | None) -> frozenset[str]:
    """Which of these fields decide nothing in a run."""
    if protocol is None:
        return frozenset()
    everywhere = EVERYWHERE if protocol.splits == "rows" else EVERYWHERE - ROWS_ALONE
    return frozenset(options) - everywhere - protocol.uses


def unread(options: Iterable[str], recorded: Mapping[str, Any]) -> frozenset[str]:
    """Which of these fields a record leaves out because they decide nothing: by names alone, without torch."""
    from unalike.algorithms.instead import INSTEAD
    from unalike.algorithms.protocol import Protocol

    name, model = (str(recorded.get(field)).partition("(")[0] for field in ("algorithm", "model"))
    protocols = {entry.name: entry.cls for entry in registry("algorithm") if issubclass(entry.cls, Protocol)}
    instead = protocols.get(INSTEAD.get(name, "").partition("(")[0])
    if instead is not None and "lr" not in recorded and model in instead.models:
        return without_meaning(options, instead)
    return without_meaning(options, protocols.get(name))


def brief_model(text: str) -> str:
    """A model for people: trees without what is as by default; of a net all is told, since its size counts."""
    from unalike.models.model import MODELS
    from unalike.models.trees import Trees  # registers itself, and loads no torch

    try:
        model = MODELS.build(text) if text.startswith("trees") else None
    except UserError:
        return text
    return MODELS.brief(model) if isinstance(model, Trees) else text


def check_meaning(spec: RunSpec, protocol: Protocol) -> None:
    """Refuse a field that decides nothing and is not as by default, a channel that cannot carry the sums."""
    usual = spec.defaults(spec.dataset)
    # Another optimiser changes the usual lr, and steps leave no epochs: what follows from others comes last.
    order = sorted(spec.left_out, key=lambda name: (name in ("epochs", "lr"), name))
    changed = [name for name in order if getattr(spec, name) != usual.get(name)]
    _check_channel(spec, protocol)
    check_given(spec, changed)
    if spec.engine == "vectorised":
        raise UserError(
            f"--engine vectorised stacks nets, and {_model(spec)} are none. Use auto, sequential or compiled."
        )


def check_given(spec: RunSpec, names: Iterable[str]) -> None:
    """Refuse fields that were given and decide nothing in this run."""
    for name in names:
        if name in spec.left_out:
            protocol = protocol_of(spec.algorithm, str(spec.model))
            assert protocol is not None
            about, columns = spec.algorithm.partition("(")[0], protocol.splits == "columns"
            why = protocol.reasons.get(name, "") or (_OF_COLUMNS.get(name, "") if columns else "")
            why = why or f"{about} makes no use of it"
            what = about if columns else _model(spec)
            raise UserError(f"--{name.replace('_', '-')} has no meaning for {what}: {why}. Leave it out.")


def _check_channel(spec: RunSpec, protocol: Protocol) -> None:
    if (
        "channel" in spec.left_out
        or spec.channel is None
        or protocol.sends == "nothing"
        or spec.algorithm == "pooled"
    ):
        return  # then there is nothing to carry, as with nets
    from unalike.channels import CHANNELS, parse_channel

    channel = parse_channel(spec.channel)
    name, brief = spec.algorithm.partition("(")[0], CHANNELS.brief(channel)
    hidden: Any = channel.hidden
    if len(channel.parts) > 1 or hidden is None or CHANNELS.entry_of(hidden).name != "masked":
        raise UserError(
            f"--channel {brief} is for the weights of nets; {name} adds whole numbers, which must arrive as they "
            "are. Use --channel masked, or leave it out."
        )
    if not protocol.only_sums:
        raise UserError(
            f"{name} sends {protocol.sends}, which no sum can hide: masks are for what is added. Leave --channel "
            f"{brief} out, or use --algorithm histogram."
        )
    if hidden.range != type(hidden).range:
        raise UserError(
            f"masked(range={hidden.range:g}) is for the weights of nets; {name} adds whole numbers. Write masked."
        )
    if spec.sample < 1:
        raise UserError(
            f"--sample {spec.sample:g} with --channel masked: sums with and without a party would show what that "
            "party adds. Use --sample 1."
        )


def _model(spec: RunSpec) -> str:
    return str(spec.model).partition("(")[0]

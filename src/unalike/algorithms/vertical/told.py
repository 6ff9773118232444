"""What parties of a linear model of split columns are told before they agree: who learns what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unalike.algorithms.protocol import PublicTerms

REASONS: Final[Mapping[str, str]] = {
    "optimiser": "all parties take plain steps of --lr along their parts of one gradient",
    "loss": "two classes have the logistic loss, more the cross-entropy, numbers the squared error",
    "drop_last": "the last batch of a pass is as small as it is",
    "sample": "all parties take part in every batch, since each has other columns",
    "fine_tune": "there is one model, of which each party has a part",
    "init": "weights start at zero",
    "freeze": "a linear model has one layer",
    "augment": "columns are taken as they are",
    "dtype": "it is computed in float64, or exactly in whole numbers",
    "device": "it is computed on the processor",
    "public": "nothing is trained on rows of the server",
    "batch_norm": "a linear model has no such layers",
}
"""Why an option of nets has no meaning for linear models of split columns."""

_SERVER = "sizes and times of messages that it carries; nothing of what is in them"
_SCORES = (
    "each holder's score of every person in every batch and of everybody who is predicted: over many batches that "
    "tells the holder's columns up to a linear map"
)
_RESIDUALS = (
    "the residual of every person in every batch, whose sign is the label: it learns the labels of all people "
    "that are trained on"
)
_GRADIENTS = (
    "its own part of the gradient of every batch, in which labels are added together: an attack on adult ranked "
    "people with an area under the curve of 0.63 beyond what its columns say, in batches of 20 people a column, "
    "the smallest that are taken"
)


def learned(protection: str, terms: PublicTerms) -> Mapping[str, str]:
    """What each role learns, where scores and residuals are protected so."""
    if terms.parties == 1:
        return {"label holder": "nothing of anybody", "other holders": "nothing", "server": _SERVER}
    if protection == "clear":
        return {"label holder": _SCORES, "other holders": _RESIDUALS, "server": _SERVER}
    summed = (
        "the sum of the other holders' scores for every person in every batch and for everybody who is predicted, "
        "and no single holder's"
    )
    if protection == "masked":
        return {"label holder": summed, "other holders": _RESIDUALS, "server": _SERVER}
    return {
        "label holder": summed if terms.parties >= 3 else _SCORES,
        "other holders": _GRADIENTS,
        "server": _SERVER,
    }

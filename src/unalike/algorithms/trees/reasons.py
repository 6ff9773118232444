"""Why options of nets have no meaning for trees, and what may be meant instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REASONS: Final[Mapping[str, str]] = {
    "lr": "the shrinkage is trees(eta=0.3)",
    "lr_decay": "the shrinkage is trees(eta=0.3)",
    "epochs": "a round is one tree, or one for each class; more trees are more --rounds",
    "steps": "a round is one tree, or one for each class; more trees are more --rounds",
    "batch_size": "a tree looks at all rows, or at a share of them: trees(rows=0.5)",
    "drop_last": "a tree looks at all rows, or at a share of them: trees(rows=0.5)",
    "optimiser": "trees are grown, not descended to; see trees(eta=0.3)",
    "loss": "the loss is trees(objective=...)",
    "sample": "every tree is grown by all parties, so that no party's part can be told from the rest",
    "fine_tune": "trees are not trained further",
    "init": "trees start from nothing",
    "freeze": "trees have no layers",
    "augment": "trees take rows as they are",
    "dtype": "sums of trees are exact integers",
    "device": "trees are grown on the processor",
    "public": "no tree is grown on rows of the server",
    "batch_norm": "trees have no layers",
}

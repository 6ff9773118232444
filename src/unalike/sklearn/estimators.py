"""A federation that is trained in this process, as a classifier and as a regressor of scikit-learn."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.notebook.run import run
from unalike.runs.model_file import is_trees

if TYPE_CHECKING:
    from unalike.runs.run_fields import OwnModule, Part

_SAID = ("algorithm", "parties", "model", "epochs", "lr")
"""Parameters that are left to unalike's defaults where they are None."""
_KEPT = ("rounds", "batch_size", "optimiser", "sample", "channel", "validation", "held_out", "engine")
_OF_NETS = ("batch_size", "optimiser", "sample")


class Federated(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share: rows are dealt to parties, which train one model together."""

    def __init__(
        self,
        algorithm: Part = "fedavg",
        *,
        partition: Part | None = None,
        parties: int | None = None,
        model: Part | OwnModule | None = None,
        rounds: int = 50,
        epochs: int | None = None,
        lr: float | None = None,
        batch_size: int = 32,
        optimiser: Part = "sgd(momentum=0.5)",
        sample: float = 1.0,
        channel: Part | None = None,
        validation: float = 0.0,
        held_out: float = 0.0,
        engine: str = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.algorithm = algorithm
        self.partition = partition
        self.parties = parties
        self.model = model
        self.rounds = rounds
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.optimiser = optimiser
        self.sample = sample
        self.channel = channel
        self.validation = validation
        self.held_out = held_out
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, party: Any = None) -> Self:
        """Train on rows ``X`` with answers ``y``; ``party`` says whose each row is.

        Without ``party`` the rows are dealt out as ``partition`` says (``"iid"`` where it is None), to ``parties``
        parties. No row is set aside: what the model is worth, scikit-learn finds out on rows of its own.
        """
        X, y = validate_data(self, X, y, ensure_min_samples=2, **self._accepted())
        group, names = self._groups(X, party)
        self.party_names_ = names
        fields = {name: value for name in _SAID if (value := getattr(self, name)) is not None}
        fields |= {name: getattr(self, name) for name in self._kept()}
        fields["partition"] = self.partition or ("iid" if group is None else "natural")
        fields |= {"seed": self._seed(), "evaluate_every": self.rounds}
        try:
            data = self._dataset(X, y, group, names)
            self.result_ = run(data=data, progress=bool(self.verbose), **fields)
        except UserError as error:  # what scikit-learn's callers catch
            raise ValueError(str(error)) from error
        return self

    def _dataset(self, X: Array, y: Array, group: Array | None, names: tuple[str, ...]) -> Dataset:
        raise NotImplementedError

    def _more(self, X: Array, group: Array | None, names: tuple[str, ...]) -> dict[str, Any]:
        """Whose rows are whose, names of columns, and whether a number is missing, as only trees allow it."""
        gaps = not hasattr(X, "indptr") and bool(np.isnan(X).any())
        features = tuple(map(str, getattr(self, "feature_names_in_", ())))
        return {"group": group, "group_names": names, "features": features, "gaps": gaps}

    def _groups(self, X: Array, party: Any) -> tuple[Array | None, tuple[str, ...]]:
        """Whose each row is, as numbers, and what the parties are called."""
        if party is None:
            return None, ()
        party = column_or_1d(party)
        check_consistent_length(X, party)
        found, group = np.unique(party, return_inverse=True)
        return group, tuple(map(str, found))

    def _party(self, party: Any) -> Any:
        """The name of a party that ``fit`` was told of, which may be a number; never its place among them."""
        if party is None or not self.party_names_:
            return party
        if str(party) not in self.party_names_:
            raise ValueError(f"There is no party {party!r} in this training. Use one of those that fit was given.")
        return str(party)

    def _seed(self) -> int:
        """A whole number is the run's seed itself; anything else draws one, as it does in scikit-learn."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, **self._accepted())

    @property
    def _is_trees(self) -> bool:
        return is_trees(str(self.model))

    def _kept(self) -> tuple[str, ...]:
        """Parameters that are told as they are; of those that mean something to nets alone, only changed ones."""
        usual = signature(Federated.__init__).parameters
        alone = _OF_NETS if self._is_trees else ()
        return tuple(name for name in _KEPT if name not in alone or getattr(self, name) != usual[name].default)

    def _accepted(self) -> dict[str, Any]:
        """What rows may be: trees take NaN as a missing value."""
        finite = "allow-nan" if self._is_trees else True
        return {"dtype": np.float32, "accept_sparse": "csr", "allow_nd": True, "ensure_all_finite": finite}

    @property
    def feature_importances_(self) -> Array:
        """Of trees that all parties share: each column's share of what all splits gain."""
        if not self._is_trees:
            raise AttributeError("Only trees tell what they go by: model='trees', algorithm='histogram'.")
        check_is_fitted(self)
        return self.result_.importance().shares

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._is_trees
        return tags


class FederatedClassifier(ClassifierMixin, Federated):  # type: ignore[misc]
    """Classes, learnt by parties that share weights and not rows.

    Parameters are those of ``unalike.run``, under the same names, with ``random_state`` for its seed and
    ``verbose`` for its progress. After ``fit``, ``result_`` is what ``unalike.run`` returns, and ``classes_`` are
    the labels.
    """

    def _dataset(self, X: Array, y: Array, group: Array | None, names: tuple[str, ...]) -> Dataset:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"There must be two classes or more, but y has one class only: {self.classes_[0]!r}.")
        classes = tuple(map(str, self.classes_))
        more = self._more(X, group, names)
        return Dataset("X", X, codes.astype(np.int64), None, None, classes, **more)  # type: ignore[arg-type]

    def predict(self, X: Any, party: int | str | None = None) -> Array:
        """The most probable class of each row; by the model of one party, where each has its own."""
        places = self.predict_proba(X, party).argmax(axis=1)
        labels: Array = self.classes_[places]
        return labels

    def predict_proba(self, X: Any, party: int | str | None = None) -> Array:
        """The probability of each class, in the order of ``classes_``, for each row."""
        X = self._rows(X)
        return self.result_.predict_proba(X, party=self._party(party))


class FederatedRegressor(RegressorMixin, Federated):  # type: ignore[misc]
    """Numbers, learnt by parties that share weights and not rows.

    Parameters are those of ``unalike.run``, under the same names, with ``random_state`` for its seed and
    ``verbose`` for its progress. ``y`` is standardised for training, and predictions are in its own units again.
    """

    def _dataset(self, X: Array, y: Array, group: Array | None, names: tuple[str, ...]) -> Dataset:
        y = np.asarray(y, np.float64)
        more = self._more(X, group, names)
        return Dataset("X", X, y, None, None, (), task="regression", **more)  # type: ignore[arg-type]

    def predict(self, X: Any, party: int | str | None = None) -> Array:
        """The predicted number of each row, in the units of ``y``."""
        X = self._rows(X)
        return self.result_.predict(X, party=self._party(party))

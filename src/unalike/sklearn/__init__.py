"""Federated training as estimators of scikit-learn: ``fit``, ``predict``, in pipelines and searches."""

from unalike.sklearn.estimators import FederatedClassifier, FederatedRegressor

__all__ = ["FederatedClassifier", "FederatedRegressor"]

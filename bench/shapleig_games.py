"""The games of bench/shapleig.py: real retrainings, every coalition of which is evaluated.

Bit i of a table's index says whether player i takes part. The first families are shipped in tests/data/shapleig, and
the tool's constants are those that did best on them; the others are the test of that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def members(players: int) -> Iterator[list[int]]:
    """The coalitions in the order of the tables."""
    for code in range(1 << players):
        yield [i for i in range(players) if code >> i & 1]


def feature_importance(seed: int) -> np.ndarray:
    """R2 of gradient boosting on a coalition of diabetes's ten columns, on a third held out."""
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.metrics import r2_score
    from sklearn.model_selection import train_test_split

    X, y = load_diabetes(return_X_y=True)
    A, B, a, b = train_test_split(X, y, test_size=0.33, random_state=seed)

    def value(columns: list[int]) -> float:
        if not columns:
            return float(r2_score(b, np.full(len(b), a.mean())))
        model = GradientBoostingRegressor(n_estimators=25, max_depth=3, random_state=seed)
        return float(r2_score(b, model.fit(A[:, columns], a).predict(B[:, columns])))

    return np.array([value(columns) for columns in members(10)])


def hyperparameter_importance(seed: int) -> np.ndarray:
    """Log-likelihood of gradient boosting on breast_cancer with a coalition of eight hyper-parameters tuned."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.model_selection import train_test_split

    X, y = load_breast_cancer(return_X_y=True)
    A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=seed, stratify=y)
    choices: dict[str, tuple[Any, Any]] = {
        "learning_rate": (0.05, 0.3),
        "n_estimators": (10, 40),
        "max_depth": (1, 5),
        "subsample": (1.0, 0.6),
        "max_features": (None, 0.4),
        "min_samples_leaf": (1, 4),
        "min_samples_split": (2, 8),
        "ccp_alpha": (0.0, 0.003),
    }

    def value(tuned: list[int]) -> float:
        options = {name: pair[i in tuned] for i, (name, pair) in enumerate(choices.items())}
        chance = GradientBoostingClassifier(random_state=seed, **options).fit(A, a).predict_proba(B)[:, 1]
        return float(
            np.mean(b * np.log(np.clip(chance, 1e-6, 1)) + (1 - b) * np.log(np.clip(1 - chance, 1e-6, 1)))
        )

    return np.array([value(tuned) for tuned in members(8)])


def network_retraining(seed: int) -> np.ndarray:
    """Log-likelihood of a small network retrained on a coalition of ten columns of wine."""
    from sklearn.datasets import load_wine
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    X, y = load_wine(return_X_y=True)
    A, B, a, b = train_test_split(X[:, :10], y, test_size=0.5, random_state=seed, stratify=y)
    A, B = (A - A.mean(axis=0)) / A.std(axis=0), (B - A.mean(axis=0)) / A.std(axis=0)

    def value(columns: list[int]) -> float:
        if not columns:
            return float(np.log(np.bincount(a) / len(a))[b].mean())
        model = MLPClassifier((8,), max_iter=60, learning_rate_init=0.02, random_state=seed)
        chances = model.fit(A[:, columns], a).predict_proba(B[:, columns])
        return float(np.log(np.clip(chances, 1e-4, 1))[np.arange(len(b)), b].mean())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 60 passes are the game, converged or not
        return np.array([value(columns) for columns in members(10)])


def local_explanation(seed: int) -> np.ndarray:
    """A boosted model's prediction for one patient of diabetes, absent columns averaged over fifty others."""
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import GradientBoostingRegressor

    X, y = load_diabetes(return_X_y=True)
    model = GradientBoostingRegressor(n_estimators=60, max_depth=4, random_state=seed).fit(X, y)
    rng = np.random.default_rng(seed)
    patient, background = X[rng.integers(len(X))], X[rng.choice(len(X), 50, replace=False)]

    def value(columns: list[int]) -> float:
        mixed = background.copy()
        mixed[:, columns] = patient[columns]
        return float(model.predict(mixed).mean())

    return np.array([value(columns) for columns in members(10)])


SHIPPED: dict[str, tuple[Callable[[int], np.ndarray], int]] = {
    "fi": (feature_importance, 5),
    "hpi": (hyperparameter_importance, 3),
    "nn": (network_retraining, 3),
    "local": (local_explanation, 3),
}
"""Makers by family, and how many games; dv0 .. dv4 stay as shipped."""


# -- beside those that the constants did best on --


def kernel_machine(seed: int) -> np.ndarray:
    """Accuracy of a support vector machine on a coalition of wine's last ten columns, on a half held out."""
    from sklearn.datasets import load_wine
    from sklearn.model_selection import train_test_split
    from sklearn.svm import SVC

    X, y = load_wine(return_X_y=True)
    A, B, a, b = train_test_split(X[:, 3:], y, test_size=0.5, random_state=seed, stratify=y)
    A, B = (A - A.mean(axis=0)) / A.std(axis=0), (B - A.mean(axis=0)) / A.std(axis=0)
    none = float(np.mean(b == np.bincount(a).argmax()))
    return np.array([SVC().fit(A[:, c], a).score(B[:, c], b) if c else none for c in members(10)])


def mislabelled_chunks(seed: int) -> np.ndarray:
    """Log-likelihood of a logistic regression on a coalition of ten chunks of breast_cancer, two mislabelled."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression

    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(seed).permutation(len(y))
    ends = np.cumsum(4 * np.arange(1, 11))
    chunks = np.split(order[: ends[-1]], ends[:-1])
    labels, test = y.copy(), order[ends[-1] :]
    for chunk in (chunks[3], chunks[6]):
        labels[chunk] = np.random.default_rng(seed + 1).integers(0, 2, len(chunk))

    def value(chosen: list[int]) -> float:
        rows = np.concatenate([chunks[i] for i in chosen]) if chosen else order[:0]
        if len(set(labels[rows])) < 2:
            return float(np.log(0.5))
        chance = LogisticRegression(C=0.1).fit(X[rows], labels[rows]).predict_proba(X[test])[:, 1]
        return float(np.mean(np.log(np.clip(np.where(y[test] == 1, chance, 1 - chance), 1e-3, 1))))

    return np.array([value(chosen) for chosen in members(10)])


def forest_options(seed: int) -> np.ndarray:
    """Accuracy of a forest on 600 digits with a coalition of eight hyper-parameters changed from poor to good."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import ExtraTreesClassifier

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:300], order[300:900]
    choices: dict[str, tuple[Any, Any]] = {
        "n_estimators": (3, 20),
        "max_depth": (3, None),
        "max_features": (1, "sqrt"),
        "min_samples_leaf": (8, 1),
        "min_samples_split": (20, 2),
        "bootstrap": (True, False),
        "criterion": ("gini", "entropy"),
        "max_leaf_nodes": (12, None),
    }

    def value(changed: list[int]) -> float:
        options = {name: pair[i in changed] for i, (name, pair) in enumerate(choices.items())}
        return float(
            ExtraTreesClassifier(random_state=seed, **options).fit(X[train], y[train]).score(X[test], y[test])
        )

    return np.array([value(changed) for changed in members(8)])


UNSEEN: dict[str, Callable[[int], np.ndarray]] = {
    "svm": kernel_machine,
    "chunk": mislabelled_chunks,
    "forest": forest_options,
}

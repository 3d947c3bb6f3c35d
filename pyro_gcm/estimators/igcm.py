"""`IGCMClassifier` and `IGCMRegressor`: monotone in a latent kernel revenue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyro_gcm.estimators.estimator import MonotoneEstimator
from pyro_gcm.estimators.outcomes import BinaryOutcome, RealOutcome
from pyro_gcm.estimators.recipes import igcm_recipe
from pyro_gcm.estimators.training import Recipe


class IGCMOptions(MonotoneEstimator):
    """The options of both."""

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        hidden: int | None = None,
        alternatives: int | None = None,
        costs: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        early_stopping: bool | str = "auto",
        bootstrap: int = 0,
        warm_start: bool = False,
        random_state: Any = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.hidden = hidden
        self.alternatives = alternatives
        self.costs = costs
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.bootstrap = bootstrap
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _recipe(
        self, rows: int, x_dim: int, r_dim: int, ordered: Sequence[Sequence[int]]
    ) -> Recipe:
        return igcm_recipe(self, rows, x_dim, r_dim)


class IGCMRegressor(RealOutcome, IGCMOptions):
    """doc"""


class IGCMClassifier(BinaryOutcome, IGCMOptions):
    """doc"""

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        hidden: int | None = None,
        alternatives: int | None = None,
        costs: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        early_stopping: bool | str = "auto",
        class_weight: Any = None,
        bootstrap: int = 0,
        warm_start: bool = False,
        random_state: Any = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        super().__init__(
            monotonic_cst=monotonic_cst,
            categorical_features=categorical_features,
            hidden=hidden,
            alternatives=alternatives,
            costs=costs,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            early_stopping=early_stopping,
            bootstrap=bootstrap,
            warm_start=warm_start,
            random_state=random_state,
            device=device,
            verbose=verbose,
        )
        self.class_weight = class_weight

"""`GCMClassifier` and `GCMRegressor`: strictly monotone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyro_gcm.estimators.answers import Answers
from pyro_gcm.estimators.outcomes import BinaryOutcome, RealOutcome
from pyro_gcm.estimators.recipes import gcm_recipe
from pyro_gcm.estimators.training import Recipe


class GCMOptions(Answers):
    """The options of both."""

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        prior: str = "members",
        members: int = 8,
        hidden: int | None = None,
        alternatives: int | None = None,
        costs: int | None = None,
        dropout: float | None = None,
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
        self.prior = prior
        self.members = members
        self.hidden = hidden
        self.alternatives = alternatives
        self.costs = costs
        self.dropout = dropout
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
        return gcm_recipe(self, rows, x_dim, r_dim, ordered)


class GCMRegressor(RealOutcome, GCMOptions):
    """doc"""


class GCMClassifier(BinaryOutcome, GCMOptions):
    """doc"""

    def __init__(
        self,
        *,
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        prior: str = "members",
        members: int = 8,
        hidden: int | None = None,
        alternatives: int | None = None,
        costs: int | None = None,
        dropout: float | None = None,
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
            prior=prior,
            members=members,
            hidden=hidden,
            alternatives=alternatives,
            costs=costs,
            dropout=dropout,
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

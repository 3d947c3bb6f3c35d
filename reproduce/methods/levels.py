"""Members of a table with a category of many levels, which estimators read by mean outcomes."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd
from torch import Tensor

from pyro_gcm.data.tables import read_table
from pyro_gcm.estimators import GCMClassifier, GCMRegressor


def many_levels(names: tuple[str, ...], rows: int) -> bool:
    """Whether columns "category=level" are so many that an estimator reads mean outcomes."""
    counts = Counter(name.split("=")[0] for name in names if "=" in name)
    return bool(counts) and max(counts.values()) > max(30, rows / 20)


def table_of(names: tuple[str, ...], x: Tensor, r: Tensor) -> pd.DataFrame:
    """The columns of x, of which categories are one each, and of r."""
    hot = pd.DataFrame(x.numpy(), columns=names)
    table = hot[[name for name in names if "=" not in name]].join(
        pd.DataFrame(r.numpy()).add_prefix("revenue_")
    )
    for category in dict.fromkeys(name.split("=")[0] for name in names if "=" in name):
        table[category] = hot.filter(regex=f"^{category}=").idxmax(axis=1)
    return table


class OfTable(NamedTuple):
    """What members of an estimator predict of x and r."""

    names: tuple[str, ...]
    estimator: Any

    def __getattr__(self, name: str) -> Any:
        """A function of x, r and what else that of the model takes."""

        def function(x: Tensor, r: Tensor, *more: Any) -> Any:
            read = self.estimator.encoding_(read_table(table_of(self.names, x, r)))
            return getattr(self.estimator.model_, name)(*read, *more)

        return function


def fitted(rows: Any, seed: int, device: str) -> tuple[OfTable, Any]:
    """A fitted estimator behind functions of x and r."""
    kind: Any = GCMClassifier if rows.response == "binary" else GCMRegressor
    table, directions = table_of(rows.names, rows.x, rows.r), {}
    for name in table.filter(regex="^revenue_"):
        directions[name] = 1
    model = kind(monotonic_cst=directions, random_state=seed, device=device)
    model.fit(table, rows.y.numpy())
    return OfTable(rows.names, model), SimpleNamespace(best_epoch=model.n_iter_)

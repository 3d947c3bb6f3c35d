"""A small table of loans, with an outcome for each kind of estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd


def table(rows: int = 60) -> pd.DataFrame:
    """Columns of every kind, with missing values, and outcomes of every kind."""
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "id": [f"{number:03d}" for number in range(rows)],
            "income": rng.lognormal(10, 0.6, rows),
            "debt": rng.uniform(0, 50, rows),
            "owner": rng.random(rows) < 0.5,
            "job": rng.choice(["clerk", "farmer", "smith"], rows),
        }
    )
    score = 0.1 * made["debt"] - np.log(made["income"]) + 8 + rng.logistic(size=rows)
    made["default"] = np.where(score > 0, "yes", "no")
    made["loss"] = np.exp(0.3 * score)
    made["grade"] = np.select([score < -1, score < 1], ["low", "medium"], "high")
    made["time"] = rng.exponential(np.exp(-0.5 * score)) + 0.01
    made["event"] = (rng.random(rows) < 0.7).astype(int)
    made.loc[::9, "income"] = np.nan
    made.loc[::11, "job"] = None
    return made

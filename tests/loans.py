"""Simulated loans with columns of every kind and missing values; with outcomes of every kind."""

import numpy as np
import pandas as pd


def loans(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns income and debt (with missing values), years, job (text) and grade (ordered); y."""
    rng = np.random.default_rng(seed)
    grades = pd.CategoricalDtype(["A", "B", "C"], ordered=True)
    table = pd.DataFrame(
        {
            "income": rng.lognormal(10, 1, rows),
            "debt": rng.uniform(0, 50, rows),
            "years": rng.integers(0, 30, rows),
            "job": rng.choice(["clerk", "farmer", "smith"], rows),
            "grade": pd.Series(rng.choice(["A", "B", "C"], rows)).astype(grades),
        }
    )
    score = 0.05 * table["debt"] - 0.8 * np.log(table["income"]) + 5.5
    score += 1.0 * (table["job"] == "smith") + 0.7 * table["grade"].cat.codes
    y = np.where(score + rng.logistic(size=rows) > 0, "yes", "no")
    table.loc[::7, "income"] = np.nan
    table.loc[::11, "job"] = None
    table.loc[::13, "debt"] = np.nan
    return table, y


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
    made["claims"], made["span"] = rng.poisson(np.exp(0.2 * score)), rng.uniform(0.5, 2, rows)
    made.loc[::9, "income"] = np.nan
    made.loc[::11, "job"] = None
    return made

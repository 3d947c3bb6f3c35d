"""What the calibration of members after their training is worth, on the binary sets of the report.

Five random 4:1 splits, at most 20,000 training rows. The three ways differ in nothing else: models
of one split have the same seed. `GCMClassifier(calibrate=)` has them.
"""

from __future__ import annotations

import time

import pandas as pd
import torch
from sklearn.metrics import brier_score_loss

from pyro_gcm.estimators import GCMClassifier
from reproduce.methods import version_of
from reproduce.rendering.tables import compared
from reproduce.runs import Fit, Scores
from reproduce.scores import binary_scores
from reproduce.study import Study
from reproduce.tasks import TITLES, load

#: Name -> the argument `calibrate`.
WAYS: dict[str, bool | str] = {
    "none": False,
    "shift to the base rate": "auto",
    "shift and steepness": True,
}
#: Sets with a binary y.
BINARY = ("adult", "compas", "diabetes", "loan_psds", "fair", "default", "credit_card", "pima")
#: Most training rows of a split, and those of --quick.
MOST, QUICK_ROWS = 20_000, 300
METRICS = ("log score", "Brier score", "calibration error", "AUC")


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Scores of one way on one split."""
    dataset = load(fit.dataset, fit.variant)
    learn, test = dataset.split(int(fit.split))
    learn = learn[: fit.options.get("rows", MOST)]
    X = torch.cat([dataset.x, dataset.r], 1).numpy()
    signs = [0] * dataset.x.shape[1] + [1] * dataset.r.shape[1]
    model = GCMClassifier(
        monotonic_cst=signs, calibrate=WAYS[fit.method], random_state=fit.seed, device=device
    )
    start, y = time.process_time(), dataset.y.numpy()
    model.fit(X[learn], y[learn])
    seconds = time.process_time() - start
    p = model.predict_proba(X[test])[:, 1]
    scores = binary_scores(p, y[test]) | {"Brier score": brier_score_loss(y[test], p)}
    return {name: scores[name] for name in METRICS} | {"seconds": seconds, "epochs": model.n_iter_}


def report(table: pd.DataFrame) -> str:
    """Every data set."""
    parts = [
        (TITLES[n], table[table["dataset"] == n]) for n in BINARY if n in set(table["dataset"])
    ]
    return "\n\n".join(f"{t}\n\n{compared(rows, [*WAYS], METRICS)}" for t, rows in parts)


STUDY = Study(
    *("calibration", str(__doc__), BINARY, WAYS, run, "8"),
    count=5,
    version=lambda way: version_of("Members"),
    quick={"rows": QUICK_ROWS},
)

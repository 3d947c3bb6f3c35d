"""Ordered levels: GCM beside proportional odds, neural cumulative links and monotone boosting.

Ten random 4:1 splits of public sets, and ten simulated ones whose probabilities are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import cohen_kappa_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from pyro_gcm.estimators import GCMOrdinal
from reproduce.curves import judged
from reproduce.data.ordered_data import ORDINAL, SIMULATED, Array, Table
from reproduce.runs import Scores

#: Probabilities [n, L] of rows; the rows of levels of a table of boosting may not sum to 1.
Predict = Callable[[Table], Array]
#: Trees among which those of boosting are chosen by cross-validation inside the training rows.
_TREES = (5, 10, 20, 40, 80, 160)
_FOLDS = 5


def _gcm(prior: str) -> Callable[[Table, int], Predict]:
    def fit(learn: Table, seed: int) -> Predict:
        options: Any = {"monotonic_cst": learn.directions, "random_state": seed, "prior": prior}
        model = GCMOrdinal(**options, levels=list(range(learn.levels)))
        model.fit(learn.columns, learn.y.astype(int))
        return lambda rows: model.predict_proba(rows.columns)

    return fit


def _frequencies(learn: Table, seed: int) -> Predict:
    """How often each level is there, with half a row more for each."""
    counts = np.bincount(learn.y.astype(int), minlength=learn.levels) + 0.5
    return lambda rows: np.tile(counts / counts.sum(), (len(rows), 1))


def _proportional_odds(learn: Table, seed: int) -> Predict:
    """statsmodels' OrderedModel with the logistic link; linear in the columns."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    units = StandardScaler().fit(learn.columns)
    x = units.transform(learn.columns)
    seen, y = np.unique(learn.y.astype(int), return_inverse=True)
    # Columns that no constant and no earlier columns make up.
    triangle = np.linalg.qr(np.hstack([np.ones((len(x), 1)), x]), "r")
    pivots = np.abs(np.diag(triangle))[1:] > 1e-9 * len(x)
    model = OrderedModel(y, x[:, pivots], distr="logit")
    fitted = model.fit(method="bfgs", maxiter=500, disp=False)

    def predict(rows: Table) -> Array:
        found, columns = np.zeros((len(rows), learn.levels)), units.transform(rows.columns)
        found[:, seen] = fitted.model.predict(fitted.params, exog=columns[:, pivots])
        return found

    return predict


class CumulativeLink(nn.Module):
    """A network of one number, and ordered cut points: log-odds of y <= l are cut_l - f(columns).

    The form of spacecutter, in plain torch.
    """

    def __init__(self, columns: int, levels: int, width: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        layers = []
        for inputs in (columns, width):
            layers += [nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout)]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))
        cuts = torch.logit(torch.linspace(0.0, 1.0, levels + 1)[1:-1])
        self.first, self.gaps = nn.Parameter(cuts[:1]), nn.Parameter(cuts.diff().log())

    def forward(self, columns: Tensor) -> Tensor:
        """Probabilities [n, L]."""
        cuts = torch.cat([self.first, self.first + self.gaps.exp().cumsum(0)])
        below = torch.sigmoid(cuts - self.net(columns))
        one = torch.ones_like(below[:, :1])
        return torch.cat([below, one], 1) - torch.cat([0.0 * one, below], 1)


def _neural(learn: Table, seed: int) -> Predict:
    """Adam; the number of epochs is that which was best on 15 % of the rows."""
    units = StandardScaler().fit(learn.columns)

    def tensor(rows: Table) -> Tensor:
        return torch.tensor(units.transform(rows.columns), dtype=torch.float32)

    x, y = tensor(learn), torch.tensor(learn.y.astype(int))
    held = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)) < 0.15 * len(y)

    def train(epochs: int, fitted: Tensor) -> tuple[CumulativeLink, list[float]]:
        """A network, and its loss on the rows held out after each epoch."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, losses = CumulativeLink(x.shape[1], learn.levels), []
            optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
            for _ in range(epochs):
                model.train()
                for rows in fitted[torch.randperm(len(fitted))].split(64):
                    optimizer.zero_grad()
                    _loss(model(x[rows]), y[rows]).backward()
                    optimizer.step()
                model.eval()
                with torch.no_grad():
                    losses.append(float(_loss(model(x[held]), y[held])))
        return model, losses

    _, losses = train(100, (~held).nonzero()[:, 0])
    model, _ = train(1 + int(np.argmin(losses)), torch.arange(len(y)))

    def predict(rows: Table) -> Array:
        with torch.no_grad():
            found: Array = model(tensor(rows)).double().numpy()
        return found

    return predict


def _loss(probability: Tensor, y: Tensor) -> Tensor:
    return -probability.clamp(min=1e-7).gather(1, y[:, None]).log().mean()


def _boosting(learn: Table, seed: int) -> Predict:
    """A monotone classifier of every event y >= l by itself; nothing keeps them from crossing.

    Scikit-learn's, with a number of trees for each event that cross-validation chose. What is
    returned are differences of neighbours as they are, so that a crossing is a negative number.
    """
    models = [_event(learn, learn.y >= level, seed) for level in range(1, learn.levels)]

    def predict(rows: Table) -> Array:
        above = np.stack([model(rows.columns) for model in models], 1)
        ends = np.ones((len(rows), 1))
        edges = np.hstack([ends, above, 0.0 * ends])
        found: Array = edges[:, :-1] - edges[:, 1:]
        return found

    return predict


def _event(learn: Table, event: Any, seed: int) -> Callable[[Array], Array]:
    x, y = learn.columns, event.astype(int)
    fewest = min(y.sum(), len(y) - y.sum())
    if fewest < 2:  # too few to cut
        rate = (y.sum() + 0.5) / (len(y) + 1.0)
        return lambda columns: np.full(len(columns), rate)

    models = judged.boosters(HistGradientBoostingClassifier, learn, seed, _TREES)
    folds: Any = {"cv": StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=seed)}
    losses = [
        log_loss(y, cross_val_predict(model, x, y, **folds, method="predict_proba"))
        for model in models
    ]
    best = models[int(np.argmin(losses))].fit(x, y)
    return lambda columns: best.predict_proba(columns)[:, 1]


METHODS: dict[str, Callable[[Table, int], Predict]] = {
    "Members": _gcm("members"),
    "GCM": _gcm("conditional"),
    "Proportional odds": _proportional_odds,
    "Neural cumulative link": _neural,
    "Monotone boosting of each event": _boosting,
    "Frequencies": _frequencies,
}


#: Levels of the simulated tables.
LEVELS = 5
#: The smallest probability of a level, of all methods.
FLOOR = 1e-4


def scores(probability: Array, learn: Table, test: Table) -> Scores:
    """Scores of probabilities [n, L] of levels, of which some may be negative by crossings.

    Where cumulative probabilities cross, they are sorted before they are scored.
    """
    crossing = float((probability < -1e-12).any(1).mean())
    edges = np.hstack([np.zeros((len(test), 1)), np.sort(probability.cumsum(1), axis=1)])
    p = np.clip(np.diff(edges), FLOOR, None)
    p = p / p.sum(1, keepdims=True)
    y, below = test.y.astype(int), p.cumsum(1)[:, :-1]
    steps = np.arange(test.levels - 1.0)
    median = (below < 0.5).sum(1)
    found = {
        "log score": float(np.log(p[np.arange(len(y)), y]).mean()),
        "RPS": float(np.square(below - (y[:, None] <= steps)).sum(1).mean()),
        "error of the median": float(np.abs(median - y).mean()),
        "quadratic kappa": float(cohen_kappa_score(y, median, weights="quadratic")),
        "crossings": crossing,
    }
    if test.truth is not None:
        edges = np.hstack([0.0 * p[:, :1], test.truth(steps), 0.0 * p[:, :1] + 1.0])
        found["mean |P - P0|"] = float(np.abs(p - np.diff(edges)).mean())
    return found


STUDY = judged.study(
    *("ordinal", __doc__, [*ORDINAL, SIMULATED], METHODS, scores, "12"), levels=LEVELS
)

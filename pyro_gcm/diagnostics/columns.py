"""What a column does: its average effect or elasticity, and which direction the data suggest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.stats import norm
from torch import Tensor

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    column_names,
    matrix,
    number,
    positive_int,
    same_rows,
    seed_of,
    share,
)
from pyro_gcm.data.tables import Column, read_table
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.prediction.draws import blocks

Array = npt.NDArray[np.float64]

#: Probability that some column's costs are called significant though none is, at most.
LEVEL = 0.05
#: A direction whose cost is below this share of the other one's holds but for exceptions.
MOSTLY = 0.1
#: Levels of a column that the booster tells apart: it has bins for 255 and missing values.
_LEVELS = 254


def suggest_directions(
    X: Any,
    y: Any,
    *,
    columns: Sequence[str] | None = None,
    folds: int = 5,
    max_rows: int = 20_000,
    seed: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    """Return what it costs to let the prediction only rise, or only fall, in each numeric column.

    Boosted trees (scikit-learn's `HistGradientBoosting*`) are cross-validated without a constraint,
    and again for each column with the constraint that it has a direction. The cost of a direction
    is the log score that it loses on held-out rows, in nats a row; a negative cost is a gain. That
    of the wrong direction is large where the column matters. The costs are tested together (Holm
    1979, at 5 %), and `evidence` says what they show:

    - "rising" or "falling": only the other direction costs;
    - "mostly rising" or "mostly falling": both do, but this one less than a tenth of the other;
    - "neither": both do, as in a column that first helps and then harms;
    - "little": none does, since the column says little about y that the others do not say.

    It advises and does not decide: a direction is a promise about the meaning of a column with all
    others fixed, which no data prove, and by which a table with few rows gains most.

    :param X: a table of n rows, as `estimators.GCMClassifier.fit` takes it. Columns of text or
        categories are used, and have no direction.
    :param y: two classes, of which the second in sorted order is the event, or numbers, [n].
    :param columns: names of the columns to look at, each of which takes 2 `folds` fits; by default
        all numeric ones.
    :param folds: of the cross-validation.
    :param max_rows: rows to use, at most, drawn at random.
    :param progress: whether to show a bar.
    :returns: a row for each numeric column, by its name: `evidence`; `suggested`, +1, -1 or 0, as
        `monotonic_cst` takes it; `rising`, the cost of that direction, with `rising_low` and
        `rising_high`, the ends of its 95 % interval; and the same of `falling`.
    :raises ValueError: for one class of y, or more than two of text.
    :raises KeyError: for a name in `columns` that no numeric column has.
    :raises TypeError: for columns that are neither numbers, text nor categories.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from pyro_gcm.diagnostics import suggest_directions
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"debt": rng.normal(size=500), "age": rng.normal(size=500)})
    >>> y = X["debt"] - X["age"] ** 2 + rng.normal(size=500)
    >>> suggest_directions(X, y, progress=False)["evidence"].to_dict()
    {'debt': 'rising', 'age': 'neither'}
    """
    from tqdm.auto import tqdm

    folds = positive_int("folds", folds, minimum=2)
    max_rows, seed = positive_int("max_rows", max_rows, minimum=2 * folds), seed_of(seed)
    table, (outcome, is_binary) = read_table(X), _outcome(y)
    rows = len(table[0].is_missing)
    if len(outcome) != rows:
        raise ValueError(f"y must have {rows} entries, one for each row of X, got {len(outcome)}")
    rng = np.random.default_rng(seed)
    kept = rng.permutation(rows)[:max_rows]
    names = table.names or [str(place) for place in range(len(table))]
    is_category = [column.numbers is None or column.categorical for column in table]
    inputs = np.stack([_codes(column) for column in table], 1)[kept]
    numeric = {name: place for place, name in enumerate(names) if not is_category[place]}
    places = [numeric[name] for name in (numeric if columns is None else columns)]
    outcome, shuffled = outcome[kept], rng.permutation(len(kept))
    of_fold = np.empty(len(kept), int)  # neighbours in the order of y are in different folds
    of_fold[shuffled[outcome[shuffled].argsort(kind="stable")]] = np.arange(len(kept)) % folds
    loss = partial(_losses, inputs, outcome, of_fold, is_category, is_binary)
    free, losses = loss(np.zeros(len(table), int)), {}
    for place in tqdm(places, desc="columns", disable=not progress):
        for sign in (1, -1):
            losses[place, sign] = loss(np.where(np.arange(len(table)) == place, sign, 0))
    # Numbers have the log score of a Gaussian, with the squared error of no direction as variance.
    unit = 1.0 if is_binary else 0.5 / free.mean()
    costs = {key: unit * (each - free) for key, each in losses.items()}
    return _table({names[place]: (costs[place, 1], costs[place, -1]) for place in places})


def _outcome(y: Any) -> tuple[Array, bool]:
    """y as numbers, and whether it has two classes, which are 0 and 1 then."""
    values = np.asarray(y)
    if values.ndim != 1 or pd.isna(values).any():
        raise ValueError(f"y must have no missing values and shape [rows], got {values.shape}")
    classes = np.unique(values)
    if len(classes) == 2:
        return (values == classes[1]).astype(float), True
    if len(classes) < 2 or values.dtype.kind not in "iuf":
        raise ValueError(f"y must have two classes or be numbers, got {len(classes)} classes")
    return values.astype(float), False


def _codes(column: Column) -> Array:
    """The numbers of a column, or its most frequent levels as numbers; NaN where one is missing."""
    if column.numbers is not None and not column.categorical:
        return column.numbers
    labels = pd.Series(column.as_labels())
    places = {label: place for place, label in enumerate(labels.value_counts().index)}
    return labels.map(places).clip(upper=_LEVELS - 1).to_numpy(float)


def _losses(
    inputs: Array,
    outcome: Array,
    of_fold: npt.NDArray[np.intp],
    is_category: list[bool],
    is_binary: bool,
    directions: npt.NDArray[np.intp],
) -> Array:
    """Minus the log score, or the squared error, of every row, predicted out of fold."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from threadpoolctl import threadpool_limits

    rows = len(outcome)
    kind = HistGradientBoostingClassifier if is_binary else HistGradientBoostingRegressor
    booster = kind(
        max_iter=int(np.clip(rows // 10, 50, 100)),  # few rows are learned by heart
        max_leaf_nodes=int(np.clip(rows // 125, 4, 16)),
        early_stopping=False,
        monotonic_cst=directions,
        categorical_features=is_category,
    )
    split, method = PredefinedSplit(of_fold), "predict_proba" if is_binary else "predict"
    with threadpool_limits(1):
        found = cross_val_predict(booster, inputs, outcome, cv=split, method=method)
    if not is_binary:
        return (outcome - found) ** 2
    return -np.log(found[np.arange(rows), outcome.astype(int)].clip(1e-15))


def _table(costs: Mapping[str, tuple[Array, Array]]) -> pd.DataFrame:
    """The table of `suggest_directions`, from the costs of both directions in every row."""
    every = np.array([*costs.values()]).reshape(len(costs), 2, -1 if costs else 1)
    mean, error = every.mean(-1), every.std(-1) / np.sqrt(every.shape[-1])
    p_value = norm.sf(mean / np.where(error > 0.0, error, np.inf))
    is_cost = _holm(p_value.ravel()).reshape(-1, 2)
    rows = []
    for (rising, falling), (up, down) in zip(is_cost, mean, strict=True):
        if rising and falling:
            least, most = sorted((up, down))
            kind = "mostly " if least < MOSTLY * most else ""
            evidence = kind + ("rising" if up < down else "falling") if kind else "neither"
        else:
            evidence = "falling" if rising else "rising" if falling else "little"
        rows.append((evidence, {"rising": 1, "falling": -1}.get(evidence, 0)))
    index = pd.Index(costs, name="column")
    table = pd.DataFrame(rows, index, pd.Index(["evidence", "suggested"]))
    for name, cost, width in zip(("rising", "falling"), mean.T, 1.96 * error.T, strict=True):
        table[name], table[f"{name}_low"], table[f"{name}_high"] = cost, cost - width, cost + width
    return table


def _holm(p_value: Array) -> npt.NDArray[np.bool_]:
    """Whether each hypothesis is rejected by Holm's procedure at `LEVEL`."""
    order = p_value.argsort()
    passed = p_value[order] <= LEVEL / np.arange(len(p_value), 0, -1)
    rejected = np.zeros(len(p_value), bool)
    rejected[order] = np.logical_and.accumulate(passed)
    return rejected


@one_thread()
def marginal_effects(
    model: Posteriors,
    x: ArrayLike,
    r: ArrayLike,
    *,
    replicates: Sequence[Posteriors] = (),
    level: float = 0.9,
    step: float | None = None,
    x_names: Sequence[str] | None = None,
    r_names: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Means over rows of d p / d x_j, and of the elasticities d log p / d log r_k.

    p is the prediction of the model: Pr(y = 1), or the mean of y, say. The derivatives are those of
    `differentiable`. An effect of x is the change of p for a unit of x; a categorical column that
    is coded as 0 and 1 has the slope between them, not the difference. An elasticity of 0.5 says
    that p grows by half a per cent where the revenue grows by one.

    Source: Greene (2018), Econometric Analysis, section 17.3.

    :param model: trained; its means are the estimates.
    :param x: [n, x_dim] in data units; `r`: [n, r_dim].
    :param replicates: models that differ as the data could have differed, such as fits
        to bootstrap samples of the rows. The ends of a band are quantiles of their estimates.
        Without them a band tells how the means of n rows like these vary, the model being as it is.
    :param level: of the bands.
    :param step: half the difference of x, in its standard deviations among these rows, over which
        an effect is taken; 0 for a derivative. By default 0, and 0.2 for members, which read
        covariates through steps as well, whose derivative is 0.
    :param x_names, r_names: in place of the names of the columns.
    :returns: a row for each column of x and r, with the columns kind ("effect" or "elasticity"),
        estimate, lower and upper, and its name as index.
    :raises ValueError: for wrong shapes, names, or a level outside of (0, 1).

    >>> import torch
    >>> from pyro_gcm import GCM
    >>> x, r = torch.zeros(4, 2), torch.full((4, 1), 0.5)
    >>> effects = marginal_effects(GCM(2, 1), x, r, x_names=["age", "debt"], r_names=["price"])
    >>> effects["kind"].to_dict()
    {'age': 'effect', 'debt': 'effect', 'price': 'elasticity'}
    """
    share("level", level, "a probability")
    tail = 0.5 * (1.0 - level)
    names = [
        *names_of("x_names", x_names, x, model.x_dim, "x"),
        *names_of("r_names", r_names, r, model.r_dim, "r"),
    ]
    x = matrix("x", x, model.x_dim, "x_dim")
    r = matrix("r", r, model.r_dim, "r_dim")
    same_rows(x=x, r=r)
    step = (0.2 if model.members else 0.0) if step is None else number("step", step, 0.0)
    each = _slopes(model, x, r, step)
    estimate = each.mean(0)
    if replicates:
        means = torch.stack([_slopes(one, x, r, step).mean(0) for one in replicates])
        lower, upper = (means.quantile(p, 0) for p in (tail, 1.0 - tail))
    else:
        half = norm.isf(tail) * each.std(0) / len(each) ** 0.5
        lower, upper = estimate - half, estimate + half
    kinds = ["effect"] * model.x_dim + ["elasticity"] * model.r_dim
    ends = {"estimate": estimate, "lower": lower, "upper": upper}
    return pd.DataFrame({"kind": kinds, **{n: v.numpy() for n, v in ends.items()}}, index=names)


def _slopes(model: Posteriors, x: Tensor, r: Tensor, step: float) -> Tensor:
    """Effects and elasticities of every row, [n, x_dim + r_dim], float64."""
    parts = []
    for count, (x_block, r_block) in blocks(x, r, draws=len(model.base_samples.samples)):
        x_in, r_in = x_block.clone().requires_grad_(), r_block.clone().requires_grad_()
        p = model.differentiable(x_in, r_in)
        of_x, of_r = torch.autograd.grad(p.sum(), (x_in, r_in))
        elasticity = of_r.double() * r_block.double() / p.detach().double()[:, None]
        parts.append(torch.cat([of_x.double(), elasticity], 1)[:count])
    slopes = torch.cat(parts).cpu()
    for j, half in enumerate((step * x.double().std(0)).tolist()):
        if half > 0.0:
            move = half * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)[j]
            difference = model.predict(x + move, r).double() - model.predict(x - move, r).double()
            slopes[:, j] = difference.cpu() / (2.0 * half)
    return slopes


def names_of(
    argument: str, names: Sequence[str] | None, columns: Any, count: int, letter: str
) -> list[str]:
    """Names of columns: those that are given, those of a DataFrame, or a letter and a number.

    :raises ValueError: for another number of names.
    """
    named = column_names(columns) if names is None else names
    if named is None:
        return [f"{letter}[{i}]" for i in range(count)]
    if len(named) != count:
        raise ValueError(f"{argument} must have {count} names, got {len(named)}")
    return [str(name) for name in named]

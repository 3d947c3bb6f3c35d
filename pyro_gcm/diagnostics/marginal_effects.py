"""Average marginal effects of covariates, and elasticities in the revenues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    same_rows,
    share,
)
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.prediction.draws import blocks


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
    :param replicates: models that differ as the data could have differed, such as the
        `bootstrap_models_` of an estimator. The ends of a band are quantiles of their estimates.
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

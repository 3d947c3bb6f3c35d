"""Is y strictly monotone in the revenues, or only through a kernel? Held-out rows decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from tqdm.auto import tqdm

from pyro_gcm._utils.options import checks, flag, mapping, seed_of, text
from pyro_gcm._utils.threads import one_thread
from pyro_gcm._utils.validation import (
    as_tensor,
    matrix,
    one_of,
    positive_int,
    same_rows,
    shown,
    vector,
)
from pyro_gcm.inference import fit
from pyro_gcm.models import GCM, IGCM


@dataclass(frozen=True)
class AssumptionComparison:
    """Held-out log scores of the strict and of the implicit model, row by row.

    :param scores: one row per row of the data with the columns fold, strict and implicit: the last
        two are log p(y | x, r) in nats under models that were trained without that fold (a density
        in the units of y if y is continuous).
    """

    scores: pd.DataFrame

    @property
    def gaps(self) -> npt.NDArray[np.float64]:
        """Log score of the implicit model minus that of the strict model, for every row."""
        return (self.scores["implicit"] - self.scores["strict"]).to_numpy()

    @property
    def difference(self) -> float:
        """Mean of `gaps`, in nats per row."""
        return float(self.gaps.mean())

    @property
    def standard_error(self) -> float:
        """Paired standard error of `difference` over rows, which ignores variation of training."""
        return float(self.gaps.std(ddof=1) / len(self.gaps) ** 0.5)

    def __str__(self) -> str:
        strict, implicit = (self.scores[name].mean() for name in ("strict", "implicit"))
        return (
            f"log score of {len(self.scores)} held-out rows: strict {strict:.4f}, implicit "
            f"{implicit:.4f}, difference {self.difference:+.4f} ± {self.standard_error:.4f}"
        )


@checks(response=text, strict=mapping, implicit=mapping, progress=flag)
@one_thread()
def compare_assumptions(
    data: Any,
    *,
    response: str | None = None,
    strict: Mapping[str, Any] | None = None,
    implicit: Mapping[str, Any] | None = None,
    implicit_objective: str = "conditional",
    folds: int = 5,
    seed: int = 0,
    progress: bool = True,
    **training: Any,
) -> AssumptionComparison:
    """Train `GCM` (strict) and `IGCM` (implicit) on the same folds and score the held-out rows.

    :param data: a `data.Dataset`, or a triple (x, r, y) of arrays.
    :param response: "binary" or "continuous"; by default that of a `Dataset`, or "binary".
    :param strict: options of `GCM`, such as {"alternatives": 3}; `implicit`: options of `IGCM`.
    :param implicit_objective: objective of the training of `IGCM`; the score is log p(y | x, r).
    :param folds: number of parts, each held out once; 1 stands for one held-out fifth.
    :param seed: seed of the folds, the initial weights and the training.
    :param progress: whether to show a progress bar over the fits.
    :param training: options of `fit` for both, such as epochs.
    :raises ValueError: for data that `fit` would refuse, before training starts.

    >>> x, r = torch.randn(60, 2), torch.rand(60, 1)
    >>> y = x[:, 0] + r[:, 0] > 0.5
    >>> result = compare_assumptions((x, r, y), folds=2, epochs=1, progress=False)
    >>> list(result.scores.columns)
    ['fold', 'strict', 'implicit']
    """
    seed = seed_of(seed)
    one_of("implicit_objective", implicit_objective, IGCM.objectives)
    if isinstance(data, tuple | list) and len(data) == 3:
        x, r, y = data
    elif not all(hasattr(data, name) for name in ("x", "r", "y", "response")):
        raise TypeError(f"data must be a Dataset or a triple (x, r, y), got {shown(data)}")
    else:
        x, r, y = data.x, data.r, data.y
        response = response or data.response
    response = response or "binary"
    x, r = as_tensor("x", x), as_tensor("r", r)
    x = matrix("x", x, x.shape[-1], "x_dim")
    r = matrix("r", r, r.shape[-1], "r_dim")
    y = vector("y", y)
    same_rows(x=x, r=r, y=y)
    folds = positive_int("folds", folds)
    if folds > len(y) or len(y) < 5:
        raise ValueError(f"folds={folds} of {len(y)} rows leave a fold without rows")
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    parts = order.tensor_split(folds) if folds > 1 else (order[: len(y) // 5],)
    shared: dict[str, Any] = {"response": response, "seed": seed}
    sizes = x.shape[1], r.shape[1]
    builders: dict[str, Any] = {
        "strict": partial(GCM, *sizes, **{**shared, **(strict or {})}),
        "implicit": partial(IGCM, *sizes, **{**shared, **(implicit or {})}),
    }
    objectives = {"strict": "conditional", "implicit": implicit_objective}
    for name, build in builders.items():  # refused before anything is trained
        build().training_pair(objectives[name])
    scores = {name: torch.full((len(y),), torch.nan, dtype=torch.float64) for name in builders}
    fold = torch.full((len(y),), -1)
    with tqdm(total=2 * len(parts), disable=not progress, desc="compare", unit="fit") as bar:
        for number, test in enumerate(parts):
            train = np.setdiff1d(np.arange(len(y)), test)
            fold[test] = number
            for name, build in builders.items():
                model, chosen = build(), {"seed": seed, "progress": False, **training}
                fit(model, x[train], r[train], y[train], **chosen, objective=objectives[name])
                held_out = (column[test].to(model.device) for column in (x, r, y))
                scores[name][test] = model.log_prob(*held_out).double().cpu()
                bar.update()
    table = pd.DataFrame({"fold": fold, **scores})
    return AssumptionComparison(table[table["fold"] >= 0].reset_index(names="row").set_index("row"))

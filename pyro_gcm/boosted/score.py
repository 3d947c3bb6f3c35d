"""The score of gradient boosting as one more column of x or of r."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pyro_gcm._utils.options import flag, seed_of
from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.threads import one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    as_tensor,
    matrix,
    one_of,
    positive_int,
    same_rows,
    vector,
)
from pyro_gcm.baselines.baseline import device_of
from pyro_gcm.baselines.boosting import MonotoneBoosting
from pyro_gcm.boosted.trees import RawScore


@register("encoders.BoostedScore")  # its name in folders since 0.2.0
class BoostedScore:
    """A score of boosted trees that a model reads beside x and r, as a stacked generalisation.

    One booster is trained without each of the `folds` parts of the training rows. A training row
    gets the score of the one booster that has not seen it, for a model that is to learn how far
    the score can be trusted; a new row gets the mean of the scores of all boosters. The two have
    slightly different distributions: the mean varies less, and no booster saw as many rows as there
    are.

    With role "revenue" the score is one of x and r, non-decreasing in r, and becomes a further
    column of r. A model that is non-decreasing in all of its revenues is then still non-decreasing
    in r, since an increasing function of an increasing score is increasing. With role "covariate"
    it is a score of x alone and becomes a further column of x.

    `Boosted` joins it with a model that was trained on these columns.

    :param role: "revenue" or "covariate".
    :param library: of `baselines.MonotoneBoosting`; all but "sklearn" are installed by
        `pip install pyro-gcm[boosting]`.
    :param response: "binary", whose scores are log-odds, or "continuous", in the units of y.
    :param folds: number of parts and of boosters, at least 2. With a binary y the parts have equal
        shares of both outcomes.
    :param seed: seed of the parts and of the boosters.
    :param select_trees: keep of every booster only its first trees, as many as have the lowest loss
        over the rows that they were not trained on. It is one number for all boosters, so that a
        row's outcome has next to no influence on its own score. The options set the most trees.
    :param options: of the library's estimator under its own names.
    :raises ValueError: for unknown names and for options that `MonotoneBoosting` refuses.
    :raises ImportError: if the library is not installed.

    Example::

        >>> from pyro_gcm import GCM, fit
        >>> from pyro_gcm.boosted import Boosted
        >>> x, r = torch.randn(80, 2), torch.rand(80, 1)
        >>> y = r[:, 0] > torch.rand(80)
        >>> score = BoostedScore("revenue", "sklearn", max_iter=5)
        >>> columns = score.columns(x, r, score.fit(x, r, y))
        >>> model = GCM(2, 2)
        >>> result = fit(model, *columns, y, epochs=1, progress=False)
        >>> Boosted(model, score).predict(x, r).shape
        torch.Size([80])
    """

    def __init__(
        self,
        role: Literal["revenue", "covariate"] = "revenue",
        library: Literal["lightgbm", "sklearn", "xgboost", "catboost"] = "lightgbm",
        *,
        response: Literal["binary", "continuous"] = "binary",
        folds: int = 5,
        seed: int = 0,
        select_trees: bool = True,
        **options: Any,
    ) -> None:
        one_of("role", role, ["revenue", "covariate"])
        self.role, self.library, self.response = role, library, response
        self.folds = positive_int("folds", folds, minimum=2)
        self.seed = seed_of(seed)
        self.select_trees, self.options = flag("select_trees", select_trees), options
        self._booster(0)  # checks the options
        self.boosters: list[RawScore] = []
        #: Trees of each booster that the score has, at most; set by `fit`.
        self.trees = 0

    @one_thread()
    def fit(self, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> Tensor:
        """Train the boosters, and return the scores of rows by the booster that has not seen them.

        :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n], 0 or 1 if the response is binary.
        :returns: float64 [n], on the device of the first tensor among x and r.
        :raises ValueError: for wrong shapes or values, or too few rows for the folds, before any
            training.
        """
        covariates, revenues = _columns("x", x), _columns("r", r)
        outcomes = vector("y", y).double().cpu()
        same_rows(x=covariates, r=revenues, y=outcomes)
        fold = self._fold_of(outcomes)
        self.x_dim, self.r_dim = covariates.shape[1], revenues.shape[1]
        if self.role == "covariate":
            revenues = revenues[:, :0]
        inputs = torch.cat([covariates, revenues], 1).numpy()
        boosters = []
        for number in range(self.folds):
            seen = fold != number
            # Centred, since a library may be told so, and then its raw score is of centred values.
            offset = float(outcomes[seen].mean()) if self.response == "continuous" else 0.0
            booster = self._booster(number)
            booster.fit(covariates[seen], revenues[seen], outcomes[seen] - offset)
            boosters.append(RawScore(self.library, booster.estimator, offset))

        def out_of_fold(trees: int) -> Tensor:
            scores = torch.empty_like(outcomes)
            for number, booster in enumerate(boosters):
                unseen = fold == number
                scores[unseen] = torch.from_numpy(booster(inputs[unseen.numpy()], trees))
            return scores

        most = max(booster.trees for booster in boosters)
        counts = sorted({round(count) for count in np.geomspace(1, most, 30)})
        if not self.select_trees:
            counts = [most]
        self.trees = min(counts, key=lambda trees: self._loss(out_of_fold(trees), outcomes))
        self.boosters = boosters
        return out_of_fold(self.trees).to(device_of(x, r))

    @one_thread()
    def score(self, x: ArrayLike, r: ArrayLike | None = None) -> Tensor:
        """The mean of the boosters' scores for new rows.

        With role "revenue" it is non-decreasing in every revenue, bit for bit, across calls and
        batch sizes (see `trees.RawScore`; the sum over boosters has a fixed order too).

        :param x: [B, x_dim]; `r`: [B, r_dim], which role "covariate" does not read.
        :returns: float64 [B], on the device of the first tensor among x and r.
        :raises RuntimeError: if the score has not been fitted.
        :raises ValueError: for wrong shapes or values that are not finite.
        """
        self.check_fitted()
        columns = [matrix("x", x, self.x_dim, "x_dim")]
        if self.role == "revenue":
            columns.append(matrix("r", r, self.r_dim, "r_dim"))
            same_rows(x=columns[0], r=columns[1])
        inputs = torch.cat([part.double().cpu() for part in columns], 1).numpy()
        scores = [booster(inputs, self.trees) for booster in self.boosters]
        mean = sum(scores[1:], start=scores[0]) / len(scores)
        return torch.from_numpy(mean).to(device_of(x, r))

    @one_thread()
    def columns(
        self, x: ArrayLike, r: ArrayLike, scores: ArrayLike | None = None
    ) -> tuple[Any, Any]:
        """x and r with the score as the last column of one of them.

        :param x: [B, x_dim]; `r`: [B, r_dim].
        :param scores: [B], what `fit` returned for training rows; `score(x, r)` by default, which
            is for new rows only: most boosters have seen a training row's outcome.
        :returns: x [B, x_dim + 1] and r as it is given, or x as it is given and r [B, r_dim + 1],
            by role; what is new is float64.
        :raises RuntimeError: if the score has not been fitted.
        """
        self.check_fitted()
        column = self.score(x, r) if scores is None else vector("scores", scores)
        if self.role == "covariate":
            return _appended("x", x, column), r
        return x, _appended("r", r, column)

    def saved_state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The part that `pyro_gcm.save` keeps; see `pyro_gcm.io`.

        :raises TypeError: for library "sklearn", whose trees only pickle can hold.
        """
        self.check_fitted()
        names = "role", "library", "response", "folds", "seed", "select_trees"
        data = {
            "arguments": {name: getattr(self, name) for name in names} | self.options,
            "sizes": [self.x_dim, self.r_dim, self.trees],
            "offsets": [booster.offset for booster in self.boosters],
        }
        files = (booster.dumped() for booster in self.boosters)
        return data, {f"booster{k}.{extension}": raw for k, (extension, raw) in enumerate(files)}

    @classmethod
    def from_saved_state(cls, data: dict[str, Any], parts: dict[str, bytes]) -> BoostedScore:
        """The score that was saved."""
        made = cls(**data["arguments"])
        made.x_dim, made.r_dim, made.trees = data["sizes"]
        made.boosters = [
            RawScore.parsed(made.library, raw, offset)
            for raw, offset in zip(parts.values(), data["offsets"], strict=True)
        ]
        return made

    def check_fitted(self) -> None:
        """Check that there are boosters.

        :raises RuntimeError: if there are none.
        """
        if not self.boosters:
            raise RuntimeError("the score has not been fitted: call fit first")

    def _booster(self, number: int) -> MonotoneBoosting:
        library: Any = self.library
        return MonotoneBoosting(
            library, response=self.response, seed=self.seed + number, **self.options
        )

    def _fold_of(self, outcomes: Tensor) -> Tensor:
        """The part of every row, [n]: rows in random order, by outcome if it is binary, dealt."""
        rows = len(outcomes)
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(self.seed))
        if self.response == "binary":
            if outcomes.unique().tolist() != [0.0, 1.0]:
                found = outcomes.unique().tolist()[:5]
                raise ValueError(f"y must hold 0 and 1 for response='binary', got {found}")
            rows = int(torch.minimum(outcomes.sum(), len(outcomes) - outcomes.sum()))
            order = order[outcomes[order].argsort(stable=True)]
        if rows < self.folds:
            what = " of either outcome" if self.response == "binary" else ""
            raise ValueError(f"y must have at least folds={self.folds} rows{what}, got {rows}")
        fold = torch.empty_like(order)
        fold[order] = torch.arange(len(order)) % self.folds
        return fold

    def _loss(self, scores: Tensor, outcomes: Tensor) -> float:
        if self.response == "binary":
            return float(functional.binary_cross_entropy_with_logits(scores, outcomes))
        return float(functional.mse_loss(scores, outcomes))


def _columns(name: str, value: ArrayLike) -> Tensor:
    """Checked columns to train on, in float64 on the CPU."""
    tensor = as_tensor(name, value)
    if tensor.dim() != 2 or not tensor.shape[1]:
        raise ValueError(
            f"{name} must have shape [rows, columns] with at least one column, got "
            f"{tuple(tensor.shape)}"
        )
    return matrix(name, tensor, tensor.shape[1], f"{name}_dim").double().cpu()


def _appended(name: str, value: ArrayLike, column: Tensor) -> Tensor:
    """A matrix with a further column, in float64 so that the score keeps its value."""
    tensor = as_tensor(name, value).double()
    same_rows(**{name: tensor, "scores": column})
    return torch.cat([tensor, column.to(tensor)[:, None]], 1)

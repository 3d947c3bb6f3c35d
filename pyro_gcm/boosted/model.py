"""A model that reads the score of boosted trees beside x and r."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.bisection import smallest_reaching
from pyro_gcm._utils.recipe import register
from pyro_gcm._utils.threads import one_thread
from pyro_gcm._utils.validation import ArrayLike, kind, matrix
from pyro_gcm.boosted.score import BoostedScore
from pyro_gcm.models.strict_predictions import StrictPredictions, checked_search

#: Pairs of a row of x and one of the revenues that are scored together.
_PAIRS = 1 << 17


@register("encoders.Boosted")  # its name in folders since 0.2.0
class Boosted:
    """A model of the columns that `BoostedScore.columns` makes, as a model of x and r.

    Every method takes x and r in the units of the data, adds the score to them and calls the method
    of the model by the same name, with its other arguments. If the model is non-decreasing in its
    revenues, bit for bit, then so is this one in r, for both roles of the score.

    :param model: trained on `score.columns(x, r, score.fit(x, r, y))`: a `GCM` or `IGCM` or
        whatever has `x_dim`, `r_dim` and these methods, with one more covariate or revenue than the
        data, by the role of the score.
    :param score: fitted.
    :raises TypeError: for a score that is none.
    :raises ValueError: for a model of other sizes.
    :raises RuntimeError: if the score has not been fitted.
    """

    def __init__(self, model: StrictPredictions, score: BoostedScore) -> None:
        if not isinstance(score, BoostedScore):
            raise TypeError(f"score must be a BoostedScore, got {type(score).__name__}")
        score.check_fitted()
        sizes = {"x_dim": score.x_dim, "r_dim": score.r_dim}
        sizes["r_dim" if score.role == "revenue" else "x_dim"] += 1
        for name, size in sizes.items():
            if not hasattr(model, name):
                raise TypeError(f"model must be a GCM, or have its {name}, got {kind(model)}")
            if getattr(model, name) != size:
                raise ValueError(
                    f"model must have {name}={size} for rows with this score as a {score.role}, "
                    f"got {name}={getattr(model, name)}"
                )
        self.model, self.score = model, score
        self.x_dim, self.r_dim = score.x_dim, score.r_dim

    def saved_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The part that `pyro_gcm.save` keeps; see `pyro_gcm.io`."""
        return {}, {"model": self.model, "score": self.score}

    @classmethod
    def from_saved_state(cls, data: dict[str, Any], parts: dict[str, Any]) -> Boosted:
        """The two that were saved."""
        return cls(**parts)

    def predict(self, x: ArrayLike, r: ArrayLike, **options: Any) -> Tensor:
        """Prediction for every row, [B]; x [B, x_dim] and r [B, r_dim] in data units."""
        predictions: Tensor = self.model.predict(*self.score.columns(x, r), **options)
        return predictions

    def log_prob(self, x: ArrayLike, r: ArrayLike, y: ArrayLike, **options: Any) -> Tensor:
        """log p(y | x, r) of every row, [B]."""
        log_p: Tensor = self.model.log_prob(*self.score.columns(x, r), y, **options)
        return log_p

    def predictive(self, x: ArrayLike, r: ArrayLike, **options: Any) -> Any:
        """p(y | x, r) of every row; see `GCM.predictive`."""
        return self.model.predictive(*self.score.columns(x, r), **options)

    def posterior(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike | None = None, **options: Any
    ) -> Any:
        """Draws of every site of given rows; see `GCM.posterior`."""
        return self.model.posterior(*self.score.columns(x, r), y, **options)

    def cost_posterior(self, x: ArrayLike, r: ArrayLike, y: ArrayLike, **options: Any) -> Any:
        """Draws of the latent variables and costs given the outcome; see `GCM.cost_posterior`."""
        return self.model.cost_posterior(*self.score.columns(x, r), y, **options)

    def cost(self, x: ArrayLike, **options: Any) -> Any:
        """p(c | x); with role "revenue" the costs are those of the revenues and of the score."""
        covariates = self.score.columns(x, None)[0] if self.score.role == "covariate" else x
        return self.model.cost(covariates, **options)

    @one_thread()
    def surface(self, x: ArrayLike, revenues: ArrayLike, **options: Any) -> Tensor:
        """Predictions [B, R] for every row of x [B, x_dim] at every row of revenues [R, r_dim].

        With role "revenue" the score of a revenue depends on the row, so that the model's own
        `surface` is called once for each row of x.
        """
        grids = self._grids(x, revenues)
        return torch.cat([self.model.surface(*grid, **options) for grid in grids])

    @one_thread()
    def surface_draws(self, x: ArrayLike, revenues: ArrayLike, **options: Any) -> Any:
        """The predictions behind `surface` before they are averaged over the draws of z."""
        parts = [self.model.surface_draws(*g, **options) for g in self._grids(x, revenues)]
        values, weights = zip(*parts, strict=True)
        return type(parts[0])(
            torch.cat(values, 1), None if weights[0] is None else torch.cat(weights, 1)
        )

    @one_thread()
    def required_revenue(
        self,
        x: ArrayLike,
        level: float = 0.9,
        *,
        revenue: int = 0,
        r: ArrayLike | None = None,
        **options: Any,
    ) -> Tensor:
        """The smallest value of one revenue at which the prediction reaches a level, [B].

        With role "revenue" the score moves with that revenue.

        :param level, revenue, r: see `GCM.required_revenue`, whose results and errors it has.
        """
        if self.score.role == "covariate":
            columns = self.score.columns(x, None)[0]
            found: Tensor = self.model.required_revenue(
                columns, level, revenue=revenue, r=r, **options
            )
            return found
        x = matrix("x", x, self.x_dim, "x_dim")
        units = self.model.r_standardizer
        loc, scale = (unit[: self.r_dim].double().to(x.device) for unit in (units.loc, units.scale))
        level, revenue, rows = checked_search(
            level, revenue, r, x, loc, is_probability=self.score.response == "binary"
        )
        column = torch.tensor([revenue], device=x.device)

        def prediction(value: Tensor) -> Tensor:
            moved = rows.index_copy(1, column, value[:, None])
            return self.predict(x, moved, **options).double()

        start, step = (unit[revenue].expand(len(x)) for unit in (loc, scale))
        dtype = torch.promote_types(self.model.dtype, units.loc.dtype)
        return smallest_reaching(prediction, level, start, step, dtype)

    def _grids(self, x: ArrayLike, revenues: ArrayLike) -> Iterator[tuple[Any, Any]]:
        """Arguments of the model's `surface`: one pair, or one for each row of x, by role."""
        if self.score.role == "covariate":
            yield self.score.columns(x, revenues)
            return
        x = matrix("x", x, self.x_dim, "x_dim")
        revenues = matrix("revenues", revenues, self.r_dim, "r_dim", x.device)
        count = len(revenues)
        for part in x.split(max(1, _PAIRS // count)):
            repeated = revenues.repeat(len(part), 1)
            _, columns = self.score.columns(part.repeat_interleave(count, 0), repeated)
            yield from zip(part.split(1), columns.split(count), strict=True)

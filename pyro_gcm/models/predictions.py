"""Predictions: averages over draws of the latent variables that are the same at every call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.evaluating import evaluating
from pyro_gcm._utils.options import function
from pyro_gcm._utils.validation import ArrayLike, matrix, positive, positive_int
from pyro_gcm.distributions import LatentMixture
from pyro_gcm.distributions.event_planes import elementwise
from pyro_gcm.models.base import given_or
from pyro_gcm.models.blocks import row_predictions
from pyro_gcm.models.conditioning import given_selection, log_likelihood
from pyro_gcm.models.posteriors import Posteriors
from pyro_gcm.models.prediction_method import prediction
from pyro_gcm.models.surfaces import Reduce, SurfaceDraws, pair_surface, stacked, surface_draws
from pyro_gcm.prediction.base_samples import BLOCK_ROWS, in_blocks
from pyro_gcm.prediction.draws import Draws, Rows
from pyro_gcm.prediction.predicted import FixedNoise, Latent, Predicted, Replayed, log_mean


class Predictions(Posteriors):
    """A model with its predictions."""

    @prediction
    def predict(self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None) -> Tensor:
        """Prediction for every row: Pr(y = 1), the mean of y, or what the response says.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param num_samples: draws of z, the model's own number by default.
        :returns: [B].
        """
        with elementwise():
            rows, noise = self.rows(x, r), self.noise(num_samples)
        dtype = self.response.prediction_dtype(self.dtype)
        found = torch.empty(len(rows.x), dtype=dtype, device=self.device)
        for place, values, draws in row_predictions(self, rows.x, rows.r, noise):
            found[place] = draws.mean(values, slice(0, values.shape[1]))
        return found

    def differentiable(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """`predict` with gradients with respect to x, r and the parameters: for marginal effects.

        With the same draws, and equal but for rounding: the order of the revenues is promised for
        `predict` alone.

        :param x: [B, x_dim] in data units; `r`: [B, r_dim].
        :returns: [B].

        >>> import torch
        >>> from pyro_gcm import GCM
        >>> model, x, r = GCM(2, 1), torch.zeros(4, 2), torch.zeros(4, 1, requires_grad=True)
        >>> (slope,) = torch.autograd.grad(model.differentiable(x, r).sum(), r)
        >>> bool((slope > 0).all())
        True
        """
        self.check_story("model")
        rows = self.rows(x, r)
        x, r = (given_or(value, own) for value, own in ((x, rows.x), (r, rows.r)))
        with evaluating(self):
            noise = self.noise(num_samples)
            draws = Predicted(self, self.prediction_plan, noise).read(x, r)
            values = self.response.expected(draws.p_y)
        values = values.expand(draws.num_draws, len(rows.x))
        if draws.log_weights is None:
            return values.mean(0)
        return (values * draws.log_weights.exp()).sum(0)

    @prediction
    def predict_draws(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """The predictions behind `predict` given each draw of z, or each value of a finite z.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim]. Every draw of a `GCM` rises in it, with the promise of `predict`.
        :returns: [N, B], of as many draws as are used; their mean is the prediction, with the
            weights that `surface_draws` returns where they are not equal: after joint training, and
            with a prior "categorical" or "mixture".
        """
        with elementwise():
            rows, noise = self.rows(x, r), self.noise(num_samples)
        dtype = self.response.prediction_dtype(self.dtype)
        blocks = row_predictions(self, rows.x, rows.r, noise)
        return torch.cat([values.to(dtype) for _, values, _ in blocks], 1)

    @prediction
    def surface(
        self,
        x: ArrayLike,
        revenues: ArrayLike,
        *,
        num_samples: int | None = None,
        reduce: Reduce | None = None,
        memory: float = 256.0,
    ) -> Tensor:
        """Predictions for every row of x at every row of revenues.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        :param reduce: function of a few rows of the surface, [b, R], to what is kept of them,
            [b, ...], such as `lambda p: (p >= 0.9).int().argmax(1)`, the first revenues that reach
            0.9. The whole surface is then never held.
        :param memory: limit of the working memory in megabytes (10^6 bytes), beside the result and
            what the networks need for a block of rows. The numbers do not depend on it.
        :returns: [B, R], or what `reduce` returns for all rows, [B, ...].
        :raises ValueError: for a result of `reduce` with another number of rows.

        >>> import torch
        >>> from pyro_gcm import GCM
        >>> model, x, revenues = GCM(2, 1), torch.zeros(5, 2), torch.arange(7.0)[:, None]
        >>> model.surface(x, revenues).shape
        torch.Size([5, 7])
        """
        x, revenues = self.grid(x, revenues)
        memory = 1e6 * positive("memory", memory)
        function("reduce", reduce)
        blocks = self.surface_blocks(x, revenues, self.noise(num_samples), memory)
        return stacked(blocks, len(x), reduce)

    def surface_blocks(
        self, x: Tensor, revenues: Tensor, noise: FixedNoise, memory: float
    ) -> Iterator[Tensor]:
        """Blocks [b, R] of `surface` after the checks: every pair is a row, as in `predict`."""
        return pair_surface(self, x, revenues, noise, memory)

    @prediction
    def surface_draws(
        self, x: ArrayLike, revenues: ArrayLike, *, num_samples: int | None = None
    ) -> SurfaceDraws:
        """The predictions behind `surface` before they are averaged over the draws of z.

        They show how the response differs between latent values: z, and k of `IGCM` where drawn.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        """
        x, revenues = self.grid(x, revenues)
        return surface_draws(self, x, revenues, self.noise(num_samples))

    @prediction
    def log_prob(
        self,
        x: ArrayLike,
        r: ArrayLike,
        y: ArrayLike,
        c: ArrayLike | None = None,
        *,
        num_samples: int | None = None,
    ) -> Tensor:
        """log p(y | x, r) of every row in nats, a density in the units of y if it is continuous.

        The average over z is inside the logarithm, with the same draws as `predict`.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param y: [B].
        :param c: observed costs, [B, r_dim], NaN for the others, as in `fit`: then the result is
            log p(y, c_observed | x, r), and y may be NaN.
        :returns: [B].
        """
        if y is None:
            raise ValueError("y must be given, or NaN where an observed cost takes its place")

        def log_p_y(draws: Draws, rows: Rows) -> Tensor:
            draws = given_selection(self, draws, rows)
            return log_mean(log_likelihood(draws, rows), draws.log_weights)

        return self.of_rows(log_p_y, num_samples, self.rows(x, r, y, c)).to(self.dtype)

    @prediction
    def predictive(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None
    ) -> Any:  # the class that the response names
        """p(y | x, r) of every row: densities, draws, and what else outcomes of this kind have.

        That is a mean for events and numbers, `cdf`, `quantile`, `interval` and `crps` for numbers
        and levels, `probabilities` for levels, `survival` and `hazard` for times.

        :param x: [B, x_dim] in data units; `r`: [B, r_dim].

        >>> import torch
        >>> from pyro_gcm import GCM
        >>> p_y = GCM(2, 1, response="continuous").predictive(torch.zeros(5, 2), torch.ones(5, 1))
        >>> p_y.quantile([0.1, 0.5, 0.9]).shape
        torch.Size([5, 3])
        """
        home = x.device if isinstance(x, Tensor) else torch.device("cpu")
        return self.response.predictive(self, self.rows(x, r), num_samples, home)

    @prediction
    def averaged(
        self,
        x: Tensor,
        rows: Rows,
        of: Callable[[Draws, Rows], Tensor],
        *,
        num_samples: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """What a function of draws and rows returns, [B, ...], block by block of checked rows."""
        return self.of_rows(of, num_samples, rows).to(dtype or self.dtype)

    @prediction
    def cost(self, x: ArrayLike, *, num_samples: int | None = None) -> LatentMixture:
        """p(c | x), with `cdf`, `sample`, `mean` and `log_prob`, on the device of the model.

        In the units of what the costs are compared with.
        """
        noise, record = self.noise(num_samples), self.objective_records[self.objective]
        rows = matrix("x", x, self.x_dim, "x_dim", self.device, missing="x" in record.missing)
        missing, plan = -len(rows) % BLOCK_ROWS, self.prediction_plan
        whole = torch.cat([rows, rows[-1:].expand(missing, -1)])
        draws = Predicted(self, plan, noise, until="c").read(whole, None).of_rows(len(rows))
        again = Replayed(self, plan, draws.values, until="c").read(rows, None)
        return LatentMixture(again.left["c"].fn, *self.cost_units(), draws.log_weights)

    @prediction
    def effective_sample_size(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """1 / sum of the squared weights of the draws behind a prediction, [B].

        The number of draws where their weights are equal. After joint training they are importance
        weights: where few draws carry a row, a larger `num_samples` changes its prediction.
        """

        def size(draws: Draws, rows: Rows) -> Tensor:
            if draws.log_weights is None:
                return torch.full((len(rows.x),), float(draws.num_draws), device=self.device)
            return torch.exp(-torch.logsumexp(2.0 * draws.log_weights, 0))

        return self.of_rows(size, num_samples, self.rows(x, r)).to(self.dtype)

    # What the methods above have in common

    def cost_units(self) -> tuple[Tensor, Tensor]:
        """Location and scale of the costs in the units of `cost`, each of shape `cost_shape`."""
        if self.costs_have_units:
            return self.r_standardizer.loc, self.r_standardizer.scale
        like = self.base_samples.samples
        return like.new_zeros(self.cost_shape), like.new_ones(self.cost_shape)

    def grid(self, x: ArrayLike, revenues: ArrayLike) -> tuple[Tensor, Tensor]:
        """Checked x and revenues of a surface, without missing values."""
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        revenues = matrix("revenues", revenues, self.r_dim, "r_dim", self.device)
        self.response.check_revenue(revenues)
        return x, revenues

    def noise(self, num_samples: int | None) -> FixedNoise:
        """What drives the draws of predictions, the same at every call."""
        if num_samples is None:
            num_samples = len(self.base_samples.samples)
        count = positive_int("num_samples", num_samples)
        shared = {name: Latent(*site.latent) for name, site in self.shared_sites().items()}
        return FixedNoise(self, {**self.latents(self.prediction_plan), **shared}, count)

    def of_rows(
        self, function: Callable[[Draws, Rows], Tensor], num_samples: int | None, rows: Rows
    ) -> Tensor:
        """`function` of draws and checked rows, block by block."""
        noise, plan = self.noise(num_samples), self.prediction_plan

        def block(*columns: Tensor) -> Tensor:
            some = Rows(*columns)
            return function(Predicted(self, plan, noise).read(some.x, some.r, some.c), some)

        return in_blocks(block, *filter(torch.is_tensor, rows), draws=noise.count)


def moved(old: str, new: str) -> Callable[..., Tensor]:
    """A method of 0.2.0 that is one of `predictive` now."""

    def method(self: Any, x: ArrayLike, r: ArrayLike, *args: Any, **options: Any) -> Tensor:
        message = f"{old}(x, r, ...) has moved: use predictive(x, r).{new}(...) by 0.4.0"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        count = {} if old == "sample" else {"num_samples": options.pop("num_samples", None)}
        found: Tensor = getattr(self.predictive(x, r, **count), new)(*args, **options)
        return found

    method.__name__, method.__doc__ = old, f"Deprecated: `predictive(x, r).{new}`."
    return method


_MOVED = {"class_probabilities": "probabilities", "predict_survival": "survival"}
for _name in (
    *("quantile", "median", "interval", "cdf", "sample", "crps", "class_probabilities"),
    *("predict_survival", "hazard", "cured_fraction", "restricted_mean"),
):
    setattr(Predictions, _name, moved(_name, _MOVED.get(_name, _name)))

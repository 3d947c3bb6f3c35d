"""Predictions: averages over draws of the latent variables that are the same at every call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import evaluating, in_transform
from pyro_gcm._utils.validation import (
    ArrayLike,
    checked_data,
    column_names,
    full_precision,
    positive_int,
)
from pyro_gcm.inference.programs import given_or
from pyro_gcm.models.base import OrderEventModel, once
from pyro_gcm.prediction.base_samples import FixedNoise, Latent
from pyro_gcm.prediction.draws import Draws, PosteriorDraws, Rows, SurfaceDraws, blocks
from pyro_gcm.prediction.predicted import Predicted

Method = TypeVar("Method", bound=Callable[..., Any])
#: A number of draws of z, by default that of the model.
Count = int | None


def prediction(method: Method) -> Method:
    """A public method without gradients, in evaluation mode, on one thread.

    Its first argument may be on any device; tensors come back on that device, and arrays of other
    kinds count as being on the CPU. A distribution stays where the model is.
    """

    @functools.wraps(method)
    def predict(self: Any, x: ArrayLike, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # which may fuse operations, and so rounds otherwise
            return torch.compiler.disable(predict)(self, x, *args, **kwargs)
        full_precision(self)
        self.check_story("model")
        if not self.is_trained:
            self.warn_once(
                f"{self.name} has not been fitted: its predictions are those of its initial "
                "weights; call fit(model, x, r, y), or load what was saved"
            )
        known = (self.training_summary or {}).get("columns", {})
        if any(known.values()):
            given = x, kwargs.get("r"), kwargs.get("revenues"), *args[:1]
            for name, value in zip("xrrr", given, strict=False):
                own, of_fit = column_names(value) or [], list(known.get(name) or ())
                if len(own) == len(of_fit) and own != of_fit:
                    raise ValueError(f"{name} must have the columns of fit, {of_fit}, got {own}")
        home = x.device if isinstance(x, Tensor) else torch.device("cpu")
        with evaluating(self), torch.no_grad():
            result = method(self, x, *args, **kwargs)
        if home != self.device and isinstance(result, Tensor | PosteriorDraws | SurfaceDraws):
            return result.to(home)
        return result

    return cast(Method, predict)


class Predictions(OrderEventModel):
    """A model with its predictions."""

    @prediction
    def predict(
        self,
        x: ArrayLike,
        r: ArrayLike,
        *,
        exposure: ArrayLike | None = None,
        num_samples: Count = None,
    ) -> Tensor:
        """Prediction for every row: Pr(y = 1), the mean of y, or what the response says.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param exposure: of counts, [B], of whose mean it is a factor.
        :param num_samples: draws of z, the model's own number by default.
        :returns: [B].
        """
        rows, factor = self.rows(x, r), None
        if exposure is not None:
            factor = self.response.exposure_of(exposure, rows.x)
        found = self._predicted(rows, self.noise(num_samples))
        return found if factor is None else (found.double() * factor).to(found)

    def differentiable(self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None) -> Tensor:
        """`predict` with gradients with respect to x, r and the parameters: for marginal effects.

        With the same draws, and equal but for rounding: the order of the revenues is promised for
        `predict` alone. `torch.func` transforms it, with `vmap` row by row as well; inside of
        transforms values are not checked.

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
        return draws.mean(values.expand(draws.num_draws, len(rows.x)))

    @prediction
    def predict_draws(self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None) -> Tensor:
        """The predictions behind `predict` given each draw of z, or each value of a finite z.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim]. Every draw of a `GCM` rises in it, with the promise of `predict`.
        :returns: [N, B], of as many draws as are used; their mean is the prediction, with the
            weights that `surface_draws` returns where they are not equal: after joint training, and
            with a prior "categorical" or "mixture".
        """
        return self._draws(self.rows(x, r), self.noise(num_samples))[0]

    @prediction
    def log_prob(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike, *, num_samples: Count = None
    ) -> Tensor:
        """log p(y | x, r) of every row in nats, a density in the units of y if it is continuous.

        The average over z is inside the logarithm, with the same draws as `predict`.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param y: [B].
        :returns: [B].
        """

        def log_p_y(draws: Draws, rows: Rows) -> Tensor:
            draws = draws.of_selected(self.response, rows)
            return draws.log_mean(draws.log_likelihood(rows))

        rows = self.rows(x, r, y, required="xry")
        return self.each_block(log_p_y, rows, self.noise(num_samples)).to(self.dtype)

    @prediction
    def predictive(
        self,
        x: ArrayLike,
        r: ArrayLike,
        *,
        exposure: ArrayLike | None = None,
        num_samples: Count = None,
    ) -> Any:  # the class that the response names
        """p(y | x, r) of every row: densities, draws, and what else outcomes of this kind have.

        That is a mean for events and numbers, `cdf`, `quantile`, `interval` and `crps` for numbers
        and levels, `probabilities` for levels, `survival` and `hazard` for times.

        :param x: [B, x_dim] in data units; `r`: [B, r_dim].
        :param exposure: of counts, [B]; one unit of it by default.

        >>> import torch
        >>> from pyro_gcm import GCM
        >>> p_y = GCM(2, 1, response="continuous").predictive(torch.zeros(5, 2), torch.ones(5, 1))
        >>> p_y.quantile([0.1, 0.5, 0.9]).shape
        torch.Size([5, 3])
        """
        home = x.device if isinstance(x, Tensor) else torch.device("cpu")
        rows = self.rows(x, r)
        found: Any = self.response.predictive(self, rows, num_samples, home)
        if exposure is not None:
            found.exposure = self.response.exposure_of(exposure, rows.x)
        return found

    @prediction
    def effective_sample_size(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None
    ) -> Tensor:
        """1 / sum of the squared weights of the draws behind a prediction, [B].

        The number of draws where their weights are equal. After joint training they are importance
        weights: where few draws carry a row, a larger `num_samples` changes its prediction.
        """

        def size(draws: Draws, rows: Rows) -> Tensor:
            if draws.log_weights is None:
                return torch.full((len(rows.x),), float(draws.num_draws), device=self.device)
            return torch.exp(-torch.logsumexp(2.0 * draws.log_weights, 0))

        return self.each_block(size, self.rows(x, r), self.noise(num_samples)).to(self.dtype)

    # What the methods above have in common

    def _predicted(self, rows: Rows, noise: FixedNoise) -> Tensor:
        """`predict` of checked rows."""

        def mean(draws: Draws, _: Rows) -> Tensor:
            return draws.mean(self.response.predict(draws.p_y))

        dtype = self.response.prediction_dtype(self.dtype)
        return self.each_block(mean, rows, noise, apart=True).to(dtype)

    def _draws(self, rows: Rows, noise: FixedNoise) -> tuple[Tensor, Tensor | None]:
        """Predictions [N, B] given each draw, and the weights of the draws where they differ."""
        weights: list[Tensor] = []

        def values(draws: Draws, some: Rows) -> Tensor:
            if draws.log_weights is not None:
                weights.append(draws.log_weights.exp().expand(-1, len(some.x)))
            found: Tensor = self.response.predict(draws.p_y)
            return found.expand(draws.num_draws, len(some.x)).T

        found = self.each_block(values, rows, noise, apart=True)
        whole = torch.cat(weights, 1)[:, : len(rows.x)].to(self.dtype) if weights else None
        return found.to(self.response.prediction_dtype(self.dtype)).T, whole

    def rows(self, *columns: ArrayLike | None, required: str = "xr") -> Rows:
        """Checked columns x, r, (y)."""
        rows = Rows(**checked_data(self, *columns, required=required, device=self.device))
        self.read_rows(rows.x, rows.r)
        if self.x_dim == self.r_dim and not in_transform() and self._look_exchanged(rows.x, rows.r):
            self.warn_once(
                "x and r look exchanged: each is far from the rows of fit, and close to those of "
                "the other; the order is (x, r), with r the monotone columns"
            )
        return rows

    def _look_exchanged(self, x: Tensor, r: Tensor) -> bool:
        """Whether each is far from the rows of fit, and close to those of the other."""
        of_x, of_r = self.x_standardizer, self.r_standardizer

        def size(standard: Tensor) -> float:
            return standard.abs().median().item()

        far = size(of_x(x)) > 6.0 and size(of_r(r)) > 6.0
        return far and size(of_x(r)) < 3.0 and size(of_r(x)) < 3.0

    @once
    def noise(self, num_samples: Count) -> FixedNoise:
        """Return the noise behind the draws of predictions, the same at every call."""
        sites = self.shared_sites().items()
        shared = {name: Latent(site.free_shape.numel(), site.event_shape) for name, site in sites}
        latents = {**self.latents(self.prediction_plan), **shared}
        count = len(self.base_samples.samples)
        if self.members and any(not site.values for site in latents.values()):
            count = 256  # of members whose story has other sites, with 32 draws for each of 8
        if num_samples is not None:
            count = positive_int("num_samples", num_samples)
        noise = FixedNoise(self, latents, count)
        if noise.seeded:
            self.warn_once(
                f"{noise.seeded} has neither rsample_from(base) nor icdf: its draws are seeded, "
                "and rows are predicted one by one"
            )
        return noise

    def each_block(
        self,
        function: Callable[[Draws, Rows], Tensor],
        rows: Rows,
        noise: FixedNoise,
        *,
        apart: bool = False,
    ) -> Tensor:
        """`function` of draws and rows of each block, without the padding.

        Networks see whole blocks, because a product of another shape rounds differently.

        :param apart: whether what follows them is elementwise, and the padding then left out.
        """
        found = []
        for count, columns in blocks(*filter(torch.is_tensor, rows), **noise.in_blocks):
            draws = Predicted(self, self.prediction_plan, noise).read(*columns[:2])
            kept = len(columns[0])
            if apart:
                draws, kept = draws.without_padding(count, kept)
            found.append(function(draws, Rows(*(column[:kept] for column in columns)))[:count])
        return torch.cat(found)

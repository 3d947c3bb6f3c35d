"""Predictions: averages over draws of the latent variables that are the same at every call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import (
    ArrayLike,
    checked_data,
    kind,
    matrix,
    positive,
    positive_int,
)
from pyro_gcm.inference.programs import given_or
from pyro_gcm.models import posteriors
from pyro_gcm.models.base import OrderEventModel
from pyro_gcm.models.calls import Count, prediction
from pyro_gcm.prediction.base_samples import FixedNoise, Latent
from pyro_gcm.prediction.draws import Draws, Rows, SurfaceDraws, blocks
from pyro_gcm.prediction.predicted import Predicted

#: What `surface` makes of a block of predictions [b, R]: a tensor [b, ...].
Reduce = Callable[[Tensor], Tensor]


class Predictions(OrderEventModel):
    """A model with its predictions, and with the draws of its sites (`models.posteriors`)."""

    simulate, cost, cost_posterior = posteriors.simulate, posteriors.cost, posteriors.cost_posterior
    posterior, responsibilities = posteriors.posterior, posteriors.responsibilities
    log_likelihood, latent_shapes = posteriors.log_likelihood, posteriors.latent_shapes
    effective_sample_size = posteriors.effective_sample_size

    @prediction
    def predict(self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None) -> Tensor:
        """Prediction for every row: Pr(y = 1), the mean of y, or what the response says.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param num_samples: draws of z, the model's own number by default.
        :returns: [B].
        """
        return self._predicted(self.rows(x, r), self.noise(num_samples))

    def differentiable(self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None) -> Tensor:
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
    def surface(
        self,
        x: ArrayLike,
        revenues: ArrayLike,
        *,
        num_samples: Count = None,
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
        parts = []
        for block in self.surface_blocks(x, revenues, self.noise(num_samples), memory):
            part = block if reduce is None else reduce(block)
            if not isinstance(part, Tensor) or part.shape[:1] != block.shape[:1]:
                got = f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else kind(part)
                raise ValueError(
                    f"reduce must return a tensor with {len(block)} rows, one for each of x, got "
                    f"{got}"
                )
            parts.append(part)
        return torch.cat(parts)

    def surface_blocks(
        self, x: Tensor, revenues: Tensor, noise: FixedNoise, memory: float
    ) -> Iterator[Tensor]:
        """Blocks [b, R] of `surface` after the checks: every pair is a row, as in `predict`."""
        count, pair_bytes = len(revenues), 8 * (x.shape[1] + revenues.shape[1] + 4)
        for part in x.split(max(1, int(memory / (4 * pair_bytes * count)))):
            pairs = part.repeat_interleave(count, 0), revenues.repeat(len(part), 1)
            yield self._predicted(Rows(*pairs), noise).reshape(len(part), count)

    @prediction
    def surface_draws(
        self, x: ArrayLike, revenues: ArrayLike, *, num_samples: Count = None
    ) -> SurfaceDraws:
        """The predictions behind `surface` before they are averaged over the draws of z.

        They show how the response differs between latent values: z, and k of `IGCM` where drawn.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        """
        x, revenues = self.grid(x, revenues)
        pairs = x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)
        values, weights = self._draws(Rows(*pairs), self.noise(num_samples))
        shape = len(values), len(x), len(revenues)
        return SurfaceDraws(
            values.reshape(shape), None if weights is None else weights.reshape(shape)
        )

    @prediction
    def log_prob(
        self,
        x: ArrayLike,
        r: ArrayLike,
        y: ArrayLike,
        *,
        num_samples: Count = None,
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

        return self.by_blocks(log_p_y, num_samples, self.rows(x, r, y, required="xry"))

    @prediction
    def predictive(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: Count = None
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
        num_samples: Count = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Evaluate a function of draws and rows on checked rows, block by block: [B, ...]."""
        return self.by_blocks(of, num_samples, rows, dtype)

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

    def grid(self, x: ArrayLike, revenues: ArrayLike) -> tuple[Tensor, Tensor]:
        """Checked x and revenues of a surface."""
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        revenues = matrix("revenues", revenues, self.r_dim, "r_dim", self.device)
        self.response.check_revenue(revenues)
        return x, revenues

    def rows(self, *columns: ArrayLike | None, required: str = "xr") -> Rows:
        """Checked columns x, r, (y)."""
        return Rows(**checked_data(self, *columns, required=required, device=self.device))

    def noise(self, num_samples: Count) -> FixedNoise:
        """Return the noise behind the draws of predictions, the same at every call."""
        stored = len(self.base_samples.samples)
        count = stored if num_samples is None else positive_int("num_samples", num_samples)

        def make() -> FixedNoise:
            shapes = {name: site.event_shape for name, site in self.shared_sites().items()}
            shared = {name: Latent(shape.numel(), shape) for name, shape in shapes.items()}
            return FixedNoise(self, {**self.latents(self.prediction_plan), **shared}, count)

        return self._once(("noise", self.objective, count), make)

    def by_blocks(
        self,
        function: Callable[[Draws, Rows], Tensor],
        num_samples: Count,
        rows: Rows,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """`function` of draws and checked rows, block by block.

        :param dtype: of the result; that of the model by default.
        """
        return self.each_block(function, rows, self.noise(num_samples)).to(dtype or self.dtype)

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
        for count, columns in blocks(*filter(torch.is_tensor, rows), draws=noise.count):
            some = Rows(*columns)
            draws = Predicted(self, self.prediction_plan, noise).read(some.x, some.r)
            if apart:
                kept = draws.apart(count, len(some.x))
                if kept < len(some.x):
                    draws, some = draws.of_rows(slice(kept)), Rows(*(c[:kept] for c in columns))
            found.append(function(draws, some)[:count])
        return torch.cat(found)

"""What lies behind the predictions of a model: its draws, and the posterior of its sites."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm._validation import ArrayLike, matrix, same_rows
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.inference.common_noise import blocks, in_blocks
from pyro_gcm.models.latents import Rows, checked_rows, log_likelihood
from pyro_gcm.models.posterior import PosteriorDraws, posterior_draws
from pyro_gcm.models.predictions import Encoded, Predictions, prediction


class SurfaceDraws(NamedTuple):
    """Predictions given each of N draws: values [N, B, R] and weights [N, B, R] that add up to 1.

    `weights` is None where they are equal.
    """

    values: Tensor
    weights: Tensor | None


class Inspection(Predictions):
    """Draws given rows, with and without their outcomes."""

    @prediction
    def posterior(
        self,
        x: ArrayLike,
        r: ArrayLike,
        y: ArrayLike | None = None,
        c: ArrayLike | None = None,
        *,
        num_samples: int = 1000,
        units: str = "standard",
        method: str = "auto",
        num_proposals: int = 4096,
        seed: int = 0,
        progress: bool = True,
    ) -> PosteriorDraws:
        """Independent draws of every site of given rows, conditioned on y where it is given.

        The sites are z, c, k of `IGCM`, w after "joint" training, what was missing of x and r, and
        y: a new outcome of the row with the same z (and k), for predictive checks. Given y, costs
        are drawn exactly and all agree with it.

        p(z|x) is what predictions average over; for prior "standard" under objective "conditional"
        that is q(z|x). Rejection from it gives exact draws for a binary y. Rows whose y is
        improbable, other responses, costs that were seen and "joint" training take importance
        resampling, whose quality the result tells; a warning says so where it is poor.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param y: [B], or None for draws of p(z, c, y | x, r).
        :param c: costs that were seen, [B, r_dim] in the units of r, NaN for the others, as in
            `fit`; y may then be NaN.
        :param num_samples: draws S of each row.
        :param units: of c: "standard", those of the standardised revenues (after the revenue map;
            of k for `IGCM`), or "data", those of r, where there is one cost for each revenue.
        :param method: "auto", "rejection" (an error where it is impossible) or "importance".
        :param num_proposals: draws that importance resampling chooses from, at least 30.
        :param progress: show a bar where it takes more than two seconds.
        :raises ValueError: for wrong shapes, values or options, before any work is done.
        :raises RuntimeError: for an outcome that the model excludes, and where "rejection" would
            need more than 128 proposals a draw.
        """
        return posterior_draws(
            self,
            x,
            r,
            y,
            c,
            num_samples=num_samples,
            units=units,
            method=method,
            num_proposals=num_proposals,
            seed=seed,
            progress=progress,
        )

    @prediction
    def cost_posterior(
        self,
        x: ArrayLike,
        r: ArrayLike,
        y: ArrayLike,
        c: ArrayLike | None = None,
        **options: Any,
    ) -> PosteriorDraws:
        """Draws {"z": [S, B, D], "c": [S, B, (G,) K]} given the outcome, and k of `IGCM`.

        c is exact given z, see `posterior`, which has the same options.
        """
        return posterior_draws(self, x, r, y, c, **options).only("z", "k", "c")

    @prediction
    def log_likelihood(
        self,
        x: ArrayLike,
        r: ArrayLike,
        y: ArrayLike,
        c: ArrayLike | None = None,
        *,
        sites: Mapping[str, Tensor],
    ) -> Tensor:
        """log p(y | z, r) of every draw, [S, B], with the costs integrated out.

        For `IGCM` log p(y | z, k); with c, log p(y, c_seen | z, r).

        :param sites: draws [S, B, ...] of z (and k), such as those of `posterior`, with x and r
            where values of them are missing.
        """
        rows = checked_rows(self, x, r, y, c)
        sites = self._checked_sites(rows, sites)
        covariates = self.x_standardizer(sites.get("x", rows.x))
        event = OrderEvent(self._cost(sites["z"], covariates), self._revenue_given(rows.r, sites))
        return log_likelihood(self, event, covariates, rows).to(self.noise.noise.dtype)

    def _checked_sites(self, rows: Rows, sites: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Draws [S, B, d] of what the likelihood depends on."""
        dims: dict[str, Any] = {"z": self.z_dim, "x": self.x_dim, "r": self.r_dim}
        needed = {"z": True, "x": rows.x.isnan().any(), "r": rows.r.isnan().any()}
        if hasattr(self, "k_dim"):
            dims["k"], needed["k"] = self.k_dim, True
        checked: dict[str, Tensor] = {}
        for name, dim in dims.items():
            if name not in sites:
                if needed[name]:
                    raise ValueError(f"sites must have draws of {name}, got {sorted(sites)}")
                continue
            values = torch.as_tensor(sites[name], device=self.device).to(self.noise.noise.dtype)
            count = checked["z"].shape[0] if checked else values.shape[0]
            if values.shape != (count, len(rows.x), dim):
                raise ValueError(
                    f"sites[{name!r}] must have shape [draws, {len(rows.x)}, {dim}], the same "
                    f"number of draws for each site, got {tuple(values.shape)}"
                )
            checked[name] = values
        return checked

    def _revenue_given(self, r: Tensor, sites: Mapping[str, Tensor]) -> Tensor:
        """What the costs are compared with, for draws of the sites."""
        raise NotImplementedError

    @prediction
    def surface_draws(
        self, x: ArrayLike, revenues: ArrayLike, *, num_samples: int | None = None
    ) -> SurfaceDraws:
        """The predictions behind `surface` before they are averaged over the draws of z.

        How far the response differs between the latent values that x allows, as in a band around
        its mean. For `IGCM` they are also given each draw of k where k is drawn.

        :param x: [B, x_dim] in data units.
        :param revenues: [R, r_dim].
        """
        x = matrix("x", x, self.x_dim, "x_dim", self.device)
        revenues = self._revenues("revenues", revenues)
        noise = self._noise(num_samples)
        values, weights = [], []
        pairs = x.repeat_interleave(len(revenues), 0), revenues.repeat(len(x), 1)
        for x_block, r_block in zip(*map(blocks, pairs), strict=True):
            event, encoded = self._event(self._encode(x_block, noise), r_block)
            values.append(self.response.predict(event, encoded.covariates))
            if encoded.log_weights is not None:
                weights.append(encoded.log_weights.exp())

        def table(parts: list[Tensor]) -> Tensor:
            rows = torch.cat(parts, 1)[:, : len(x) * len(revenues)]
            return rows.reshape(-1, len(x), len(revenues)).to(noise.dtype)

        return SurfaceDraws(table(values), table(weights) if weights else None)

    @prediction
    def effective_sample_size(
        self, x: ArrayLike, r: ArrayLike, *, num_samples: int | None = None
    ) -> Tensor:
        """1 / sum of the squared weights of the draws behind a prediction, [B].

        All of the draws where they are equal. After joint training the weights are those of
        importance sampling: where few draws carry a row, a larger `num_samples` moves it.
        """
        x, r = self._covariates(x), self._revenues("r", r)
        same_rows(x=x, r=r)
        noise = self._noise(num_samples)

        def block(x: Tensor, r: Tensor) -> Tensor:
            _, encoded = self._event(self._encode(x, noise), r)
            if encoded.log_weights is None:
                return torch.full((len(x),), float(encoded.z.shape[0]), device=x.device)
            return torch.exp(-torch.logsumexp(2.0 * encoded.log_weights, 0))

        return in_blocks(block, x, r).to(noise.dtype)

    def _half_guided(self, encoded: Encoded, r: Tensor, y: Tensor | None) -> Encoded:
        """Half of the draws of z from a guide of its own, with the weights of the mixture."""
        if self.z_guide is None or not self.reads_x or y is None:
            return encoded
        y = y.nan_to_num()  # where y may be missing the guide does not read it
        x, half = encoded.covariates, len(encoded.z) // 2
        p = self.z_prior(x)
        q = self.z_guide(x, self.r_standardizer(r), self.response.standardized(y))
        z = torch.cat([encoded.z[half:], q.sample((half,))])
        share = half / len(z)
        log_p, log_q = p.log_prob(z).double(), q.log_prob(z).double()
        log_mixture = torch.logaddexp(log_p + math.log1p(-share), log_q + math.log(share))
        return encoded._replace(z=z, log_weights=torch.log_softmax(log_p - log_mixture, 0))

    def _other_sites(self, encoded: Encoded, r: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """Draws [N, b, ...] of sites that y says nothing of, with log-weights of their own."""
        return {}

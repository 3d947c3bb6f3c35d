"""p(c | x), draws of all sites, and posterior draws given the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness, evaluating, one_thread
from pyro_gcm._utils.validation import ArrayLike, as_tensor, checked_data, matrix, seed_of
from pyro_gcm.distributions import LatentMixture
from pyro_gcm.models.predictions import Count, Predictions, prediction
from pyro_gcm.prediction.draws import PosteriorDraws, Rows
from pyro_gcm.prediction.posterior import Target, posterior_draws
from pyro_gcm.prediction.predicted import Predicted

#: Draws of all rows together whose likelihood is computed at once.
_DRAWS_AT_ONCE = 1 << 16


class Posteriors(Predictions):
    """A model with the draws of its sites."""

    @one_thread()
    @torch.no_grad()
    def simulate(
        self,
        size: int | None = None,
        *,
        x: ArrayLike | None = None,
        r: ArrayLike | None = None,
        seed: int = 0,
    ) -> dict[str, Tensor]:
        """Draws of every site of the explicit program, by name, in its units.

        They are on the device of x, the CPU for an array, and without x on that of the model.

        :param size: number of rows, for prior "standard", which draws x and r as well.
        :param x: [B, x_dim], the input of a prior p(z|x).
        :param r: [B, r_dim], revenues to draw for; with p(z|x) `GCM` has not learned to draw them.
        :raises ValueError: if the arguments are not what the program starts from.
        """
        if not self.reads_x and (size is None or x is not None or r is not None):
            raise ValueError("simulate needs size alone with prior='standard', which draws x and r")
        if self.reads_x and (x is None or size is not None):
            raise ValueError("simulate needs x in place of size: the prior p(z|x) reads it")
        untrained = self.objectives[self.objective].untrained
        if self.reads_x and r is None and "r_decoder." in untrained:
            raise ValueError(
                f"simulate needs r: objective={self.objective!r} does not learn p(r|w, x)"
            )
        seed = seed_of(seed)
        given: Any = {"size": size}
        if x is not None:
            given = checked_data(self, x, r, device=self.device)
        with torch.no_grad(), evaluating(self), Randomness(seed, self.device).in_use():
            program: Any = self.model
            nodes: Any = pyro.poutine.trace(program).get_trace(**given).nodes
        home = self.device if x is None else as_tensor("x", x).device
        sites = {name: node for name, node in nodes.items() if node["type"] == "sample"}
        return {name: site["value"].to(home) for name, site in sites.items() if name != "data"}

    @prediction
    def cost(self, x: ArrayLike, *, num_samples: Count = None) -> LatentMixture:
        """p(c | x), with `cdf`, `sample`, `mean` and `log_prob`, on the device of the model.

        In the units of what the costs are compared with.
        """
        rows = matrix("x", x, self.x_dim, "x_dim", self.device)
        reader = Predicted(self, self.prediction_plan, self.noise(num_samples), until="c")
        draws = reader.read(rows, None)
        like = self.base_samples.samples.new_zeros(self.cost_shape)
        loc, scale = like, like + 1.0
        if self.costs_have_units:
            loc, scale = self.r_standardizer.loc, self.r_standardizer.scale
        return LatentMixture(draws.left["c"].fn, loc, scale, draws.log_weights)

    @prediction
    def posterior(
        self,
        x: ArrayLike,
        r: ArrayLike,
        y: ArrayLike | None = None,
        *,
        num_samples: int = 1000,
        method: str = "auto",
        num_proposals: int = 4096,
        seed: int = 0,
        progress: bool = True,
    ) -> PosteriorDraws:
        """Independent draws of every site of given rows, conditioned on y where it is given.

        The sites are z, c, k of `IGCM`, w after "joint" training, and y: a new outcome of the row
        with the same z (and k), for predictive checks. Given y, costs are drawn exactly and all
        agree with it. All are in the units that they have in the program, so that `Predictive`
        takes them as they are, y among them: c in those of r where there is one cost for each
        revenue, else in those of what it is compared with (standardised revenues after the map; k
        for `IGCM`).

        p(z|x) is what predictions average over; for prior "standard" under objective "conditional"
        that is q(z|x). A z with finitely many values, such as a member, is drawn exactly by Bayes'
        rule. Rejection from p(z|x) gives exact draws for a binary y. Rows whose y is improbable,
        other responses and "joint" training take importance resampling, whose quality is part of
        the result; a warning says where it is poor.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param y: [B], or None for draws of p(z, c, y | x, r).
        :param num_samples: draws S of each row.
        :param method: "auto", "enumeration", "rejection" (errors where they are impossible) or
            "importance".
        :param num_proposals: draws that importance resampling chooses from, at least 30.
        :param progress: show a progress bar if it takes longer than two seconds.
        :raises ValueError: for wrong shapes, values or options, before any work is done.
        :raises RuntimeError: for an outcome that the model excludes, and where "rejection" would
            need more than 128 proposals a draw.
        """
        self.response.check_whole()
        rows = self.rows(x, r, y)
        return posterior_draws(self, rows, num_samples, method, num_proposals, seed, progress)

    @prediction
    def responsibilities(self, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> Tensor:
        """p(z | x, r, y) of every value of a finite z, [B, D]: which member explains a row.

        :param x: [B, x_dim] in data units.
        :param r: [B, r_dim].
        :param y: [B].
        :raises ValueError: for a z with infinitely many values.
        """
        rows, target = self.rows(x, r, y, required="xry"), Target(self)
        target.check_finite("responsibilities need")
        parts = rows.split(max(1, _DRAWS_AT_ONCE // self.z_dim))
        found = [target.every(part).log_joint(part).softmax(0).T for _, part in parts]
        return torch.cat(found).to(self.dtype)

    @one_thread()
    def cost_posterior(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike, **options: Any
    ) -> PosteriorDraws:
        """Draws {"z": [S, B, D], "c": [S, B, (G,) K]} given the outcome, and other latent sites.

        c is exact given z; see `posterior`, which has the same options. k of `IGCM` is among them,
        and every latent site of a row that a story of your own has.
        """
        draws, informed = self.posterior(x, r, y, **options), self.prediction_plan.informed
        names = [name for name in self.latent_shapes() if name not in informed]
        if "c" not in draws:
            named = self.response.named
            raise ValueError(f"cost_posterior needs one order event, which {named!r} has not")
        return draws.only(*names, "c")

    @prediction
    def log_likelihood(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike, *, sites: Mapping[str, Tensor]
    ) -> Tensor:
        """log p(y | z, r) of every draw, [S, B], with the costs integrated out.

        For `IGCM` log p(y | z, k).

        :param sites: draws [S, B, ...] of z (and k), such as those of `posterior`.
        """
        rows = self.rows(x, r, y, required="xry")
        known, parts = self._checked_sites(rows, sites), []
        size = max(1, _DRAWS_AT_ONCE // len(next(iter(known.values()))))
        for index, part in rows.split(size):
            own = {name: values.index_select(1, index) for name, values in known.items()}
            draws = Predicted(self, self.prediction_plan, known=own).read(part.x, part.r)
            parts.append(draws.log_likelihood(part))
        return torch.cat(parts, 1).to(self.dtype)

    def _checked_sites(self, rows: Rows, sites: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The draws [S, B, ...] that a replay needs.

        :raises KeyError: for a site that is missing, and ValueError for another shape.
        """
        checked: dict[str, Tensor] = {}
        for name, shape in self.latent_shapes().items():
            if name in sites or name not in self.prediction_plan.informed:
                values = as_tensor(f"sites[{name!r}]", sites[name], self.device).to(self.dtype)
                count = len(next(iter(checked.values()), values))
                if values.shape != (count, len(rows.x), *shape):
                    raise ValueError(
                        f"sites[{name!r}] must have shape {[count, len(rows.x), *shape]}, of "
                        f"draws, rows and the site, got {tuple(values.shape)}"
                    )
                checked[name] = values
        return checked

    def latent_shapes(self) -> dict[str, torch.Size]:
        """Event shapes of the latent sites before the costs, by name."""
        sites = self.latents(self.drawing(self.prediction_plan))
        shapes = {name: site.event_shape for name, site in sites.items()}
        return shapes | {name: site.event_shape for name, site in self.shared_sites().items()}

"""What GCM and IGCM can be trained for: one class for each objective.

An objective knows its program and guide, which parameters they train, and how the latent variables
of a prediction are drawn once the model was trained for it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pyro
import pyro.poutine as poutine
import torch
from torch import Tensor

from pyro_gcm.distributions.order_event import integrates_over
from pyro_gcm.inference.paper_loss import PaperLoss
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.inference.views import collapse, conditional, given_covariates
from pyro_gcm.models.missing import columns_in_units, complete, draw_missing, independent_columns
from pyro_gcm.nets import StandardNormal
from pyro_gcm.sampling.base_samples import column_draws, driven_draws, latent_draws
from pyro_gcm.sampling.draws import Draws


class Objective:
    """Base of the objectives of one model.

    :param model: the `GCM` or `IGCM` that it belongs to.
    """

    name: ClassVar[str]
    #: Prefixes of the parameters that the objective leaves as they are.
    untrained: ClassVar[tuple[str, ...]] = ()
    #: Columns that may be NaN where a value is missing.
    missing: ClassVar[tuple[str, ...]] = ()
    #: Whether r can be drawn for given x after training.
    generates_revenue: ClassVar[bool] = False

    def __init__(self, model: Any) -> None:
        self.model = model

    def training_pair(self) -> TrainingPair:
        """The program and the guide; ValueError where the objective has no meaning."""
        raise NotImplementedError

    @property
    def weighted(self) -> bool:
        """Whether draws have importance weights before y is known."""
        return False

    def draw(self, x: Tensor, base: Tensor, seed: int | None) -> Draws:
        """Draws of z for rows x [b, x_dim], from a distribution that reads x only.

        :param base: base samples [N, 1 or b, E].
        :param seed: of what base samples cannot drive; None draws independently with torch's
            generator.
        """
        model = self.model
        covariates, z_dim = model.x_standardizer(x), model.z_dim
        z, weights = latent_draws(model.z_given_x(covariates), base[..., :z_dim], seed)
        if len(z) != len(base) and base.shape[-1] > z_dim:
            # A finite support, or equal shares for the parts of a mixture: as many draws of the
            # other variables as before.
            repeats = max(1, len(base) // len(z))
            base = model.base_samples(len(z) * repeats)
            z = z.repeat(repeats, 1, 1)
            weights = None if weights is None else weights.repeat(repeats, 1)
        draws = Draws(z, covariates, base[..., z_dim:], seed)
        return draws if weights is None else draws.reweighted(weights.double().log())

    def given_revenue(self, draws: Draws, r: Tensor) -> Draws:
        """The draws with their costs, and with what r [b, r_dim] says of them."""
        raise NotImplementedError

    def with_separate(self, draws: Draws, r: Tensor) -> Draws:
        """The draws with those of sites that y does not depend on."""
        return draws


# GCM


class _Strict(Objective):
    def given_revenue(self, draws: Draws, r: Tensor) -> Draws:
        """The costs, and the mapped revenues."""
        cost = self.model.c_dist(draws.z, draws.covariates)
        return draws._replace(cost=cost, revenue=self.model.mapped(r))


class Conditional(_Strict):
    """log p(y | x, r)."""

    name = "conditional"
    untrained = ("x_decoder.", "r_decoder.", "w_guide.")

    def training_pair(self) -> TrainingPair:
        """p(y | x, r) and the guide of z, if it is not summed out."""
        model = self.model
        sampled = () if model.enumerates else ("z",)
        return TrainingPair(
            conditional(model.model),
            model.guide,
            sampled,
            shared=sampled if model.z_guide is None else (),
            enumerated=("z",) if model.enumerates else (),
        )


class Joint(_Strict):
    """log p(x, r, y): the whole program, with missing values of x and r integrated out."""

    name = "joint"
    missing = ("x", "r")
    generates_revenue = True

    def training_pair(self) -> TrainingPair:
        """The program with its costs integrated out, and a guide of z, w and what is missing."""
        if self.model.reads_x:
            raise ValueError(
                "objective='joint' needs prior='standard': with p(z|x), p(z|x) p(x|z) is not a "
                "density of x, and maximising it means nothing"
            )
        if self.model.response.r_dist() is not None:
            raise ValueError(
                "objective='joint' needs revenues that are observed; the levels of "
                "response='quantile' are chosen, and the pinball loss is no density of the data"
            )
        program = collapse(self.model.model)
        return TrainingPair(program, self.guide, ("z", "w"), missing=self.missing)

    def guide(
        self, x: Tensor, r: Tensor, y: Tensor | None = None, c: Tensor | None = None
    ) -> None:
        """z ~ q(z|x), w ~ q(w|x, r), and what is missing of x and r."""
        model = self.model
        x, r, y, rows = model.program_inputs(x, r, y, c)
        with pyro.plate("data", rows, dim=-1):
            z = pyro.sample("z", model.z_guide_dist(x, r, y))
            w_given = model.w_guide_dist(model.x_standardizer(x), model.r_standardizer(r))
            w = pyro.sample("w", w_given)
            if x.isnan().any():
                x = draw_missing("x", columns_in_units(model.x_dist(z, x)), x)
            if r.isnan().any():
                covariates = model.x_standardizer(x)
                draw_missing("r", columns_in_units(model.r_dist(w, covariates)), r)

    @property
    def weighted(self) -> bool:
        """Draws come from q(z|x)."""
        return True

    def draw(self, x: Tensor, base: Tensor, seed: int | None) -> Draws:
        """Draws from q(z|x) weighted by p(z) p(x|z) / q(z|x), with no gaps in x."""
        model, draws = self.model, super().draw(x, base, seed)
        z, covariates = draws.z, draws.covariates
        log_w = model.z_prior().log_prob(z) - model.z_given_x(covariates).log_prob(z)
        filled, log_x = complete(model.x_decoder(z), covariates, draws.base[..., : model.x_dim])
        return draws._replace(
            covariates=filled,
            base=draws.base[..., model.x_dim :],
            incomplete=covariates.isnan().any(-1),
        ).reweighted(log_w + log_x)

    def given_revenue(self, draws: Draws, r: Tensor) -> Draws:
        """As in "conditional"; rows with gaps also get draws and weights that r informs."""
        model, missing = self.model, r.isnan().any(-1) | draws.incomplete
        whole = super().given_revenue(draws, r.nan_to_num())
        if not missing.any():
            return whole
        w, log_w, standard = self._draw_w(draws, r)
        decoder = model.standard_r_dist(w, draws.covariates)
        filled, log_r = complete(decoder, standard, draws.base[..., model.r_dim :])
        drawn = torch.where(r.isnan(), model.r_standardizer.inverse(filled), r)
        informed = draws.reweighted(log_w + log_r).log_weights
        # Rows without gaps keep their bits.
        rows = missing.reshape(-1, *(1,) * len(model.cost_shape))
        sites = {"w": w, "x": model.x_standardizer.inverse(draws.covariates), "r": drawn}
        return whole._replace(
            log_weights=torch.where(missing, informed, draws.log_weights),
            revenue=torch.where(rows, model.mapped(drawn), whole.revenue),
            sites=sites,
        )

    def with_separate(self, draws: Draws, r: Tensor) -> Draws:
        """Draws of w with weights for p(w | x, r), where nothing is missing of x and r."""
        if r.isnan().any() or draws.incomplete.any():
            return draws
        w, log_w, standard = self._draw_w(draws, r)
        log_r = self.model.standard_r_dist(w, draws.covariates).log_prob(standard)
        return draws._replace(separate={"w": (w, (log_w + log_r).double())})

    def _draw_w(self, draws: Draws, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draws from q(w | x, r), log p(w) / q(w), and standardised r, each for every draw."""
        model = self.model
        standard = model.r_standardizer(r).expand(*draws.covariates.shape[:-1], -1)
        q_w = model.w_guide_dist(draws.covariates, standard)
        w = column_draws(independent_columns(q_w), draws.base[..., : model.r_dim])
        return w, model.w_dist().log_prob(w) - q_w.log_prob(w), standard


# IGCM


class _Implicit(Objective):
    untrained = ("x_decoder.",)
    generates_revenue = True

    @property
    def weighted(self) -> bool:
        """Draws of k come from a guide where p(k | x, r) is not known."""
        return not self.model.exact_kernel

    def kernel(self, covariates: Tensor, r: Tensor) -> Any:
        """The distribution of k for standardised x and r that predictions average over."""
        if self.model.exact_kernel:
            return self.model.k_posterior(covariates, r)
        return self.model.k_guide(covariates, r, None)

    def given_revenue(self, draws: Draws, r: Tensor) -> Draws:
        """The costs, and k: integrated out in closed form where that is possible, else drawn."""
        model, r = self.model, self.model.r_standardizer(r)
        kernel = self.kernel(draws.covariates, r)
        draws = draws._replace(cost=model.c_dist(draws.z, draws.covariates))
        closed_form = not self.weighted and model.kernel_enters_as_it_is
        if closed_form and integrates_over(draws.cost, kernel):
            return draws._replace(revenue=kernel)
        k = driven_draws(kernel, draws.base, draws.seed)
        log_factors = self._log_factors(draws, kernel, k, r)
        draws = draws._replace(revenue=model.kernel_map(k), sites={"k": k})
        return draws if log_factors is None else draws.reweighted(log_factors)

    def _log_factors(self, draws: Draws, kernel: Any, k: Tensor, r: Tensor) -> Tensor | None:
        """Logarithms of the weights of draws of k, up to a constant; None for equal ones."""
        if self.model.exact_kernel:
            return None
        # p(k | x, r) is in proportion to p(k|x) p(r|k, x).
        x = draws.covariates
        log_w: Tensor = self.model.k_prior(x).log_prob(k)
        return log_w + self.model.standard_r_dist(k, x).log_prob(r) - kernel.log_prob(k)

    def _latent_sites(self, *sampled: str, exact: tuple[str, ...] = ()) -> dict[str, Any]:
        """The fields of a `TrainingPair` that name its latent sites.

        :param sampled: sites of the guide, besides z.
        :param exact: those of them that come from their exact conditional distribution.
        """
        model = self.model
        z = () if model.enumerates else ("z",)
        return {
            "sampled": (*z, *sampled),
            "shared": (*(z if model.z_guide is None else ()), *exact),
            "enumerated": ("z",) if model.enumerates else (),
        }


class ImplicitConditional(_Implicit):
    """log p(y | x, r), with k from its exact Gaussian p(k | x, r)."""

    name = "conditional"

    def training_pair(self) -> TrainingPair:
        """p(y | x, r); k is integrated out where there is a closed form."""
        model = self.model
        if not model.exact_kernel:
            raise ValueError(
                "objective='conditional' draws k from p(k|x, r), which is known for a normal "
                "kernel_prior with independent coordinates: use 'response_revenue'"
            )
        if model.k_guide is None and model.integrates_kernel:
            guide = poutine.block(model.guide, hide=["k"])
            return TrainingPair(conditional(model.model, kernel="k"), guide, **self._latent_sites())
        exact = ("k",) if model.k_guide is None else ()
        sites = self._latent_sites("k", exact=exact)
        return TrainingPair(conditional(model.model), model.guide, **sites)


class ResponseRevenue(_Implicit):
    """log p(y, r | x)."""

    name = "response_revenue"

    def training_pair(self) -> TrainingPair:
        """The program with x as an input."""
        program = given_covariates(self.model.model)
        return TrainingPair(program, self.model.guide, **self._latent_sites("k"))


class ImplicitJoint(_Implicit):
    """log p(x, r, y): the whole program."""

    name = "joint"
    untrained = ()

    def training_pair(self) -> TrainingPair:
        """The program with its costs integrated out."""
        if self.model.reads_x:
            raise ValueError(
                "objective='joint' needs prior='standard': with p(z|x), p(z|x) p(x|z, k) is not a "
                "density of x, and maximising it means nothing"
            )
        if not isinstance(self.model.k_prior, StandardNormal):
            raise ValueError(
                "objective='joint' needs kernel_prior='standard': with p(k|x), p(k|x) p(x|z, k) is "
                "not a density of x, and maximising it means nothing"
            )
        program = collapse(self.model.model)
        return TrainingPair(program, self.model.guide, ("z", "k"))

    @property
    def weighted(self) -> bool:
        """z comes from q(z|x)."""
        return True

    def _log_factors(self, draws: Draws, kernel: Any, k: Tensor, r: Tensor) -> Tensor:
        """From q(z|x) p(k | x, r) to p(z, k | x, r), in proportion to p(z) p(x|z, k) p(k | x, r)."""
        model, z, x = self.model, draws.z, draws.covariates
        log_k = super()._log_factors(draws, kernel, k, r)
        log_x = model.standard_x_dist(z, k).log_prob(x)
        log_z = model.z_prior().log_prob(z) - model.z_given_x(x).log_prob(z)
        factors: Tensor = log_x + log_z if log_k is None else log_k + log_x + log_z
        return factors


class PaperObjective(_Implicit):
    """The loss of the paper's section 3.4, which is not a bound on a log-density of the data."""

    name = "paper"

    def training_pair(self) -> TrainingPair:
        """The program with x as an input, and the paper's loss."""
        model = self.model
        if model.enumerates:
            raise ValueError("objective='paper' averages over draws of z: not with a categorical z")
        if model.k_guide is None or model.k_guide_reads_outcome:
            raise ValueError(
                "objective='paper' needs a q(k|x, r) of its own, which predictions use as well: "
                "pass kernel_guide='amortised'"
            )
        program = given_covariates(model.model)
        return TrainingPair(program, model.guide, **self._latent_sites("k"), loss=PaperLoss())

    @property
    def weighted(self) -> bool:
        """The guide q(k|x, r) is part of the loss, and predictions average over it as it is."""
        return False

    def kernel(self, covariates: Tensor, r: Tensor) -> Any:
        """q(k|x, r)."""
        return self.model.k_guide(covariates, r, None)

    def _log_factors(self, draws: Draws, kernel: Any, k: Tensor, r: Tensor) -> None:
        """No weights."""


GCM_OBJECTIVES: tuple[type[Objective], ...] = (Conditional, Joint)
IGCM_OBJECTIVES: tuple[type[Objective], ...] = (
    ImplicitConditional,
    ResponseRevenue,
    ImplicitJoint,
    PaperObjective,
)

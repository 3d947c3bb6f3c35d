"""What IGCM can be trained for: one class for each objective."""

from __future__ import annotations

from typing import Any, ClassVar

import pyro.poutine as poutine
from torch import Tensor

from pyro_gcm.distributions import integrates_over
from pyro_gcm.inference.paper_loss import PaperLoss
from pyro_gcm.inference.plain_step import igcm_terms, paper_terms
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.inference.views import collapse, conditional, given_covariates
from pyro_gcm.models.objectives import Objective
from pyro_gcm.nets import StandardNormal
from pyro_gcm.sampling.base_samples import driven_draws
from pyro_gcm.sampling.draws import Draws


class _Implicit(Objective):
    untrained: ClassVar[tuple[str, ...]] = ("x_decoder.",)
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
            program = conditional(model.model, kernel="k")
            plain = igcm_terms(model, exact_kernel=True)
            return TrainingPair(program, guide, **self._latent_sites(), plain=plain)
        exact = ("k",) if model.k_guide is None else ()
        sites = self._latent_sites("k", exact=exact)
        return TrainingPair(conditional(model.model), model.guide, **sites, plain=igcm_terms(model))


class ResponseRevenue(_Implicit):
    """log p(y, r | x)."""

    name = "response_revenue"

    def training_pair(self) -> TrainingPair:
        """The program with x as an input."""
        program = given_covariates(self.model.model)
        plain = igcm_terms(self.model, generates=("r",))
        return TrainingPair(program, self.model.guide, **self._latent_sites("k"), plain=plain)


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
        plain = igcm_terms(self.model, generates=("x", "r"))
        return TrainingPair(program, self.model.guide, ("z", "k"), plain=plain)

    @property
    def weighted(self) -> bool:
        """z comes from q(z|x)."""
        return True

    def _log_factors(self, draws: Draws, kernel: Any, k: Tensor, r: Tensor) -> Tensor:
        """p(z) p(x|z, k) / q(z|x), and what turns the draws of k into ones from p(k | x, r)."""
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
        sites = self._latent_sites("k")
        plain = paper_terms(model)
        return TrainingPair(program, model.guide, **sites, loss=PaperLoss(), plain=plain)

    @property
    def weighted(self) -> bool:
        """The guide q(k|x, r) is part of the loss, and predictions average over it as it is."""
        return False

    def kernel(self, covariates: Tensor, r: Tensor) -> Any:
        """q(k|x, r)."""
        return self.model.k_guide(covariates, r, None)

    def _log_factors(self, draws: Draws, kernel: Any, k: Tensor, r: Tensor) -> None:
        """No weights."""


IGCM_OBJECTIVES: tuple[type[Objective], ...] = (
    ImplicitConditional,
    ResponseRevenue,
    ImplicitJoint,
    PaperObjective,
)

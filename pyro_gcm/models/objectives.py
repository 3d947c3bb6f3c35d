"""What a model can be trained for: the base of all objectives, and those of GCM.

An objective knows its program and guide, which parameters they train, and how the latent variables
of a prediction are drawn once the model was trained for it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from pyro_gcm.inference.plain_step import gcm_terms
from pyro_gcm.inference.training_pair import TrainingPair
from pyro_gcm.inference.views import collapse, conditional
from pyro_gcm.models.column_units import independent_columns
from pyro_gcm.models.missing import complete
from pyro_gcm.sampling.base_samples import column_draws, latent_draws
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

    @property
    def is_finite(self) -> bool:
        """Whether z is all that a prediction draws, and has finitely many values."""
        model = self.model
        return bool(model.enumerates) and model.latent_dim == model.z_dim and not self.weighted

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
        draws = Draws(z, model.encoder(z, covariates), base[..., z_dim:], seed)
        return draws if weights is None else draws.reweighted(weights.double().log())

    def given_revenue(self, draws: Draws, r: Tensor) -> Draws:
        """The draws with their costs, and with what r [b, r_dim] says of them."""
        raise NotImplementedError

    def with_separate(self, draws: Draws, r: Tensor) -> Draws:
        """The draws with those of sites that y does not depend on."""
        return draws


class _Strict(Objective):
    def given_revenue(self, draws: Draws, r: Tensor) -> Draws:
        """The costs, and the mapped revenues."""
        cost = self.model.c_dist(draws.z, draws.covariates)
        revenue = self.model.encoder.revenue(draws.covariates, self.model.mapped(r))
        return draws._replace(cost=cost, revenue=revenue)


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
            plain=gcm_terms(model),
        )


class Members(Conditional):
    """The mean over the members of log p(y | z, x, r): each is trained on its own likelihood.

    It is the ELBO with q(z) = p(z) = 1/K, below log p(y | x, r). There members may specialise on
    rows that the others explain badly; here they cannot.
    """

    name = "members"

    def training_pair(self) -> TrainingPair:
        """p(y | x, r) and a guide that sums over the members."""
        model = self.model
        if model.default_objective != self.name:
            raise ValueError(
                "objective='members' needs prior='members' with uniform weights: under weights "
                "that are learned the mean of log-likelihoods collapses onto one member; use "
                "objective='conditional'"
            )
        plain = gcm_terms(model, averages=True)
        pair = super().training_pair()
        return pair._replace(guide=model.member_guide, averaged=pair.enumerated, plain=plain)


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
        plain = gcm_terms(self.model, joint=True)
        guide, sampled = self.model.joint_guide, ("z", "w")
        return TrainingPair(program, guide, sampled, missing=self.missing, plain=plain)

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
        assert informed is not None
        assert draws.log_weights is not None
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


GCM_OBJECTIVES: tuple[type[Objective], ...] = (Conditional, Joint, Members)

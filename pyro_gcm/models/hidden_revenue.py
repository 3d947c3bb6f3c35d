"""What else sets the revenues (site w), and revenues that are missing, given x and r."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyro_gcm.models.missing import column_draws, complete

if TYPE_CHECKING:
    from pyro_gcm.models.gcm import GCM
    from pyro_gcm.models.predictions import Encoded


def completed_revenues(model: GCM, encoded: Encoded, r: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Draws of w, x and r [N, b, ...] with no gaps, and weights that know what is there of r.

    What is there of r speaks about what is not, and about missing values of x.
    """
    covariates, log_weights, noise = encoded.covariates, encoded.log_weights, encoded.noise
    standard = model.r_standardizer(r).expand(*covariates.shape[:-1], -1)
    w, log_w = _draw_w(model, encoded, standard)
    decoder = model._r_standard(w, covariates)
    filled, log_r = complete(decoder, standard, noise[..., model.r_dim :])
    log_weights = torch.log_softmax(log_weights + (log_w + log_r).double(), 0)  # type: ignore[operator]
    drawn = torch.where(r.isnan(), model.r_standardizer.inverse(filled), r)
    return {"w": w, "x": model.x_standardizer.inverse(covariates), "r": drawn}, log_weights


def w_given_revenues(model: GCM, encoded: Encoded, r: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Draws [N, b, m] of w with log-weights for p(w | x, r), where nothing is missing of x and r.

    y says nothing of w once r is known.
    """
    if r.isnan().any() or (encoded.incomplete is not None and encoded.incomplete.any()):
        return {}
    standard = model.r_standardizer(r).expand(*encoded.covariates.shape[:-1], -1)
    w, log_w = _draw_w(model, encoded, standard)
    log_r = model._r_standard(w, encoded.covariates).log_prob(standard)
    return {"w": (w, (log_w + log_r).double())}


def _draw_w(model: GCM, encoded: Encoded, standard: Tensor) -> tuple[Tensor, Tensor]:
    """Draws from q(w | x, r), and log p(w) / q(w)."""
    q_w = model._w_given(encoded.covariates, standard)
    w = column_draws(q_w, encoded.noise[..., : model.r_dim])
    return w, model.w_prior().log_prob(w) - q_w.log_prob(w)

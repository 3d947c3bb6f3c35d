"""GCM and IGCM as the code behind the paper's Table 3 has them; see `reproduce.released_forms`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from reproduce.released_forms import (
    EPSILON,
    Form,
    Parameters,
    Sizes,
    cross_entropy,
    held_at_zero,
)

#: Weight of the bound on the revenues of IGCM.
RECONSTRUCTION = 0.01
#: Draws of z of a row in training, unless an option says otherwise, and in a prediction.
DRAWS, TEST_DRAWS = 32, 128


@dataclass(frozen=True)
class Costs:
    """Draws of z of every row, and the event given each.

    :param z: [S, B, N, D]; `log_weight`: log p(z) / q(z|x), [S, B, N]; `probability`: likewise.
    """

    z: Tensor
    log_weight: Tensor
    probability: Tensor


class GCM(Form):
    """z drawn from q(z|x), logistic costs given z, revenues r P with a positive matrix P.

    The weights p(z) / q(z|x) are constants in the gradient. Options: `z_dim`; `loss_type`, 0 for
    cross-entropy and 1 for targets moved to 0.1 and 0.9; `weights_learn`, for weights that are
    none; `draws` of z of a training row.
    """

    def sizes(self) -> Sizes:
        h, d, m = self.hidden, self.options["z_dim"], self.r_dim
        shapes: Sizes = {
            "wx": (self.x_dim, h), "b": (h,),
            "wmu": (h, d), "bmu": (d,), "wsig": (h, d), "bsig": (d,),
            "wh": (d, h), "bh": (h,), "wmc": (h, m), "bmc": (m,), "wsc": (h, m), "bsc": (m,),
            **self.revenue_sizes(),
        }  # fmt: skip
        if not self.binary:
            for name in ("t", "sy"):
                shapes |= {f"w{name}1": (d, h), f"b{name}1": (h,)}
                shapes |= {f"w{name}2": (h, 1), f"b{name}2": (1,)}
        return shapes

    def revenue_sizes(self) -> Sizes:
        """Parameters of the map of the revenues."""
        return {"wr": (self.r_dim, self.r_dim)}

    def revenue(self, p: Parameters, r: Tensor) -> Tensor:
        """What is compared with the costs, [S, B, m]."""
        return r @ self.positive(p["wr"])

    def bound_of_revenues(self, p: Parameters, r: Tensor, noise: torch.Generator) -> Tensor | float:
        """What is subtracted from the loss, [S]."""
        return 0.0

    def costs(self, p: Parameters, x: Tensor, r: Tensor, noise: Tensor) -> Costs:
        """Draws for standard normal noise that broadcasts to [S, B, N, D]."""
        h = torch.tanh(x @ p["wx"] + p["b"])
        loc, log_var = h @ p["wmu"] + p["bmu"], h @ p["wsig"] + p["bsig"]
        loc, half = loc.unsqueeze(2), 0.5 * log_var.unsqueeze(2)
        z = loc + half.exp() * noise
        with torch.set_grad_enabled(bool(self.options.get("weights_learn"))):
            log_weight = (0.5 * (noise.square() - z.square()) + half).sum(-1)
        rows = z.flatten(1, 2)  # [S, B N, D]
        h = torch.tanh(torch.baddbmm(p["bh"], rows, p["wh"]))
        # Location and scale in one product.
        both = (torch.cat([p[f"{kind}mc"], p[f"{kind}sc"]], -1) for kind in "wb")
        weight, bias = both
        located, scale = torch.baddbmm(bias, h, weight).unflatten(1, z.shape[1:3]).chunk(2, -1)
        margin = (self.revenue(p, r).unsqueeze(2) - located) / spread(scale)
        return Costs(z, log_weight, margin.sigmoid().prod(-1))

    def log_likelihood(self, p: Parameters, drawn: Costs, y: Tensor) -> Tensor:
        """log p(y | z, r), [S, B, N]."""
        y = y.unsqueeze(-1)
        if self.binary:
            epsilon, p_event = self.options.get("epsilon", EPSILON), drawn.probability
            if self.options.get("loss_type"):
                return -cross_entropy(p_event, 0.8 * y + 0.1, epsilon)
            return (torch.where(y > 0.5, p_event, 1.0 - p_event) + epsilon).log()
        mean, scale = self._response(p, drawn)
        u = ((y - mean) / scale).sigmoid()
        epsilon = self.options.get("epsilon", EPSILON)
        return ((u + epsilon) * (1.0 - u + epsilon) / scale).log()

    def _response(self, p: Parameters, drawn: Costs) -> tuple[Tensor, Tensor]:
        """Location and scale of a continuous y given z, [S, B, N]."""
        rows, shape = drawn.z.flatten(1, 2), drawn.z.shape[1:3]
        t, s = (
            (torch.tanh(rows @ p[f"w{name}1"] + p[f"b{name}1"]) @ p[f"w{name}2"] + p[f"b{name}2"])
            .squeeze(-1)
            .unflatten(1, shape)
            for name in ("t", "sy")
        )
        scale, probability = spread(s), drawn.probability
        epsilon = self.options.get("epsilon", EPSILON)
        logit = (probability + epsilon).log() - (1.0 - probability + epsilon).log()
        return t + scale * logit, scale

    def loss(
        self, p: Parameters, x: Tensor, r: Tensor, y: Tensor, noise: torch.Generator
    ) -> Tensor:
        shape = (*y.shape, self.options.get("draws", DRAWS), self.options["z_dim"])
        drawn = self.costs(p, x, r, torch.randn(shape, generator=noise, device=x.device))
        bound = self.bound(p, drawn, y)
        return -bound.mean(1) - self.bound_of_revenues(p, r, noise)

    def bound(self, p: Parameters, drawn: Costs, y: Tensor) -> Tensor:
        """log of the mean over draws of p(y | z, r) p(z) / q(z|x), [S, B]."""
        log_p = self.log_likelihood(p, drawn, y)
        return torch.logsumexp(log_p + drawn.log_weight, -1) - math.log(log_p.shape[-1])

    def predict(self, p: Parameters, x: Tensor, r: Tensor, noise: Tensor) -> Tensor:
        drawn = self.costs(p, x, r, noise)
        if not self.binary:
            return self._response(p, drawn)[0].mean(-1)
        found = drawn.probability.mean(-1)
        return (found - 0.1) / 0.8 if self.options.get("loss_type") else found


class IGCM(GCM):
    """GCM with the mean of a kernel k of r in place of r P; r is reconstructed from a draw of k."""

    def revenue_sizes(self) -> Sizes:
        h, m = self.hidden, self.r_dim
        return {
            "wk": (m, h), "bk": (h,), "wkmu": (h, m), "bkmu": (m,), "wksig": (h, m), "bksig": (m,),
            "wkr": (m, m), "bkr": (m,), "rsig": (m,),
        }  # fmt: skip

    def revenue(self, p: Parameters, r: Tensor) -> Tensor:
        return torch.tanh(r @ p["wk"] + p["bk"]) @ p["wkmu"] + p["bkmu"]

    def bound_of_revenues(self, p: Parameters, r: Tensor, noise: torch.Generator) -> Tensor:
        h = torch.tanh(r @ p["wk"] + p["bk"])
        loc, log_var = h @ p["wkmu"] + p["bkmu"], h @ p["wksig"] + p["bksig"]
        drawn = torch.randn(loc.shape, generator=noise, device=r.device)
        k = loc + (0.5 * log_var).exp() * drawn
        error = (r - k @ self.positive(p["wkr"]) - p["bkr"]) / p["rsig"].exp()
        fits = (-0.5 * error.square() - p["rsig"]).sum(-1)
        divergence = 0.5 * (1.0 + log_var - loc.square() - log_var.exp()).sum(-1)
        return held_at_zero(RECONSTRUCTION * (fits + divergence).mean(1))


def spread(a: Tensor) -> Tensor:
    """A positive scale: (1 + relu(a)) / (1 + relu(-a)) + 0.1."""
    return (1.0 + a.relu()) / (1.0 + (-a).relu()) + 0.1

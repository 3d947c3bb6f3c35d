"""The ten networks of the released code and their losses: baselines of the library, GCM and IGCM.

What differs from the library's baselines, in their order below: 1e-5 inside the logarithms of the
cross entropy; the form "released" of PosNN, CMNN and SMNN; the penalties of Hint and PWL; and the
start of all, which `made` draws. GCM and IGCM are written anew, as evidence that the library's
agree with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, softplus

from pyro_gcm import baselines
from pyro_gcm.baselines import Baseline
from pyro_gcm.baselines.networks import NonNegativeLinear, softplus_10

#: Draws of z of a row in training, unless an option says otherwise, and in a prediction.
DRAWS, TEST_DRAWS = 32, 128
#: What the paper compares (appendix E.1), its own choice first. The fourth can be negative.
POSITIVE: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus(10 W) / 10": softplus_10,
    "softplus(W)": softplus,
    "square(W)": torch.square,
    "leaky relu(W)": leaky_relu,
    "exp(W)": torch.exp,
}


class Released(Baseline):
    """A network with the released loss of its data."""

    #: Added inside the logarithms.
    epsilon: ClassVar[float] = 1e-5

    def data_loss(self, score: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Mean cross entropy or squared error of scores [B], without penalties."""
        if self.response == "binary":
            return self.cross_entropy(score.sigmoid(), y).mean()
        return super().data_loss(score, level, y)

    def cross_entropy(self, p: Tensor, y: Tensor) -> Tensor:
        """Of targets y and probabilities p, elementwise."""
        return -y * (p + self.epsilon).log() - (1.0 - y) * (1.0 - p + self.epsilon).log()

    def response_of(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1) or the mean for rows x [B, x_dim] and r [B, r_dim], [B]."""
        score = self.score(x, r)
        return score.sigmoid() if self.response == "binary" else score


class Hint(Released, baselines.Hint):
    """A penalty on the squared fall of s where all revenues of a row are raised or lowered.

    A row vector meets a column there: the fall of every row is counted once with the sign of every
    other one.

    :param own_sign: counts it with its own sign alone.
    """

    def __init__(self, *sizes: int, own_sign: bool = False, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.own_sign = own_sign

    def penalty(self, x: Tensor, r: Tensor) -> Tensor:
        """For x [B, x_dim] and r [B, r_dim]."""
        sign = (torch.rand_like(r[:, 0]) - 0.5).sign()
        shift = self.max_shift * torch.rand_like(r) * sign.unsqueeze(-1)
        fall = self.score(x, r) - self.score(x, r + shift)
        if self.own_sign:
            return (fall * sign).relu().square().mean()
        up = (sign > 0.0).to(r.dtype).mean()
        return (up * fall.relu().square() + (1.0 - up) * (-fall).relu().square()).mean()


class PWL(Released, baselines.PWL):
    """A penalty on negative slopes of s, in which the hidden layers are constants."""

    def standard_loss(self, x: Tensor, r: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Mean loss with the penalty, a sum over rows and revenues."""
        network = self.network
        (middle,) = network.hidden
        first = torch.tanh(network.x_layer(x) + network.r_layer(r))
        second = torch.tanh(middle(first))
        back = network.output.weight * (1.0 - second.detach().square())
        back = (back @ middle.weight) * (1.0 - first.detach().square())
        falls = (-(back @ network.r_layer.weight)).relu().sum()
        return self.data_loss(network.output(second).squeeze(-1), level, y) + self.weight * falls


class Drawn(NamedTuple):
    """Draws of z of every row, and the event given each.

    :param z: [B, N, D]; `log_weight`: log p(z) / q(z|x), [B, N]; `probability`: likewise.
    """

    z: Tensor
    log_weight: Tensor
    probability: Tensor


class GCM(Released):
    """z drawn from q(z|x), logistic costs given z, revenues r P with a positive matrix P.

    The weights p(z) / q(z|x) are constants in the gradient.

    :param z_dim: D.
    :param loss_type: of a binary y, 0 for cross-entropy and 1 for targets moved to 0.1 and 0.9.
    :param weights_learn: for weights that are no constants.
    :param draws: of z of a training row.
    """

    def __init__(
        self,
        x_dim: int,
        r_dim: int,
        *,
        hidden: int,
        z_dim: int,
        loss_type: int = 0,
        weights_learn: bool = False,
        draws: int = DRAWS,
        **options: Any,
    ) -> None:
        super().__init__(x_dim, r_dim, **options)
        self.loss_type, self.weights_learn, self.draws = loss_type, weights_learn, draws
        self.of_x = nn.Sequential(nn.Linear(x_dim, hidden), nn.Tanh())
        self.z_loc, self.z_log_var = nn.Linear(hidden, z_dim), nn.Linear(hidden, z_dim)
        self.of_z = nn.Sequential(nn.Linear(z_dim, hidden), nn.Tanh())
        self.c_loc, self.c_spread = nn.Linear(hidden, r_dim), nn.Linear(hidden, r_dim)
        if self.response != "binary":
            self.y_loc, self.y_spread = (
                nn.Sequential(nn.Linear(z_dim, hidden), nn.Tanh(), nn.Linear(hidden, 1))
                for _ in range(2)
            )
        self.read_revenues(hidden)
        self.test_noise: Tensor
        self.register_buffer("test_noise", torch.zeros(TEST_DRAWS, z_dim))

    def read_revenues(self, hidden: int) -> None:
        """Make the layers of the revenues."""
        self.revenue_map = NonNegativeLinear(self.r_dim, self.r_dim, bias=False)

    def revenue(self, r: Tensor) -> Tensor:
        """What is compared with the costs, [B, m]."""
        return self.revenue_map(r)

    def bound_of_revenues(self, r: Tensor) -> Tensor | float:
        """What is subtracted from the loss."""
        return 0.0

    def drawn(self, x: Tensor, r: Tensor, noise: Tensor) -> Drawn:
        """Draws for standard normal noise that broadcasts to [B, N, D]."""
        h = self.of_x(x)
        loc, half = self.z_loc(h).unsqueeze(1), 0.5 * self.z_log_var(h).unsqueeze(1)
        z = loc + half.exp() * noise
        log_weight = (0.5 * (noise.square() - z.square()) + half).sum(-1)
        h = self.of_z(z)
        margin = (self.revenue(r).unsqueeze(1) - self.c_loc(h)) / spread(self.c_spread(h))
        log_weight = log_weight if self.weights_learn else log_weight.detach()
        return Drawn(z, log_weight, margin.sigmoid().prod(-1))

    def log_likelihood(self, drawn: Drawn, y: Tensor) -> Tensor:
        """log p(y | z, r) for y [B], [B, N]."""
        y = y.unsqueeze(-1)
        if self.response == "binary":
            target = 0.8 * y + 0.1 if self.loss_type else y
            return -self.cross_entropy(drawn.probability, target)
        mean, scale = self.continuous(drawn)
        u = ((y - mean) / scale).sigmoid()
        return ((u + self.epsilon) * (1.0 - u + self.epsilon) / scale).log()

    def continuous(self, drawn: Drawn) -> tuple[Tensor, Tensor]:
        """Location and scale of a continuous y given z, [B, N]."""
        scale, p = spread(self.y_spread(drawn.z)).squeeze(-1), drawn.probability
        logit = (p + self.epsilon).log() - (1.0 - p + self.epsilon).log()
        return self.y_loc(drawn.z).squeeze(-1) + scale * logit, scale

    def standard_loss(self, x: Tensor, r: Tensor, level: Tensor, y: Tensor) -> Tensor:
        """Minus the mean of `bound`, and what the revenues add."""
        shape = len(x), self.draws, self.z_loc.out_features
        noise = torch.randn(shape, dtype=x.dtype, device=x.device)
        return -self.bound(self.drawn(x, r, noise), y).mean() - self.bound_of_revenues(r)

    def bound(self, drawn: Drawn, y: Tensor) -> Tensor:
        """log of the mean over draws of p(y | z, r) p(z) / q(z|x), [B]."""
        each = self.log_likelihood(drawn, y) + drawn.log_weight
        return torch.logsumexp(each, -1) - math.log(each.shape[-1])

    def response_of(self, x: Tensor, r: Tensor) -> Tensor:
        """The mean over draws that all rows share, without weights."""
        drawn = self.drawn(x, r, self.test_noise)
        if self.response != "binary":
            return self.continuous(drawn)[0].mean(-1)
        found = drawn.probability.mean(-1)
        return (found - 0.1) / 0.8 if self.loss_type else found


class IGCM(GCM):
    """GCM with the mean of a kernel k of r in place of r P; r is reconstructed from a draw of k."""

    #: Weight of the bound on the revenues.
    reconstruction: ClassVar[float] = 0.01

    def read_revenues(self, hidden: int) -> None:
        """Make the kernel and the reconstruction."""
        m = self.r_dim
        self.of_r = nn.Sequential(nn.Linear(m, hidden), nn.Tanh())
        self.k_loc, self.k_log_var = nn.Linear(hidden, m), nn.Linear(hidden, m)
        self.from_k, self.r_log_scale = NonNegativeLinear(m, m), nn.Parameter(torch.zeros(m))

    def revenue(self, r: Tensor) -> Tensor:
        """The mean of the kernel."""
        return self.k_loc(self.of_r(r))

    def bound_of_revenues(self, r: Tensor) -> Tensor:
        """The evidence bound of r, of which the released loss takes the gradient alone."""
        h = self.of_r(r)
        loc, log_var = self.k_loc(h), self.k_log_var(h)
        k = loc + (0.5 * log_var).exp() * torch.randn_like(loc)
        error = (r - self.from_k(k)) / self.r_log_scale.exp()
        fits = (-0.5 * error.square() - self.r_log_scale).sum(-1)
        divergence = 0.5 * (1.0 + log_var - loc.square() - log_var.exp()).sum(-1)
        return self.reconstruction * (fits + divergence).mean()


def spread(a: Tensor) -> Tensor:
    """A positive scale: (1 + relu(a)) / (1 + relu(-a)) + 0.1."""
    return (1.0 + a.relu()) / (1.0 + (-a).relu()) + 0.1


def _network(base: type[Baseline]) -> Any:
    """A network of the library with the released loss."""
    return type(base.__name__, (Released, base), {})


#: Name in the tables -> network.
FORMS: dict[str, Callable[..., Released]] = {
    "PosNN": partial(_network(baselines.PosNN), form="released"),
    "MM": _network(baselines.MM),
    "SMM": _network(baselines.SMM),
    "CMNN": partial(_network(baselines.CMNN), form="released"),
    "SMNN": partial(_network(baselines.SMNN), form="released"),
    "Hint": Hint,
    "PWL": PWL,
    "MLP": _network(baselines.MLP),
    "GCM": GCM,
    "IGCM": IGCM,
}


@torch.no_grad()
def made(
    method: str, *sizes: int, seed: int, start: str, positive: str | None = None, **options: Any
) -> Released:
    """A network of x_dim and r_dim with the weights that it starts from.

    :param seed: of the weights and of the noise of predictions.
    :param start: "released", uniform up to 12 / (rows + columns), or "fan-in", up to
        1 / sqrt(rows); vectors start at 0.
    :param positive: which of `POSITIVE` makes weights positive; the first by default.
    :param options: response, hidden and what the network has.
    """
    model, noise = FORMS[method](*sizes, **options), torch.Generator().manual_seed(seed)
    for part in model.modules():
        if positive and isinstance(part, NonNegativeLinear):
            part.positive = POSITIVE[positive]
    for name, parameter in model.named_parameters():
        columns, rows = parameter.shape if parameter.dim() == 2 else (0, 0)
        rows //= 2 if name == "output_from_x.weight" else 1  # of SMNN, two matrices side by side
        reach = (12.0 / (rows + columns) if start == "released" else rows**-0.5) if rows else 0.0
        parameter.uniform_(-reach, reach, generator=noise)
    if isinstance(model, GCM):
        model.test_noise.normal_(generator=noise.manual_seed(seed + 77_777))
    return model

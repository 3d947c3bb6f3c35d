"""The doubly reparametrised gradient on Pyro's traces: the usual mean, and what it is not for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from torch import Tensor

from pyro_gcm.inference import ImportanceWeightedELBO

DTYPE, N = torch.float64, 5


def bound(gradient: str = "dreg", num_particles: int = N, **options: Any) -> ImportanceWeightedELBO:
    options = {"max_plate_nesting": 1, **options}
    return ImportanceWeightedELBO(num_particles, gradient=gradient, **options)


# Unbiased: 20000 rows, each with guide parameters of its own, are 20000 draws of the gradient.

DRAWS = 20000


class Rows:
    """z ~ N(0, I_2) and y ~ N(h(z), 0.5^2), y = 1, in rows with guide parameters of their own.

    Guides are written for (loc, log_scale), each [rows, 2]. A handler of the densities of z or of
    the whole program may be put on both sides.
    """

    def __init__(
        self,
        guide: Callable[[Tensor, Tensor], None],
        on_z: Callable[[Any], Any] = lambda fn: fn,
        on_all: Callable[[Any], Any] = lambda program: program,
    ) -> None:
        self._guide, self._on_z, self._on_all = guide, on_z, on_all

    def model(self) -> None:
        with pyro.plate("data", DRAWS, dim=-1):
            zero = torch.zeros(DRAWS, 2, dtype=DTYPE)
            z = pyro.sample("z", self._on_z(dist.Normal(zero, 1.0)).to_event(1))
            pyro.sample("y", dist.Normal(z.sum(-1), 0.5), obs=zero[:, 0] + 1.0)

    def gradients(self, gradient: str, seed: int, num_particles: int = 4) -> Tensor:
        """Draws of the gradient in (loc, log_scale), [rows, 4]."""
        loc = torch.tensor([0.1, 0.6], dtype=DTYPE).repeat(DRAWS, 1).requires_grad_()
        log_scale = torch.tensor([-0.3, 0.2], dtype=DTYPE).repeat(DRAWS, 1).requires_grad_()

        def guide() -> None:
            with pyro.plate("data", DRAWS, dim=-1):
                self._guide(loc, log_scale)

        torch.manual_seed(seed)
        elbo = bound(gradient, num_particles, max_plate_nesting=self.nesting)
        loss = elbo.differentiable_loss(self._on_all(self.model), self._on_all(guide))
        return torch.cat(torch.autograd.grad(loss, [loc, log_scale]), -1)

    nesting = 1

    def z_score(self, **options: Any) -> float:
        """Largest difference of the mean gradients, in standard errors."""
        a = self.gradients("iwae", 1, **options)
        b = self.gradients("dreg", 2, **options)
        error = torch.sqrt((a.var(0) + b.var(0)) / DRAWS)
        return float(((a.mean(0) - b.mean(0)) / error).abs().max())


class NestedRows(Rows):
    """The two coordinates of z are a plate inside the plate of the rows."""

    nesting = 2

    def model(self) -> None:
        with pyro.plate("data", DRAWS, dim=-1):
            with pyro.plate("coordinates", 2, dim=-2):
                z = pyro.sample("z", dist.Normal(torch.zeros(2, DRAWS, dtype=DTYPE), 1.0))
            z = z.sum(-2, keepdim=True)  # [N, 1, rows]
            pyro.sample("y", dist.Normal(z, 0.5), obs=torch.ones(DRAWS, dtype=DTYPE))


def plain(loc: Tensor, log_scale: Tensor) -> None:
    pyro.sample("z", dist.Normal(loc, log_scale.exp()).to_event(1))


def nested(loc: Tensor, log_scale: Tensor) -> None:
    with pyro.plate("coordinates", 2, dim=-2):
        pyro.sample("z", dist.Normal(loc.T, log_scale.exp().T))


def transformed(loc: Tensor, log_scale: Tensor) -> None:
    """The transform remembers what it made the value from, as flows do."""
    shift = dist.transforms.AffineTransform(loc, log_scale.exp(), event_dim=1, cache_size=1)
    noise = dist.Normal(torch.zeros_like(loc), 1.0).to_event(1)
    pyro.sample("z", dist.TransformedDistribution(noise, [shift]))


def through_delta(loc: Tensor, log_scale: Tensor) -> None:
    """As Pyro's automatic guides: an auxiliary site, and z a function of it."""
    normal = dist.Normal(loc, log_scale.exp()).to_event(1)
    u = pyro.sample("u", normal, infer={"is_auxiliary": True})
    # z = 2 u, log |dz/du| = 2 log 2
    density = torch.full(u.shape[:-1], -2.0 * math.log(2.0), dtype=DTYPE)
    pyro.sample("z", dist.Delta(2.0 * u, log_density=density, event_dim=1))


def dependent(loc: Tensor, log_scale: Tensor) -> None:
    u = pyro.sample("u", dist.Normal(loc[:, 0], 1.0), infer={"is_auxiliary": True})
    pyro.sample("z", dist.Normal(loc + u.unsqueeze(-1), log_scale.exp()).to_event(1))


ONE_COORDINATE = torch.tensor([True, False])
HALF_THE_ROWS = torch.arange(DRAWS) % 2 == 0


def scaled(by: Any) -> Callable[[Any], Any]:
    return lambda program: poutine.scale(program, by)


def masked(program: Any) -> Any:
    return poutine.mask(program, mask=HALF_THE_ROWS)


def masked_coordinate(loc: Tensor, log_scale: Tensor) -> None:
    pyro.sample("z", dist.Normal(loc, log_scale.exp()).mask(ONE_COORDINATE).to_event(1))


CASES = {
    "plain": Rows(plain),
    "scale": Rows(plain, on_all=scaled(0.3)),
    "nested plates": NestedRows(nested),
    "cached transform": Rows(transformed),
    "auxiliary site": Rows(through_delta),
    "a site that depends on another": Rows(dependent),
}


def test_mean_is_that_of_the_usual_gradient() -> None:
    for name, case in CASES.items():
        assert case.z_score() < 4.5, name
    assert Rows(plain).z_score(num_particles=1) < 4.5


def test_guide_for_which_the_gradient_would_be_wrong_is_refused_by_name() -> None:
    each_row = scaled(torch.linspace(0.2, 2.0, DRAWS, dtype=DTYPE))
    for case in (Rows(plain, on_all=each_row), Rows(plain, on_all=masked), Rows(masked_coordinate)):
        with pytest.raises(ValueError, match="site 'z' of the guide has a scale or a mask"):
            case.gradients("dreg", 1)


def test_gradient_is_the_published_formula_for_a_latent_of_all_rows() -> None:
    loc = torch.tensor(0.3, dtype=DTYPE, requires_grad=True)
    drawn, y = [], torch.linspace(-1.0, 1.0, 5, dtype=DTYPE)

    def model() -> None:
        shared = pyro.sample("shared", dist.Normal(torch.zeros((), dtype=DTYPE), 1.0))
        with pyro.plate("data", 5):
            pyro.sample("y", dist.Normal(shared, 1.0), obs=y)

    def guide() -> None:
        drawn.append(pyro.sample("shared", dist.Normal(loc, 0.8)))

    (mine,) = torch.autograd.grad(bound().differentiable_loss(model, guide), loc)
    z = drawn[0].detach().reshape(N, 1).requires_grad_()
    log_w = dist.Normal(0.0, 1.0).log_prob(z) - dist.Normal(0.3, 0.8).log_prob(z)
    log_w = (log_w + dist.Normal(z, 1.0).log_prob(y).sum(-1, True))[:, 0]
    (dz,) = torch.autograd.grad(log_w.sum(), z)
    torch.testing.assert_close(mine, -(log_w.softmax(0) ** 2 * dz[:, 0]).sum().detach())

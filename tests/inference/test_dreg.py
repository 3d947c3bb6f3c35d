"""The doubly reparametrised gradient: the usual mean with less noise, and what it is not for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from elbo_toy import DTYPE, ROWS, N, Toy, bound, counts, normal
from pyro.infer.autoguide import AutoDiagonalNormal
from torch import Tensor


class NearPosterior:
    """z ~ N(0, I_2) and y ~ N(z, 0.25 I) in 64 rows; the guide N(a y, s^2 I), a little off.

    Posterior: a = 0.8, s^2 = 0.2. The guide has a = 0.82 and s^2 = 0.2 e^0.1.
    """

    def __init__(self) -> None:
        g = torch.Generator().manual_seed(0)
        self.y = torch.randn(64, 2, generator=g, dtype=DTYPE) * math.sqrt(1.25)
        self.a = torch.tensor(0.82, dtype=DTYPE, requires_grad=True)
        self.log_s = torch.tensor(0.5 * math.log(0.2) + 0.05, dtype=DTYPE, requires_grad=True)

    def model(self) -> None:
        with pyro.plate("data", 64):
            z = pyro.sample("z", dist.Normal(torch.zeros_like(self.y), 1.0).to_event(1))
            pyro.sample("y", dist.Normal(z, 0.5).to_event(1), obs=self.y)

    def guide(self) -> None:
        with pyro.plate("data", 64):
            pyro.sample("z", dist.Normal(self.a * self.y, self.log_s.exp()).to_event(1))


@counts
def test_value_is_that_of_the_usual_gradient(num_particles: int) -> None:
    toy = Toy()
    losses = []
    for gradient in ("iwae", "dreg"):
        elbo = bound(gradient, num_particles)
        torch.manual_seed(0)
        losses.append(elbo.differentiable_loss(toy.model, toy.guide))
        torch.manual_seed(0)
        losses.append(elbo.loss(toy.model, toy.guide))
    assert all(torch.equal(loss, losses[0]) for loss in losses)


@counts
def test_gradient_is_the_published_formula_written_by_hand(num_particles: int) -> None:
    toy = Toy()
    elbo = bound(num_particles=num_particles)
    for _ in range(2):
        toy.drawn.clear()
        loss = elbo.differentiable_loss(toy.model, toy.guide)
        mine = torch.autograd.grad(loss, [*toy.theta, *toy.phi])
        for gradient, expected in zip(mine, toy.gradients(), strict=True):
            assert expected.abs() > 1e-3
            torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-10)


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
}


@pytest.mark.parametrize("case", CASES)
def test_mean_is_that_of_the_usual_gradient(case: str) -> None:
    assert CASES[case].z_score() < 4.5


def test_guide_site_with_a_scale_or_a_mask_of_its_own_is_refused() -> None:
    each_row = scaled(torch.linspace(0.2, 2.0, DRAWS, dtype=DTYPE))
    for case in (Rows(plain, on_all=each_row), Rows(plain, on_all=masked), Rows(masked_coordinate)):
        with pytest.raises(ValueError, match="site 'z' of the guide has a scale or a mask"):
            case.gradients("dreg", 1)


def test_mean_of_one_particle_is_that_of_the_usual_gradient() -> None:
    assert Rows(plain).z_score(num_particles=1) < 4.5


def run(model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **options: Any) -> Tensor:
    return bound(**options).differentiable_loss(model, guide, *args)


def test_guide_site_that_depends_on_another_is_refused_by_both_names() -> None:
    toy = Toy()

    def guide() -> None:
        with toy.rows() as index:
            (z_loc, t), (u_loc, s) = toy.q(index, toy.phi)
            z = pyro.sample("z", dist.Normal(z_loc, t).to_event(1))
            pyro.sample("u", dist.Normal(u_loc + z.sum(-1), s))

    with pytest.raises(ValueError, match=r"independent.*guide of site 'u' depends on site 'z'"):
        run(toy.model, guide)
    assert run(toy.model, guide, gradient="iwae").isfinite()


def test_guide_site_outside_the_plate_is_refused_by_name() -> None:
    toy = NearPosterior()
    guide = AutoDiagonalNormal(toy.model)  # one latent for all rows
    with pytest.raises(ValueError, match=r"site '_AutoDiagonal.*_latent'.*outside plate 'data'"):
        run(toy.model, guide)


def test_global_latent_of_model_and_guide_has_one_weight_with_all_rows() -> None:
    loc = torch.tensor(0.3, dtype=DTYPE, requires_grad=True)
    drawn, y = [], torch.linspace(-1.0, 1.0, 5, dtype=DTYPE)

    def model() -> None:
        shared = pyro.sample("shared", dist.Normal(torch.zeros((), dtype=DTYPE), 1.0))
        with pyro.plate("data", 5):
            pyro.sample("y", dist.Normal(shared, 1.0), obs=y)

    def guide() -> None:
        drawn.append(pyro.sample("shared", dist.Normal(loc, 0.8)))

    (mine,) = torch.autograd.grad(run(model, guide), loc)
    z = drawn[0].detach().reshape(N, 1).requires_grad_()
    log_w = (normal(z, 0.0, 1.0) - normal(z, 0.3, 0.8) + normal(y, z, 1.0).sum(-1, True))[:, 0]
    (dz,) = torch.autograd.grad(log_w.sum(), z)
    torch.testing.assert_close(mine, -(log_w.softmax(0) ** 2 * dz[:, 0]).sum().detach())


# As any bound of Pyro


def test_log_weights_have_no_gradient_of_their_own() -> None:
    toy, elbo = Toy(), bound()
    with torch.no_grad():
        assert elbo.log_weights(toy.model, toy.guide).shape == (N, ROWS)
    assert not any(z.requires_grad or u.requires_grad for _, z, u in toy.drawn)

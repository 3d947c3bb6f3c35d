"""The doubly reparametrised gradient: the same mean as the usual one, with less noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from pyro.infer import SVI
from pyro.infer.autoguide import AutoDiagonalNormal, AutoNormal
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.inference import ImportanceWeightedELBO, conditional
from reproduce.benchmarks.gradient_noise import NearPosterior, compare

FULL, ROWS, DIM, N = 60, 6, 2, 5
DTYPE = torch.float64

loops = pytest.mark.parametrize("vectorized", [True, False], ids=["vectorised", "looped"])
counts = pytest.mark.parametrize("num_particles", [1, N], ids=lambda n: f"N={n}")


def bound(gradient: str = "dreg", num_particles: int = N, **options: Any) -> ImportanceWeightedELBO:
    options = {"max_plate_nesting": 1, **options}
    return ImportanceWeightedELBO(num_particles, gradient=gradient, **options)


def normal(value: Tensor, loc: Any, scale: Any) -> Tensor:
    """log N(value; loc, scale)."""
    scale = torch.as_tensor(scale, dtype=DTYPE)
    return -0.5 * ((value - loc) / scale) ** 2 - scale.log() - 0.5 * math.log(2.0 * math.pi)


class Toy:
    """z ~ N(a x, I), u ~ N(z1 z2, 1), y ~ N(sum z + u, s^2) in a mini-batch of 6 rows out of 60.

    Guide: z ~ N(b x + y, t^2) and u ~ N(d y, 0.7^2), independent of z. Keeps its draws.
    """

    def __init__(self) -> None:
        g = torch.Generator().manual_seed(3)
        self.x = torch.randn(FULL, DIM, generator=g, dtype=DTYPE)
        self.y = torch.randn(FULL, generator=g, dtype=DTYPE)
        self.theta = [torch.tensor(v, dtype=DTYPE, requires_grad=True) for v in (0.7, -0.2)]
        self.phi = [torch.tensor(v, dtype=DTYPE, requires_grad=True) for v in (0.4, -0.3, 0.2)]
        self.drawn: list[tuple[Tensor, Tensor, Tensor]] = []

    def rows(self) -> Any:
        return pyro.plate("data", FULL, subsample_size=ROWS)

    def model(self) -> None:
        a, log_s = self.theta
        with self.rows() as index:
            z = pyro.sample("z", dist.Normal(a * self.x[index], 1.0).to_event(1))
            u = pyro.sample("u", dist.Normal(z.prod(-1), 1.0))
            pyro.sample("y", dist.Normal(z.sum(-1) + u, log_s.exp()), obs=self.y[index])

    def guide(self) -> None:
        with self.rows() as index:
            (z_loc, t), (u_loc, s) = self.q(index, self.phi)
            z = pyro.sample("z", dist.Normal(z_loc, t).to_event(1))
            self.drawn.append((index, z, pyro.sample("u", dist.Normal(u_loc, s))))

    def q(self, index: Tensor, phi: list[Tensor]) -> Any:
        b, log_t, d = phi
        x, y = self.x[index], self.y[index]
        return (b * x + y[:, None], log_t.exp()), (d * y, 0.7)

    def gradients(self) -> list[Tensor]:
        """Of the loss in theta and phi, by Tucker et al. (2019), equation (8), draw by draw."""
        index = self.drawn[0][0]
        z = torch.cat([z.detach().reshape(-1, ROWS, DIM) for _, z, _ in self.drawn])  # [N, B, D]
        u = torch.cat([u.detach().reshape(-1, ROWS) for _, _, u in self.drawn])  # [N, B]
        z.requires_grad_()
        u.requires_grad_()
        fixed = [p.detach() for p in self.phi]
        (z_loc, t), (u_loc, s) = self.q(index, fixed)
        a, log_s = self.theta
        log_w = (
            normal(z, a * self.x[index], 1.0).sum(-1)
            + normal(u, z.prod(-1), 1.0)
            + normal(self.y[index], z.sum(-1) + u, log_s.exp())
            - normal(z, z_loc, t).sum(-1)
            - normal(u, u_loc, s)
        )
        w = log_w.softmax(0).detach()
        dz, du = torch.autograd.grad(log_w.sum(), [z, u], retain_graph=True)
        of_theta = torch.autograd.grad((w * log_w).sum(), self.theta)
        # The draws as functions of phi once more.
        e_z, e_u = ((z - z_loc) / t).detach(), ((u - u_loc) / s).detach()
        (z_loc, t), (u_loc, s) = self.q(index, self.phi)
        path = (dz * (z_loc + t * e_z)).sum(-1) + du * (u_loc + s * e_u)
        of_phi = torch.autograd.grad((w**2 * path).sum(), self.phi)
        return [-FULL / ROWS * g for g in (*of_theta, *of_phi)]


@loops
@counts
def test_value_is_that_of_the_usual_gradient(num_particles: int, vectorized: bool) -> None:
    toy = Toy()
    losses = []
    for gradient in ("iwae", "dreg"):
        elbo = bound(gradient, num_particles, vectorize_particles=vectorized)
        torch.manual_seed(0)
        losses.append(elbo.differentiable_loss(toy.model, toy.guide))
        torch.manual_seed(0)
        losses.append(elbo.loss(toy.model, toy.guide))
    assert all(torch.equal(loss, losses[0]) for loss in losses)


@loops
@counts
def test_gradient_is_the_published_formula_written_by_hand(
    num_particles: int, vectorized: bool
) -> None:
    toy = Toy()
    elbo = bound(num_particles=num_particles, vectorize_particles=vectorized)
    for _ in range(2):  # the first call checks the guide, the second does not
        toy.drawn.clear()
        loss = elbo.differentiable_loss(toy.model, toy.guide)
        mine = torch.autograd.grad(loss, [*toy.theta, *toy.phi])
        for gradient, expected in zip(mine, toy.gradients(), strict=True):
            assert expected.abs() > 1e-3
            torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-10)


# Unbiased: 40000 rows, each with guide parameters of its own, are 40000 draws of the gradient.

DRAWS = 40000


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


def masked_in_half_the_rows(loc: Tensor, log_scale: Tensor) -> None:
    with poutine.mask(mask=HALF_THE_ROWS):
        plain(loc, log_scale)


def masked_coordinate(loc: Tensor, log_scale: Tensor) -> None:
    pyro.sample("z", dist.Normal(loc, log_scale.exp()).mask(ONE_COORDINATE).to_event(1))


def scaled(by: Any) -> Callable[[Any], Any]:
    return lambda program: poutine.scale(program, by)


cases = pytest.mark.parametrize(
    "rows",
    [
        Rows(plain),
        Rows(plain, on_all=scaled(0.3)),
        Rows(plain, on_all=scaled(torch.linspace(0.2, 2.0, DRAWS, dtype=DTYPE))),
        Rows(plain, on_all=lambda program: poutine.mask(program, mask=HALF_THE_ROWS)),
        Rows(masked_in_half_the_rows),
        Rows(masked_coordinate, on_z=lambda fn: fn.mask(ONE_COORDINATE)),
        NestedRows(nested),
        Rows(transformed),
        Rows(through_delta),
    ],
    ids=[
        "plain",
        "scale",
        "scale of each row",
        "mask",
        "mask on the guide",
        "masked coordinate",
        "nested plates",
        "cached transform",
        "auxiliary site",
    ],
)


@cases
def test_mean_is_that_of_the_usual_gradient(rows: Rows) -> None:
    assert rows.z_score() < 4.5


def test_mean_of_one_particle_is_that_of_the_usual_gradient() -> None:
    assert Rows(plain).z_score(num_particles=1) < 4.5


@pytest.mark.parametrize("part", ["drop_score", "weigh_gradients"])
def test_comparison_of_means_notices_when_a_part_is_left_out(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "pyro_gcm.inference.importance_weighted_elbo"
    monkeypatch.setattr(f"{module}.{part}", lambda *_: None)
    assert Rows(plain).z_score() > 20.0


def test_near_the_posterior_the_guide_gradient_has_a_tenth_of_the_noise() -> None:
    """z ~ N(0, I_2), y ~ N(z, 0.25 I): q = N(0.82 y, 0.2 e^0.1 I), posterior N(0.8 y, 0.2 I)."""
    toy = NearPosterior()
    a, s = toy.a.item(), toy.log_s.exp().item()
    assert (a, s**2) == pytest.approx((0.82, 0.2 * math.exp(0.1)))
    noise = compare(toy.model, toy.guide, [toy.a, toy.log_s], repeats=200)
    assert noise["iwae"] > 10.0 * noise["dreg"]


# What it is not for


def run(model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **options: Any) -> Tensor:
    return bound(**options).differentiable_loss(model, guide, *args)


is_prior = pytest.raises(ValueError, match=r"separate guide.*'z' is its prior.*2 to 3.*'iwae'")


def test_prior_as_guide_is_refused_by_name() -> None:
    model = GCM(3, 2)
    rows = torch.randn(7, 3), torch.randn(7, 2), torch.randint(2, (7,)).float()
    with is_prior:
        run(conditional(model.model), model.guide, *rows)


def test_guide_with_its_density_masked_out_counts_as_the_prior() -> None:
    toy = NearPosterior()

    def guide() -> None:
        with pyro.plate("data", len(toy.y)):
            pyro.sample("z", dist.Normal(toy.a * toy.y, 1.0).to_event(1).mask(False))

    with is_prior:
        run(toy.model, guide)


def test_guide_that_starts_at_the_prior_is_not_the_prior() -> None:
    loc = torch.zeros(3, requires_grad=True)

    def model() -> None:
        with pyro.plate("data", 3):
            z = pyro.sample("z", dist.Normal(torch.zeros(3), 1.0))
            pyro.sample("y", dist.Normal(z, 1.0), obs=torch.ones(3))

    def guide() -> None:
        with pyro.plate("data", 3):
            pyro.sample("z", dist.Normal(loc, 1.0))

    (gradient,) = torch.autograd.grad(run(model, guide), loc)
    assert gradient.isfinite().all()


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


def test_order_of_renyi_is_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha must be 0 with gradient='dreg', got alpha=0\.5"):
        ImportanceWeightedELBO(alpha=0.5, gradient="dreg")


def test_guide_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    module = "pyro_gcm.inference.importance_weighted_elbo"
    monkeypatch.setattr(f"{module}.check_dreg", lambda *traces: calls.append(traces))
    toy, elbo = Toy(), bound(vectorize_particles=False)
    elbo.loss(toy.model, toy.guide)  # no gradient, so no reason to refuse
    assert not calls
    for _ in range(2):
        elbo.differentiable_loss(toy.model, toy.guide)
    assert len(calls) == 1


# As any bound of Pyro


def test_svi_and_elbo_module_train_an_automatic_guide() -> None:
    toy = NearPosterior()
    guide = AutoNormal(toy.model)
    guide()
    elbo = bound(num_particles=8)
    svi = SVI(toy.model, guide, pyro.optim.Adam({"lr": 0.05}), elbo)
    before = svi.evaluate_loss()
    for _ in range(200):
        svi.step()
    assert svi.evaluate_loss() < before
    # The means of the posterior, from about 0.7 off.
    assert (guide.median()["z"] - 0.8 * toy.y).abs().mean() < 0.05
    module = elbo(toy.model, guide)
    module().backward()
    assert all(p.grad is not None for p in module.parameters())


def test_retained_graph_gives_the_same_gradient_again() -> None:
    toy = Toy()
    elbo = bound()
    loss = elbo.differentiable_loss(toy.model, toy.guide)
    first = torch.autograd.grad(loss, toy.phi, retain_graph=True)
    assert first == torch.autograd.grad(loss, toy.phi)
    elbo.retain_graph = True
    elbo.loss_and_grads(toy.model, toy.guide)
    assert all(p.grad is not None for p in toy.phi)


def test_graph_is_left_alone_where_there_is_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the graph was changed")

    for part in ("drop_score", "weigh_gradients", "FreshValues"):
        monkeypatch.setattr(f"pyro_gcm.inference.importance_weighted_elbo.{part}", refuse)
    toy, elbo = Toy(), bound()
    assert elbo.loss(toy.model, toy.guide).isfinite()
    with torch.no_grad():
        assert elbo.log_weights(toy.model, toy.guide).shape == (N, ROWS)

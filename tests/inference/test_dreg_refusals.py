"""What the doubly reparametrised gradient is not for, and its place among Pyro's bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from elbo_toy import DTYPE, ROWS, N, Toy, bound, normal
from pyro.infer import SVI
from pyro.infer.autoguide import AutoDiagonalNormal, AutoNormal
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.inference import conditional
from reproduce.checks.gradient_noise import NearPosterior


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


def test_guide_is_checked_once_and_graphs_are_left_alone_without_a_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    for part in ("check_dreg", "drop_score", "weigh_gradients", "FreshValues"):
        monkeypatch.setattr(f"pyro_gcm.inference.elbo.{part}", lambda *_, p=part: calls.append(p))
    toy, elbo = Toy(), bound(vectorize_particles=False)
    assert elbo.loss(toy.model, toy.guide).isfinite()
    with torch.no_grad():
        assert elbo.log_weights(toy.model, toy.guide).shape == (N, ROWS)
    assert not calls
    monkeypatch.undo()
    monkeypatch.setattr("pyro_gcm.inference.elbo.check_dreg", lambda *_: calls.append("check_dreg"))
    for _ in range(2):
        elbo.differentiable_loss(toy.model, toy.guide)
    assert calls == ["check_dreg"]

"""A guide with a name starts at the prior, whatever the prior is, and leaves it upwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyro.distributions as dist
import pytest
import torch
import zoo
from pyro.infer import Trace_ELBO
from torch import Tensor, nn

from pyro_gcm import GCM, load, save
from pyro_gcm.inference import conditional
from pyro_gcm.nets import Conditional, PosteriorGuide

GUIDES = ["amortised", "posterior", "posterior_full", "posterior_flow"]
BOUND = Trace_ELBO(num_particles=16, max_plate_nesting=1, vectorize_particles=True)


class Wide(nn.Module):
    """A prior of one's own: the same for all rows, with heavy tails and a full covariance."""

    def forward(self, x: Tensor) -> Any:
        scale_tril = torch.tensor([[2.0, 0.0], [1.0, 0.5]]).to(x)
        return dist.MultivariateStudentT(x.new_tensor(5.0), x.new_ones(2), scale_tril)


PRIORS = ["conditional", "laplace", "mixture", "flow", Wide]


def loss_of(model: Any, *rows: Tensor) -> Tensor:
    """Minus the bound of a row, of the same draws at every call."""
    torch.manual_seed(1)
    loss: Tensor = BOUND.differentiable_loss(conditional(model.model), model.guide, *rows)
    return loss / len(rows[0])


@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.parametrize("prior", PRIORS)
def test_a_named_guide_starts_at_the_prior_and_only_gains(prior: Any, guide: str) -> None:
    rows = zoo.rows("binary", 100, seed=1)[:3]
    prior = prior if isinstance(prior, str) else prior()
    model = GCM(zoo.X_DIM, zoo.R_DIM, prior=prior, guide=guide, z_dim=2, hidden=4, seed=1).double()
    zoo.informative(model, parts=["z_prior", "cost_net"])
    p, q = model.z_dist(rows[0]), model.z_guide_dist(*rows)
    assert q.batch_shape == (100,)
    z = q.sample((9,))
    torch.testing.assert_close(q.log_prob(z), p.log_prob(z), rtol=0, atol=1e-12)
    parameters = list(model.z_guide.parameters())
    losses = []
    for _ in range(6):
        losses.append(loss := loss_of(model, *rows))
        for parameter, slope in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= 0.01 * slope
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("guide", GUIDES)
def test_the_model_of_a_seed_starts_alike_with_every_guide(guide: str) -> None:
    plain, guided = GCM(3, 2, seed=5).state_dict(), GCM(3, 2, guide=guide, seed=5).state_dict()
    assert all(torch.equal(value, guided[name]) for name, value in plain.items())


def test_a_correction_of_ones_own_is_saved_as_one(tmp_path: Path) -> None:
    guide = PosteriorGuide(Conditional(dist.Normal, 6, (4,), 3), from_prior=True)
    model = zoo.off_the_prior(GCM(3, 2, guide=guide))
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    rows = torch.randn(5, 3), torch.randn(5, 2), torch.ones(5)
    mine, theirs = (of.z_guide_dist(*rows).base_dist.loc for of in (model, loaded))
    assert torch.equal(mine, theirs)
    assert not torch.allclose(mine, model.z_guide(*rows).base_dist.loc)

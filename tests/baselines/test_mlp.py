"""The unconstrained perceptron."""

import torch

from pyro_gcm.baselines import MLP
from pyro_gcm.baselines.mlp import pinball_loss


def test_pinball_loss_is_least_at_the_quantile():
    y = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    level = torch.full_like(y, 0.8)
    losses = {p: pinball_loss(torch.full_like(y, p), level, y).item() for p in (0.6, 0.84, 1.1)}
    assert min(losses, key=losses.get) == 0.84


def test_pinball_loss_weighs_errors_by_their_side():
    y, level = torch.tensor([1.0, -1.0]), torch.tensor([0.9, 0.9])
    assert torch.isclose(pinball_loss(torch.zeros(2), level, y), torch.tensor((0.9 + 0.1) / 2))


def test_output_is_the_perceptron_of_covariates_and_revenues():
    model = MLP(2, 1, hidden=3)
    x, r = torch.randn(5, 2), torch.randn(5, 1)
    a, _, b, _, c = model.net
    hidden = torch.tanh(torch.cat([x, r], 1) @ a.weight.T + a.bias)
    hidden = torch.tanh(hidden @ b.weight.T + b.bias)
    assert torch.allclose(model.predict(x, r), (hidden @ c.weight.T + c.bias)[:, 0], atol=1e-6)

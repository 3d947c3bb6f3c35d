"""A user of Pyro: the program of a GCM under SVI, with a guide and a prior from outside."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor, nn
from typing_extensions import assert_type

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.inference import conditional
from pyro_gcm.nets import Conditional


class Guide(nn.Module):
    """q(z|x, r, y)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3 + 2 + 1, 8)

    def forward(self, x: Tensor, r: Tensor, y: Tensor) -> dist.Distribution:
        loc, scale = self.net(torch.cat([x, r, y[..., None]], -1)).chunk(2, -1)
        q: dist.Distribution = dist.Normal(loc, scale.exp()).to_event(1)  # type: ignore[no-untyped-call]
        return q


def main() -> None:
    x, r = torch.randn(50, 3), torch.rand(50, 2)
    y = (r.sum(1) + x[:, 0] > 1).float()
    model = GCM(3, 2, prior=Conditional(dist.Laplace, 3, (4,)), guide=Guide())
    model.learn_units(x, r, y)
    # Pyro has no types for these calls.
    adam = pyro.optim.Adam({"lr": 0.01})  # type: ignore[attr-defined]
    bound = Trace_ELBO()  # type: ignore[no-untyped-call]
    svi = SVI(conditional(model.model), model.guide, adam, bound)  # type: ignore[no-untyped-call]
    losses: list[float] = [svi.step(x, r, y) for _ in range(3)]  # type: ignore[no-untyped-call]
    result = fit(model, x, r, y, epochs=1, progress=False)
    assert_type(result, FitResult)
    assert_type(model.predict(x, r), Tensor)
    assert_type(model.surface(x, r[:4]), Tensor)
    draws = model.cost_posterior(x[:4], r[:4], y[:4], num_samples=10)
    costs: Tensor = draws["c"]
    print(losses[-1], costs.shape, result.history["loss"].iloc[-1])


if __name__ == "__main__":
    main()

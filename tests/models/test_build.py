"""Parts are named, passed as modules, or refused with the names that there are."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest
import torch
import zoo
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.nets import Conditional, PositiveLinear, PosteriorGuide
from pyro_gcm.responses import Binary


class Decoder(nn.Module):
    """context -> Laplace columns around a linear map."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_dim, out_dim)

    def forward(self, context: Tensor) -> Any:
        return dist.Laplace(self.linear(context), 0.7).to_event(1)


LOGITS = nn.Sequential(nn.Linear(3, 1), nn.Flatten(-2))
#: An option, its module, the name of the attribute, and other options.
PARTS: dict[str, tuple[type, str, Any, str, dict[str, Any]]] = {
    "prior": (GCM, "prior", Conditional(dist.Normal, 3, (4,)), "z_prior", {}),
    "guide": (GCM, "guide", PosteriorGuide(Conditional(dist.Normal, 6, (4,))), "z_guide", {}),
    "response": (GCM, "response", Binary(), "response", {}),
    "map": (GCM, "revenue_map", PositiveLinear(2, (2,)), "revenue_map", {}),
    "costs": (GCM, "cost_family", Conditional(dist.Logistic, 4, (2,), ()), "cost_net", {}),
    "logits": (GCM, "p0", LOGITS, "infinite_net", {}),
    "noise": (IGCM, "dr_net", Conditional(dist.Normal, 3, (2,), ()), "dr_net", {}),
    "decoder of x": (GCM, "x_decoder", Decoder(4, 3), "x_decoder", {"prior": "standard"}),
    "decoder of r": (GCM, "r_decoder", Decoder(2 + 3, 2), "r_decoder", {"prior": "standard"}),
    "kernel map": (IGCM, "kernel_map", PositiveLinear(2, (3,)), "kernel_map", {"costs": 3}),
}


@pytest.mark.parametrize("case", PARTS)
def test_modules_are_used_as_they_are_and_trained(case: str) -> None:
    kind, option, part, attribute, others = PARTS[case]
    before = [value.clone() for value in part.parameters()]
    model, joint = kind(3, 2, **{option: part}, **others), "prior" in others
    assert getattr(model, attribute) is part
    assert model.reads_x != joint
    x, r, y = zoo.rows().map(torch.Tensor.float)
    objective = "joint" if joint else None
    fit(model, x, r, y, objective=objective, epochs=1, num_particles=4, progress=False)
    for first, value in zip(before, part.parameters(), strict=True):
        assert not torch.equal(first, value)
    p = model.predict(x, r)
    assert ((p > 0) & (p < 1)).all()


def test_dropout_is_for_training_alone() -> None:
    prior = nn.Sequential(nn.Dropout(0.5), Conditional(dist.Normal, 3, (4,)))
    model = GCM(3, 2, prior=prior)
    x, r, y = torch.randn(80, 3), torch.rand(80, 2), (torch.arange(80) % 2).float()
    fit(model, x, r, y, epochs=1, progress=False)
    assert prior[0].training
    first = model.predict(x, r)
    assert torch.equal(model.predict(x, r), first)
    assert (model.predict(x, r + 0.1) >= first).all()
    assert prior[0].training
    model.eval()
    model.predict(x, r)
    assert not prior[0].training

"""Tempering scales the log-densities of some sites, and cures the paper's literal loss."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.inference import ImportanceWeightedELBO, temper


def program() -> Tensor:
    z = pyro.sample("z", dist.Normal(0.0, 1.0))
    w = pyro.sample("w", dist.Normal(z, 2.0))
    return pyro.sample("y", dist.Normal(w, 1.0), obs=torch.tensor(0.3))


def densities(run: object) -> dict[str, Tensor]:
    values = {"z": torch.tensor(0.4), "w": torch.tensor(-1.0)}
    trace = poutine.trace(poutine.condition(run, values)).get_trace()
    trace.compute_log_prob()
    return {name: trace.nodes[name]["log_prob"] for name in ("z", "w", "y")}


def test_named_sites_are_scaled_and_others_are_not() -> None:
    for sites in (("z",), ("w",), ("z", "w")):
        tempered = densities(poutine.scale(temper(program, 0.1, sites=sites), scale=0.5))
        for name, log_p in densities(program).items():
            scale = 0.5 * (0.1 if name in sites else 1.0)
            torch.testing.assert_close(tempered[name], scale * log_p)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_factor_that_is_not_positive_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="Expected scale > 0"):
        temper(program, scale)


# The literal loss cannot learn from x (a toy), and the default prior can


class Tempered(ImportanceWeightedELBO):
    """A bound whose prior weighs a tenth of the likelihood."""

    def differentiable_loss(self, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Tensor:
        programs = temper(model, 0.1), temper(guide, 0.1)
        return super().differentiable_loss(*programs, *args, **kwargs)


@pytest.mark.parametrize("cure", [None, "conditional prior", "temperature"])
def test_the_literal_loss_of_the_paper_learns_nothing_from_x(cure: str | None) -> None:
    """y follows x, and r hardly matters."""
    g, parts = torch.Generator().manual_seed(0), []
    for n in (400, 2000):
        x, r = torch.randn(n, 2, generator=g), torch.rand(n, 1, generator=g)
        margin = 3.0 * x[:, 0] + 0.8 * (2.0 * r[:, 0] - 1.0) + 0.3 * torch.randn(n, generator=g)
        parts.append(zoo.Rows(x, r, (margin > 0).float()))
    prior = "conditional" if cure == "conditional prior" else "standard"
    model, (train, test) = GCM(2, 1, prior=prior, num_samples=64), parts
    options: Any = {"epochs": 30, "batch_size": 100, "num_particles": 8, "learning_rate": 0.03}
    bound = Tempered(8, max_plate_nesting=1) if cure == "temperature" else None
    told = pytest.warns(UserWarning, match="literal loss: its optimum ignores x")
    with nullcontext() if prior == "conditional" else told as caught:  # others are errors
        fit(model, *train, **options, elbo=bound, progress=False)
    accuracy = ((model.predict(test.x, test.r) > 0.5).float() == test.y).float().mean()
    if cure:
        assert accuracy > 0.92
    else:
        by_r_alone = ((test.r[:, 0] > 0.5).float() == test.y).float().mean()
        assert accuracy < by_r_alone + 0.04 < 0.61
        assert len(caught) == 1

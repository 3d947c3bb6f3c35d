"""Outcomes of several responses of which some were not seen: they are summed out."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, MemberGCM, fit, to_arviz
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.responses import Binary, Continuous, Ordinal, Several, Survival
from pyro_gcm.testing.programs import in_doubles, losses

DIRECTIONS = {"granted": [1, 0], "late": [0, -1], "grade": [1, 1]}


def model_of(prior: str) -> Any:
    kind, options = {
        "members": (MemberGCM, {"members": 3}),
        "sampled": (GCM, {"z_dim": 2}),
        "alternatives": (GCM, {"prior": "categorical", "alternatives": 2, "costs": 2}),
    }[prior]
    torch.default_generator.manual_seed(0)
    parts = {"granted": Binary(), "late": Binary(), "grade": Ordinal(levels=3)}
    model = kind(2, 2, response=Several(parts, DIRECTIONS), hidden=4, **options).double()
    model.learn_units(*rows(200))
    return model


def rows(count: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Rows of which each pattern of what was seen is there."""
    g = torch.Generator().manual_seed(1)
    x, r = torch.randn(2, count, 2, generator=g).double()
    y = (torch.rand(3, count, generator=g) < 0.5).double()
    y[2] += (torch.rand(count, generator=g) < 0.3).double()
    for place in range(3):
        y[place, (torch.arange(count) >> place) % 2 == 1] = torch.nan
    return x, r, dict(zip(DIRECTIONS, y, strict=True))


@pytest.mark.parametrize("prior", ["members", "alternatives"])
def test_what_was_not_seen_is_summed_out(prior: str) -> None:
    model, (x, r, y) = model_of(prior), rows(64)
    found = model.log_prob(x, r, y)
    values = {"granted": (0.0, 1.0), "late": (0.0, 1.0), "grade": (0.0, 1.0, 2.0)}
    every = []
    for whole in product(*values.values()):
        filled = {}
        for (name, own), value in zip(y.items(), whole, strict=True):
            filled[name] = torch.where(own.isnan(), value, own)
        # A row counts once for each value of what it has not seen, and not for what it has.
        weight = sum(
            (~own.isnan()).double() * math.log(1.0 / len(values[name])) for name, own in y.items()
        )
        every.append(model.log_prob(x, r, filled) + weight)
    assert (found - torch.stack(every).logsumexp(0)).abs().max() < 1e-9


def test_members_are_weighed_by_what_was_seen() -> None:
    model, (x, r, y) = model_of("members"), rows(64)
    log_p = torch.zeros(3, 64).double()
    for name, own in y.items():
        part = model.response_model(name)
        if name == "grade":
            each = torch.eye(3).double()[:, None].expand(-1, 64, -1)
            level = torch.where(own.isnan(), 0.0, own)
            one = {n: level if n == name else torch.full_like(own, torch.nan) for n in y}
            own_log_p = model.log_likelihood(x, r, one, sites={"z": each})
        else:
            p = part.predict_draws(x, r)
            own_log_p = torch.where(own > 0.5, p, 1.0 - p).log()
        log_p = log_p + torch.where(own.isnan(), 0.0, own_log_p)
    wanted = log_p.softmax(0).T
    assert (model.responsibilities(x, r, y) - wanted).abs().max() < 1e-9
    nothing = y["granted"].isnan() & y["late"].isnan() & y["grade"].isnan()
    assert nothing.any()
    assert model.log_prob(x, r, y)[nothing].abs().max() < 1e-12


@pytest.mark.parametrize("prior", ["members", "sampled", "alternatives"])
def test_costs_agree_with_what_was_seen_and_are_free_elsewhere(prior: str) -> None:
    model, (x, r, y) = model_of(prior), rows(32)
    draws = model.posterior(x, r, y, num_samples=400, num_proposals=400, progress=False)
    new = model.response.drawn_columns(draws["y"])
    assert draws["c"].isfinite().all()
    for value in new.values():
        assert value.isfinite().all()
    cost = draws["c"].split(model.response.costs, -1)[0]
    mapped = model.mapped(r) if prior != "members" else None
    if mapped is not None:
        h = mapped.split(model.response.costs, -1)[0]
        happens = (cost < h).all(-1)
        happens = happens.any(-1) if prior == "alternatives" else happens
        seen = ~y["granted"].isnan()
        assert (happens.double() == y["granted"])[:, seen].all()
        assert happens.double()[:, ~seen].std(0).max() > 0.0


@pytest.mark.parametrize("prior", ["members", "sampled"])
@in_doubles()
def test_the_loss_is_that_of_pyro_and_a_fit_is_finite(prior: str) -> None:
    model, (x, r, y) = model_of(prior), rows(48)
    pair = model.training_pair(model.default_objective)
    bound = "enum" if pair.enumerated else "iwae"
    both = losses(model, pair, bound, (x, r, model.response.outcome(y)))
    torch.testing.assert_close(*both, rtol=1e-9, atol=0.0)
    fit(model, x, r, y, epochs=2, batch_size=16, progress=False)
    assert all(p.isfinite().all() for p in model.parameters())
    assert model.log_prob(x, r, y).isfinite().all()


def test_times_and_numbers_may_be_missing_too() -> None:
    parts = {"months": Survival(knots=2), "loss": Continuous(2, 4)}
    model = GCM(2, 2, response=Several(parts), hidden=4, z_dim=2)
    x, r, _ = rows(60)
    times = SurvivalTimes.right_censored(torch.rand(60) + 0.1, torch.rand(60) < 0.5).columns()
    loss = 1e6 + 1e5 * torch.randn(60).double()
    times[::3], loss[1::3] = torch.nan, torch.nan
    y = {"months": times, "loss": loss}
    fit(model, x, r, y, epochs=3, progress=False)
    assert model.log_prob(x, r, y).isfinite().all()
    # The unit of a number is that of those that were seen.
    assert model.response.parts[1].standardizer.loc.item() == pytest.approx(1e6, rel=0.1)
    draws = model.posterior(x[:4], r[:4], {k: v[:4] for k, v in y.items()}, num_samples=50)
    assert draws["months.t"].shape == (50, 4)
    assert to_arviz(model, x[:4], r[:4], {k: v[:4] for k, v in y.items()}, num_samples=20)


def test_what_was_never_seen_is_refused_by_name() -> None:
    model, (x, r, y) = model_of("sampled"), rows(16)
    with pytest.raises(ValueError, match=r"y\['late'\] must have a value"):
        fit(model, x, r, {**y, "late": torch.full((16,), torch.nan)}, progress=False)
    with pytest.raises(ValueError, match="y must be 0 or 1"):
        fit(model, x, r, {**y, "late": torch.where(y["late"].isnan(), torch.nan, 2.0)})
    with pytest.raises(ValueError, match=r"NaN|finite"):
        fit(GCM(2, 2), x, r, y["late"], progress=False)

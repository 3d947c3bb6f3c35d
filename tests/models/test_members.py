"""A z that is one of K networks: what is summed, and which member explains a row."""

from __future__ import annotations

from typing import Any

import torch
import zoo
from torch import Tensor

from pyro_gcm import fit, fit_members
from pyro_gcm.models import MemberGCM
from pyro_gcm.models.members import MemberSettings
from pyro_gcm.nets import MemberEncoder, TabularFeatures


def test_responsibilities_are_bayes_rule_and_costs_agree_with_the_outcome() -> None:
    model, (x, r, y) = zoo.trained("members"), zoo.rows(count=90)
    every = torch.eye(3, dtype=torch.float64)[:, None].expand(-1, 90, -1)
    likelihood = model.log_likelihood(x, r, y, sites={"z": every}).exp()
    wanted = (likelihood / likelihood.sum(0)).T
    torch.testing.assert_close(model.responsibilities(x, r, y), wanted, atol=1e-9, rtol=0.0)
    draws = model.posterior(x, r, y, num_samples=1000, progress=False)
    assert (draws["z"].sum(-1) == 1.0).all()
    assert (draws["z"].mean(0) - wanted).abs().max() < 0.08
    torch.testing.assert_close(draws.log_evidence, likelihood.mean(0).log(), atol=1e-9, rtol=0.0)
    assert (draws.log_evidence_error == 0.0).all()
    assert (draws.ess == 1000).all()
    draws = model.cost_posterior(x, r, y, num_samples=50, progress=False)
    assert draws["c"].shape == (50, 90, 3, 3)
    mapped = model.mapped(r, model.covariates(draws["z"], x))
    happened = (draws["c"] < mapped).all(-1).any(-1)
    assert (happened == (y > 0.5)).all()


def test_parts_of_the_user_take_the_place_of_ours() -> None:
    features = TabularFeatures(3, bins=4, steps=0.0)
    encoder = MemberEncoder(3, 2, (16, 8, 4), features=features, dropout=0.1, scaling="output")
    shape = {"alternatives": 1, "costs": 2, "revenue_map": "positive_linear"}
    model = MemberGCM(
        3, 2, members=encoder, **shape, cost_family="normal", p0="conditional"
    ).double()
    x, r, y = zoo.rows(count=90)
    x[:, 1], x[:, 2] = 7.0, (x[:, 2] > 42.0).double()  # one value, and two
    fit(model, x, r, y, epochs=3, progress=False)
    assert model.z_dim == 2
    assert model.cost(x).mean.shape == (90, 2)
    curves = model.surface(x, r.sort(0).values)
    assert (curves.diff(dim=1) >= 0.0).all()


def test_an_encoder_of_a_users_own_reads_x_in_standardised_units() -> None:
    seen = []

    class Own(MemberEncoder):
        def forward(self, z: Tensor, x: Tensor) -> Tensor:
            seen.append(x.abs().max())
            return super().forward(z, x)

    x, r, y = zoo.rows(count=90)
    model = MemberGCM(3, 2, members=Own(3, 2, 8)).double()
    fit(model, x + 1000.0, r, y, epochs=1, batch_size=32, progress=False)
    assert max(seen) < 10.0


def test_ramps_and_width_shrink_where_columns_are_many_and_rows_are_few() -> None:
    # Rows, covariates, revenues, numeric covariates -> ramps and width.
    tables = {
        (1_000, 399, 1, 399): (0, 32),
        (1_000, 399, 1, 0): (0, 32),
        (2_930, 260, 4, 26): (4, 64),
        (3_000, 98, 2, 98): (4, 64),
        (4_000, 98, 2, 98): (16, 64),
        (1_000, 268, 8, 49): (4, 32),
        # Tables of the studies, and narrow ones of few rows, as they always were.
        (43_451, 268, 8, 60): (16, 128),
        (39_073, 33, 4, 0): (16, 32),
        (251, 4, 3, 3): (16, 32),
        (8_000, 40, 5, 30): (16, 32),
        (300, 50, 2, 50): (16, 32),
    }
    for table, wanted in tables.items():
        settings = MemberSettings.for_table(*table)
        assert (settings.bins, settings.width) == wanted, table
    assert MemberSettings.for_response("survival", 1_000, 98, 2, 98).bins == 0
    # Binary tables of many rows, and of many more.
    many = {
        (39_073, 32): (512, 4, 0.0),
        (60_000, 100): (512, 4, 0.065),
        (90_000, 32): (2048, 6, 0.0),
    }
    for (count, x_dim), wanted in many.items():
        settings = MemberSettings.for_response("binary", count, x_dim, 4)
        assert (settings.batch_size, settings.epochs, settings.dropout) == wanted
    x, r, y = torch.zeros(120, 70), torch.rand(120, 1), torch.arange(120) % 2.0
    for numeric, bins in ((5, 4), (7, 0)):
        x[:, :numeric] = torch.rand(120, numeric)
        fitted = fit_members(x, r, y, early_stopping=False, progress=False)
        assert fitted.settings.bins == bins, numeric
    # Columns that are numeric in a row of weight 0 alone are not.
    x[:, 5:], weight = 0.0, torch.ones(120)
    x[:2, 5:], weight[0] = torch.tensor([[0.5], [1.0]]), 0.0
    fitted = fit_members(x, r, y, sample_weight=weight, early_stopping=False, progress=False)
    assert fitted.settings.bins == 4


def test_weight_matrices_alone_decay_and_maps_have_a_rate_of_their_own() -> None:
    model, settings = MemberGCM(3, 2, members=2, hidden=4), MemberSettings()
    make: Any = settings.training(model).optimizer
    groups = make(model.parameters(), 0.5).param_groups
    found = {id(p): (g["weight_decay"], g["lr"]) for g in groups for p in g["params"]}
    for name, parameter in model.named_parameters():
        is_matrix = name.endswith("weight") and name.startswith(("encoder.", "cost_net."))
        rate = 0.5 * settings.map_rate if name.startswith("revenue_map.") else 0.5
        assert found[id(parameter)] == (settings.weight_decay if is_matrix else 0.0, rate), name

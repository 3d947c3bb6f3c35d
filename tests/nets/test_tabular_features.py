"""Features of a table: scaled, clipped, encoded, and of shapes that the data do not change."""

from __future__ import annotations

import pytest
import rtdl_num_embeddings
import torch
from torch import Tensor

from pyro_gcm import fit
from pyro_gcm.models import MemberGCM
from pyro_gcm.nets import Standardizer, TabularFeatures


def table(n: int = 400) -> Tensor:
    """A numeric column with a long tail, a rare level, a constant, and three ordered levels."""
    g = torch.Generator().manual_seed(0)
    numeric = torch.randn(n, generator=g).exp()
    rare = 7.0 * (torch.arange(n) % 100 == 0)
    level = torch.randint(3, (n,), generator=g)
    one_hot = torch.nn.functional.one_hot(level, 3)
    columns = [numeric, rare, torch.full((n,), 4.0), *one_hot.unbind(1)]
    return torch.stack([column.double() for column in columns], 1)


def learned(x: Tensor, **options: object) -> tuple[TabularFeatures, Tensor]:
    units = Standardizer(x.shape[1]).double()
    units.learn(x)
    features = TabularFeatures(x.shape[1], **options).double()  # type: ignore[arg-type]
    features.learn(x, units)
    return features, features(units(x))


def test_levels_are_standardised_with_a_smallest_spread() -> None:
    x = table()
    _, found = learned(x, bins=0, steps=0.0)
    assert found.shape == (400, 5)  # the constant is left out
    rare = (x[:, 1] > 0).double()
    torch.testing.assert_close(found[:, 1], (rare - rare.mean()) / 0.2)
    level = x[:, 3]
    torch.testing.assert_close(found[:, 2], (level - level.mean()) / level.std(correction=0))


def test_numeric_column_is_scaled_by_its_quartiles_and_clipped() -> None:
    x = table()
    _, found = learned(x, bins=0, steps=0.0)
    low, middle, high = x[:, 0].sort().values[[100, 200, 299]]
    z = (x[:, 0] - middle) * 1.35 / (high - low)
    torch.testing.assert_close(found[:, 0], z / (1.0 + (z / 3.0) ** 2).sqrt(), atol=1e-12, rtol=0.0)
    assert found[:, 0].abs().max() < 3.0


def test_ramps_are_the_piecewise_linear_encoding_and_steps_its_ends() -> None:
    x = table()
    features, found = learned(x, bins=8, steps=0.5)
    standard = (x[:, :1] - x[:, 0].mean()) / x[:, 0].std(correction=0)
    reference = rtdl_num_embeddings.PiecewiseLinearEncoding([features.knots[0]])
    ramp = reference(standard).clamp(0.0, 1.0)
    spread = ramp.std(0, correction=0).clamp(min=0.2)
    wanted = (ramp - ramp.mean(0)) / spread
    # The reference has weights of float32, and narrow bins, in which values change by tens.
    torch.testing.assert_close(found[:, 5:13], wanted, atol=1e-5, rtol=0.0)
    step = (ramp >= 0.999).double()
    spread = step.std(0, correction=0).clamp(min=0.2)
    torch.testing.assert_close(found[:, 13:], 0.5 * (step - step.mean(0)) / spread)


def test_ordered_levels_have_cumulative_columns() -> None:
    x = table()
    _, found = learned(x, bins=0, steps=0.0, ordered=[[3, 4, 5]])
    at_least = torch.stack([x[:, 4:].sum(1), x[:, 5]], 1)
    spread = at_least.std(0, correction=0)
    torch.testing.assert_close(found[:, 5:], (at_least - at_least.mean(0)) / spread)


def test_state_has_the_same_shapes_for_any_data_and_keeps_the_features() -> None:
    x = table()
    features, found = learned(x, bins=8, ordered=[[3, 4, 5]])
    fresh = TabularFeatures(6, 8, ordered=[[3, 4, 5]]).double()
    fresh.load_state_dict(features.state_dict())
    units = Standardizer(6).double()
    units.learn(x)
    torch.testing.assert_close(fresh(units(x)), found, rtol=0.0, atol=0.0)
    assert torch.equal(fresh.active, features.active)


def test_a_second_fit_on_other_rows_starts_from_the_same_weights() -> None:
    x = table().float()
    r, y = torch.rand(400, 1), (torch.rand(400) > 0.5).float()
    model = MemberGCM(6, 1, members=2, hidden=8)
    fit(model, x, r, y, epochs=1, progress=False)
    before = model.encoder.first.weight.clone()
    model.learn_units(x, r, y)
    torch.testing.assert_close(model.encoder.first.weight, before)


def test_a_column_is_in_one_group_of_ordered_levels() -> None:
    for ordered in ([[0, 1], [1, 2]], [[0, 3]], [[-1, 0]]):
        with pytest.raises(ValueError, match="ordered must have columns below 3 once"):
            TabularFeatures(3, ordered=ordered)

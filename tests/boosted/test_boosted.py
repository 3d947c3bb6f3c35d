"""A model of the columns with a score, called with x and r alone."""

import pytest
import torch
from boosters import boosted, rows

from pyro_gcm import GCM, IGCM, baselines, fit
from pyro_gcm.audit.adapters import adapter_of
from pyro_gcm.boosted import Boosted, BoostedScore


@pytest.fixture(scope="module")
def of_role():
    made = {role: boosted(role) for role in ("revenue", "covariate")}
    made["continuous"] = boosted("revenue", "continuous", alternatives=2)
    return made


ROLES = ["revenue", "covariate"]


@pytest.mark.parametrize("role", ROLES)
def test_every_method_adds_the_score_and_calls_the_model(role, of_role):
    model = of_role[role]
    x, r, y = rows(20, seed=1)
    assert adapter_of(model) == "predict(x, r)"
    wide = model.score.columns(x, r)
    assert sorted(part.shape[1] for part in wide) == ([3, 3] if role == "revenue" else [2, 4])
    assert torch.equal(model.predict(x, r), model.model.predict(*wide))
    more = model.predict(x, r, num_samples=64)
    assert torch.equal(more, model.model.predict(*wide, num_samples=64))
    assert torch.equal(model.log_prob(x, r, y), model.model.log_prob(*wide, y))
    for name in ("posterior", "cost_posterior"):
        found = getattr(model, name)(x, r, y, num_samples=3, seed=1)["c"]
        assert torch.equal(found, getattr(model.model, name)(*wide, y, num_samples=3, seed=1)["c"])
    cost = model.model.cost(wide[0])
    assert torch.equal(model.cost(x).mean, cost.mean)


def test_a_continuous_model_has_a_distribution(of_role):
    model = of_role["continuous"]
    x, r, y = rows(20, seed=1, response="continuous")
    wide = model.score.columns(x, r)
    assert torch.equal(model.predictive(x, r).cdf(y), model.model.predictive(*wide).cdf(y))
    assert torch.corrcoef(torch.stack([model.predict(x, r).double(), y]))[0, 1] > 0.7


@pytest.mark.parametrize("role", ROLES)
def test_a_surface_has_the_predictions_of_its_pairs(role, of_role):
    model = of_role[role]
    x, revenues = rows(7, seed=2)[0], rows(5, seed=3)[1]
    pairs = model.predict(x.repeat_interleave(5, 0), revenues.repeat(7, 1)).reshape(7, 5)
    assert torch.equal(model.surface(x, revenues), pairs)
    reached = model.surface(x, revenues, reduce=lambda p: (p >= 0.5).sum(1))
    assert torch.equal(reached, (pairs >= 0.5).sum(1))
    draws = model.surface_draws(x, revenues)
    assert draws.values.shape == (16, 7, 5)
    assert draws.weights is None
    torch.testing.assert_close(draws.values.mean(0), pairs)


def test_draws_of_a_surface_keep_their_weights():
    model = boosted("revenue", prior="categorical", epochs=1)
    x, revenues = rows(3, seed=2)[0], rows(5, seed=3)[1]
    draws = model.surface_draws(x, revenues)
    assert draws.weights.shape == draws.values.shape == (4, 3, 5)
    mean = (draws.values * draws.weights).sum(0)
    torch.testing.assert_close(mean, model.surface(x, revenues))


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("response", ["binary", "continuous"])
def test_no_prediction_falls_when_revenues_rise(response, dtype, role):
    model = boosted(role, response, dtype=dtype)
    count = 6000
    x, low, _ = rows(count, seed=4, dtype=dtype)
    g = torch.Generator().manual_seed(5)
    step = torch.rand(count, 2, generator=g, dtype=dtype).square()
    step *= (torch.rand(count, 2, generator=g) < 0.6) * 10.0 ** -torch.randint(5, (count, 1))
    high = torch.maximum(low, (low + step).to(dtype))
    at_low = model.predict(x, low)
    # In other batches and another order.
    parts = zip(x.flip(0).split(997), high.flip(0).split(997), strict=True)
    at_high = torch.cat([model.predict(*part) for part in parts]).flip(0)
    assert at_low.dtype == dtype
    assert (at_high >= at_low).all()
    assert (at_high > at_low).double().mean() > 0.6
    alone = torch.cat([model.predict(x[i : i + 1], low[i : i + 1]) for i in range(20)])
    assert torch.equal(alone, at_low[:20])
    levels = low[:40].sort(0).values
    assert (model.surface(x[:6], levels).diff(dim=1) >= 0.0).all()


def test_the_required_revenue_of_a_score_of_x_is_that_of_the_model(of_role):
    model = of_role["covariate"]
    x, r, _ = rows(30, seed=6)
    columns, others = model.score.columns(x, r)[0], r[0].index_fill(0, torch.tensor(0), torch.nan)
    found = model.required_revenue(x, 0.6, r=others)
    assert torch.equal(found, model.model.required_revenue(columns, 0.6, r=others))


def test_the_required_revenue_is_the_smallest_that_reaches_the_level(of_role):
    model = of_role["revenue"]
    x, r, _ = rows(30, seed=6)
    others = r.index_fill(1, torch.tensor(1), torch.nan)
    found = model.required_revenue(x, 0.6, revenue=1, r=others)
    inside = found.isfinite()
    assert inside.sum() > 10

    def at(value):
        revenues = torch.stack([r[:, 0], value.double()], 1)
        return model.predict(x[inside], revenues[inside])

    assert (at(found) >= 0.6).all()
    assert (at(torch.nextafter(found, torch.full_like(found, -torch.inf))) < 0.6).all()
    # The training mean is the default of the other revenues.
    default = model.required_revenue(x, 0.6, revenue=1)
    mean = model.model.r_standardizer.loc[0].double().item()
    given = model.required_revenue(x, 0.6, revenue=1, r=torch.tensor([mean, torch.nan]))
    assert torch.equal(default, given)


def test_baselines_and_igcm_take_the_columns():
    x, r, y = rows(200)
    score = BoostedScore("revenue", "sklearn", max_iter=5)
    columns = score.columns(x, r, score.fit(x, r, y))
    network = baselines.SMM(3, 3)
    baselines.fit(network, *columns, y, epochs=2, progress=False)
    model = Boosted(network, score)
    assert (model.predict(x, r + 0.5) >= model.predict(x, r)).all()
    torch.testing.assert_close(model.surface(x[:4], r[:6])[2, 3], model.predict(x[2:3], r[3:4])[0])
    implicit = IGCM(3, 3, hidden=8)
    fit(implicit, *columns, y, epochs=1, progress=False)
    assert Boosted(implicit, score).predict(x, r).shape == (200,)


def test_parts_and_arguments_are_checked(of_role):
    model = of_role["revenue"]
    x, r, _ = rows(5)
    unfit, others = BoostedScore("revenue", "sklearn"), torch.tensor([[torch.nan, 0.0]] * 4)
    with pytest.raises(TypeError, match="score must be a BoostedScore, got Boosted"):
        Boosted(model.model, model)
    with pytest.raises(RuntimeError, match="call fit first"):
        Boosted(model.model, unfit)
    for call, message in (
        (lambda: Boosted(GCM(3, 2), model.score), r"must have r_dim=3 .* a revenue, got r_dim=2"),
        (lambda: Boosted(GCM(3, 2), of_role["covariate"].score), r"must have x_dim=4 .* covariate"),
        (lambda: model.required_revenue(x, 1.0), r"level must be a probability in \(0, 1\)"),
        (lambda: model.required_revenue(x, revenue=2), r"revenue index out of range.* got 2"),
        (lambda: model.required_revenue(x, revenue=1, r=r), "r must have NaN in column 1"),
        (lambda: model.required_revenue(x, r=others), "row counts differ"),
    ):
        with pytest.raises(ValueError, match=message):
            call()

"""Times, levels and whole distributions as responses: maps, training, order and densities."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import zoo
from torch import Tensor
from torch.distributions.transforms import SoftplusTransform

from pyro_gcm import GCM, fit, to_arviz
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.models import MemberGCM
from pyro_gcm.responses import Ordinal, Survival, WholeDistribution

cases = pytest.mark.parametrize("case", zoo.AXIS_KINDS)
FALLS = {"survival": -1.0, "ordinal": 1.0, "distribution": 1.0}


@pytest.mark.long(keep=2)
@cases
def test_quantiles_do_not_cross_and_are_ordered_in_r(case: str) -> None:
    model, (x, r, _) = zoo.with_units(case), zoo.rows_of(case, 40, seed=3)
    levels = torch.linspace(0.02, 0.98, 25)
    low, high = (model.predictive(x, v).quantile(levels) for v in (r, r + 0.03))
    assert (low.diff(dim=1).nan_to_num() >= 0.0).all()  # inf - inf is NaN
    assert ((high - low).nan_to_num() * FALLS[zoo.KINDS[case].response] >= 0.0).all()
    assert (model.predict(x, r + 0.03) >= model.predict(x, r)).all()


@pytest.mark.long(keep=3)
@cases
def test_quantiles_invert_the_distribution_function(case: str) -> None:
    model, (x, r, _) = zoo.with_units(case), zoo.rows_of(case, 12, seed=3)
    for level in (1e-6, 0.3, 0.999):
        at = model.predictive(x, r).quantile([level])[:, 0]
        reached = at.isfinite()
        cdf = cdf_of(model, x, r, at.nan_to_num(posinf=1.0))[reached]
        if zoo.KINDS[case].response == "ordinal":
            assert (cdf >= level).all()
            below = cdf_of(model, x, r, (at - 1.0).clamp(min=0.0))
            assert ((below < level) | (at == 0.0)).all()
        else:
            torch.testing.assert_close(cdf, torch.full_like(cdf, level), rtol=1e-7, atol=1e-12)
    p_y = model.predictive(x, r)
    assert torch.equal(p_y.interval(0.5), p_y.quantile([0.25, 0.75]))
    assert torch.equal(p_y.median(), p_y.quantile([0.5])[:, 0])


def cdf_of(model: GCM, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
    if not isinstance(model.response, Survival):
        return model.predictive(x, r).cdf(y)
    return 1.0 - model.predictive(x, r).survival(y).diagonal()


@pytest.mark.long(keep=3)
@cases
def test_log_prob_is_the_difference_of_the_distribution_function(case: str) -> None:
    model, (x, r, y) = zoo.with_units(case), zoo.rows_of(case, 32, seed=6)
    log_p = model.log_prob(x, r, y)
    if zoo.KINDS[case].response == "ordinal":
        of_levels = model.predictive(x, r).probabilities()
        torch.testing.assert_close(of_levels.sum(1), torch.ones(32).double())
        found = of_levels.gather(1, y.long()[:, None])[:, 0]
        torch.testing.assert_close(log_p.exp(), found)
        return
    if zoo.KINDS[case].response == "distribution":
        step, cdf = 1e-3, model.predictive(x, r).cdf
        slope = (cdf(y + step) - cdf(y - step)) / (2.0 * step)
        torch.testing.assert_close(log_p.exp(), slope, rtol=1e-5, atol=1e-7)
        return
    lower, upper, _ = y.columns().T
    exact, end = y.is_exact, upper.clamp(max=1e9)
    survived = [model.predictive(x, r).survival(t).diagonal() for t in (lower, end)]
    between = survived[0] - torch.where(upper.isinf(), 0.0, survived[1])
    close: Any = {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(log_p.exp()[~exact], between[~exact], **close)
    x, r, lower = x[exact], r[exact], lower[exact]
    density = model.predictive(x, r).hazard(lower).diagonal() * survived[0][exact]
    torch.testing.assert_close(log_p.exp()[exact], density, **close)


@pytest.mark.long(keep=2)
@cases
def test_crps_is_that_of_draws(case: str) -> None:
    model, (x, r, y) = zoo.with_units(case), zoo.rows_of(case, 4, seed=7)
    p_y = model.predictive(x, r)
    if isinstance(model.response, Survival):  # what is known of y is no number
        assert not {"crps", "cdf"} & set(dir(p_y))
        return
    if not model.members:  # beside draws, 16 values of z would be too few
        p_y = model.predictive(x, r, num_samples=1024)
    draws = p_y.sample(8_000).double()
    far, apart = (draws - y).abs(), (draws[:4_000] - draws[4_000:]).abs()
    error = (far.var(0) / 8_000 + apart.var(0) / 16_000).sqrt()
    away = (p_y.crps(y) - (far.mean(0) - 0.5 * apart.mean(0))).abs()
    assert (away < 5.0 * error + 0.002 * far.mean(0)).all()


def test_restricted_mean_is_that_of_draws() -> None:
    for case in ("survival, members", "survival, cured"):
        model, (x, r, _) = zoo.with_units(case), zoo.rows_of(case, 3, seed=7)
        draws = model.predictive(x, r).sample(num_samples=4_000).double()
        for horizon in (0.5, 8.0):
            found = model.predictive(x, r).restricted_mean(horizon)
            torch.testing.assert_close(
                found, draws.clamp(max=horizon).mean(0), rtol=0.08, atol=0.02
            )


def test_levels_outside_are_refused() -> None:
    x, r, y = zoo.rows_of("ordinal", 30)
    with pytest.raises(ValueError, match="y must be a level from 0 to 2 for 3 levels"):
        fit(GCM(3, 2, response="ordinal"), x, r, y)
    for level in (-1.0, 0.5, 3.0):
        with pytest.raises(ValueError, match=rf"y must be a level from 0 to 2.* got \[{level}"):
            Ordinal(levels=3).check_outcome(torch.tensor([0.0, 2.0, level]))


def test_two_levels_are_a_binary_response() -> None:
    x, r, _ = zoo.rows_of("ordinal", 50)
    y = (torch.arange(50) % 2).double()
    two, binary = (GCM(3, 2, response=v, hidden=4, seed=1) for v in (Ordinal(levels=2), "binary"))
    torch.testing.assert_close(two.log_prob(x, r, y), binary.log_prob(x, r, y))


def test_methods_for_other_responses_are_refused() -> None:
    model, (x, r, _) = GCM(3, 2), zoo.rows_of("distribution", 5)
    p_y = model.predictive(x, r)
    torch.testing.assert_close(p_y.mean, model.predict(x, r), rtol=0.0, atol=0.0)
    for name in ("quantile", "crps", "survival", "probabilities", "restricted_mean"):
        assert not hasattr(p_y, name)
    survival = zoo.with_units("survival")
    wrong = ([-1.0], "at least 0"), ([0.0], "above 0 for a hazard"), ([[1.0], [2.0]], r"\[T\]")
    for times, error in wrong:
        with pytest.raises(ValueError, match=error):
            survival.predictive(x, r).hazard(times)
    with pytest.raises(ValueError, match="levels must lie strictly between 0 and 1"):
        survival.predictive(x, r).quantile([0.0, 0.5])


def test_arviz_has_every_site() -> None:
    for case in ("survival, members", "ordinal", "distribution"):
        model, (x, r, y) = zoo.with_units(case), zoo.rows_of(case, 6)
        data = to_arviz(model, x, r, y, num_samples=20, num_proposals=100, progress=False)
        seen = {"lower", "upper", "entry"} if zoo.KINDS[case].response == "survival" else {"y"}
        assert set(data["observed_data"].data_vars) == seen
        assert data["posterior_predictive"]["y"].shape == (1, 20, 6)
        assert ("t" in data["posterior"]) == (zoo.KINDS[case].response == "survival")


OF_VALUES = [case for case in zoo.AXIS_KINDS if zoo.KINDS[case].response != "survival"]


@pytest.mark.parametrize("case", [*OF_VALUES, "continuous"])
def test_cdf_at_several_values_is_that_at_each_and_of_rows_alone(case: str) -> None:
    model, (x, r, y) = zoo.with_units(case), zoo.rows_of(case, 40, seed=3)
    at = torch.stack([y.double(), y.double().flip(0), y.double().roll(1)], 1)
    p_y, alone = model.predictive(x, r), model.predictive(x[7:8], r[7:8])
    together = p_y.cdf(at)
    for column, values in zip(together.T, at.T, strict=True):
        assert torch.equal(p_y.cdf(values), column)
    assert torch.equal(alone.cdf(at[7:8]), together[7:8])
    assert torch.equal(alone.crps(y[7:8]), p_y.crps(y)[7:8])
    assert (model.predictive(x, r + 0.01).cdf(at) <= together).all()
    for wrong in (at[:5], at[:, :, None]):
        with pytest.raises(ValueError, match="y "):
            p_y.cdf(wrong)


MAPS = ("identity", "positive_linear", "piecewise_linear", "sigmoid", "members")


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("revenue_map", MAPS)
@pytest.mark.parametrize("kind", [Survival, WholeDistribution])
def test_distributions_are_proper_for_every_map(kind: type, revenue_map: str) -> None:
    options: Any = {"revenue_map": revenue_map, "hidden": 8}
    of: Any = GCM
    if revenue_map == "members":
        of, options = MemberGCM, {"members": 3}
    model = of(3, 2, response=kind(), **options)
    x, r, y = zoo.rows_of("survival" if kind is Survival else "distribution", 200)
    fit(model, x, r, y, epochs=3, progress=False)
    model.double()
    if kind is Survival:
        ends = model.predictive(x, r).survival([0.0, 1e-300, 1e300])
        assert ((ends - torch.tensor([1.0, 1.0, 0.0])).abs() <= 1e-12).all()
    else:
        for far, limit in ((-1e9, 0.0), (1e9, 1.0)):
            found = model.predictive(x, r).cdf(torch.full((200,), far))
            assert ((found - limit).abs() <= 1e-12).all()


def test_a_map_of_time_of_the_user_gives_the_same_density() -> None:
    x, r, y = zoo.rows_of("survival", 100)
    model = GCM(3, 2, response=Survival(time_map=SoftplusTransform().inv), hidden=4).double()
    model.learn_units(x, r, y)
    t, step = torch.tensor([0.5, 3.0, 20.0]).double(), 1e-5
    exact = SurvivalTimes(t, t)
    x, r = x[:1].expand(3, -1), r[:1].expand(3, -1)
    s = model.predictive(x[:1], r[:1]).survival(torch.cat([t - step, t + step]))[0]
    torch.testing.assert_close(
        model.log_prob(x, r, exact).exp(), (s[:3] - s[3:]) / (2.0 * step), rtol=1e-5, atol=1e-9
    )

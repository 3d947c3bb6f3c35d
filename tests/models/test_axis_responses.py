"""Times, levels and whole distributions as responses: training, order, ends, posteriors."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from axis_toys import CASES, model_of, rows
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor, nn
from torch.distributions.transforms import ExpTransform, SigmoidTransform, SoftplusTransform

from pyro_gcm import GCM, IGCM, fit, load, save, to_arviz
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.diagnostics import simulation_based_calibration
from pyro_gcm.models.axis_responses import WholeDistribution
from pyro_gcm.models.ordinal import Ordinal
from pyro_gcm.models.survival import Survival
from pyro_gcm.nets import PiecewiseLinear
from pyro_gcm.nets.axis_map import AxisMap
from pyro_gcm.plots import plot_response_curves

cases = pytest.mark.parametrize("case", CASES)
FALLS = {"survival": -1.0, "ordinal": 1.0, "distribution": 1.0}


def kind_of(case: str) -> str:
    return case.partition(",")[0]


@pytest.mark.long(keep=3)
@cases
def test_plain_steps_are_those_of_pyro(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 200)
    result = fit(model, x, r, y, epochs=2, batch_size=100, num_particles=4, progress=False)
    assert result.engine == "plain", result.engine_reason
    assert all(parameter.grad is not None for parameter in model.response.parameters())


@pytest.mark.long(keep=2)
@cases
def test_quantiles_do_not_cross_and_are_ordered_in_r(case: str) -> None:
    model, (x, r, _) = model_of(case), rows(case, 40, seed=3)
    levels = torch.linspace(0.02, 0.98, 25)
    low, high = model.quantile(x, r, levels), model.quantile(x, r + 0.03, levels)
    assert (low.diff(dim=1) >= 0.0).all()
    assert ((high - low).nan_to_num() * FALLS[kind_of(case)] >= 0.0).all()
    assert (model.predict(x, r + 0.03) >= model.predict(x, r)).all()


@pytest.mark.long(keep=3)
@cases
def test_quantiles_invert_the_distribution_function(case: str) -> None:
    model, (x, r, _) = model_of(case), rows(case, 12, seed=3)
    for level in (1e-6, 0.3, 0.999):
        at = model.quantile(x, r, [level])[:, 0]
        reached = at.isfinite()
        cdf = cdf_of(model, x, r, at.nan_to_num(posinf=1.0))[reached]
        if kind_of(case) == "ordinal":
            assert (cdf >= level).all()
            below = cdf_of(model, x, r, (at - 1.0).clamp(min=0.0))
            assert ((below < level) | (at == 0.0)).all()
        else:
            torch.testing.assert_close(cdf, torch.full_like(cdf, level), rtol=1e-7, atol=1e-12)
    both = model.interval(x, r, 0.5), model.quantile(x, r, [0.25, 0.75])
    assert torch.equal(*both)
    assert torch.equal(model.median(x, r), model.quantile(x, r, [0.5])[:, 0])


def cdf_of(model: GCM, x: Tensor, r: Tensor, y: Tensor) -> Tensor:
    if not model.response.is_censored:
        return model.cdf(x, r, y)
    return 1.0 - model.predict_survival(x, r, y).diagonal()


@pytest.mark.long(keep=2)
@cases
def test_draws_are_of_the_distribution_function(case: str) -> None:
    model, (x, r, _) = model_of(case), rows(case, 3, seed=4)
    # z is drawn here, and quasi-random in the distribution function.
    draws = model.sample(x, r, num_samples=4_000, seed=1)
    for k in range(3):
        finite = draws[:, k].clamp(max=1e290)
        row = [v[k : k + 1] for v in (x, r)]
        if model.response.is_censored:
            expected = 1.0 - model.predict_survival(*row, finite)[0]
        else:
            expected = model.cdf(*(v.expand(4_000, -1) for v in row), finite)
        if kind_of(case) == "ordinal":
            shares = torch.stack([(draws[:, k] == level).double().mean() for level in range(4)])
            assert (shares - model.class_probabilities(x, r)[k]).abs().max() < 0.03
        elif "cured" not in case:
            assert stats.kstest(expected.numpy(), "uniform").statistic < 0.035


@pytest.mark.long(keep=3)
@cases
def test_log_prob_is_the_difference_of_the_distribution_function(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 32, seed=6)
    log_p = model.log_prob(x, r, y)
    if kind_of(case) == "ordinal":
        of_levels = model.class_probabilities(x, r)
        torch.testing.assert_close(of_levels.sum(1), torch.ones(32).double())
        found = of_levels.gather(1, y.long()[:, None])[:, 0]
        torch.testing.assert_close(log_p.exp(), found)
        return
    if kind_of(case) == "distribution":
        step = 1e-3
        slope = (model.cdf(x, r, y + step) - model.cdf(x, r, y - step)) / (2.0 * step)
        torch.testing.assert_close(log_p.exp(), slope, rtol=1e-5, atol=1e-7)
        return
    lower, upper, _ = y.columns().T
    exact, end = y.is_exact, upper.clamp(max=1e9)
    survived = [model.predict_survival(x, r, t).diagonal() for t in (lower, end)]
    between = survived[0] - torch.where(upper.isinf(), 0.0, survived[1])
    close: Any = {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(log_p.exp()[~exact], between[~exact], **close)
    x, r, lower = x[exact], r[exact], lower[exact]
    density = model.hazard(x, r, lower).diagonal() * survived[0][exact]
    torch.testing.assert_close(log_p.exp()[exact], density, **close)


@pytest.mark.long(keep=2)
@cases
def test_crps_is_that_of_draws(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 4, seed=7)
    if model.response.is_censored:
        with pytest.raises(ValueError, match="crps needs y itself"):
            model.crps(x, r, y)
        return
    draws = model.sample(x, r, num_samples=8_000).double()
    brute = (draws - y).abs().mean(0) - 0.5 * (draws[:4_000] - draws[4_000:]).abs().mean(0)
    torch.testing.assert_close(model.crps(x, r, y), brute, rtol=0.08, atol=0.02)


def test_restricted_mean_is_that_of_draws() -> None:
    for case in ("survival, members", "survival, cured"):
        model, (x, r, _) = model_of(case), rows(case, 3, seed=7)
        draws = model.sample(x, r, num_samples=8_000).double()
        for horizon in (0.5, 8.0):
            found = model.restricted_mean(x, r, horizon)
            torch.testing.assert_close(
                found, draws.clamp(max=horizon).mean(0), rtol=0.08, atol=0.02
            )


class Own(nn.Module):
    """A map of an axis as users write one, with parameters."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(shape))

    def forward(self, s: Tensor) -> Tensor:
        s = s.reshape(*s.shape[:-1], *(1,) * self.raw.dim())
        return s * (0.2 + nn.functional.softplus(self.raw)) + torch.tanh(s - self.raw)


MAPS = ("identity", "positive_linear", "piecewise_linear", "sigmoid", "members")


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("revenue_map", MAPS)
@pytest.mark.parametrize("kind", [Survival, WholeDistribution])
@pytest.mark.parametrize("own", [False, True], ids=["smooth", "own"])
def test_distributions_are_proper_for_every_map(own: bool, kind: type, revenue_map: str) -> None:
    options: Any = {"revenue_map": revenue_map, "hidden": 8}
    shape: tuple[int, ...] = (2,)
    if revenue_map == "members":
        options, shape = {"prior": "members", "members": 3}, (3, 3, 3)
    model = GCM(3, 2, response=kind(axis=Own(shape) if own else None), **options)
    x, r, y = rows("survival" if kind is Survival else "distribution", 200)
    result = fit(model, x, r, y, epochs=3, progress=False)
    assert result.engine == "plain", result.engine_reason
    model.double()
    if kind is Survival:
        ends = model.predict_survival(x, r, [0.0, 1e-300, 1e300])
        assert ((ends - torch.tensor([1.0, 1.0, 0.0])).abs() <= 1e-12).all()
    else:
        for far, limit in ((-1e9, 0.0), (1e9, 1.0)):
            found = model.cdf(x, r, torch.full((200,), far))
            assert ((found - limit).abs() <= 1e-12).all()


class Flat(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, s: Tensor) -> Tensor:
        return self.function(s).expand(*s.shape[:-1], 2)


@pytest.mark.parametrize(
    ("axis", "error"),
    [
        (nn.Identity(), r"axis must give values of shape \(2,\).*F\(-inf\)"),
        (Flat(torch.sigmoid), "axis must increase everywhere|unbounded on both sides"),
        (Flat(lambda s: s.clamp(-50.0, 50.0)), "axis must increase everywhere"),
        (Flat(lambda s: -s), "axis must increase everywhere"),
        (Flat(lambda s: s / (1.0 + s.abs() / 4.0)), "axis must be unbounded on both sides"),
        (PiecewiseLinear(1, (2,), squash=True), "axis must"),
        (PiecewiseLinear(1, (2,), flat=True), "axis must increase everywhere"),
        (AxisMap((3,)), r"shape \(2,\) for a position, got \(3,\)"),
    ],
    ids=["identity", "sigmoid", "clamped", "falling", "squashed", "squash", "flat", "shape"],
)
@pytest.mark.parametrize("kind", [Survival, WholeDistribution])
def test_maps_without_a_proper_distribution_are_refused(
    kind: type, axis: nn.Module, error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        GCM(3, 2, response=kind(axis=axis))


def test_parts_that_leave_no_distribution_are_refused() -> None:
    with pytest.raises(TypeError, match="axis must be a module"):
        GCM(3, 2, response=Survival(axis="identity"))
    for response in ("survival", "distribution"):
        with pytest.raises(ValueError, match="revenue_map='probit' gives infinite values"):
            GCM(3, 2, response=response, revenue_map="probit")
    with pytest.raises(ValueError, match="p0 must be left out with response='distribution'"):
        GCM(3, 2, response="distribution", p0="constant")
    for response in ("survival", "distribution", "ordinal"):
        with pytest.raises(ValueError, match=f"'.*{response}.*' needs GCM"):
            IGCM(3, 2, response=response)


@pytest.mark.parametrize("time_map", ["identity", 3, ExpTransform(), SigmoidTransform()], ids=str)
def test_maps_of_time_that_are_not_onto_the_line_are_refused(time_map: Any) -> None:
    with pytest.raises(ValueError, match="time_map must"):
        Survival(time_map=time_map)


def test_a_map_of_time_of_the_user_gives_the_same_density() -> None:
    x, r, y = rows("survival", 100)
    model = GCM(3, 2, response=Survival(time_map=SoftplusTransform().inv), hidden=4).double()
    model.learn_units(x, r, y)
    t, step = torch.tensor([0.5, 3.0, 20.0]).double(), 1e-5
    exact = SurvivalTimes(t, t)
    x, r = x[:1].expand(3, -1), r[:1].expand(3, -1)
    s = model.predict_survival(x[:1], r[:1], torch.cat([t - step, t + step]))[0]
    torch.testing.assert_close(
        model.log_prob(x, r, exact).exp(), (s[:3] - s[3:]) / (2.0 * step), rtol=1e-5, atol=1e-9
    )


@pytest.mark.parametrize(
    ("lower", "upper", "entry", "error"),
    [
        ([-1.0], [2.0], None, "at least 0"),
        ([3.0], [2.0], None, "lower up to upper"),
        ([0.0], [0.0], None, "exact times above 0"),
        ([math.inf], [math.inf], None, "finite lower"),
        ([1.0], [2.0], [1.5], "entry up to lower"),
        ([math.nan], [2.0], None, "no NaN"),
        ([1.0, 2.0], [2.0], None, "row counts differ"),
    ],
)
def test_impossible_times_are_refused(lower: Any, upper: Any, entry: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        SurvivalTimes(lower, upper, entry)


def test_times_of_a_tensor_are_checked_and_a_row_that_says_nothing_counts_for_nothing() -> None:
    x, r, y = rows("survival", 40)
    model = model_of("survival")
    with pytest.raises(ValueError, match=r"shape \[rows, 3\]"):
        fit(model, x, r, torch.rand(40))
    nothing = SurvivalTimes(torch.zeros(40), torch.full((40,), math.inf))
    assert model.log_prob(x, r, nothing).abs().max() < 1e-12
    again = SurvivalTimes(y.lower, y.upper)[torch.arange(40)]
    assert torch.equal(model.log_prob(x, r, y.columns()), model.log_prob(x, r, again))


def test_levels_outside_are_refused() -> None:
    x, r, y = rows("ordinal", 30)
    with pytest.raises(ValueError, match="y must be a level from 0 to 2 for 3 levels"):
        fit(GCM(3, 2, response="ordinal"), x, r, y)
    with pytest.raises(ValueError, match="levels must be an integer of at least 2"):
        Ordinal(levels=1)


def test_two_levels_are_a_binary_response() -> None:
    x, r, _ = rows("ordinal", 50)
    y = (torch.arange(50) % 2).double()
    two, binary = (GCM(3, 2, response=v, hidden=4, seed=1) for v in (Ordinal(levels=2), "binary"))
    torch.testing.assert_close(two.log_prob(x, r, y), binary.log_prob(x, r, y))


def test_late_entrants_are_given_that_they_entered() -> None:
    x, r, y = rows("survival", 60)
    lower, upper, _ = y.columns().T
    late = SurvivalTimes(lower, upper, 0.5 * lower)
    for case in ("survival", "survival, members", "survival, cured"):
        model = model_of(case)
        entered = SurvivalTimes(0.5 * lower + 1e-300, torch.full((60,), math.inf).double())
        want = model.log_prob(x, r, y) - model.log_prob(x, r, entered)
        torch.testing.assert_close(model.log_prob(x, r, late), want, rtol=1e-9, atol=1e-9)
        result = fit(model, x, r, late, epochs=1, progress=False)
        assert result.engine == "plain", result.engine_reason
    with pytest.raises(ValueError, match="entries above 0"):
        fit(model_of("survival, guided"), x, r, late)


@pytest.mark.long(keep=3)
@cases
def test_posterior_draws_agree_with_what_was_seen(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 8, seed=9)
    draws = model.posterior(x, r, y, num_samples=60, num_proposals=500, progress=False)
    assert draws["c"].shape == (60, 8, *model.cost_shape)
    if kind_of(case) != "survival":
        return
    lower, upper, _ = y.columns().T
    time = draws["t"]
    close = 1.0 + 1e-9
    assert ((time * close >= lower) & (time <= upper * close)).all()
    censored = y.upper.isinf()
    assert (time[:, censored].std(0) > 0.0).all()  # the unseen times differ between draws


@pytest.mark.long(keep=1)
@cases
def test_posteriors_are_calibrated(case: str) -> None:
    model, (x, r, _) = model_of(case), rows(case, 600, seed=2)
    result = simulation_based_calibration(model, x, r, num_draws=19, seed=4, progress=False)
    assert result.p_value() > 1e-3, result


@pytest.mark.long(keep=3)
@cases
def test_models_are_the_same_after_saving(case: str, tmp_path: Path) -> None:
    model, (x, r, y) = model_of(case), rows(case, 20)
    save(model, tmp_path / "saved")
    for other in (load(tmp_path / "saved"), copy.deepcopy(model)):
        assert torch.equal(other.log_prob(x, r, y), model.log_prob(x, r, y))
        assert torch.equal(other.predict(x, r), model.predict(x, r))


@pytest.mark.parametrize("case", ["survival, members", "ordinal", "distribution"])
def test_arviz_has_every_site(case: str) -> None:
    model, (x, r, y) = model_of(case), rows(case, 6)
    data = to_arviz(model, x, r, y, num_samples=20, num_proposals=100, progress=False)
    observed = set(data["observed_data"].data_vars)
    assert observed == ({"lower", "upper", "entry"} if kind_of(case) == "survival" else {"y"})
    assert data["posterior_predictive"]["y"].shape == (1, 20, 6)
    assert ("t" in data["posterior"]) == (kind_of(case) == "survival")


def test_methods_for_other_responses_are_refused() -> None:
    model, (x, r, y) = GCM(3, 2), rows("distribution", 5)
    for call in (
        lambda: model.quantile(x, r, [0.5]),
        lambda: model.crps(x, r, y),
        lambda: model.predict_survival(x, r, [1.0]),
        lambda: model.class_probabilities(x, r),
        lambda: model.restricted_mean(x, r, 1.0),
    ):
        with pytest.raises(ValueError, match="'binary'"):
            call()
    survival = model_of("survival")
    for times, error in (([-1.0], "at least 0"), ([0.0], "above 0 for a hazard")):
        with pytest.raises(ValueError, match=error):
            survival.hazard(x, r, times)
    with pytest.raises(ValueError, match="levels must lie strictly between 0 and 1"):
        survival.quantile(x, r, [0.0, 0.5])


def test_the_mean_of_a_heavy_tailed_outcome_is_that_of_its_draws() -> None:
    g = torch.Generator().manual_seed(0)
    x, r = torch.randn(300, 2, generator=g), torch.rand(300, 1, generator=g)
    y = (2.0 * (x[:, 0] + r[:, 0] + 0.4 * torch.randn(300, generator=g))).exp().double()
    y[0] = 1e5  # one outlier
    model = GCM(2, 1, response="distribution", prior="members")
    fit(model, x, r, y, epochs=15, progress=False)
    x, r = x[1:25], r[1:25]
    levels = (torch.arange(1_000) + 0.5) / 1_000
    ends = model.response.from_standard(-model.response.ends.flip(0)).tolist()
    wanted = model.quantile(x, r, levels).double().clamp(*ends).mean(1)
    # The levels themselves leave out 1 in 2,000, which is up to 1e5 here.
    torch.testing.assert_close(model.predict(x, r).double(), wanted, rtol=0.05, atol=6.0)


def test_rows_that_were_drawn_as_cured_leave_the_units_as_they_are() -> None:
    x, r, _ = rows("survival, cured", 100)
    model = model_of("survival, cured")
    y = model.simulate(x=x, r=r, seed=1)["y"]
    assert y[:, 1].isinf().any()
    again = model_of("survival, cured")
    again.learn_units(x, r, y)
    assert 0.1 < float(again.response.standardizer.scale) < 10.0
    assert again.predict_survival(x, r, [1.0]).isfinite().all()


def test_timestamps_keep_their_digits() -> None:
    x, r, y = rows("survival", 200)
    stamps = SurvivalTimes(1.7e9 + 100.0 * y.lower, 1.7e9 + 100.0 * y.upper)
    model = GCM(3, 2, response="survival", hidden=4)
    fit(model, x.float(), r.float(), stamps, epochs=2, progress=False)
    draws = model.posterior(x[:8], r[:8], stamps[:8], num_samples=5, progress=False)
    exact = stamps.is_exact[:8]
    seen = stamps.lower[:8][exact].expand(5, -1)
    torch.testing.assert_close(draws["t"][:, exact], seen, rtol=1e-9, atol=0.0)
    assert model.median(x[:8], r[:8]).dtype == torch.float64
    nothing = torch.tensor([[0.0, math.inf, 0.0]])
    with torch.no_grad():
        zero = torch.zeros(1, 4)
        p_y = model.y_dist(model.c_dist(zero, zero[:, :3]), zero[:, :3], zero[:, :2])
        assert float(p_y.log_prob(nothing)) == pytest.approx(0.0, abs=1e-6)


def test_the_horizon_is_named_on_the_axis_of_a_plot() -> None:
    model, (x, r, y) = model_of("survival"), rows("survival", 400)
    median = torch.cat([y.lower[y.lower > 0.0], y.upper[~y.is_exact & ~y.upper.isinf()]]).median()
    assert model.response.event_named(None) == f"T <= {median.item():.4g}"
    chosen = GCM(3, 2, response=Survival(horizon=12.0))
    chosen.learn_units(x, r, y)
    ax = plot_response_curves(chosen, x[:1], ax=Figure().subplots())
    assert ax.get_ylabel() == "Pr(T <= 12 | x, r)"

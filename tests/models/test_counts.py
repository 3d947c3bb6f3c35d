"""Counts over exposures: predictions, draws and posteriors, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import zoo

from pyro_gcm import GCM, fit, load, save
from pyro_gcm.responses import Binary, Count, Several

KINDS = ("count", "count, zeros", "count, members")


def test_counts_rise_in_revenues_and_in_the_exposure_to_the_last_bit() -> None:
    """Their means and quantiles rise, and their distribution functions fall."""
    for kind in KINDS:
        for dtype in (torch.float32, torch.float64):
            model, (x, r, y) = zoo.trained(kind, dtype), zoo.rows_of(kind, 64, dtype=dtype)
            exposure, counts = y[:, 1].double(), y[:, :1].double() + torch.arange(3.0)
            low = model.predictive(x, r, exposure=exposure)
            for step in (0.0, 1e-9, 1e-3):
                up = torch.nextafter(r + step * r.std(0), torch.full_like(r, torch.inf))
                longer = torch.nextafter(exposure * (1.0 + step), torch.tensor(torch.inf).double())
                for high in (
                    model.predictive(x, up, exposure=exposure),
                    model.predictive(x, r, exposure=longer),
                ):
                    assert (high.mean >= low.mean).all(), (kind, dtype, step)
                    assert (high.cdf(counts) <= low.cdf(counts)).all(), (kind, dtype, step)
                    assert (high.quantile([0.2, 0.9]) >= low.quantile([0.2, 0.9])).all()


def test_a_predictive_distribution_is_one_of_its_draws() -> None:
    for kind in KINDS:
        model, (x, r, y) = zoo.with_units(kind), zoo.rows_of(kind, 5, seed=3)
        p_y = model.predictive(x, r, exposure=y[:, 1])
        pmf = p_y.pmf(torch.arange(400.0))
        counts = torch.arange(400.0).double().expand(5, -1)
        torch.testing.assert_close(pmf.cumsum(1), p_y.cdf(counts), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close((pmf * counts).sum(1), p_y.mean, rtol=1e-4, atol=0.0)
        assert torch.equal(p_y.log_prob(y[:, 0]), model.log_prob(x, r, y))
        levels = torch.tensor([0.05, 0.5, 0.999]).double()
        q = p_y.quantile(levels)
        assert (p_y.cdf(q) >= levels).all()
        assert (p_y.cdf(q - 1.0) < levels).all()
        assert torch.equal(p_y.interval(0.9)[:, 0], q[:, 0])
        draws = p_y.sample(20_000).double()
        error = draws.std(0) / 20_000**0.5
        assert ((draws.mean(0) - p_y.mean).abs() < 6.0 * error + 0.02 * p_y.mean).all()


def test_the_rate_given_a_count_is_the_mean_of_posterior_draws() -> None:
    for kind in KINDS:
        model, (x, r, y) = zoo.with_units(kind), zoo.rows_of(kind, 4, seed=5)
        y[:2, 0] = torch.tensor([0.0, 3.0])
        draws = model.posterior(x, r, y, num_samples=4000, progress=False)
        rate = draws["rate"].double()
        wanted = model.predictive(
            x, r, exposure=y[:, 1], num_samples=4096 if "m" not in kind else None
        )
        wanted = wanted.rate(y[:, 0])
        error = 6.0 * rate.std(0) / 1000**0.5 + 1e-9  # of proposals that are drawn repeatedly
        assert ((rate.mean(0) - wanted).abs() < error).all(), kind
        assert (rate[:, 1] > 0.0).all()


def test_exposures_are_a_column_of_y_or_an_argument(tmp_path: Path) -> None:
    x, r, y = zoo.rows("count", 60)
    one, other = (zoo.make(response="count") for _ in range(2))
    for model, call in ((one, {"y": y}), (other, {"y": y[:, 0], "exposure": y[:, 1]})):
        fit(model, x, r, **call, epochs=1, progress=False)
    assert torch.equal(one.predict(x, r), other.predict(x, r))
    assert torch.equal(2.5 * one.predict(x, r), one.predict(x, r, exposure=[2.5] * 60))
    last = one.predictive(x, r)
    torch.testing.assert_close(last.mean, one.predict(x, r))
    save(one, tmp_path / "counts")
    assert torch.equal(load(tmp_path / "counts").predictive(x, r).cdf(y[:, 0]), last.cdf(y[:, 0]))


def test_counts_share_z_with_other_responses() -> None:
    x, r, y = zoo.rows("count", 80)
    model = GCM(3, 2, response=Several({"claims": Count(3), "late": Binary()}), hidden=4)
    both = {"claims": y, "late": (y[:, 0] > 1).double()}
    fit(model, x, r, both, epochs=1, progress=False)
    claims = model.response_model("claims")
    assert claims.predict(x, r, exposure=y[:, 1]).shape == (80,)
    draws = model.posterior(x[:3], r[:3], {k: v[:3] for k, v in both.items()}, progress=False)
    assert draws["claims.rate"].shape == (1000, 3)


def test_wrong_counts_and_exposures_are_refused_by_name() -> None:
    x, r, y = zoo.rows("count", 20)
    model, binary = zoo.make(response="count"), zoo.make()
    minus = -torch.ones(20)
    calls = [
        (lambda: fit(model, x, r, minus), "y must have whole numbers from 0, got -1 in row 0"),
        (lambda: fit(model, x, r, y[:, 0] + 0.5), "y must have whole numbers from 0, got"),
        (lambda: fit(model, x, r, y[:, 0], exposure=minus), "exposure must be above 0, got -1"),
        (lambda: fit(model, x, r, torch.stack([y[:, 0], minus], 1)), "y must have exposures above"),
        (lambda: fit(model, x, r, y, exposure=y[:, 1]), r"y must have shape \[rows\]"),
        (lambda: fit(model, [(x, r, y)], exposure=y[:, 1]), "exposure needs x, r and y in memory"),
        (lambda: model.predict(x, r, exposure=[1.0]), "x has 20, exposure has 1"),
        (lambda: model.predictive(x, r, exposure=0.0 * minus), "exposure must be above 0, got -0"),
        (lambda: binary.predict(x, r, exposure=-minus), "exposure is for response='count'"),
        (lambda: fit(binary, x, r, y[:, 0], exposure=-minus), "exposure is for response='count'"),
    ]
    for call, message in calls:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.warns(UserWarning, match="y has no event in any row"):
        fit(model, x, r, torch.zeros(20), epochs=1, progress=False)

"""Costs that were seen: the density of the program, its draws, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pyro
import pyro.poutine as poutine
import pytest
import torch
import zoo
from posterior_toys import tail
from scipy.stats import ks_2samp
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm.inference import conditional, uncollapse

NAN = math.nan
p0s = pytest.mark.parametrize("p0", [None, "conditional"], ids=["finite", "infinite"])
families = pytest.mark.parametrize("family", ["normal", "logistic"])
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


def model_of(r_dim: int = 2, dtype: torch.dtype = torch.float64, **options: Any) -> GCM:
    """A model far from its start, whose revenues are prices around 50."""
    model = zoo.informative(GCM(3, r_dim, z_dim=2, hidden=8, seed=4, **options), 1.7)
    prices = 50.0 + 8.0 * torch.randn(500, r_dim, generator=torch.Generator().manual_seed(1))
    model.learn_units(torch.eye(3), prices, torch.zeros(50))
    return model.to(dtype)


def rows(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two revenues: everything seen, one cost seen, the outcome alone, or nothing at all."""
    seen = [
        ([45.0, 48.0], 1.0),  # both costs, and the outcome
        ([45.0, 58.0], 0.0),
        ([41.0, 52.5], NAN),  # both costs, without it
        ([NAN, 47.0], 1.0),  # one cost, and the outcome it leaves open
        ([46.0, NAN], 0.0),
        ([57.0, NAN], 0.0),  # one cost that says all
        ([NAN, 55.0], NAN),  # one cost alone
        ([NAN, NAN], 1.0),  # the outcome alone
        ([NAN, NAN], 0.0),
        ([NAN, NAN], NAN),  # nothing
    ]
    c, y = (torch.tensor(column, dtype=dtype) for column in zip(*seen, strict=True))
    r = torch.tensor([[52.0, 50.0]], dtype=dtype).expand(len(c), 2)
    return torch.randn(len(c), 3, dtype=dtype), r, y, c


def law(model: GCM, z: Tensor) -> Any:
    """p(c | z) of finite costs, in the units of the data."""
    base, units = model.cost_net(z).base_dist, model.r_standardizer
    return type(base)(units.loc + units.scale * base.loc, units.scale * base.scale)


def written_out(model: GCM, x: Tensor, z: Tensor, r: Tensor, y: Tensor, c: Tensor) -> Tensor:
    """log p(y, c_seen | z, r) row by row, with an if for every case."""
    d, log_p = law(model, z), torch.zeros(len(y), dtype=torch.float64)
    below, density = tail(d, r), d.log_prob(c.nan_to_num())
    p0 = torch.zeros(len(y), dtype=torch.float64)
    if model.infinite_net is not None:
        p0 = torch.sigmoid(model.infinite_net(model.x_standardizer(x)))
    for i in range(len(y)):
        seen = ~c[i].isnan()
        finite = 1.0 if seen.any() else 1.0 - p0[i]
        hit = finite
        for j in range(len(seen)):
            if seen[j]:
                log_p[i] += density[i, j]
                hit = hit * float(c[i, j] < r[i, j])
            else:
                hit = hit * below[i, j]
        if seen.any():
            log_p[i] += torch.log1p(-p0[i])
        if y[i] == 1.0:
            log_p[i] += torch.as_tensor(hit).log()
        elif y[i] == 0.0:
            log_p[i] += torch.log1p(-torch.as_tensor(hit))
    return log_p


def sites(program: Any, z: Tensor, *data: Tensor) -> dict[str, Any]:
    trace = poutine.trace(poutine.condition(program, {"z": z})).get_trace(*data)
    trace.compute_log_prob()
    return trace.nodes


@p0s
@families
@torch.no_grad()
def test_density_of_the_program_is_that_of_what_each_row_shows(family: str, p0: str | None) -> None:
    model = model_of(cost_family=family, p0=p0)
    x, r, y, c = rows()
    z = torch.randn(30, len(x), 2, dtype=torch.float64)
    wanted = torch.stack([written_out(model, x, one, r, y, c) for one in z])
    likelihood = model.log_likelihood(x, r, y, c, sites={"z": z})
    torch.testing.assert_close(likelihood, wanted, rtol=1e-10, atol=1e-10)
    with pyro.plate("draws", 30, dim=-2):
        many = sites(conditional(model.model), z, x, r, y, c)
    for found, total in (
        (many, wanted),
        (sites(conditional(model.model), z[0], x, r, y, c), wanted[0]),
    ):
        assert "c" not in found
        log_y, log_c = found["y"]["log_prob"], found["c_observed"]["log_prob"]
        torch.testing.assert_close(log_c + log_y, total, rtol=1e-10, atol=1e-12)
        # What was not seen adds nothing at all, and in rows 0, 1 and 5 what was seen decides.
        assert (log_c[..., c.isnan().all(-1)] == 0.0).all()
        assert (log_y[..., y.isnan()] == 0.0).all()
        assert (log_y[..., [0, 1, 5]] == 0.0).all()


@p0s
@torch.no_grad()
def test_log_prob_averages_the_densities_over_z(p0: str | None) -> None:
    model = model_of(p0=p0, num_samples=256)
    x, r, y, c = rows()
    q = model.z_prior(model.x_standardizer(x)).base_dist
    z = q.loc + q.scale * model.base_samples()
    log_p = torch.stack([written_out(model, x, one, r, y, c) for one in z])
    wanted = log_p.logsumexp(0) - math.log(256)
    torch.testing.assert_close(model.log_prob(x, r, y, c), wanted, rtol=1e-9, atol=1e-9)
    assert model.log_prob(x, r, y, c)[-1].abs() < 1e-12
    outcome = ~y.isnan() & c.isnan().all(-1)
    plain = model.log_prob(x[outcome], r[outcome], y[outcome])
    torch.testing.assert_close(model.log_prob(x, r, y, c)[outcome], plain, rtol=0, atol=1e-14)
    single = model_of(p0=p0, num_samples=256, dtype=torch.float32)
    found = single.log_prob(*(t.float() for t in (x, r, y, c)))
    torch.testing.assert_close(found, wanted.float(), rtol=1e-4, atol=1e-4)


@p0s
@families
def test_density_is_one_in_the_units_of_the_data(family: str, p0: str | None) -> None:
    model = model_of(1, cost_family=family, p0=p0)
    x, price = torch.randn(3, 3, dtype=torch.float64), torch.linspace(-200.0, 300.0, 3001)
    finite = torch.ones(3, dtype=torch.float64)
    if p0 is not None:
        finite = 1.0 - torch.sigmoid(model.infinite_net(model.x_standardizer(x))).detach()  # type: ignore[misc]
    pairs = [x.repeat_interleave(3001, 0), torch.full((9003, 1), 52.03), price.repeat(3)[:, None]]

    def integral(y: Tensor, among: Tensor) -> Tensor:
        density = model.log_prob(pairs[0], pairs[1], y, pairs[2], num_samples=16).exp()
        return torch.trapezoid((density * among).reshape(3, -1), price.double())

    total = integral(torch.full((9003,), NAN), torch.ones(9003))
    torch.testing.assert_close(total, finite, rtol=0, atol=1e-3)
    # The exact prices of the auctions that were won make up the probability of winning.
    won = (pairs[2] < pairs[1])[:, 0].double()
    wins = model.predict(x, pairs[1][:3], num_samples=16)
    assert ((wins > 0.02) & (wins < 0.98)).any()
    torch.testing.assert_close(integral(won, won), wins, rtol=0, atol=2e-3)
    at, nothing = torch.full((3, 1), 49.0).double(), torch.full((3,), NAN)
    log_p = model.log_prob(x, pairs[1][:3], nothing, at, num_samples=16)
    wanted = model.cost(x, num_samples=16).log_prob(at)
    torch.testing.assert_close(log_p, wanted, rtol=0, atol=1e-9)


@dtypes
@pytest.mark.parametrize("spread", [1e-3, 8.0])
def test_rounding_does_not_move_a_price_across_its_bid(spread: float, dtype: torch.dtype) -> None:
    model = model_of(1, dtype)
    count = 4000
    r = (1000.0 + spread * torch.randn(count, 1)).double()
    model.learn_units(torch.eye(3), r, torch.zeros(1))
    step = 1e-7 * (2.0 * torch.rand(count, 1) - 1.0).double()
    c = r * (1.0 + step)
    c[:100] = r[:100]  # a tie is not won
    c[100:200] = torch.nextafter(r[100:200], torch.tensor(0.0).double())
    y = (c < r)[:, 0].double()
    assert 0.4 < y.mean() < 0.6
    x = torch.randn(count, 3, dtype=dtype)
    assert model.log_prob(x, r, y, c).isfinite().all()
    for given in ((r, c), (r.float(), r.float() * (1.0 + step.float()))):
        y = (given[1] < given[0])[:, 0].to(dtype)
        result = fit(model, x, given[0], y, given[1], epochs=1, num_particles=4, progress=False)
        assert result.history["loss"].map(math.isfinite).all()


@p0s
@torch.no_grad()
def test_uncollapsed_program_draws_costs_that_agree_with_all_that_was_seen(p0: str | None) -> None:
    model = model_of(p0=p0)
    x, r, y, c = rows()
    z = torch.randn(len(x), 2, dtype=torch.float64)
    with pyro.plate("draws", 4000, dim=-2):
        found = sites(uncollapse(model.model), z, x, r, y, c)
    draws, units = found["c"]["value"], model.r_standardizer
    assert draws.shape == (4000, len(x), 2)
    seen = ~c.isnan()
    torch.testing.assert_close(
        draws[:, seen], units(c)[seen].expand(4000, -1), rtol=1e-15, atol=1e-15
    )
    happened = (draws < units(r)).all(-1).double()
    known = ~y.isnan()
    assert (happened == y)[:, known].all()
    # Without its outcome a row has the costs of p(c | z).
    prior, share = model.cost_net(z).sample((4000,)), draws.isinf().double().mean(0)
    for row, column in ((6, 0), (9, 0), (9, 1)):
        one = draws[:, row, column]
        assert ks_2samp(one[one.isfinite()], prior[:, row, column]).pvalue > 1e-4
    assert (share[6] == 0.0).all()  # what was seen in part is finite
    if p0 is not None:
        atom = torch.sigmoid(model.infinite_net(model.x_standardizer(x)))[9]  # type: ignore[misc]
        assert (share[9] - atom).abs().max() < 5.0 * (0.25 / 4000) ** 0.5


def test_what_was_seen_can_be_drawn_by_the_program_as_well() -> None:
    model, (x, r, _, c) = model_of(), rows()
    with pyro.plate("draws", 5000, dim=-2):
        trace = poutine.trace(conditional(model.model)).get_trace(x, r, None, c)
    drawn = trace.nodes["y"]["value"]
    assert not trace.nodes["y"]["is_observed"]
    assert (drawn[:, 0] == 1.0).all()
    assert (drawn[:, 1] == 0.0).all()
    assert 0.0 < drawn[:, 3].mean() < 1.0


# What is refused


@pytest.mark.parametrize(
    ("c", "y", "wrong"),
    [
        ([51.0, 49.0], 1.0, False),
        ([51.0, 49.0], 0.0, True),  # all stay below
        ([52.0, 49.0], 1.0, True),  # a tie is no win
        ([52.0, 49.0], 0.0, False),
        ([NAN, 49.0], 0.0, False),  # the other cost may miss
        ([NAN, 49.0], 1.0, False),
        ([NAN, 50.0], 1.0, True),
        ([NAN, 50.0], 0.0, False),
        ([52.0, 50.0], NAN, False),
    ],
)
def test_a_row_contradicts_its_outcome_or_not(c: list[float], y: float, wrong: bool) -> None:
    model, r = GCM(3, 2), torch.tensor([[52.0, 50.0]])
    data = torch.zeros(1, 3), r, torch.tensor([y]), torch.tensor([c])
    if wrong:
        with pytest.raises(ValueError, match=r"c contradicts y in 1 rows, the first in row 0"):
            model.log_prob(*data)
    else:
        assert model.log_prob(*data).isfinite().all()


def test_rows_that_show_nothing_at_all_are_refused_in_training() -> None:
    x, r, y, c = rows(torch.float32)
    with pytest.raises(ValueError, match="y and c have no value at all, only NaN"):
        fit(GCM(3, 2), x, r, torch.full_like(y, NAN), torch.full_like(c, NAN), progress=False)


def test_new_outcome_of_a_row_draws_its_costs_anew() -> None:
    model = model_of(r_dim=1)
    x, r = torch.zeros(1, 3).double(), torch.full((1, 1), 50.0).double()
    draws = model.posterior(x, r, [1.0], r - 0.1, num_samples=20_000, progress=False)
    p = model.log_likelihood(x, r, [1.0], sites=draws).exp()
    assert 0.05 < p.mean() < 0.95
    error = (p.mean() * (1 - p.mean()) / 20_000) ** 0.5
    assert (draws["y"].mean() - p.mean()).abs() < 4 * error

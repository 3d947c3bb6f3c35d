"""Training on costs that were seen: every bound, every prior, and what it is worth."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from training_runs import goes_on, stop_at, weights

from pyro_gcm import GCM, FitResult, fit
from pyro_gcm.training import FitSettings

NAN = math.nan
QUICK: dict[str, Any] = {"epochs": 6, "batch_size": 64, "num_particles": 8, "progress": False}


class Prices(NamedTuple):
    """Auctions of two lots: won where both prices stay below their bids."""

    x: Tensor
    r: Tensor
    y: Tensor
    c: Tensor  # as far as they were seen

    def outcomes(self) -> Prices:
        """The same with the outcome alone."""
        return self._replace(c=torch.full_like(self.c, NAN))


@functools.cache
def prices(count: int = 300, r_dim: int = 2, seed: int = 0) -> tuple[Prices, Tensor]:
    """Exact, censored and outcome-only rows, and the true prices behind them."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, generator=g)
    spread = torch.where(x[:, 1:] > 0, 4.0, 12.0)  # in the units of the prices, about 100
    true = 100.0 + 15.0 * x[:, :1] + spread * torch.randn(count, r_dim, generator=g)
    bids = 40.0 / r_dim * torch.randn(count, r_dim, generator=g) + 15.0 * r_dim - 25.0
    r = 100.0 + 15.0 * x[:, :1] + bids
    won = (true < r).all(-1)
    c = torch.where(won[:, None], true, NAN)  # the winner pays, the loser knows that it lost
    c[::5] = NAN  # and some exchanges tell the outcome alone
    return Prices(x, r, won.float(), c), true


def model_of(r_dim: int = 2, **options: Any) -> GCM:
    return GCM(2, r_dim, z_dim=2, hidden=8, **options)


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "iwae": ({}, {"elbo": "iwae"}),
    "elbo": ({}, {"elbo": "elbo"}),
    "mean_field": ({}, {"elbo": "mean_field"}),
    "renyi": ({}, {"elbo": "renyi"}),
    "dreg": ({"guide": "posterior"}, {"elbo": "dreg"}),
    "posterior guide": ({"guide": "posterior"}, {}),
    "amortised guide": ({"guide": "amortised"}, {"settings": FitSettings(temperature=0.5)}),
    "categorical": ({"prior": "categorical"}, {}),
    "mixture": ({"prior": "mixture"}, {}),
    "constant p0": ({"p0": "constant"}, {}),
    "conditional p0": ({"p0": "conditional", "cost_family": "logistic"}, {}),
    "laplace costs": ({"cost_family": "laplace"}, {"validation": 0.2}),
    "joint": ({"prior": "standard"}, {"objective": "joint"}),
    "joint, p0": ({"prior": "standard", "p0": "constant"}, {"objective": "joint"}),
    "joint, one particle": ({"prior": "standard"}, {"objective": "joint", "elbo": "elbo"}),
}


@pytest.mark.long(keep=5)
@pytest.mark.parametrize("case", CASES)
def test_every_bound_and_every_prior_trains_on_them(case: str) -> None:
    options, training = CASES[case]
    model, (data, _) = model_of(**options), prices()
    y = data.y.clone()
    if not model.guide_reads_outcome:
        y[3::7] = NAN  # an exact price whose outcome was not written down, or nothing at all
    x, r = data.x.clone(), data.r.clone()
    if training.get("objective") == "joint":
        x[::11, 0] = NAN
        r[::3, 1] = NAN
    c = torch.where(r.isnan() & ~y.isnan()[:, None], NAN, data.c)
    before = weights(model)
    result = fit(model, x, r, y, c, **{**QUICK, "epochs": 10}, **training)
    losses = result.history["loss"]
    assert losses.map(math.isfinite).all()
    assert losses.iloc[-1] < losses.iloc[0] - 0.05
    trained = model.trained_parameters(training.get("objective", "conditional"))
    for name, parameter in trained.items():
        assert parameter.isfinite().all(), name
        assert not torch.equal(parameter.data, before[name]), name
    assert model.log_prob(x, r, y, c).isfinite().all()


@pytest.mark.parametrize("case", ["iwae", "constant p0", "posterior guide", "categorical", "joint"])
def test_costs_of_which_none_was_seen_change_nothing(case: str) -> None:
    (options, more), (data, _) = CASES[case], prices()
    r, training = data.r.clone(), {**QUICK, **more}
    if case == "joint":
        r[::9, 0] = NAN
    with_costs, without = model_of(**options), model_of(**options)
    one = fit(with_costs, data.x, r, data.y, data.outcomes().c, **training)
    other = fit(without, data.x, r, data.y, **training)
    for name, value in with_costs.state_dict().items():
        torch.testing.assert_close(value, without.state_dict()[name], rtol=0, atol=1e-6)
    torch.testing.assert_close(
        torch.tensor(one.history["loss"]), torch.tensor(other.history["loss"]), rtol=0, atol=1e-6
    )


def test_cost_and_outcome_that_would_bound_a_missing_revenue_are_refused() -> None:
    """A draw of the revenue on the wrong side would have density 0, and training no gradient."""
    data, _ = prices()
    r, row = data.r.clone(), int((~data.c.isnan()).nonzero()[3, 0])
    r[row, 1] = NAN
    model = model_of(prior="standard")
    message = f"c has values where r is missing in 1 rows whose y is known, the first in row {row}"
    with pytest.raises(ValueError, match=message):
        fit(model, data.x, r, data.y, data.c, objective="joint", **QUICK)
    y = data.y.clone()
    y[row] = NAN
    fit(model, data.x, r, y, data.c, objective="joint", **QUICK)


def test_interrupted_run_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    (data, _), path = prices(), tmp_path / "run.pt"

    def run(rows: Prices = data, **more: Any) -> tuple[GCM, FitResult]:
        model = model_of(seed=0)
        return model, fit(model, *rows, **QUICK, validation=0.2, **more)

    goes_on(run, path, 12)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=path, callback=stop_at(12))
    other = data.c.clone()
    other[int((~other.isnan()).nonzero()[0, 0])] = NAN
    with pytest.raises(ValueError, match="checkpoint is of another run: checksum of the rows"):
        run(data._replace(c=other), checkpoint=path)


def test_step_reads_the_costs_of_its_own_rows() -> None:
    data, _ = prices()
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    models = model_of(prior="categorical"), model_of(prior="categorical")
    for model, rows in zip(models, (data, Prices(*(t[order] for t in data))), strict=True):
        fit(model, *rows, epochs=5, batch_size=300, progress=False)
    # One batch of all rows: their order changes nothing but the rounding.
    for name, value in models[0].state_dict().items():
        torch.testing.assert_close(value, models[1].state_dict()[name], rtol=1e-3, atol=1e-4)


@functools.cache
def learned(kind: str) -> GCM:
    """One lot, trained on what `kind` says was seen of its price."""
    data, _ = prices(1000, 1)
    exact = ~data.c.isnan()[:, 0]
    won = Prices(*(column[exact] for column in data))
    shown = {
        "prices and outcomes": data,
        "outcomes": data.outcomes(),
        "prices of won auctions": won._replace(y=torch.full_like(won.y, NAN)),
    }[kind]
    model = model_of(1, seed=1)
    fit(model, *shown, epochs=35, batch_size=128, num_particles=16, progress=False)
    return model


def score(model: GCM) -> float:
    """Mean log-density of the true price of new rows, which knows of no outcome."""
    data, true = prices(3000, 1, seed=1)
    return float(model.log_prob(data.x, data.r, torch.full((3000,), NAN), true).mean())


@pytest.mark.long(keep=0)
def test_seen_prices_say_more_of_the_price_than_outcomes_do() -> None:
    data, true = prices(3000, 1, seed=1)
    spread = torch.where(data.x[:, 1:] > 0, 4.0, 12.0)
    truth = torch.distributions.Normal(100.0 + 15.0 * data.x[:, :1], spread)
    best = float(truth.log_prob(true).mean())
    outcomes, seen = map(score, map(learned, ("outcomes", "prices and outcomes")))
    assert outcomes < seen - 0.06
    assert seen < best + 0.02  # nobody beats the truth
    assert best - seen < 0.25


@pytest.mark.long(keep=0)
def test_censored_rows_do_not_pull_the_price_down() -> None:
    """The exact prices alone are those of auctions that were won, the cheap ones."""
    data, true = prices(3000, 1, seed=1)

    def bias(kind: str) -> float:
        return float((learned(kind).cost(data.x).mean - true).mean())

    assert bias("prices of won auctions") < bias("prices and outcomes") - 1.0
    assert score(learned("prices of won auctions")) < score(learned("prices and outcomes")) - 0.1

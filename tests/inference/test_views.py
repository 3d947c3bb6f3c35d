"""Views of the explicit program: costs integrated out, costs recovered, y given x and r."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from pyro.infer import Predictive
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.inference import ImportanceWeightedELBO, collapse, conditional, uncollapse

RESPONSES = ["binary", "continuous", "quantile"]
responses = pytest.mark.parametrize("response", RESPONSES)
alternatives = pytest.mark.parametrize(
    "options", [{}, {"alternatives": 2, "costs": 3}], ids=["plain", "alternatives"]
)


def pair(response: str, rows: int = 40, **options: Any) -> tuple[GCM, Tensor, Tensor, Tensor]:
    """A model in float64 whose costs are close to the revenues, and rows for it."""
    r_dim = 1 if response == "quantile" else 2
    model = GCM(3, r_dim, response=response, **options).double()
    x = torch.randn(rows, 3, dtype=torch.float64)
    r = torch.rand(rows, r_dim, dtype=torch.float64)
    y = torch.randn(rows, dtype=torch.float64)
    return model, x, r, (y > 0).double() if response == "binary" else y


def outcome_site(program: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """The trace of a run, and its site y, with log-densities."""
    trace = poutine.trace(program).get_trace(*args)
    trace.compute_log_prob()
    return trace, trace.nodes["y"]


def event(model: GCM, z: Tensor, r: Tensor) -> OrderEvent:
    """The event given z, with its costs integrated out."""
    return OrderEvent(model.cost_net(z), model.revenue_map(r))


def log_event(model: GCM, z: Tensor, r: Tensor) -> Tensor:
    """log Pr(c < h(r) | z) of one alternative by torch's own normal, [B]."""
    cost = model.cost_net(z).base_dist
    return torch.special.log_ndtr((model.revenue_map(r) - cost.loc) / cost.scale).sum(-1)


def test_collapsed_binary_outcome_has_the_probability_of_the_event() -> None:
    model, x, r, y = pair("binary")
    trace, site = outcome_site(collapse(model), x, r, y)
    assert "c" not in trace.nodes
    log_one = log_event(model, trace.nodes["z"]["value"], r)
    expected = torch.where(y == 1, log_one, torch.log1p(-log_one.exp()))
    torch.testing.assert_close(site["log_prob"], expected)


def test_collapsed_continuous_outcome_has_the_density_of_the_paper() -> None:
    model, x, r, y = pair("continuous")
    trace, site = outcome_site(collapse(model), x, r, y)
    assert "c" not in trace.nodes
    loc, threshold_scale, scale = model.response._curve(x)
    p = log_event(model, trace.nodes["z"]["value"], r).exp()
    mean = torch.hypot(scale, threshold_scale) * torch.special.ndtri(p) + loc
    torch.testing.assert_close(site["log_prob"], dist.Normal(mean, scale).log_prob(y))


def test_collapsed_quantile_outcome_has_minus_the_pinball_loss() -> None:
    model, x, r, y = pair("quantile")
    trace, site = outcome_site(collapse(model), x, r, y)
    assert "c" not in trace.nodes
    loc, spread = model.response._curve(x)
    level = r[:, 0]
    p = log_event(model, trace.nodes["z"]["value"], r).exp()
    error = y - (spread * torch.special.ndtri(p) + loc)
    pinball = torch.where(error > 0, level * error, (level - 1.0) * error)
    constant = (level * (1.0 - level)).log()
    torch.testing.assert_close(site["log_prob"], constant - pinball)


@responses
@alternatives
def test_collapsed_density_is_the_average_of_the_explicit_one_over_costs(
    response: str, options: dict[str, Any]
) -> None:
    model, x, r, y = pair(response, rows=4, **options)
    z = torch.randn(4, 4, dtype=torch.float64)
    _, site = outcome_site(poutine.condition(collapse(model), {"z": z}), x, r, y)
    draws = 40_000
    c = model.cost_net(z).sample((draws,))
    p_y = model.response.distribution(event(model, z, r), x, r)
    density = p_y.given_cost(c).log_prob(y).exp().expand(draws, 4)
    error = density.std(0) / math.sqrt(draws)
    assert ((density.mean(0) - site["log_prob"].exp()).abs() <= 4.5 * error + 1e-12).all()


@alternatives
def test_recovered_costs_agree_with_every_observed_outcome(options: dict[str, Any]) -> None:
    model, x, r, y = pair("binary", rows=300, **options)
    for revenue in (r, r + 6.0, r - 6.0):  # outcomes that the prior finds unlikely, too
        trace = poutine.trace(uncollapse(model.model)).get_trace(x, revenue, y)
        c = trace.nodes["c"]["value"]
        assert c.shape == (300, *model.cost_shape)
        happened = (c < model.revenue_map(revenue)).all(-1)
        if len(model.cost_shape) == 2:
            happened = happened.any(-1)
        assert torch.equal(happened.double(), y)


def test_recovered_costs_agree_with_an_outcome_that_is_drawn() -> None:
    model, x, r, _ = pair("binary", rows=300)
    trace = poutine.trace(uncollapse(model)).get_trace(x, r)
    happened = (trace.nodes["c"]["value"] < r).all(-1).double()
    assert torch.equal(happened, trace.nodes["y"]["value"])
    assert 0 < happened.sum() < 300


def test_recovered_costs_of_a_continuous_outcome_follow_its_side_of_the_threshold() -> None:
    model, x, r, _ = pair("continuous", rows=4000)
    loc, threshold_scale, _ = (term.detach() for term in model.response._curve(x))
    for distance, tolerance in ((9.0, 0.0), (0.5, 0.03), (-9.0, 0.0)):
        y = loc + distance * threshold_scale
        c = poutine.trace(uncollapse(model)).get_trace(x, r, y).nodes["c"]["value"]
        happened = (c < r).all(-1).double().mean().item()
        expected = dist.Normal(0.0, 1.0).cdf(torch.tensor(distance)).item()
        assert happened == pytest.approx(expected, abs=tolerance)


def test_recovered_costs_of_a_quantile_come_from_their_prior() -> None:
    model, x, r, y = pair("quantile")
    trace, _ = outcome_site(uncollapse(model), x, r, y)
    site = trace.nodes["c"]
    prior = model.cost_net(trace.nodes["z"]["value"])
    torch.testing.assert_close(site["log_prob"], prior.log_prob(site["value"]))


@responses
@alternatives
def test_uncollapse_keeps_the_joint_density_of_the_explicit_program(
    response: str, options: dict[str, Any]
) -> None:
    model, x, r, y = pair(response, **options)
    trace, _ = outcome_site(uncollapse(model), x, r, y)
    values = {name: trace.nodes[name]["value"] for name in ("z", "w", "c")}
    explicit, _ = outcome_site(poutine.condition(model.model, values), x, r, y)
    for one in (trace, explicit):
        assert {"z", "w", "x", "r", "c", "y"} <= set(one.nodes)
    names = ("z", "w", "x", "r", "c", "y")
    by_row = [sum(one.nodes[name]["log_prob"] for name in names) for one in (trace, explicit)]
    assert by_row[0].isfinite().all()
    torch.testing.assert_close(*by_row)


@pytest.mark.parametrize("parallel", [False, True], ids=["one by one", "parallel"])
@pytest.mark.parametrize("guided", [False, True], ids=["prior", "guide"])
def test_predictive_shows_costs_that_agree_with_the_data(parallel: bool, guided: bool) -> None:
    model, x, r, y = pair("binary")
    guide = {"guide": model.guide} if guided else {}
    predictive = Predictive(
        uncollapse(model.model), num_samples=30, return_sites=["c"], parallel=parallel, **guide
    )
    c = predictive(x, r, y)["c"]
    assert c.shape == (30, 40, 2)
    assert torch.equal((c < r).all(-1).double(), y.expand(30, 40))


@responses
@alternatives
def test_guide_with_exact_costs_has_the_weights_of_the_collapsed_program(
    response: str, options: dict[str, Any]
) -> None:
    model, x, r, y = pair(response, **options)

    def guide(x: Tensor, r: Tensor, y: Tensor) -> None:
        with pyro.plate("data", len(x), dim=-1):
            z = pyro.sample("z", model.z_prior(x))
            p_y = model.response.distribution(event(model, z, r), x, r)
            pyro.sample("c", p_y.cost_posterior(y))

    elbo = ImportanceWeightedELBO(16, max_plate_nesting=1)
    explicit = poutine.block(model.model, hide=["w", "x", "r"])
    # Both guides draw z first, so that the same seed gives the same z.
    torch.manual_seed(0)
    with_cost = elbo.log_weights(explicit, guide, x, r, y)
    torch.manual_seed(0)
    collapsed = elbo.log_weights(conditional(model), model.guide, x, r, y)
    assert with_cost.shape == (16, 40)
    assert collapsed.std() > 0.01
    torch.testing.assert_close(with_cost, collapsed, rtol=0, atol=1e-8)


def test_conditional_shows_only_z_and_y() -> None:
    model, x, r, y = pair("binary")
    for program in (conditional(model), conditional(model.model)):
        trace, site = outcome_site(program, x, r, y)
        names = [name for name, node in trace.nodes.items() if node["type"] == "sample"]
        assert [name for name in names if name != "data"] == ["z", "y"]
        assert site["log_prob"].shape == (40,)


@pytest.mark.parametrize("kind", [GCM, IGCM])
@pytest.mark.parametrize("missing", ["x", "r"])
def test_conditional_names_the_input_that_is_missing(missing: str, kind: type) -> None:
    model = kind(3, 2, prior="standard")
    inputs = {"x": torch.randn(4, 3), "r": torch.randn(4, 2)}
    del inputs[missing]
    with pytest.raises(RuntimeError, match=f"conditional: '{missing}' is an input of p"):
        conditional(model)(**inputs)


def test_cost_inside_a_collapsed_program_is_visibly_undefined() -> None:
    seen = []

    def program() -> None:
        c = pyro.sample("c", dist.Normal(torch.zeros(2), 1.0).to_event(1))
        seen.append(c.sum())
        pyro.sample("y", OrderEvent(c, torch.zeros(2)), obs=torch.tensor(1.0))

    outcome_site(collapse(program))
    assert seen[0].isnan()


def test_sites_may_have_names_of_their_own() -> None:
    def program(r: Tensor, y: Tensor | None = None) -> Tensor:
        c = pyro.sample("price", dist.Normal(torch.zeros(2), 1.0).to_event(1))
        return pyro.sample("sold", OrderEvent(c, r), obs=y)

    view = collapse(program, cost="price", outcome="sold")
    trace = poutine.trace(view).get_trace(torch.zeros(2), torch.tensor(1.0))
    assert "price" not in trace.nodes
    assert trace.log_prob_sum().exp().item() == pytest.approx(0.25)
    back = uncollapse(program, cost="price", outcome="sold")
    trace = poutine.trace(back).get_trace(torch.zeros(2), torch.tensor(1.0))
    assert (trace.nodes["price"]["value"] < 0).all()


def cost(name: str = "c") -> Tensor:
    return pyro.sample(name, dist.Normal(torch.zeros(2), 1.0).to_event(1))


def without_cost() -> None:
    pyro.sample("y", dist.Bernoulli(0.5))


def cost_under_another_name() -> None:
    pyro.sample("y", OrderEvent(cost("k"), torch.zeros(2)))


def outcome_of_another_kind() -> None:
    pyro.sample("y", dist.Bernoulli(torch.sigmoid(cost().sum())), obs=torch.tensor(1.0))


def outcome_of_another_cost() -> None:
    cost()
    pyro.sample("y", OrderEvent(torch.zeros(2), torch.zeros(2)))


def outcome_of_a_changed_cost() -> None:
    pyro.sample("y", OrderEvent(2.0 * cost(), torch.zeros(2)))


def cost_without_outcome() -> None:
    cost()


def observed_cost() -> None:
    c = pyro.sample("c", dist.Normal(torch.zeros(2), 1.0).to_event(1), obs=torch.ones(2))
    pyro.sample("y", OrderEvent(c, torch.zeros(2)))


@pytest.mark.filterwarnings("ignore:.*probs.*NaN")
@pytest.mark.parametrize("view", [collapse, uncollapse, conditional], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (without_cost, "collapse found no site 'c' before site 'y'"),
        (cost_under_another_name, r"no site 'c' before site 'y'; name the sites with collapse\("),
        (outcome_of_another_kind, "site 'y' must take the value of site 'c'.*got Bernoulli"),
        (outcome_of_another_cost, "site 'y' must take the value of site 'c' as its cost"),
        (outcome_of_a_changed_cost, "site 'y' must take the value of site 'c' as its cost"),
        (cost_without_outcome, "collapse hid site 'c', but no site 'y' came after it"),
        (observed_cost, "site 'c' is observed and cannot be integrated out"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_program_that_has_no_order_event_is_refused(
    view: Callable[..., Any], program: Callable[[], None], message: str
) -> None:
    with pyro.validation_enabled(False), pytest.raises(RuntimeError, match=message):
        view(program)()


def test_view_works_again_after_an_error() -> None:
    model, x, r, y = pair("binary")
    view = collapse(model)
    with pytest.raises(ValueError, match="r has 3 columns"):
        view(x, torch.zeros(40, 3), y)
    trace, _ = outcome_site(view, x, r, y)
    assert "c" not in trace.nodes

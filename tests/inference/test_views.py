"""Views of the explicit program: costs integrated out, costs recovered, y given x and r."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.inference import collapse, conditional, uncollapse

RESPONSES = ["binary", "continuous", "quantile"]
responses = pytest.mark.parametrize("response", RESPONSES)
alternatives = pytest.mark.parametrize(
    "options",
    [{}, {"alternatives": 2, "costs": 3, "p0": "constant"}],
    ids=["plain", "alternatives, infinite costs"],
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


def test_conditional_names_the_input_that_is_missing() -> None:
    given = {"x": torch.randn(4, 3), "r": torch.randn(4, 2)}
    for kind, missing in itertools.product((GCM, IGCM), given):
        inputs = {name: value for name, value in given.items() if name != missing}
        with pytest.raises(RuntimeError, match=f"conditional: '{missing}', an input of p"):
            conditional(kind(3, 2, prior="standard"))(**inputs)


def test_a_cost_inside_a_collapsed_program_has_no_value() -> None:
    for use in (
        lambda c: c + 1.0,
        lambda c: torch.ones(2) - c,
        lambda c: c[0],
        lambda c: c.sum(),
        lambda c: torch.cat([c, c]),
        lambda c: torch.exp(c),
        lambda c: c < 0.0,
        lambda c: -c,
    ):
        with pytest.raises(RuntimeError, match="site 'c' is integrated out, so that it has no val"):
            collapse(lambda use=use: use(cost()))()


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


ZERO = torch.zeros(2)


def cost(name: str = "c", obs: Tensor | None = None) -> Tensor:
    return pyro.sample(name, dist.Normal(ZERO, 1.0).to_event(1), obs=obs)


def outcome(fn: Any) -> None:
    pyro.sample("y", fn, obs=torch.tensor(1.0))


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: outcome(dist.Bernoulli(0.5)), "collapse found no site 'c' before site 'y'"
    ),
    (
        lambda: outcome(OrderEvent(cost("k"), ZERO)),
        r"no site 'c' before site 'y'; name the sites with collapse\(",
    ),
    (
        lambda: outcome(dist.Bernoulli(torch.sigmoid(cost().sum()))),
        "site 'c' is integrated out, so that it has no value",
    ),
    (
        lambda: outcome(OrderEvent(2.0 * cost(), ZERO)),
        "site 'c' is integrated out.* Shift or scale its distribution instead, for costs in c_dist",
    ),
    (
        lambda: outcome(OrderEvent(cost(obs=ZERO), ZERO)),
        "site 'c' is observed and cannot be integrated out",
    ),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*probs.*NaN")
def test_program_that_has_no_order_event_is_refused_and_a_view_works_again() -> None:
    for view, (program, message) in itertools.product((collapse, uncollapse, conditional), REFUSED):
        with pyro.validation_enabled(False), pytest.raises(RuntimeError, match=message):
            view(program)()
    for other in (dist.Bernoulli(0.5), OrderEvent(dist.Normal(ZERO, 1.0).to_event(1), ZERO)):
        with pytest.raises(RuntimeError, match="site 'y' must take the value of site 'c' as its"):
            uncollapse(lambda other=other: (cost(), outcome(other)))()
    model, x, r, y = pair("binary")
    view = collapse(model)
    with pytest.raises(ValueError, match="r has 3 columns"):
        view(x, torch.zeros(40, 3), y)
    trace, _ = outcome_site(view, x, r, y)
    assert "c" not in trace.nodes

"""IGCM: the generative story in the units of the data, its views, predictions and refusals."""

from __future__ import annotations

import copy
import functools
import math
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from pyro.infer import Predictive, TraceEnum_ELBO
from scipy.stats import ks_2samp
from torch import Tensor, nn

from pyro_gcm import IGCM, fit
from pyro_gcm.inference import ImportanceWeightedELBO, conditional, given_inputs, uncollapse

Rows = tuple[Tensor, Tensor, Tensor]

priors = pytest.mark.parametrize("prior", ["conditional", "standard", "categorical"])
responses = pytest.mark.parametrize("response", ["binary", "continuous"])
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
KERNELS: dict[str, dict[str, Any]] = {
    "K=1": {"k_dim": 1},
    "K=2": {},
    "alternatives": {"alternatives": 2, "costs": 3},
}
kernels = pytest.mark.parametrize("kernel", KERNELS)
#: What it takes to train a model for an objective.
OBJECTIVES: dict[str, dict[str, Any]] = {
    "conditional": {},
    "response_revenue": {},
    "paper": {"kernel_guide": "amortised"},
    "joint": {"prior": "standard"},
}


def data(count: int, response: str = "binary", seed: int = 2) -> Rows:
    """Rows of x [.., 3], r [.., 2] and y; r and y share a kernel, and y follows x as well."""
    g = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(count, 3, generator=g), torch.randn(count, 4, generator=g)
    k = noise[:, 0]
    r = torch.stack([70.0 + 9.0 * (k + 0.4 * noise[:, 1]), -0.5 + 0.1 * (k + 0.7 * noise[:, 2])], 1)
    y = 1.5 * k + 1.5 * x[:, 0] + 0.5 * noise[:, 3]
    return 40.0 + 3.0 * x, r, (y > 0).float() if response == "binary" else 300.0 + 50.0 * y


def trained(objective: str = "conditional", response: str = "binary", **options: Any) -> IGCM:
    """A model after a short fit, in float64; no test changes more of it than its objective."""
    model = _trained(objective, response, **options)
    model.objective = objective
    return model


@functools.cache
def _trained(objective: str, response: str, **options: Any) -> IGCM:
    options = {"num_samples": 64, **OBJECTIVES[objective], **options}
    model = IGCM(3, 2, response=response, **options)
    training = {"epochs": 8, "batch_size": 100, "num_particles": 8, "progress": False}
    fit(model, *data(200, response), objective=objective, learning_rate=0.04, **training)
    return model.double()


def some(count: int, response: str = "binary") -> Rows:
    x, r, y = data(count, response, seed=3)
    return x.double(), r.double(), y.double()


def sites(program: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    trace = poutine.trace(program).get_trace(*args, **kwargs)
    trace.compute_log_prob(lambda name, site: name in ("z", "k", "x", "r"))
    nodes = {name: node for name, node in trace.nodes.items() if node["type"] == "sample"}
    return {name: node for name, node in nodes.items() if name not in ("data", "draws")}


def drawn(program: Any, draws: int, *args: Any) -> dict[str, Any]:
    """Sites of a program that runs `draws` times for every row."""
    with torch.no_grad(), pyro.plate("draws", draws, dim=-2):
        return sites(program, *args)


def brute_force(model: IGCM, x: Tensor, r: Tensor, draws: int) -> tuple[Any, Tensor]:
    """Draws of the explicit program, costs and all, and their weights given x and r [draws, B]."""
    shown = drawn(model.model, draws, x, r)
    log_w = shown["r"]["log_prob"]
    if model.objective == "joint":
        log_w = log_w + shown["x"]["log_prob"]
    return shown["y"], torch.softmax(log_w, 0)


def weighted(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of values under normalised weights, and its standard error."""
    mean = (weights * values).sum(0)
    return mean, (weights * (values - mean)).square().sum(0).sqrt()


@contextmanager
def torch_default(dtype: torch.dtype) -> Iterator[None]:
    """Pyro's enumeration with draws beside it makes tensors of the default type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# The program


@priors
@responses
@pytest.mark.parametrize(
    ("options", "kernels", "costs"),
    [
        ({}, 2, (2,)),
        ({"k_dim": 1}, 1, (1,)),
        ({"k_dim": 3}, 3, (3,)),
        ({"k_dim": 1, "alternatives": 2, "costs": 3, "p0": "constant"}, 1, (2, 3)),
    ],
    ids=["plain", "one kernel", "three kernels", "alternatives"],
)
def test_program_shows_every_name_of_the_story(
    options: dict[str, Any], kernels: int, costs: tuple[int, ...], response: str, prior: str
) -> None:
    x, r, y = data(12, response)
    model = IGCM(3, 2, response=response, prior=prior, z_dim=5, **options)
    shown = sites(model.model, x, r, y)
    shapes = {name: tuple(node["value"].shape) for name, node in shown.items()}
    assert shapes == {
        "z": (12, 5),
        "k": (12, kernels),
        "x": (12, 3),
        "r": (12, 2),
        "c": (12, *costs),
        "y": (12,),
    }
    assert [name for name, node in shown.items() if node["is_observed"]] == ["x", "r", "y"]
    for name, value in (("x", x), ("r", r), ("y", y)):
        assert torch.equal(shown[name]["value"], value)
    assert all(node["cond_indep_stack"][0].name == "data" for node in shown.values())
    guided = {"k"} if prior == "categorical" else {"z", "k"}
    assert set(sites(model.guide, x, r, y)) == guided


@pytest.mark.parametrize("objective", ["response_revenue", "joint"])
@responses
def test_draws_of_a_trained_program_are_in_the_units_of_the_data(
    response: str, objective: str
) -> None:
    model = trained(objective, response)
    x, r, y = some(200, response)
    with torch.no_grad():
        if objective == "joint":
            shown = sites(model.model, size=4000)
        else:
            shown = sites(model.model, x[torch.randint(200, (4000,))])
    for name, rows in (("x", x), ("r", r), ("y", y.unsqueeze(-1))):
        draws = shown[name]["value"].reshape(4000, -1)
        assert ((draws.mean(0) - rows.mean(0)).abs() < 0.5 * rows.std(0)).all()
        assert ((draws.std(0) / rows.std(0)).log().abs() < math.log(1.7)).all()
    # What r and y have in common.
    together = torch.corrcoef(torch.stack([shown["y"]["value"], shown["r"]["value"][:, 0]]))[0, 1]
    assert together > 0.3


def test_prior_predictive_draws_come_in_any_number() -> None:
    model = IGCM(3, 2, prior="standard")
    assert model.model(size=7).shape == (7,)
    draws = Predictive(model.model, num_samples=5)(size=7)
    assert {name: tuple(draws[name].shape) for name in ("x", "r", "k", "y")} == {
        "x": (5, 7, 3),
        "r": (5, 7, 2),
        "k": (5, 7, 2),
        "y": (5, 7),
    }


@pytest.mark.parametrize("prior", ["conditional", "standard"])
def test_kernel_prior_is_the_standard_normal_or_learned_from_x(prior: str) -> None:
    x, r, y = data(12)
    for kernel_prior in ("standard", "conditional"):
        model = IGCM(3, 2, prior=prior, kernel_prior=kernel_prior)
        site = sites(model.model, x, r, y)["k"]
        standard = kernel_prior == "standard"
        wanted = dist.Normal(torch.zeros(2), 1.0).to_event(1) if standard else model.k_prior(x)
        torch.testing.assert_close(site["log_prob"], wanted.log_prob(site["value"]))
        assert torch.equal(site["fn"].mean, torch.zeros(12, 2)) == standard


def test_revenues_are_w_k_plus_noise_in_the_units_of_the_data() -> None:
    model = trained("response_revenue", k_dim=3)
    x, r, _ = some(9)
    shown = sites(model.model, x, r)
    unit, dr = model.r_standardizer, model.dr_net(model.x_standardizer(x)).base_dist
    loc = unit.loc + unit.scale * (shown["k"]["value"] @ model.loading.weight.T + dr.loc)
    wanted = dist.Normal(loc, unit.scale * dr.scale).log_prob(r).sum(-1)
    torch.testing.assert_close(shown["r"]["log_prob"], wanted)
    assert model.loading.weight.shape == (2, 3)
    assert (model.loading.weight > 0).all()


def test_loading_stays_positive_and_the_median_revenue_rises_with_the_kernel() -> None:
    model = IGCM(3, 2)
    with torch.no_grad():
        model.loading.raw_weight.copy_(torch.tensor([[-1.0, -0.3], [0.0, 2.0]]))
    assert (model.loading.weight > 0).all()
    x, r, _ = data(50)
    low = torch.randn(50, 2)
    for high in (low + torch.tensor([0.5, 0.0]), low + torch.tensor([0.0, 0.5])):
        below, above = (
            sites(poutine.condition(model.model, {"k": k}), x, r)["r"]["fn"].built
            for k in (low, high)
        )
        transform = below.transforms[0]
        medians = [transform(d.base_dist.mean) for d in (below, above)]
        assert (medians[1] > medians[0]).all()


def test_guide_of_the_kernel_is_exact_amortised_or_what_was_passed() -> None:
    x, r, y = data(200)
    seen = {}

    class Watch(nn.Module):
        def forward(self, x: Tensor, r: Tensor, y: Tensor | None) -> Any:
            seen.update(x=x, r=r, y=y)
            return dist.Normal(r, 1.0).to_event(1)

    guides = ("exact", "amortised", "amortised_full", "posterior", "posterior_full", Watch())
    for kernel_guide in guides:
        model = IGCM(3, 2, kernel_guide=kernel_guide, response="continuous")
        for standardizer, rows in ((model.x_standardizer, x), (model.r_standardizer, r)):
            standardizer.learn(rows)
        model.response.learn_unit(100.0 + 50.0 * y)
        site = sites(model.guide, x, r, 100.0 + 50.0 * y)["k"]
        full = kernel_guide == "exact" or str(kernel_guide).endswith("_full")
        assert isinstance(site["fn"], torch.distributions.MultivariateNormal) == full
        if kernel_guide != "exact":
            standard = model.x_standardizer(x), model.r_standardizer(r)
            wanted = model.k_guide(*standard, model.response.standardized(100.0 + 50.0 * y))
            torch.testing.assert_close(site["log_prob"], wanted.log_prob(site["value"]))
    for value in seen.values():
        torch.testing.assert_close(
            value.mean(0), torch.zeros_like(value.mean(0)), rtol=0, atol=1e-5
        )
        torch.testing.assert_close(value.std(0, correction=0), torch.ones_like(value.std(0)))


def test_only_the_joint_objective_trains_the_decoder_of_x() -> None:
    model = IGCM(3, 2, prior="standard", kernel_guide="amortised")
    everything = {name for name, _ in model.named_parameters()}
    for objective in model.objectives:
        left_out = everything - set(model.trained_parameters(objective))
        assert {name.split(".")[0] for name in left_out} == (
            set() if objective == "joint" else {"x_decoder"}
        )


# Views of the program


@pytest.mark.parametrize("kernel_prior", ["standard", "conditional"])
@pytest.mark.parametrize("k_dim", [1, 2, 3])
def test_conditional_program_draws_the_kernel_from_its_exact_posterior(
    k_dim: int, kernel_prior: str
) -> None:
    model = trained("response_revenue", k_dim=k_dim, kernel_prior=kernel_prior)
    x, r, y = some(8)
    shown = drawn(conditional(model.model), 4000, x, r, y)
    assert set(shown) == {"z", "k", "y"}
    k, posterior = shown["k"]["value"], shown["k"]["fn"]
    # Bayes' rule with the densities of the explicit program: p(k) p(r | k) / p(k | r) is constant.
    explicit = drawn(poutine.condition(model.model, {"k": k}), 4000, x, r)
    evidence = sum(explicit[name]["log_prob"] for name in ("k", "r")) - shown["k"]["log_prob"]
    torch.testing.assert_close(evidence, evidence[:1].expand_as(evidence), rtol=0, atol=1e-8)
    error = k.std(0) / 4000**0.5
    assert ((k.mean(0) - posterior.mean[0]).abs() < 4.5 * error).all()
    assert ((k.mean(0) - explicit["k"]["fn"].mean[0]).abs() > 20.0 * error).any()


CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "K=1": ("conditional", "binary", {"k_dim": 1}),
    "K=2": ("conditional", "binary", {}),
    "alternatives": ("conditional", "binary", {"alternatives": 2, "costs": 3}),
    "categorical": ("conditional", "binary", {"prior": "categorical"}),
    "categorical, K=1": ("conditional", "binary", {"prior": "categorical", "k_dim": 1}),
    "learned kernel": ("conditional", "binary", {"kernel_prior": "conditional"}),
    "infinite cost": ("conditional", "binary", {"k_dim": 1, "p0": "constant"}),
    "mapped kernel": ("conditional", "binary", {"kernel_map": "positive_linear"}),
    "laplace cost": ("conditional", "binary", {"k_dim": 1, "cost_family": "laplace"}),
    "continuous": ("conditional", "continuous", {}),
    "continuous, K=1": ("conditional", "continuous", {"k_dim": 1}),
    "response and revenue": ("response_revenue", "binary", {}),
    "joint": ("joint", "binary", {}),
    "joint, continuous": ("joint", "continuous", {"k_dim": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_prediction_and_density_equal_brute_force_over_the_explicit_program(case: str) -> None:
    objective, response, options = CASES[case]
    model = trained(objective, response, **options)
    x, r, y = some(5, response)
    site, weights = brute_force(model, x, r, 30_000)
    draws = 2048
    mean, error = weighted(site["value"], weights)
    prediction = model.predict(x, r, num_samples=draws)
    assert prediction.std() > 3.0 * error.mean()  # rows differ by more than the test can see
    tolerance = 0.003 * (1.0 if response == "binary" else y.std())
    assert ((prediction - mean).abs() < 4.5 * error + tolerance).all()
    density, error = weighted(site["fn"].log_prob(y).exp(), weights)
    log_p = model.log_prob(x, r, y, num_samples=draws)
    assert ((log_p.exp() - density).abs() < 4.5 * error + 0.01 * density).all()


@pytest.mark.parametrize("case", ["K=1", "K=2", "continuous", "categorical", "categorical, K=1"])
def test_bound_of_the_conditional_pair_tends_to_the_brute_force_density(case: str) -> None:
    objective, response, options = CASES[case]
    model = trained(objective, response, **options)
    x, r, y = some(5, response)
    site, weights = brute_force(model, x, r, 30_000)
    density, error = weighted(site["fn"].log_prob(y).exp(), weights)
    pair = model.training_pair("conditional")
    with torch.no_grad():
        if not pair.enumerated:
            elbo = ImportanceWeightedELBO(4096, max_plate_nesting=1)
            value = elbo.log_weights(pair.program, pair.guide, x, r, y).exp().mean(0)
        elif pair.sampled:  # z is summed out, and k outside the logarithm: below, and close
            elbo = TraceEnum_ELBO(512, max_plate_nesting=1, vectorize_particles=True)
            with torch_default(torch.float64):
                gap = density.log().sum() + elbo.loss(pair.program, pair.guide, x, r, y)
            assert -0.02 < gap < 0.3
            return
        else:
            elbo = TraceEnum_ELBO(max_plate_nesting=1)
            one = [
                elbo.loss(pair.program, pair.guide, *(t[i : i + 1] for t in (x, r, y)))
                for i in range(5)
            ]
            value = torch.tensor(one).double().neg().exp()
    assert ((value - density).abs() < 4.5 * error + 0.04 * density).all()


@dtypes
@pytest.mark.parametrize("prior", ["conditional", "standard", "categorical"])
def test_single_kernel_is_integrated_in_closed_form(prior: str, dtype: torch.dtype) -> None:
    model = IGCM(3, 2, k_dim=1, prior=prior).to(dtype)
    x, r, y = (t.to(dtype) for t in data(6))
    model.r_standardizer.learn(r)
    pair = model.training_pair("conditional")
    assert set(sites(pair.program, x, r, y)) == {"z", "y"}
    assert "k" not in sites(pair.guide, x, r, y)
    assert pair.sampled == (prior != "categorical")
    # Given z, the average over draws of k.
    z = {"z": torch.eye(4, dtype=dtype)[torch.tensor([0, 1, 2, 3, 0, 1])]}
    closed = sites(poutine.condition(pair.program, z), x, r, y)["y"]["fn"].log_prob(y).exp()
    draws = 20_000
    view = poutine.condition(conditional(model), {"z": z["z"].expand(draws, 6, 4)})
    sampled = drawn(view, draws, x, r, y)["y"]["fn"].log_prob(y).exp()
    error = sampled.std(0) / draws**0.5
    assert (error > 0.0).all()
    assert ((sampled.mean(0) - closed).abs() < 4.5 * error).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k_dim": 1, "alternatives": 2, "costs": 1},
        {"k_dim": 1, "kernel_map": "sigmoid"},
        {"k_dim": 1, "cost_family": "laplace"},
        {"k_dim": 1, "response": "continuous"},
        {"k_dim": 1, "kernel_guide": "amortised"},
    ],
    ids=["K=2", "alternatives", "map", "laplace cost", "continuous", "guide of its own"],
)
def test_kernel_without_a_closed_form_is_drawn(options: dict[str, Any]) -> None:
    model = IGCM(3, 2, **options)
    x, r, y = data(6, options.get("response", "binary"))
    pair = model.training_pair("conditional")
    assert set(sites(pair.guide, x, r, y)) == {"z", "k"}
    assert ("k" in pair.shared) == ("kernel_guide" not in options)


def features(c: Tensor, k: Tensor) -> list[Tensor]:
    return list(torch.cat([c, k, c - k, c * k], -1).T)


@pytest.mark.parametrize("options", [{}, {"p0": "constant"}], ids=["finite", "infinite"])
def test_recovered_kernel_and_costs_are_those_of_rejection_sampling(options: Any) -> None:
    model = trained(k_dim=1, **options)
    x, r, _ = (t[:1].expand(6000, *t.shape[1:]) for t in some(1))
    prior = drawn(given_inputs(model), 10, x, r)
    for y in (torch.zeros(6000).double(), torch.ones(6000).double()):
        shown = sites(uncollapse(given_inputs(model), kernel="k"), x, r, y)
        c, k = (shown[name]["value"] for name in ("c", "k"))
        assert torch.equal((c < k).all(-1).double(), y)
        agrees = prior["y"]["value"] == y
        others = [prior[name]["value"][agrees][:6000].clamp(max=50.0) for name in ("c", "k")]
        assert len(others[0]) > 2000
        pairs = zip(features(c.clamp(max=50.0), k), features(*others), strict=True)
        assert min(ks_2samp(mine, theirs).pvalue for mine, theirs in pairs) > 1e-4
        # A kernel that has not seen y is another one.
        assert ks_2samp(k[:, 0], prior["k"]["value"][0, :, 0]).pvalue < 1e-4


@kernels
def test_recovered_costs_agree_with_every_outcome(kernel: str) -> None:
    model = trained(**KERNELS[kernel])
    x, r, y = some(300)
    for program in (model.model, given_inputs(model)):
        shown = sites(uncollapse(program), x, r, y)
        happened = (shown["c"]["value"] < model.kernel_map(shown["k"]["value"])).all(-1)
        happened = happened.any(-1) if len(model.cost_shape) == 2 else happened
        assert torch.equal(happened.double(), y)


# Predictions


PAPER: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("binary", options) for name, options in KERNELS.items()},
    "prior of the paper": ("binary", {"prior": "standard"}),
    "full guide": ("binary", {"kernel_guide": "amortised_full"}),
    "continuous, K=1": ("continuous", {"k_dim": 1}),
    "continuous": ("continuous", {}),
}


@pytest.mark.parametrize("case", PAPER)
def test_paper_objective_predicts_with_draws_of_both_guides(case: str) -> None:
    response, options = PAPER[case]
    model = trained("paper", response, **options)
    x, r, _ = some(6, response)
    draws = 10_000
    guided = drawn(model.guide, draws, x, r)
    latent = {name: node["value"] for name, node in guided.items()}
    y = drawn(poutine.condition(model.model, latent), draws, x, r)["y"]["value"]
    prediction = model.predict(x, r, num_samples=1024)
    assert ((prediction - y.mean(0)).abs() < 4.5 * y.std(0) / draws**0.5).all()
    model.objective = "response_revenue"  # the exact p(k | x, r) in place of the guide
    assert not torch.allclose(model.predict(x, r, num_samples=1024), prediction, rtol=1e-3)


REPEATED: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{name: ("conditional", "binary", options) for name, options in KERNELS.items()},
    "categorical": ("conditional", "binary", {"prior": "categorical"}),
    "continuous": ("conditional", "continuous", {}),
    "paper": ("paper", "binary", {}),
    "paper, K=1, infinite": ("paper", "binary", {"k_dim": 1, "p0": "conditional"}),
    "joint": ("joint", "binary", {}),
}


@dtypes
@pytest.mark.parametrize("case", REPEATED)
def test_a_row_has_one_prediction_whatever_is_predicted_with_it(
    case: str, dtype: torch.dtype
) -> None:
    objective, response, options = REPEATED[case]
    model = copy.deepcopy(trained(objective, response, **options)).to(dtype)
    x, r = (t.to(dtype) for t in some(130, response)[:2])
    predict = functools.partial(model.predict, num_samples=16)
    wanted = predict(x, r)
    assert torch.equal(predict(x, r), wanted)
    assert torch.equal(
        torch.cat([predict(*(t[i : i + 1] for t in (x, r))) for i in range(9)]), wanted[:9]
    )
    assert torch.equal(torch.cat([predict(x[:65], r[:65]), predict(x[65:], r[65:])]), wanted)
    order = torch.randperm(130)
    assert torch.equal(predict(x[order], r[order]), wanted[order])
    # On all pairs of some x and some r.
    pairs = predict(x[:67].repeat_interleave(9, 0), r[:9].repeat(67, 1)).reshape(67, 9)
    assert torch.equal(model.surface(x[:67], r[:9], num_samples=16), pairs)
    assert torch.equal(model.surface(x[3:4], r[2:3], num_samples=16), pairs[3:4, 2:3])


def kernel_chains(chains: int, length: int, k_dim: int, dtype: torch.dtype) -> Tensor:
    """Kernels [chains, length, K] that rise by one ulp or by more in one coordinate a step."""
    rows = [2.0 * torch.randn(chains, k_dim, dtype=dtype)]
    for _ in range(length - 1):
        up = torch.nextafter(rows[-1], torch.full_like(rows[-1], torch.inf))
        by_ulp = torch.rand(chains, 1) < 0.5
        up = torch.where(by_ulp, up, rows[-1] + torch.rand(chains, k_dim, dtype=dtype))
        moved = torch.nn.functional.one_hot(torch.randint(k_dim, (chains,)), k_dim).bool()
        rows.append(torch.where(moved, up, rows[-1]))
    return torch.stack(rows, 1)


@dtypes
@responses
@kernels
def test_prediction_given_the_kernel_never_falls_when_it_rises(
    kernel: str, response: str, dtype: torch.dtype
) -> None:
    model = copy.deepcopy(trained("conditional", response, **KERNELS[kernel])).to(dtype)
    predict = functools.partial(model.predict_given_kernel, num_samples=8)
    k = kernel_chains(500, 20, model.k_dim, dtype)
    x = some(500, response)[0].to(dtype).unsqueeze(1).expand(-1, 20, -1)
    p = torch.empty(500, 20, dtype=dtype)
    for first in (0, 1):  # neighbours in separate calls, of other sizes and orders
        order = torch.randperm(5000)
        rows = (t[:, first::2].flatten(0, 1)[order] for t in (x, k))
        parts = zip(*(t.split(997) for t in rows), strict=True)
        one = torch.empty(5000, dtype=dtype)
        one[order] = torch.cat([predict(*part) for part in parts])
        p[:, first::2] = one.reshape(500, 10)
    assert (p.diff(dim=1) >= 0).all()
    moving = (p[:, 0] > 0.01) & (p[:, 0] < 0.99) if response == "binary" else p[:, 0].isfinite()
    assert moving.sum() > 50
    assert (p[:, -1] > p[:, 0])[moving].all()


@responses
@kernels
def test_prediction_given_the_kernel_is_the_mean_of_the_program(kernel: str, response: str) -> None:
    model = trained("conditional", response, **KERNELS[kernel])
    x, r, _ = some(6, response)
    k, draws = torch.randn(6, model.k_dim).double(), 10_000
    view = poutine.condition(model.model, {"k": k.expand(draws, 6, -1)})
    y = drawn(view, draws, x, r)["y"]["value"]
    prediction = model.predict_given_kernel(x, k, num_samples=1024)
    unit = 1.0 if response == "binary" else y.std()
    error = y.std(0) / draws**0.5
    assert ((prediction - y.mean(0)).abs() < 4.5 * error + 1e-3 * unit).all()


def test_kernel_is_what_a_prediction_averages_over() -> None:
    model = trained("paper")
    x, r, y = some(20)
    guide, exact = model.kernel(x, r), None
    site = sites(model.guide, x, r, y)["k"]
    torch.testing.assert_close(guide.log_prob(site["value"]), site["log_prob"])
    model.objective = "conditional"
    exact = model.kernel(x, r)
    assert exact.batch_shape == (20,)
    site = sites(conditional(model), x, r, y)["k"]
    torch.testing.assert_close(exact.log_prob(site["value"]), site["log_prob"])


@pytest.mark.parametrize(
    "clone",
    [
        copy.deepcopy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: loaded(m, IGCM(3, 2, kernel_guide="amortised", num_samples=64, seed=8).double()),
    ],
    ids=["copy", "pickle", "state_dict"],
)
def test_prediction_survives_being_saved(clone: Callable[[IGCM], IGCM]) -> None:
    model = trained("paper")
    x, r, y = some(70)
    twin = clone(model)
    assert twin.objective == "paper"
    assert torch.equal(twin.predict(x, r), model.predict(x, r))
    assert torch.equal(twin.log_prob(x, r, y), model.log_prob(x, r, y))
    assert twin.name != model.name


def loaded(source: IGCM, target: IGCM) -> IGCM:
    target.load_state_dict(source.state_dict())
    return target


# Parts of the user


class LaplaceKernel(nn.Module):
    """p(k | x): Laplace around a linear map of x, of learned widths."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.log_scale = nn.Linear(3, 2), nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Any:
        return dist.Laplace(self.linear(x), self.log_scale.exp()).to_event(1)


@responses
def test_kernel_prior_that_is_not_normal_predicts_by_importance_weights(response: str) -> None:
    torch.manual_seed(4)
    model = IGCM(3, 2, response=response, kernel_prior=LaplaceKernel(), kernel_guide="amortised")
    before = model.k_prior.log_scale.detach().clone()
    training = {"epochs": 10, "batch_size": 64, "num_particles": 8, "progress": False}
    fit(model, *data(200, response), objective="response_revenue", learning_rate=0.04, **training)
    assert not torch.allclose(model.k_prior.log_scale, before)
    model.double()
    x, r, y = some(5, response)
    site, weights = brute_force(model, x, r, 30_000)
    unit = 1.0 if response == "binary" else y.std()
    mean, error = weighted(site["value"], weights)
    prediction = model.predict(x, r, num_samples=4096)
    assert ((prediction - mean).abs() < 4.5 * error + 0.005 * unit).all()
    density, error = weighted(site["fn"].log_prob(y).exp(), weights)
    log_p = model.log_prob(x, r, y, num_samples=4096)
    assert ((log_p.exp() - density).abs() < 4.5 * error + 0.02 * density).all()
    # Without the weights it would be the guide that speaks.
    k = model.kernel(x, r).sample((30_000,))
    y = drawn(poutine.condition(model.model, {"k": k}), 30_000, x, r)["y"]["value"]
    assert ((prediction - y.mean(0)).abs() > 6.0 * y.std(0) / 30_000**0.5).any()


# Training


@pytest.mark.parametrize("objective", OBJECTIVES)
@responses
def test_training_beats_the_outcome_alone_on_rows_it_has_not_seen(
    response: str, objective: str
) -> None:
    model = IGCM(3, 2, response=response, num_samples=64, **OBJECTIVES[objective])
    training = {"epochs": 8, "batch_size": 50, "num_particles": 8, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(model, *data(300, response), objective=objective, learning_rate=0.04, **training)
    assert model.objective == objective
    x, r, y = data(400, response, seed=9)
    alone = dist.Bernoulli(y.mean()) if response == "binary" else dist.Normal(y.mean(), y.std())
    gain = (model.log_prob(x, r, y) - alone.log_prob(y)).mean()
    assert gain > 0.25


def test_conditional_objective_with_the_standard_prior_is_announced_as_literal() -> None:
    model = IGCM(3, 2, prior="standard")
    with pytest.warns(UserWarning, match="literal loss: its optimum ignores x"):
        fit(model, *data(20), epochs=1, num_particles=2, progress=False)


# Refusals

NAN = math.nan
BUILD: dict[str, tuple[dict[str, Any], str]] = {
    "quantile": ({"response": "quantile"}, "response='quantile' has chosen levels.*use GCM"),
    "exact kernel guide": (
        {"kernel_prior": LaplaceKernel()},
        "kernel_guide='exact' needs a normal kernel_prior .* got Laplace",
    ),
    "posterior kernel guide": (
        {"kernel_prior": LaplaceKernel(), "kernel_guide": "posterior"},
        "kernel_guide reads y, and with a kernel_prior that is not normal",
    ),
    "kernel prior": ({"kernel_prior": "laplace"}, "kernel_prior must be one of"),
    "kernel guide": ({"kernel_guide": "prior"}, "kernel_guide must be one of"),
    "kernel map": ({"kernel_map": "linear"}, "kernel_map must be one of"),
    "kernel map shape": (
        {"kernel_map": "identity", "costs": 3},
        "kernel_map='identity' needs one alternative with a cost for each",
    ),
    "k_dim": ({"k_dim": 0}, "k_dim must be an integer of at least 1, got 0"),
    "guide": ({"prior": "standard", "guide": "posterior"}, "guide='posterior' reads r and y"),
}


@pytest.mark.parametrize("case", BUILD)
def test_parts_that_do_not_fit_are_refused_by_name(case: str) -> None:
    options, message = BUILD[case]
    with pytest.raises(ValueError, match=message):
        IGCM(3, 2, **options)


PAIRS: dict[str, tuple[dict[str, Any], str, str]] = {
    "joint, prior": ({}, "joint", "objective='joint' needs prior='standard'"),
    "joint, kernel prior": (
        {"prior": "standard", "kernel_prior": "conditional"},
        "joint",
        "objective='joint' needs kernel_prior='standard'",
    ),
    "paper, exact": ({}, "paper", r"objective='paper' needs a q\(k\|x, r\).*kernel_guide='amort"),
    "paper, posterior": (
        {"kernel_guide": "posterior"},
        "paper",
        r"objective='paper' needs a q\(k\|x, r\) of its own",
    ),
    "paper, categorical": (
        {"prior": "categorical", "kernel_guide": "amortised"},
        "paper",
        "objective='paper' .* not with a categorical z",
    ),
    "conditional, laplace": (
        {"kernel_prior": LaplaceKernel(), "kernel_guide": "amortised"},
        "conditional",
        "objective='conditional' .* normal kernel_prior",
    ),
    "name": ({}, "marginal", "objective must be one of"),
}


@pytest.mark.parametrize("case", PAIRS)
def test_objective_that_has_no_meaning_is_refused_by_name(case: str) -> None:
    options, objective, message = PAIRS[case]
    model = IGCM(3, 2, **options)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=message):
        fit(model, *data(20), objective=objective, progress=False)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("option", [{"elbo": "iwae"}, {"temperature": 0.5}], ids=str)
def test_paper_loss_leaves_no_choice_of_a_bound(option: dict[str, Any]) -> None:
    model = IGCM(3, 2, kernel_guide="amortised")
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be"):
        fit(model, *data(20), objective="paper", progress=False, **option)


CALLS: dict[str, tuple[Any, Any, str]] = {
    "x missing": (ValueError, lambda m, x, r, y: m.model(), "x must be given: the prior p"),
    "guide x": (ValueError, lambda m, x, r, y: m.guide(None, r, y), "x must be given: the guide"),
    "guide r": (ValueError, lambda m, x, r, y: m.guide(x, None, y), "r must be given: the guide"),
    "conditional r": (
        RuntimeError,
        lambda m, x, r, y: conditional(m)(x),
        r"conditional: 'r' is an input of p\(y \| x, r\) and must be given",
    ),
    "conditional x": (
        RuntimeError,
        lambda m, x, r, y: conditional(IGCM(3, 2, prior="standard"))(None, r),
        "conditional: 'x' is an input",
    ),
    "kernel prior x": (
        ValueError,
        lambda m, x, r, y: IGCM(3, 2, prior="standard", kernel_prior="conditional").model(),
        "x must be given: the kernel prior",
    ),
    "x NaN": (ValueError, lambda m, x, r, y: m.model(x * NAN, r, y), "x must be finite"),
    "r NaN": (ValueError, lambda m, x, r, y: m.guide(x, r * NAN, y), "r must be finite"),
    "y value": (ValueError, lambda m, x, r, y: m.model(x, r, y + 1), r"y must be 0 or 1"),
    "rows": (ValueError, lambda m, x, r, y: m.model(x, r[:4], y), "x has 12, r has 4"),
    "predict x": (ValueError, lambda m, x, r, y: m.predict(x * NAN, r), "x must be finite"),
    "predict r": (ValueError, lambda m, x, r, y: m.predict(x, r * NAN), "r must be finite"),
    "predict rows": (ValueError, lambda m, x, r, y: m.predict(x, r[:3]), "x has 12, r has 3"),
    "surface": (ValueError, lambda m, x, r, y: m.surface(x, r[:, :1]), "revenues has 1 columns"),
    "kernel": (ValueError, lambda m, x, r, y: m.kernel(x, r[:, :1]), "r has 1 columns.* r_dim=2"),
    "given kernel": (
        ValueError,
        lambda m, x, r, y: m.predict_given_kernel(x, torch.zeros(12, 3)),
        "k has 3 columns, the model was built for k_dim=2",
    ),
    "given kernel NaN": (
        ValueError,
        lambda m, x, r, y: m.predict_given_kernel(x, r * NAN),
        "k must be finite",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_rows_that_cannot_be_used_are_refused_by_name(case: str) -> None:
    error, call, message = CALLS[case]
    with pytest.raises(error, match=message):
        call(IGCM(3, 2), *data(12))


def test_missing_values_are_refused_under_every_objective() -> None:
    model = IGCM(3, 2, prior="standard", kernel_guide="amortised")
    x, r, y = data(12)
    gap = torch.where(torch.arange(12)[:, None] == 5, NAN, x)
    for objective in model.objectives:
        model.objective = objective
        for call in (lambda: model.predict(gap, r), lambda: model.surface(gap, r)):
            with pytest.raises(ValueError, match="x must be finite, got 3 NaN"):
                call()
        with pytest.raises(ValueError, match="x must be finite"):
            model.log_prob(gap, r, y)

"""IGCM: the generative story in the units of the data, its views, predictions and refusals."""

from __future__ import annotations

import copy
from typing import Any

import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from igcm_toys import (
    KERNELS,
    data,
    drawn,
    sites,
    some,
    trained,
)

from pyro_gcm import IGCM
from pyro_gcm.inference import conditional, given_inputs, uncollapse

# The program


def test_revenues_are_w_k_plus_noise_in_the_units_of_the_data() -> None:
    model = trained(k_dim=3)
    x, r, _ = some(9)
    shown = sites(model.model, x, r)
    unit, dr = model.r_standardizer, model.dr_net(model.x_standardizer(x)).base_dist
    loc = unit.loc + unit.scale * (shown["k"]["value"] @ model.loading.weight.T + dr.loc)
    wanted = dist.Normal(loc, unit.scale * dr.scale).log_prob(r).sum(-1)
    torch.testing.assert_close(shown["r"]["log_prob"], wanted)
    loading = copy.deepcopy(model.loading)
    with torch.no_grad():
        loading.raw_weight.copy_(torch.tensor([[-1.0, -0.3, 0.0], [0.0, 2.0, -9.0]]))
    for weight in (model.loading.weight, loading.weight):  # the revenue rises with every kernel
        assert weight.shape == (2, 3)
        assert (weight > 0).all()


# Views of the program


@pytest.mark.parametrize(("k_dim", "kernel_prior"), [(1, "standard"), (3, "conditional")])
def test_conditional_program_draws_the_kernel_from_its_exact_posterior(
    k_dim: int, kernel_prior: str
) -> None:
    model = trained(k_dim=k_dim, kernel_prior=kernel_prior)
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


@pytest.mark.parametrize("prior", ["conditional", "standard", "categorical"])
def test_single_kernel_is_integrated_in_closed_form(prior: str) -> None:
    model = IGCM(3, 2, k_dim=1, prior=prior)
    x, r, y = data(6)
    model.r_standardizer.learn(r)
    pair = model.training_pair("conditional")
    assert set(sites(pair.program, x, r, y)) == {"z", "y"}
    assert "k" not in sites(pair.guide, x, r, y)
    assert pair.sampled == (() if prior == "categorical" else ("z",))


def test_kernel_without_a_closed_form_is_drawn() -> None:
    for options in (
        {},
        {"k_dim": 1, "alternatives": 2, "costs": 1},
        {"k_dim": 1, "kernel_map": "sigmoid"},
        {"k_dim": 1, "cost_family": "laplace"},
        {"k_dim": 1, "response": "continuous"},
        {"k_dim": 1, "kernel_guide": "amortised"},
    ):
        pair = IGCM(3, 2, **options).training_pair("conditional")
        assert set(sites(pair.guide, *data(6, options.get("response", "binary")))) == {"z", "k"}
        assert ("k" in pair.shared) == ("kernel_guide" not in options), options


def test_recovered_costs_agree_with_every_outcome() -> None:
    for options in KERNELS.values():
        model = trained(**options)
        x, r, y = some(300)
        for program in (model.model, given_inputs(model)):
            shown = sites(uncollapse(program), x, r, y)
            happened = (shown["c"]["value"] < model.kernel_map(shown["k"]["value"])).all(-1)
            happened = happened.any(-1) if len(model.cost_shape) == 2 else happened
            assert torch.equal(happened.double(), y), options
    model = trained(k_dim=1, p0="constant")
    shown = sites(uncollapse(given_inputs(model), kernel="k"), x, r, y)
    c, k = (shown[name]["value"] for name in ("c", "k"))
    assert torch.equal((c < k).all(-1).double(), y)
    # Given y the kernel is that of the posterior, whose draws brute force has.
    wanted = model.posterior(x, r, y, num_samples=200, seed=1)["k"].double()
    off = (k - wanted.mean(0)).mean() / (wanted.var(0).mean() / len(x)).sqrt()
    assert off.abs() < 4.5


PAPER: dict[str, tuple[str, dict[str, Any]]] = {
    "K=1": ("binary", {"k_dim": 1}),
    "prior of the paper": ("binary", {"prior": "standard"}),
    "continuous, alternatives": ("continuous", {"alternatives": 2}),
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
    model.objective = "conditional"  # the exact p(k | x, r) in place of the guide
    assert not torch.allclose(model.predict(x, r, num_samples=1024), prediction, rtol=1e-3)


def test_the_event_gets_likelier_as_the_kernel_rises() -> None:
    for options in KERNELS.values():
        model = trained(**options)
        x, r, _ = some(200)
        z = model.posterior(x, r, num_samples=1, progress=False)["z"]
        k = 2.0 * torch.randn(1, 200, model.k_dim).double()
        column = torch.randint(model.k_dim, (200, 1)) == torch.arange(model.k_dim)
        steps = (
            torch.where(column, torch.nextafter(k, k + 1.0) + s, k) for s in (0.0, 1e-6, 0.3, 9.0)
        )
        k = torch.cat([k, *steps])
        sites = {"z": z.expand(5, -1, -1), "k": k}
        p = model.log_likelihood(x, r, torch.ones(200), sites=sites).exp()
        assert (p.diff(dim=0) >= -1e-12).all()  # of rounding
        moving = (p[0] > 0.01) & (p[0] < 0.99)
        assert moving.sum() > 20
        assert (p[-1] > p[0])[moving].all()

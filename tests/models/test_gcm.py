"""The program is the generative story of the paper, in the units of the data."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
import zoo
from igcm_toys import sites
from pyro.infer import Predictive
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.inference import conditional
from pyro_gcm.inference.views import unannounced

priors = pytest.mark.parametrize("prior", ["conditional", "standard"])
responses = pytest.mark.parametrize("response", ["binary", "continuous", "quantile"])
kinds = pytest.mark.parametrize("kind", [GCM, IGCM])


def rows(count: int = 12, response: str = "binary") -> tuple[Tensor, Tensor, Tensor]:
    r = torch.rand(count, 1 if response == "quantile" else 2)
    return torch.randn(count, 3), r, (torch.rand(count) < 0.5).float()


PROGRAMS: dict[str, tuple[type, dict[str, Any], dict[str, tuple[int, ...]]]] = {
    "GCM": (GCM, {}, {"w": (2,), "c": (2,)}),
    "GCM, continuous": (GCM, {"response": "continuous"}, {"w": (2,), "c": (2,)}),
    "GCM, quantile": (GCM, {"response": "quantile"}, {"w": (1,), "c": (1,)}),
    "GCM, costs": (GCM, {"costs": 3}, {"w": (2,), "c": (3,)}),
    "GCM, alternatives": (GCM, {"alternatives": 2, "costs": 3}, {"w": (2,), "c": (2, 3)}),
    "IGCM": (IGCM, {}, {"k": (2,), "c": (2,)}),
    "IGCM, continuous": (IGCM, {"response": "continuous"}, {"k": (2,), "c": (2,)}),
    "IGCM, one kernel": (IGCM, {"k_dim": 1}, {"k": (1,), "c": (1,)}),
    "IGCM, three kernels": (IGCM, {"k_dim": 3}, {"k": (3,), "c": (3,)}),
    "IGCM, alternatives": (
        IGCM,
        {"k_dim": 1, "alternatives": 2, "costs": 3, "p0": "constant"},
        {"k": (1,), "c": (2, 3)},
    ),
}


@pytest.mark.parametrize("prior", ["conditional", "standard", "categorical"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_shows_every_name_of_the_story(program: str, prior: str) -> None:
    kind, options, latent = PROGRAMS[program]
    x, r, y = rows(12, options.get("response", "binary"))
    model = kind(3, r.shape[1], prior=prior, z_dim=5, **options)
    shown = sites(model.model, x, r, y)
    observed = {"x": (3,), "r": (r.shape[1],), "y": ()}
    assert {name: tuple(node["value"].shape) for name, node in shown.items()} == {
        name: (12, *shape) for name, shape in {"z": (5,), **latent, **observed}.items()
    }
    assert [name for name, node in shown.items() if node["is_observed"]] == ["x", "r", "y"]
    for name, value in (("x", x), ("r", r), ("y", y)):
        assert torch.equal(shown[name]["value"], value)
    assert all(node["cond_indep_stack"][0].name == "data" for node in shown.values())
    guided = set(latent) - {"w", "c"} | (set() if prior == "categorical" else {"z"})
    assert set(sites(model.guide, x, r, y)) == guided


def trained(prior: str, response: str) -> tuple[GCM, Tensor, Tensor, Tensor]:
    """A model that has learned something of rows with units far from 1."""
    x, r, y, _ = zoo.rows(response, 300)
    elbo = "elbo" if response == "quantile" else None
    model = zoo.make(response=response, prior=prior)
    with pytest.warns(UserWarning, match="literal") if prior == "standard" else unannounced():
        fit(model, x, r, y, elbo=elbo, epochs=2, num_particles=4, progress=False)
    return model, x, r, y


@priors
@responses
def test_draws_of_a_trained_program_are_in_the_units_of_the_data(response: str, prior: str) -> None:
    model, x, r, y = trained(prior, response)
    with torch.no_grad():
        if prior == "standard":
            drawn = sites(model.model, size=4000)
        else:
            drawn = sites(model.model, x[torch.randint(300, (4000,))])
    assert drawn["y"]["value"].shape == (4000,)
    for name, data in (("x", x), ("r", r), ("y", y.unsqueeze(-1))):
        draw = drawn[name]["value"].reshape(4000, -1)
        # x and r come from networks that p(y | x, r) does not train: units, and no more than that.
        # Medians, for the density behind the pinball loss has no variance over all levels.
        assert ((draw.median(0).values - data.mean(0)).abs() < 2.0 * data.std(0)).all()
        spread = (draw.quantile(0.8, 0) - draw.quantile(0.2, 0)) / data.std(0)
        assert ((spread > 0.3) & (spread < 8.0)).all()
    if response == "binary":
        assert set(drawn["y"]["value"].tolist()) == {0.0, 1.0}
    if response == "quantile":
        level = drawn["r"]["value"]
        assert ((level > 0) & (level < 1)).all()
        assert level.mean().item() == pytest.approx(0.5, abs=0.03)
    assert drawn["c"]["value"].abs().median() < 5.0  # standardised


@kinds
def test_prior_predictive_draws_come_in_any_number(kind: type) -> None:
    model = kind(3, 2, prior="standard")
    assert model.model().shape == (1,)
    assert model.model(size=7).shape == (7,)
    draws = Predictive(model.model, num_samples=5)(size=7)
    shapes = {name: tuple(draws[name].shape) for name in ("x", "r", "y")}
    assert shapes == {"x": (5, 7, 3), "r": (5, 7, 2), "y": (5, 7)}
    given = Predictive(kind(3, 2).model, num_samples=5)(torch.zeros(6, 3))
    assert given["r"].shape == (5, 6, 2)


def test_given_parts_of_the_program_are_not_drawn() -> None:
    model = GCM(3, 2, prior="standard")
    _, r, _ = rows()
    drawn = sites(model.model, r=r)
    assert torch.equal(drawn["r"]["value"], r)
    assert drawn["x"]["value"].shape == (12, 3)
    assert not drawn["x"]["is_observed"]


def test_standard_prior_draws_z_from_the_standard_normal() -> None:
    site = sites(GCM(3, 2, prior="standard").model, size=3)["z"]
    z = site["value"]
    wanted = dist.Normal(0.0, 1.0).log_prob(z).sum(-1)
    torch.testing.assert_close(site["fn"].log_prob(z), wanted)


def test_guide_is_the_prior_the_amortised_net_or_what_was_passed() -> None:
    x, r, y = rows()
    z = torch.zeros(12, 4)

    def density(model: GCM, part: Any) -> tuple[Tensor, Tensor]:
        site = sites(model.guide, x, r, y)["z"]
        return site["fn"].log_prob(z), part.log_prob(z)

    model = GCM(3, 2)
    torch.testing.assert_close(*density(model, model.z_prior(x)))
    model = GCM(3, 2, guide="amortised")
    torch.testing.assert_close(*density(model, model.z_guide(x)))
    assert not torch.allclose(model.z_guide(x).mean, model.z_prior(x).mean)
    assert GCM(3, 2, prior="standard").z_guide is not None


def test_guide_of_the_user_gets_standardised_rows() -> None:
    seen = {}

    class Watch(torch.nn.Module):
        def forward(self, x: Tensor, r: Tensor | None, y: Tensor | None) -> Any:
            seen.update(x=x, r=r, y=y)
            return dist.Normal(torch.zeros(len(x), 4), 1.0).to_event(1)

    model = GCM(3, 2, response="continuous", guide=Watch())
    x, r, y = rows(200)
    model.x_standardizer.learn(5.0 + 2.0 * x)
    model.r_standardizer.learn(7.0 * r)
    model.response.learn_unit(100.0 + 50.0 * y)
    model.guide(5.0 + 2.0 * x, 7.0 * r, 100.0 + 50.0 * y)
    for value in seen.values():
        torch.testing.assert_close(
            value.mean(0), torch.zeros_like(value.mean(0)), rtol=0, atol=1e-5
        )
        torch.testing.assert_close(value.std(0, correction=0), torch.ones_like(value.std(0)))
    model.guide(5.0 + 2.0 * x)
    assert seen["r"] is None
    assert seen["y"] is None


class Together(torch.nn.Module):
    """A guide that concatenates what it is given, which must have one type."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3 + 2 + 1, dim)

    def forward(self, x: Tensor, r: Tensor, y: Tensor | None) -> Any:
        if y is None:
            raise ValueError("this guide reads y")
        return dist.Normal(self.linear(torch.cat([x, r, y[:, None]], 1)), 1.0).to_event(1)


@pytest.mark.parametrize("y_dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_guide_of_the_user_gets_one_type(y_dtype: torch.dtype) -> None:
    x, r, y = rows(30)
    y = y.to(y_dtype)
    fit(GCM(3, 2, guide=Together(4)), x, r.double(), y, epochs=1, progress=False)
    fit(IGCM(3, 2, kernel_guide=Together(2)), x, r, y, epochs=1, progress=False)


def test_names_in_the_store_are_unique_or_as_asked_for() -> None:
    x, r, y = rows()
    names = {GCM(3, 2).name for _ in range(20)}
    assert len(names) == 20
    for model in (GCM(3, 2), GCM(3, 2, name="mine"), GCM(3, 2, name="other")):
        conditional(model)(x, r, y)
    keys = list(pyro.get_param_store())
    assert len({key.split("$$$")[0] for key in keys}) == 3
    assert any(key.startswith("mine$$$cost_net") for key in keys)


def test_program_announces_its_parameters_unless_told_not_to() -> None:
    x, r, y = rows()
    with unannounced():
        conditional(GCM(3, 2))(x, r, y)
        GCM(3, 2).guide(x)
    assert not list(pyro.get_param_store())
    GCM(3, 2).guide(x)
    assert list(pyro.get_param_store())


def test_trained_parameters_leave_out_the_generative_halves() -> None:
    model = GCM(3, 2, prior="standard")
    names = set(model.trained_parameters())
    left_out = {name for name, _ in model.named_parameters()} - names
    assert {name.split(".")[0] for name in left_out} == {"x_decoder", "r_decoder", "w_guide"}
    assert set(model.trained_parameters("joint")) == {name for name, _ in model.named_parameters()}
    model.cost_net.requires_grad_(False)
    assert not any(name.startswith("cost_net") for name in model.trained_parameters())
    with pytest.raises(ValueError, match="objective must be one of"):
        model.trained_parameters("marginal")


def test_the_two_halves_of_the_program_can_be_scored_by_hand() -> None:
    """x given z and r given w and x, through the units."""
    model = GCM(3, 2, prior="standard").double()
    x, r, _ = (t.double() for t in rows())
    model.x_standardizer.learn(10.0 + 4.0 * x)
    model.r_standardizer.learn(-3.0 + 5.0 * r)
    trace = poutine.trace(model.model).get_trace(10.0 + 4.0 * x, -3.0 + 5.0 * r)
    trace.compute_log_prob()
    z, w = (trace.nodes[name]["value"] for name in ("z", "w"))
    standard = model.x_standardizer(10.0 + 4.0 * x), model.r_standardizer(-3.0 + 5.0 * r)
    parts = (
        (model.x_decoder(z), standard[0], model.x_standardizer.scale, "x"),
        (
            model.r_decoder(torch.cat([w, standard[0]], 1)),
            standard[1],
            model.r_standardizer.scale,
            "r",
        ),
    )
    for decoder, value, scale, name in parts:
        wanted = decoder.log_prob(value) - scale.log().sum()
        torch.testing.assert_close(trace.nodes[name]["log_prob"], wanted)


PROGRAM_ERRORS: dict[str, tuple[Any, str]] = {
    "x": (lambda x, r, y: GCM(3, 2).model(), r"x must be given: the prior p\(z\|x\) reads it"),
    "guide, x": (lambda x, r, y: GCM(3, 2).guide(None, r, y), "x must be given: the guide reads"),
    "size": (lambda x, r, y: GCM(3, 2, prior="standard").model(size=0), "size must be an integer"),
    "device": (lambda x, r, y: GCM(3, 2).model(x.to("meta"), r, y), "x is on device meta"),
    "IGCM, x": (lambda x, r, y: IGCM(3, 2).model(), "x must be given: the prior p"),
    "IGCM, guide, x": (lambda x, r, y: IGCM(3, 2).guide(None, r, y), "x must be given: the guide"),
    "IGCM, guide, r": (lambda x, r, y: IGCM(3, 2).guide(x, None, y), "r must be given: the guide"),
    "IGCM, kernel prior, x": (
        lambda x, r, y: IGCM(3, 2, prior="standard", kernel_prior="conditional").model(),
        "x must be given: the kernel prior",
    ),
}


@pytest.mark.parametrize("case", PROGRAM_ERRORS)
def test_program_refuses_by_name_what_it_cannot_run_on(case: str) -> None:
    call, message = PROGRAM_ERRORS[case]
    with pytest.raises(ValueError, match=message):
        call(*rows())


@pytest.mark.parametrize(
    "size", ["x_dim", "r_dim", "z_dim", "hidden", "alternatives", "costs", "num_samples"]
)
def test_sizes_below_one_are_refused_by_name(size: str) -> None:
    with pytest.raises(ValueError, match=f"{size} must be an integer of at least 1, got 0"):
        GCM(**{"x_dim": 3, "r_dim": 2, size: 0})


@pytest.mark.parametrize("hidden", [8, (8,), [8, 4], (), torch.Size([5])], ids=repr)
def test_hidden_layers_are_one_width_or_several(hidden: Any) -> None:
    x, r, _ = rows()
    assert GCM(3, 2, hidden=hidden).predict(x, r).shape == (12,)
    with pytest.raises(ValueError, match="hidden must be an integer of at least 1, got 0"):
        GCM(3, 2, hidden=(8, 0))

"""The program is the generative story of the paper, in the units of the data."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
import zoo
from igcm_toys import sites
from pyro.infer import Predictive
from torch import Tensor

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.inference import conditional


def rows(count: int = 12, response: str = "binary") -> tuple[Tensor, Tensor, Tensor]:
    r = torch.rand(count, 1 if response == "quantile" else 2)
    return torch.randn(count, 3), r, (torch.rand(count) < 0.5).float()


PROGRAMS: list[tuple[type, dict[str, Any], dict[str, tuple[int, ...]]]] = [
    (GCM, {}, {"w": (2,), "c": (2,)}),
    (GCM, {"response": "quantile"}, {"w": (1,), "c": (1,)}),
    (GCM, {"alternatives": 2, "costs": 3}, {"w": (2,), "c": (2, 3)}),
    (IGCM, {}, {"k": (2,), "c": (2,)}),
    (IGCM, {"k_dim": 1, "alternatives": 2, "costs": 3, "p0": "constant"}, {"k": (1,), "c": (2, 3)}),
]


@pytest.mark.parametrize("prior", ["conditional", "standard", "categorical"])
def test_program_shows_every_name_of_the_story(prior: str) -> None:
    for kind, options, latent in PROGRAMS:
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


@pytest.mark.parametrize("kind", [GCM, IGCM])
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


class Together(torch.nn.Module):
    """A guide that keeps what it is given, and joins it, which must have one type."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear, self.seen = torch.nn.Linear(3 + 2 + 1, dim), dict[str, Any]()

    def forward(self, x: Tensor, r: Tensor | None, y: Tensor | None) -> Any:
        self.seen.update(x=x, r=r, y=y)
        columns = [x, x] if r is None or y is None else [x, r, y[:, None]]
        return dist.Normal(self.linear(torch.cat(columns, 1)), 1.0).to_event(1)


@pytest.mark.parametrize("kind", [GCM, IGCM])
def test_guide_of_the_user_gets_standardised_rows(kind: type) -> None:
    guide = Together(4 if kind is GCM else 2)
    option = {"guide" if kind is GCM else "kernel_guide": guide}
    model, (x, r, y) = kind(3, 2, response="continuous", **option), zoo.rows("continuous")
    model.learn_units(x, r, y)
    model.guide(x, r, y)
    for value in guide.seen.values():
        assert value.mean(0).abs().max() < 1e-5
        assert (value.std(0, correction=0) - 1.0).abs().max() < 1e-5
    if kind is GCM:
        model.guide(x)
        assert guide.seen["r"] is None
        assert guide.seen["y"] is None


def test_guide_of_the_user_gets_one_type() -> None:
    x, r, y = rows(30)
    for y_dtype in (torch.float64, torch.int64, torch.bool):
        fit(GCM(3, 2, guide=Together(4)), x, r.double(), y.to(y_dtype), epochs=1, progress=False)
        fit(IGCM(3, 2, kernel_guide=Together(2)), x, r, y.to(y_dtype), epochs=1, progress=False)


def test_names_in_the_store_are_unique_or_as_asked_for() -> None:
    x, r, y = rows()
    names = {GCM(3, 2).name for _ in range(20)}
    assert len(names) == 20
    for model in (GCM(3, 2), GCM(3, 2, name="mine"), GCM(3, 2, name="other")):
        conditional(model)(x, r, y)
    keys = list(pyro.get_param_store())
    assert len({key.split("$$$")[0] for key in keys}) == 3
    assert any(key.startswith("mine$$$cost_net") for key in keys)
    with torch.no_grad():
        conditional(GCM(3, 2))(x, r, y)
        GCM(3, 2).guide(x)
    assert list(pyro.get_param_store()) == keys
    GCM(3, 2).guide(x)
    assert len(pyro.get_param_store()) > len(keys)


def test_parameters_that_are_fixed_are_not_trained() -> None:
    model = GCM(3, 2, prior="standard")
    model.cost_net.requires_grad_(False)
    assert not any(name.startswith("cost_net") for name in model.trained_parameters())


def test_hidden_layers_are_one_width_or_several() -> None:
    x, r, _ = rows()
    for hidden in (8, (8,), [8, 4], (), torch.Size([5])):
        assert GCM(3, 2, hidden=hidden).predict(x, r).shape == (12,)

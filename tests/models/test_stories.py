"""A story that a subclass changes: program, training, predictions and posteriors follow it."""

from __future__ import annotations

from typing import Any

import extended_models
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
import zoo

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import conditional
from pyro_gcm.inference.reading import Plan

pytestmark = pytest.mark.filterwarnings("ignore:.*effective sample size below 100")


#: Kinds of models, and what a subclass changes in them.
CASES = [
    *(("plain", change) for change in extended_models.CHANGES),
    *(("implicit", change) for change in extended_models.CHANGES),
    *(("members", "site"), ("joint", "z_dist"), ("implicit, joint", "y_dist")),
    *(("alternatives", "c_dist"), ("ordinal", "shared"), ("continuous", "site")),
    *(("survival", "z_dist"), ("distribution", "c_dist"), ("implicit, one kernel", "site")),
]


@pytest.mark.parametrize(("kind", "change"), CASES)
def test_log_likelihoods_of_draws_are_those_of_the_program(kind: str, change: str) -> None:
    own = zoo.KINDS[kind]
    model = zoo.make(extended_models.class_of(change, own.family), **own.options)
    zoo.quickly(model, zoo.rows_of(kind, 40), **own.training)
    few = zoo.rows_of(kind, 5)
    values, weights = model.eval().surface_draws(few.x, few.r)
    mean = values.mean(0) if weights is None else (values * weights).sum(0)
    torch.testing.assert_close(model.surface(few.x, few.r), mean, rtol=1e-9, atol=1e-9)
    if isinstance(model, GCM) and model.response.is_probability:
        level = float(model.predict(few.x, few.r).mean())
        needed = model.required_revenue(few.x, level)
        at = torch.stack([needed, model.r_standardizer.loc[1].expand(5)], 1)[needed.isfinite()]
        assert (model.predict(few.x[needed.isfinite()], at) >= level).all()
    draws = model.posterior(*few, num_samples=6, num_proposals=64, progress=False)
    assert set(model.latent_shapes()) - set(model.prediction_plan.informed) <= set(draws)
    found = model.log_likelihood(*few, sites=draws)
    pair, y = model.training_pair(model.objective), model.response.outcome(few.y)
    # The program for training may have integrated k out; this one has it.
    program = conditional(model.model) if "k" in pair.plan.left else pair.program
    for s in range(6):
        sites = {name: draws[name][s] for name in model.latent_shapes() if name in draws}
        if "effect" in sites:  # the program has one of all rows
            assert (sites["effect"] == sites["effect"][:1]).all()
            sites["effect"] = sites["effect"][0]
        given = poutine.trace(poutine.condition(program, sites)).get_trace(few.x, few.r, y)
        given.compute_log_prob()
        site = given.nodes["y"]
        torch.testing.assert_close(found[s], site["log_prob"].detach(), rtol=1e-9, atol=1e-9)


def test_a_view_that_is_overridden_is_refused() -> None:
    class Own(GCM):
        def model(self, *args: Any, **options: Any) -> Any:
            return super().model(*args, **options)

    class Guided(GCM):
        def guide(self, *args: Any, **options: Any) -> Any:
            return super().guide(*args, **options)

    data = zoo.rows(count=8)
    own, guided = zoo.make(Own), zoo.make(Guided)
    for call in (lambda: zoo.quickly(own, data), lambda: own.predict(data.x, data.r)):
        with pytest.raises(TypeError, match=r"Own overrides model, a view .*: override story"):
            call()
    with pytest.raises(TypeError, match=r"Guided overrides guide, .*: override guide_story"):
        zoo.quickly(guided, data)
    assert guided.predict(data.x, data.r).isfinite().all()


def test_a_story_with_another_kernel_needs_its_exact_posterior() -> None:
    class Kernel(IGCM):
        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            def line(name: str, p: Any, obs: Any = None) -> Any:
                if name == "k":
                    return sample("k", dist.Normal(torch.full((2,), 2.0).double(), 1.0).to_event(1))
                return sample(name, p, obs)

            line.deterministic = sample.deterministic  # type: ignore[attr-defined]
            return super().story(line, x, r, y)

    with pytest.raises(ValueError, match="another distribution of 'k' than IGCM"):
        zoo.quickly(zoo.make(Kernel), zoo.rows(count=8))

    class Other(IGCM):
        def k_dist(self, x: Any) -> Any:
            return dist.Normal(torch.full((2,), 2.0).double(), 1.0).to_event(1)

    with pytest.raises(ValueError, match="another distribution of 'k' than IGCM"):
        zoo.quickly(zoo.make(Other), zoo.rows(count=8))


def test_a_story_that_hides_columns_from_z_needs_no_guide() -> None:
    class Hiding(GCM):
        def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
            def line(name: str, p: Any, obs: Any = None) -> Any:
                return sample(name, self.z_dist(0.0 * x) if name == "z" else p, obs)

            return super().story(line, x, r, y)

    model, rows = zoo.make(Hiding), zoo.rows(count=40)
    zoo.quickly(model, rows)
    x, r, y = (column[:2] for column in rows[:3])
    nodes = poutine.trace(model.guide).get_trace(x, r, y).nodes
    torch.testing.assert_close(nodes["z"]["fn"].mean, model.z_dist(0.0 * x).mean)
    assert torch.equal(model.predict(x, r), model.predict(x[[0, 0]], r))


class WithRevenues(GCM):
    objectives = {
        **GCM.objectives,
        "with revenues": Plan(given=("x",)),
    }


def test_an_objective_is_one_record() -> None:
    """log p(y, r | x): revenues that are scored in training do not weigh predictions in them."""
    data, model = zoo.rows(count=300), zoo.make(WithRevenues)
    zoo.quickly(model, data, objective="with revenues", epochs=3)
    assert model.simulate(x=data.x)["r"].shape == data.r.shape
    with torch.no_grad():
        model.r_decoder.net[-1].weight.mul_(8.0)
    x, r = data.x.repeat(40, 1), data.r.repeat(40, 1)
    higher = r + 0.3 * torch.rand(r.shape, generator=torch.Generator().manual_seed(0))
    assert (model.predict(x, higher) >= model.predict(x, r)).all()
    assert "c" in model.cost_posterior(data.x[:2], data.r[:2], data.y[:2], num_samples=9)

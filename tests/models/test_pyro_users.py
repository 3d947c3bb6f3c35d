"""What people who know Pyro try: it is right, or it is refused by name."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.infer as infer
import pytest
import torch
import zoo
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, autoguide

from pyro_gcm import GCM, IGCM, load, save
from pyro_gcm.inference import ImportanceWeightedELBO, collapse, conditional
from pyro_gcm.models import MemberGCM

TWELVE = zoo.rows(count=12)


# Names in Pyro's store


def svi_of(model: Any) -> Any:
    optimizer = pyro.optim.Adam({"lr": 0.01})
    return SVI(conditional(model.model), model.guide, optimizer, Trace_ELBO())


def test_a_name_that_is_taken_is_refused(tmp_path: Any) -> None:
    pyro.clear_param_store()
    first = zoo.make(name="mine")
    svi_of(first).step(*TWELVE[:3])
    save(first, tmp_path / "first")
    for other in (zoo.make(name="mine"), load(tmp_path / "first")):
        with pytest.raises(RuntimeError, match=r"name='mine' is taken .*pyro.clear_param_store"):
            svi_of(other).step(*TWELVE[:3])
    pyro.clear_param_store()
    before = [p.clone() for p in other.parameters()]
    svi_of(other).step(*TWELVE[:3])
    assert any(not torch.equal(a, b) for a, b in zip(before, other.parameters(), strict=True))


def test_lifted_parameters_are_refused() -> None:
    model = zoo.make()
    lifted = poutine.lift(conditional(model.model), prior=dist.Normal(0.0, 1.0))
    with pytest.raises(RuntimeError, match=r"poutine.lift, cannot reach .* sites in `shared`"):
        poutine.trace(lifted).get_trace(*TWELVE[:3])


# A finite z under every bound

ELBOS: dict[str, Any] = {
    "Trace": infer.Trace_ELBO,
    "TraceGraph": infer.TraceGraph_ELBO,
    "TraceEnum": infer.TraceEnum_ELBO,
    "TraceMeanField": infer.TraceMeanField_ELBO,
    "Renyi": lambda **options: infer.RenyiELBO(0.5, **options),
    "TailAdaptive": infer.TraceTailAdaptive_ELBO,
    "TMC": infer.TraceTMC_ELBO,
    "JitTrace": infer.JitTrace_ELBO,
    "JitTraceGraph": infer.JitTraceGraph_ELBO,
    "JitTraceEnum": infer.JitTraceEnum_ELBO,
    "JitTraceMeanField": infer.JitTraceMeanField_ELBO,
    "importance-weighted": lambda vectorize_particles=True, **options: ImportanceWeightedELBO(
        **options
    ),
    "wake-sleep": lambda num_particles=2, **options: infer.ReweightedWakeSleep(
        num_particles=2, vectorize_particles=False, max_plate_nesting=1
    ),
}
#: Losses of a bound, whose mean is compared.
DRAWN = 15
NESTING = {"max_plate_nesting": 1}
PARTICLES: dict[str, dict[str, Any]] = {
    "one": NESTING,
    "one, nesting guessed": {},
    "vectorized": {"num_particles": 4, "vectorize_particles": True, **NESTING},
    "one after the other": {"num_particles": 4, "vectorize_particles": False, **NESTING},
}
SUMS_OUT = ("TraceEnum", "JitTraceEnum")
NEED_FINITE = ("TailAdaptive", *SUMS_OUT)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("prior", ["categorical", "members"])
def test_a_finite_z_is_summed_out_or_the_bound_refused(prior: str) -> None:
    model = zoo.make(prior=prior) if prior == "categorical" else zoo.make(MemberGCM, members=3)
    parts = conditional(model.eval().model), model.guide, *TWELVE[:3]
    wanted = pytest.approx(-float(model.log_prob(*TWELVE[:3]).sum()), abs=1e-6)
    refusals = "finitely many values, which this bound does not sum out.*TraceEnum_ELBO"
    for elbo, particles in itertools.product(set(ELBOS) - {"TMC"}, PARTICLES):  # a looser bound
        bound = ELBOS[elbo](**PARTICLES[particles])
        if elbo in SUMS_OUT:
            with zoo.default_dtype(torch.float64):
                assert float(bound.loss(*parts)) == wanted, (elbo, particles)
        else:
            message = f"{refusals}|not implemented"
            with pytest.raises((RuntimeError, NotImplementedError), match=message):
                bound.loss(*parts)


@pytest.mark.long(keep=5)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("elbo", [name for name in ELBOS if name not in NEED_FINITE])
@pytest.mark.parametrize("kind", ["plain", "alternatives", "joint", "implicit", "implicit, joint"])
def test_every_bound_runs_on_a_continuous_z(kind: str, elbo: str) -> None:
    """As `Trace_ELBO` has it, within Monte Carlo error, or above it where the bound is tighter."""
    model, data = zoo.with_units(kind), zoo.rows(count=12)
    pair = model.training_pair(model.objective)
    with zoo.default_dtype(torch.float64), torch.no_grad():
        torch.manual_seed(0)
        many = Trace_ELBO(2000, vectorize_particles=True, max_plate_nesting=1)
        wanted = float(many.loss(pair.program, pair.guide, *data[:3]))
        for particles in ("one", "vectorized", "one after the other"):
            losses = []
            for _ in range(DRAWN):
                loss = ELBOS[elbo](**PARTICLES[particles]).loss(pair.program, pair.guide, *data[:3])
                losses.append(float(loss[0] if isinstance(loss, tuple) else loss))
            found = torch.tensor(losses)
            error = 5.0 * float(found.std()) / math.sqrt(DRAWN) + 1e-6
            above = float(found.mean()) - wanted
            assert above < error, particles
            assert above > -error or elbo in ("Renyi", "importance-weighted", "TMC", "wake-sleep")


# Autoguides


AUTOGUIDES = (
    *("AutoNormal", "AutoDelta", "AutoDiagonalNormal", "AutoMultivariateNormal", "AutoGaussian"),
    *("AutoLowRankMultivariateNormal", "AutoIAFNormal", "AutoLaplaceApproximation"),
    *("AutoStructured", "AutoNormalMessenger", "AutoHierarchicalNormalMessenger"),
)


@pytest.mark.long(keep=6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", AUTOGUIDES)
@pytest.mark.parametrize("kind", ["plain", "continuous", "joint", "implicit", "implicit, joint"])
def test_autoguides_train_what_is_left_when_costs_are_integrated_out(kind: str, name: str) -> None:
    pyro.clear_param_store()
    with zoo.default_dtype(torch.float64):
        model, data = zoo.with_units(kind), zoo.rows(zoo.KINDS[kind].response, 12)
        program = conditional(model.model) if model.reads_x else collapse(model.model)
        guide = getattr(autoguide, name)(program)
        svi = SVI(program, guide, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO(4))
        losses = [svi.step(*data[:3]) for _ in range(20)]
    assert all(map(math.isfinite, losses))
    assert sum(losses[-5:]) < sum(losses[:5])


# Scales, derivatives


@pytest.mark.parametrize("kind", [*zoo.KINDS])
def test_differentiable_predictions_are_the_predictions(kind: str) -> None:
    model, data = zoo.trained(kind), zoo.rows_of(kind, 8)
    x, r = data.x.clone().requires_grad_(), data.r.clone().requires_grad_()
    found = model.differentiable(x, r)
    torch.testing.assert_close(found.detach(), model.predict(data.x, data.r), rtol=1e-9, atol=1e-9)
    by_x, by_r = torch.autograd.grad(found.sum(), [x, r])
    assert by_x.isfinite().all()
    step = 1e-5 * (1.0 + data.r[:, :1].abs())
    up, down = data.r.clone(), data.r.clone()
    up[:, :1] += step
    down[:, :1] -= step
    slope = (model.differentiable(data.x, up) - model.differentiable(data.x, down)).detach()
    slope = slope / (2.0 * step[:, 0])
    torch.testing.assert_close(by_r[:, 0], slope, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "reads"),
    [(GCM, "z>x x>r w>r z>c c>y r>y"), (IGCM, "z>x k>x x>r k>r z>c c>y k>y")],
)
def test_pyro_draws_the_graphs_of_the_paper(kind: type, reads: str) -> None:
    model = kind(3, 2, prior="standard")
    rows = torch.zeros(2, 3), torch.full((2, 2), 0.5), torch.tensor([0.0, 1.0])
    source = pyro.render_model(model.model, model_args=rows).source
    assert {">".join(edge) for edge in re.findall(r"(\w+) -> (\w+)", source)} == set(reads.split())
    assert set(re.findall(r"label=(\w) fillcolor=gray", source)) == {"x", "r", "y"}
    assert "z -> y" in pyro.render_model(conditional(model.model), model_args=rows).source

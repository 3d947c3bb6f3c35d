"""What people who know Pyro try: it is right, or it is refused by name."""

from __future__ import annotations

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
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide
from pyro.nn import PyroModule, PyroSample
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM, load, save
from pyro_gcm.inference import ImportanceWeightedELBO, collapse, conditional, uncollapse
from pyro_gcm.models import MemberGCM

TWELVE = zoo.rows(count=12)


# Gradients through the inputs


def test_nuts_moves_a_site_in_front_of_a_model() -> None:
    model, data = zoo.learned(), zoo.rows(count=40)

    def program(x: Tensor, r: Tensor, y: Tensor) -> Tensor:
        shift = pyro.sample("shift", dist.Normal(torch.zeros(()).double(), 3.0))
        x = torch.cat([x[:, :1] + 3.0 * shift, x[:, 1:]], 1)
        given = poutine.condition(conditional(model.model), {"z": model.z_dist(x).mean})
        return given(x, r, y)

    sampler = MCMC(NUTS(program), num_samples=30, warmup_steps=30, disable_progbar=True)
    sampler.run(*data[:3])
    assert sampler.get_samples()["shift"].std() > 0.01


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
PARTICLES: dict[str, dict[str, Any]] = {
    "one": {"max_plate_nesting": 1},
    "one, nesting guessed": {},
    "vectorized": {"num_particles": 4, "vectorize_particles": True, "max_plate_nesting": 1},
    "one after the other": {
        "num_particles": 4,
        "vectorize_particles": False,
        "max_plate_nesting": 1,
    },
}
SUMS_OUT = ("TraceEnum", "JitTraceEnum")


@pytest.mark.long(keep=28)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("particles", PARTICLES)
@pytest.mark.parametrize("elbo", [name for name in ELBOS if name != "TMC"])  # a looser bound
@pytest.mark.parametrize("prior", ["categorical", "members"])
def test_a_finite_z_is_summed_out_or_the_bound_refused(
    prior: str, elbo: str, particles: str
) -> None:
    model = zoo.make(prior=prior) if prior == "categorical" else zoo.make(MemberGCM, members=3)
    model.eval()
    bound = ELBOS[elbo](**PARTICLES[particles])
    parts = conditional(model.model), model.guide, *TWELVE[:3]
    if elbo in SUMS_OUT:
        with zoo.default_dtype(torch.float64):
            loss = float(bound.loss(*parts))
        assert loss == pytest.approx(-float(model.log_prob(*TWELVE[:3]).sum()), abs=1e-6)
        return
    refusals = "finitely many values, which this bound does not sum out.*TraceEnum_ELBO"
    with pytest.raises((RuntimeError, NotImplementedError), match=f"{refusals}|not implemented"):
        bound.loss(*parts)


@pytest.mark.long(keep=14)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("particles", [name for name in PARTICLES if "guessed" not in name])
@pytest.mark.parametrize(
    "elbo", [name for name in ELBOS if name not in ("TailAdaptive", *SUMS_OUT)]
)
@pytest.mark.parametrize("kind", ["plain", "alternatives", "joint", "implicit", "implicit, joint"])
def test_every_bound_runs_on_a_continuous_z(kind: str, elbo: str, particles: str) -> None:
    """As `Trace_ELBO` has it, within Monte Carlo error, or above it where the bound is tighter."""
    model, data = zoo.with_units(kind), zoo.rows(count=12)
    pair = model.training_pair(model.objective)
    with zoo.default_dtype(torch.float64), torch.no_grad():
        torch.manual_seed(0)
        many = Trace_ELBO(2000, vectorize_particles=True, max_plate_nesting=1)
        wanted = float(many.loss(pair.program, pair.guide, *data[:3]))
        losses = []
        for _ in range(DRAWN):
            loss = ELBOS[elbo](**PARTICLES[particles]).loss(pair.program, pair.guide, *data[:3])
            losses.append(float(loss[0] if isinstance(loss, tuple) else loss))
    found = torch.tensor(losses)
    error = 5.0 * float(found.std()) / math.sqrt(DRAWN) + 1e-6
    assert found.isfinite().all()
    if elbo in ("Renyi", "importance-weighted", "TMC", "wake-sleep"):
        assert float(found.mean()) < wanted + error
    else:
        assert abs(float(found.mean()) - wanted) < error


# Parts


class Drawing(nn.Module):
    """A part that draws a random variable of its own."""

    def forward(self, x: Tensor) -> Any:
        shift = pyro.sample("shift", dist.Normal(0.0, 1.0))
        return dist.Normal(x[..., :2] + shift, 1.0).to_event(1)


class Bayesian(PyroModule):
    """Weights that are sites."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = PyroModule[nn.Linear](2, 2)
        self.layer.weight = PyroSample(dist.Normal(0.0, 1.0).expand([2, 2]).to_event(2))

    def forward(self, z: Tensor) -> Any:
        return dist.Normal(self.layer(z), 1.0).to_event(1)


class Fixed(nn.Module):
    """A part that returns the same whatever it is given."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made

    def forward(self, *context: Any) -> Any:
        return self.made(*context)


def correlated(z: Tensor) -> Any:
    return dist.MultivariateNormal(z[..., :2], torch.eye(2))


def mixed(z: Tensor) -> Any:
    parts = dist.Normal(z[..., :2].unsqueeze(-1).expand(*z.shape[:-1], 2, 3), 1.0)
    return dist.MixtureSameFamily(dist.Categorical(torch.ones(3)), parts).to_event(1)


def matrix(x: Tensor, r: Tensor, y: Tensor) -> Any:
    return nn.functional.linear(x, torch.ones(2, 5))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a prior that draws": ({"prior": Drawing()}, r"prior must not draw .*\['shift'\].* `shared`"),
    "costs whose weights are sites": ({"cost_family": Bayesian()}, "cost_family must not draw"),
    "correlated costs": ({"cost_family": Fixed(correlated)}, "cost_family.*MultivariateNormal"),
    "a mixture of costs": ({"cost_family": Fixed(mixed)}, "cost_family.*MixtureSameFamily"),
    "a guide of other columns": ({"guide": Fixed(matrix)}, "guide must take.* mat1 and mat2"),
    "a guide that is a tensor": (
        {"guide": Fixed(lambda x, r, y: x[..., :2])},
        "guide must give a distribution, got Tensor",
    ),
    "a guide of another dimension": (
        {"guide": Fixed(lambda x, r, y: dist.Normal(x, 1.0).to_event(1))},
        r"guide must give values of shape \(2,\) for a row, got \(3,\)",
    ),
    "a guide without an event": (
        {"guide": Fixed(lambda x, r, y: dist.Normal(x[..., :2], 1.0))},
        r"guide must give values of shape \(2,\)",
    ),
    "a prior that is a tensor": ({"prior": Fixed(lambda x: x[..., :2])}, "prior must give a distr"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_part_that_cannot_be_trained_is_refused_by_name(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        GCM(3, 2, z_dim=2, **options)


def test_a_guide_of_the_kernel_is_checked_too() -> None:
    wrong = Fixed(lambda x, r, y: dist.Normal(x, 1.0).to_event(1))
    with pytest.raises(ValueError, match=r"kernel_guide must give values of shape \(2,\)"):
        IGCM(3, 2, kernel_guide=wrong)


# Autoguides


@pytest.mark.parametrize("view", [uncollapse, lambda program: program], ids=["after y", "explicit"])
def test_an_autoguide_of_costs_is_refused(view: Any) -> None:
    program = view(zoo.make().model)
    guide = autoguide.AutoNormalMessenger(program)
    svi = SVI(program, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
    with pytest.raises(RuntimeError, match=r"draws site 'c'.*inference.collapse"):
        svi.step(*TWELVE[:3])


AUTOGUIDES: dict[str, Any] = {
    name: getattr(autoguide, name)
    for name in (
        *("AutoNormal", "AutoDelta", "AutoDiagonalNormal", "AutoMultivariateNormal"),
        *("AutoLowRankMultivariateNormal", "AutoIAFNormal", "AutoLaplaceApproximation"),
        *(
            "AutoStructured",
            "AutoGaussian",
            "AutoNormalMessenger",
            "AutoHierarchicalNormalMessenger",
        ),
    )
}


@pytest.mark.long(keep=6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", AUTOGUIDES)
@pytest.mark.parametrize("kind", ["plain", "continuous", "joint", "implicit", "implicit, joint"])
def test_autoguides_train_what_is_left_when_costs_are_integrated_out(kind: str, name: str) -> None:
    pyro.clear_param_store()
    with zoo.default_dtype(torch.float64):
        model, data = zoo.with_units(kind), zoo.rows(zoo.KINDS[kind].response, 12)
        program = conditional(model.model) if model.reads_x else collapse(model.model)
        make: Any = AUTOGUIDES[name]
        guide = make(program)
        svi = SVI(program, guide, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO(4))
        losses = [svi.step(*data[:3]) for _ in range(20)]
    assert all(map(math.isfinite, losses))
    assert sum(losses[-5:]) < sum(losses[:5])


# Scales, derivatives


def test_a_scale_of_a_minibatch_weighs_its_rows() -> None:
    model = zoo.make(guide="amortised")
    pair, bound = model.training_pair(), ImportanceWeightedELBO(8, max_plate_nesting=1)
    losses = []
    for scale in (1.0, 5.0):
        torch.manual_seed(0)
        sides = (poutine.scale(side, scale=scale) for side in (pair.program, pair.guide))
        losses.append(float(bound.loss(*sides, *TWELVE[:3])))
    assert losses[1] == pytest.approx(5.0 * losses[0], rel=1e-9)


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

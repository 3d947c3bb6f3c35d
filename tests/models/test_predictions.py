"""Predictions: the same numbers in every call, close to the integral, in the units of the data."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import igcm_toys
import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
import zoo
import zuko
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM, audit_monotonicity
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.inference import conditional
from pyro_gcm.prediction.base_samples import FixedNoise

responses = pytest.mark.parametrize("response", ["binary", "continuous", "quantile"])
alternatives = pytest.mark.parametrize(
    "options", [{}, {"alternatives": 2, "costs": 3}], ids=["plain", "alternatives"]
)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


def rows(count: int, response: str = "binary", dtype: torch.dtype = torch.float32) -> Any:
    """x [count, 3] and r."""
    return zoo.rows(response, count, seed=count).map(lambda column: column.to(dtype))[:2]


def trained(response: str = "binary", dtype: torch.dtype = torch.float32, **options: Any) -> GCM:
    """A model that no test changes."""
    options = {"num_samples": 128, "hidden": 8, "z_dim": 4, **options}
    model: GCM = zoo.learned(GCM, response, None, dtype, **options)
    return model


def implicit(objective: str, response: str, **options: Any) -> tuple[IGCM, Tensor, Tensor]:
    model = igcm_toys.trained(objective, response, **options)
    return model, *rows(130, response, torch.float64)


def explicit(response: str, **options: Any) -> tuple[GCM, Tensor, Tensor]:
    return trained(response, **options, num_samples=32), *rows(130, response)


REPEATED: dict[str, Callable[[], tuple[Any, Tensor, Tensor]]] = {
    **{
        f"GCM, {response}{name}": functools.partial(explicit, response, **options)
        for response in ("binary", "continuous", "quantile")
        for name, options in (("", {}), (", alternatives", {"alternatives": 2, "costs": 3}))
    },
    **{
        f"IGCM, {name}": functools.partial(implicit, *options[:2], **options[2])
        for name, options in {
            "K=1": ("conditional", "binary", {"k_dim": 1}),
            "K=2": ("conditional", "binary", {}),
            "alternatives": ("conditional", "binary", {"alternatives": 2, "costs": 3}),
            "categorical": ("conditional", "binary", {"prior": "categorical"}),
            "continuous": ("conditional", "continuous", {}),
            "paper": ("paper", "binary", {}),
            "paper, K=1, infinite": ("paper", "binary", {"k_dim": 1, "p0": "conditional"}),
            "joint": ("joint", "binary", {}),
        }.items()
    },
}


@pytest.mark.long(keep=8)
@dtypes
@pytest.mark.parametrize("case", REPEATED)
def test_a_row_has_one_prediction_whatever_is_predicted_with_it(
    case: str, dtype: torch.dtype
) -> None:
    model, x, r = REPEATED[case]()
    model, x, r = copy.deepcopy(model).to(dtype), x.to(dtype), r.to(dtype)
    predict = functools.partial(model.predict, num_samples=16)
    wanted = predict(x, r)
    assert wanted.shape == (130,)
    torch.manual_seed(99)
    assert torch.equal(predict(x.T.contiguous().T, r), wanted)
    for row in (0, 63, 64, 129):
        assert torch.equal(predict(x[row : row + 1], r[row : row + 1]), wanted[row : row + 1])
    for size in (7, 65, 128):
        parts = zip(x.split(size), r.split(size), strict=True)
        assert torch.equal(torch.cat([predict(*part) for part in parts]), wanted)
    order = torch.randperm(130)
    assert torch.equal(predict(x[order], r[order]), wanted[order])
    # On all pairs of some x and some r, in whole and partial blocks of revenues.
    pairs = predict(x[:67].repeat_interleave(41, 0), r[:41].repeat(67, 1)).reshape(67, 41)
    assert torch.equal(model.surface(x[:67], r[:41], num_samples=16), pairs)
    for count in (1, 7, 8, 9):
        assert torch.equal(model.surface(x[:3], r[:count], num_samples=16), pairs[:3, :count])


@responses
@alternatives
def test_surface_rises_across_separate_calls(options: dict[str, Any], response: str) -> None:
    model = trained(response, **options, num_samples=32)
    x, _ = rows(20, response)
    _, r = rows(301, response)
    r = r.sort(0).values
    wanted = torch.empty(20, 301)
    wanted[:, ::2] = model.surface(x, r[::2])
    wanted[:, 1::2] = model.surface(x.flip(0), r[1::2].flip(0)).flip(0, 1)
    assert (wanted.diff(dim=1) >= 0).all()
    assert (wanted[:, -1] > wanted[:, 0]).all()


def loaded(source: Any) -> Any:
    sizes = {"hidden": 8, "z_dim": source.z_dim}
    options = {} if isinstance(source, GCM) else {"kernel_guide": "amortised", "num_samples": 64}
    target = type(source)(3, 2, seed=8, **sizes, **options).to(source.cost_net.net[0].weight.dtype)
    target.load_state_dict(source.state_dict())
    return target


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), loaded],
    ids=["copy", "pickle", "state_dict"],
)
@pytest.mark.parametrize("kind", [GCM, IGCM])
def test_prediction_survives_being_saved(kind: type, clone: Callable[[Any], Any]) -> None:
    model, x, r = explicit("binary") if kind is GCM else implicit("paper", "binary")
    y, model = torch.arange(130) % 2.0, trained() if kind is GCM else model
    twin = clone(model)
    assert twin.objective == model.objective
    assert torch.equal(twin.predict(x, r), model.predict(x, r))
    assert torch.equal(twin.log_prob(x, r, y), model.log_prob(x, r, y))
    assert twin.name != model.name


def binary_reference(model: GCM, x: Tensor, r: Tensor, draws: int) -> Tensor:
    """Pr(y = 1 | x, r) from so many draws of z, without blocks or grids."""
    q = model.z_prior(model.x_standardizer(x)).base_dist
    z = q.loc + q.scale * model.base_samples(draws)
    event = OrderEvent(model.cost_net(z), model.revenue_map(model.r_standardizer(r)))
    return event.log_probs64()[1].exp().mean(0)


def test_more_samples_change_predictions_little_and_for_the_better() -> None:
    model = trained(dtype=torch.float64, z_dim=2)
    x, r = rows(30, dtype=torch.float64)
    with torch.no_grad():
        wanted = binary_reference(model, x, r, 2**14)
    assert wanted.std() > 0.1
    errors = {n: (model.predict(x, r, num_samples=n) - wanted).abs() for n in (32, 128, 1024)}
    assert torch.equal(model.predict(x, r), model.predict(x, r, num_samples=128))
    assert errors[1024].max() < 1e-3
    assert errors[1024].mean() < 0.5 * errors[128].mean()
    assert errors[128].mean() < 0.5 * errors[32].mean()
    assert errors[128].max() < 0.01


def test_prediction_is_the_average_over_z_of_the_probability() -> None:
    model = trained(dtype=torch.float64)
    x, r = rows(90, dtype=torch.float64)
    with torch.no_grad():
        wanted = binary_reference(model, x, r, 128)
    # The grid of the revenues is 2^-40 standard deviations wide.
    torch.testing.assert_close(model.predict(x, r), wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("response", ["binary", "continuous"])
@alternatives
def test_prediction_is_the_mean_of_the_program(options: dict[str, Any], response: str) -> None:
    model = trained(response, **options, num_samples=1024)
    x, r = rows(6, response)
    draws = 20_000
    with torch.no_grad(), pyro.plate("draws", draws, dim=-2):
        y = conditional(model)(x, r)
    assert y.shape == (draws, 6)
    error = (y.mean(0) - model.predict(x, r)).abs()
    assert (error < 4.0 * y.std(0) / draws**0.5).all()


def test_quantile_prediction_has_its_level_below_it() -> None:
    model = trained("quantile", prior="conditional")
    x, r = rows(6, "quantile")
    z = torch.zeros(4)  # given z, the prediction is the level's quantile of y
    program = poutine.condition(conditional(model), {"z": z.expand(6, 4)})
    with torch.no_grad(), pyro.plate("draws", 20_000, dim=-2):
        y = program(x, r)
    with torch.no_grad():
        p_y = model.y_dist(model.cost_net(z.expand(6, 4)), x, r)
        below = (y < model.response.predict(p_y)).float().mean(0)
    assert ((below - r[:, 0]).abs() < 4.0 * (r * (1 - r))[:, 0].sqrt() / 20_000**0.5).all()


@dtypes
def test_distribution_of_costs_is_the_prediction_of_a_plain_model(dtype: torch.dtype) -> None:
    model = trained(dtype=dtype)
    x, r = rows(150, dtype=dtype)
    cost = model.cost(x)
    assert (cost.batch_shape, cost.event_shape) == ((150,), (2,))
    tolerance = 1e-11 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(cost.cdf(r), model.predict(x, r), rtol=0, atol=tolerance)
    assert cost.mean.dtype == dtype


def test_draws_of_the_costs_have_the_mean_and_the_distribution_that_they_say() -> None:
    model = trained(num_samples=64)
    x, r = rows(5)
    cost = model.cost(x)
    draws = cost.sample((10_000,))
    assert draws.shape == (10_000, 5, 2)
    error = draws.std(0) / 100.0
    assert ((draws.mean(0) - cost.mean).abs() < 4.5 * error).all()
    torch.testing.assert_close(draws.var(0), cost.variance, rtol=0.1, atol=0)
    share = (draws < r).all(-1).float().mean(0)
    assert ((share - cost.cdf(r)).abs() < 4.5 * 0.5 / 100.0).all()
    units = model.r_standardizer  # of the revenues
    assert ((cost.mean - units.loc).abs() < 8.0 * units.scale).all()


def test_costs_behind_a_map_are_in_the_units_of_the_map() -> None:
    model = trained(alternatives=2, costs=3)
    cost = model.cost(torch.zeros(4, 3))
    assert (cost.batch_shape, cost.event_shape) == ((4,), (2, 3))
    assert cost.mean.abs().max() < 20.0


# Inputs


@responses
@alternatives
@dtypes
def test_revenues_a_million_times_outside_give_finite_predictions(
    dtype: torch.dtype, options: dict[str, Any], response: str
) -> None:
    model = trained(response, dtype, **options, num_samples=32)
    x, _ = rows(40, response, dtype)
    if response == "quantile":
        ends = [torch.full((40, 1), level, dtype=dtype) for level in (1e-30, 1 - 1e-7)]
    else:
        ends = [torch.full((40, 2), value, dtype=dtype) for value in (-2e7, 2e7)]
    low, high = (model.predict(x, end) for end in ends)
    assert low.isfinite().all()
    assert high.isfinite().all()
    assert (high > low).all()
    if response == "binary":
        assert (low == 0.0).all()
        assert (high == 1.0).all()
    assert model.predict(1e6 * x, ends[0]).isfinite().all()


def test_integers_are_numbers() -> None:
    model = trained()
    x = torch.randint(-2, 3, (20, 3))
    r = torch.randint(60, 80, (20, 2))
    assert torch.equal(model.predict(x, r), model.predict(x.double(), r.double()))


@pytest.mark.parametrize("level", [0.0, 1.0, -3.0])
def test_levels_outside_the_unit_interval_are_refused(level: float) -> None:
    model = GCM(3, 1, response="quantile")
    for predict in (model.predict, model.surface):
        with pytest.raises(ValueError, match="must lie strictly between 0 and 1"):
            predict(torch.zeros(2, 3), torch.tensor([[0.5], [level]]))


# Priors of the user


class Prior(nn.Module):
    """x -> a distribution of z around a linear map of x."""

    def __init__(self, build: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.build = nn.Linear(3, 4), build

    def forward(self, x: Tensor) -> Any:
        return self.build(self.linear(x))


class FromNoise(dist.MultivariateNormal):
    """A distribution that says how it is driven by base noise."""

    def rsample_from(self, noise: Tensor) -> Tensor:
        return self.loc + noise.sinh()


def full_normal(loc: Tensor) -> Any:
    return dist.MultivariateNormal(loc, scale_tril=torch.eye(4) + 0.1 * torch.ones(4, 4).tril())


STRICT = {
    "rsample_from": lambda loc: FromNoise(loc, torch.eye(4)),
    "normal": lambda loc: dist.Normal(loc, 2.0).to_event(1),
    "full normal": full_normal,
    "laplace": lambda loc: dist.Laplace(loc, 1.0).to_event(1),
    "uniform": lambda loc: dist.Uniform(loc, loc + 1.0).to_event(1),
    "gamma": lambda loc: dist.Gamma(3.0 + loc.exp(), 1.0).to_event(1),
    "student": lambda loc: dist.StudentT(9.0, loc, 1.0).to_event(1),
    "spline flow": zuko.flows.NSF(4, 4, hidden_features=(8,)),
}


@pytest.mark.parametrize("kind", STRICT)
def test_prior_that_base_noise_can_drive_gives_strict_predictions(kind: str) -> None:
    model = GCM(3, 2, prior=Prior(STRICT[kind]))
    x, r = torch.randn(100, 3), torch.randn(100, 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*are seeded")
        wanted = model.predict(x, r)
        assert torch.equal(model.predict(x[3:4], r[3:4]), wanted[3:4])
        assert (model.predict(x, r + torch.tensor([0.1, 0.0])) > wanted).all()


@pytest.mark.parametrize("kind", STRICT)
def test_draws_by_base_noise_follow_the_prior(kind: str) -> None:
    model = GCM(3, 2, prior=Prior(STRICT[kind]))
    x = torch.randn(3, 3)
    q = model.z_prior(x)
    with torch.no_grad():  # SciPy's quantiles have no gradient
        z, _ = FixedNoise(model, model.latents(model.prediction_plan), 4096).draw("z", q, len(x))
    assert z.shape == (4096, 3, 4)
    if kind == "rsample_from":
        torch.testing.assert_close(z, q.loc + model.base_samples(4096).sinh())
        return
    draws = q.sample((20_000,))
    spread = draws.std(0)
    assert ((z.mean(0) - draws.mean(0)).abs() < 0.05 * spread).all()
    torch.testing.assert_close(z.std(0), spread, rtol=0.05, atol=0)
    covariance, wanted = (torch.cov((sample / spread)[:, 0].T) for sample in (z, draws))
    torch.testing.assert_close(covariance, wanted, rtol=0, atol=0.1)


#: What base noise cannot drive.
SEEDED = {
    "VonMises": lambda loc: dist.VonMises(loc, 1.0).to_event(1),
    "Dirichlet": lambda loc: dist.Dirichlet(loc.exp()),
    "MultivariateStudentT": lambda loc: dist.MultivariateStudentT(
        torch.tensor(5.0), loc, torch.eye(4)
    ),
    "ProjectedNormal": dist.ProjectedNormal,
}


@pytest.mark.parametrize("kind", SEEDED)
def test_rows_of_a_prior_that_base_noise_cannot_drive_have_the_same_draws_everywhere(
    kind: str,
) -> None:
    model = GCM(3, 2, prior=Prior(SEEDED[kind]), seed=0)
    x, r = torch.randn(30, 3), torch.randn(30, 2)
    state = torch.get_rng_state()
    with pytest.warns(UserWarning, match=f"{kind} has neither .* one by one") as warned:
        every = model.predict(x, r)
    assert warned[0].filename == __file__
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    # Warnings are errors here: the one above is not repeated.
    assert torch.equal(model.predict(x, r), every)
    assert torch.equal(model.predict(x[7:8], r[7:8]), every[7:8])
    assert torch.equal(model.predict(x.flip(0), r.flip(0)).flip(0), every)
    assert torch.equal(model.surface(x[:3], r[:2])[[0, 1], [0, 1]], every[:2])
    assert audit_monotonicity(model, x, r, pairs=60, tolerance=0.0, progress=False).passed
    many = model.predict(x, r, num_samples=512)
    assert (many - every).abs().max() < 0.1


def test_standard_prior_predicts_with_its_amortised_guide() -> None:
    model = GCM(3, 2, prior="standard")
    x, r = torch.randn(30, 3), torch.randn(30, 2)
    q = model.z_guide(x).base_dist
    z = q.loc + q.scale * model.base_samples()[..., :4]
    wanted = OrderEvent(model.cost_net(z), r).mean.mean(0)
    torch.testing.assert_close(model.predict(x, r), wanted, rtol=0, atol=1e-6)


def test_posterior_guide_does_not_enter_a_prediction() -> None:
    class Explosive(nn.Module):
        armed = False

        def forward(self, x: Tensor, r: Tensor, y: Tensor) -> Any:
            assert not self.armed, "a prediction must not read r or y through the guide"
            return dist.Normal(torch.zeros(len(y), 4), 1.0).to_event(1)

    model = GCM(3, 2, guide=Explosive())
    model.z_guide.armed = True
    assert model.predict(*rows(3)).isfinite().all()

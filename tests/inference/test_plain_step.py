"""Steps without Pyro's handlers: the same losses, and never without saying so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO
from torch import Tensor, nn
from toy_rows import Rows

from pyro_gcm import GCM, IGCM, fit
from pyro_gcm.inference import ImportanceWeightedELBO
from pyro_gcm.inference.noise import QuasiRandomNoise
from pyro_gcm.nets import Conditional
from pyro_gcm.training.checkpoint import Checkpoint

STEPS = {"epochs": 4, "batch_size": 16, "num_particles": 4, "progress": False, "seed": 2}

#: Options of the model and of fit, for every objective, bound and kind of guide.
CASES: dict[str, tuple[type[Any], dict[str, Any], dict[str, Any]]] = {
    "prior guide": (GCM, {}, {}),
    "one draw": (GCM, {}, {"num_particles": 1}),
    "amortised guide": (GCM, {"guide": "amortised"}, {"elbo": "elbo"}),
    "posterior guide": (GCM, {"guide": "posterior_full"}, {"temperature": 0.5}),
    "laplace": (GCM, {"prior": "laplace"}, {}),
    "dreg": (GCM, {"guide": "posterior"}, {"elbo": "dreg"}),
    "mean field": (GCM, {"prior": "standard"}, {"elbo": "mean_field"}),
    "mean field, no closed form": (GCM, {"guide": "amortised_flow"}, {"elbo": "mean_field"}),
    "alpha": (GCM, {}, {"elbo": ImportanceWeightedELBO(4, 0.5, max_plate_nesting=1)}),
    "one draw of Pyro's own": (GCM, {}, {"elbo": Trace_ELBO(1, max_plate_nesting=1)}),
    "alternatives, p0": (GCM, {"alternatives": 2, "p0": "conditional"}, {}),
    "continuous": (GCM, {"response": "continuous", "revenue_map": "piecewise_linear"}, {}),
    "quantile": (GCM, {"response": "quantile"}, {}),
    "categorical": (GCM, {"prior": "categorical"}, {}),
    "joint": (GCM, {"prior": "standard"}, {"objective": "joint"}),
    "implicit": (IGCM, {}, {}),
    "implicit, guide of k": (IGCM, {"kernel_guide": "posterior"}, {}),
    "implicit, one kernel": (IGCM, {"k_dim": 1}, {}),
    "implicit, response and revenue": (IGCM, {}, {"objective": "response_revenue"}),
    "implicit, joint": (IGCM, {"prior": "standard"}, {"objective": "joint"}),
    "implicit, paper": (IGCM, {"kernel_guide": "amortised"}, {"objective": "paper"}),
    "implicit, paper, one kernel": (
        IGCM,
        {"kernel_guide": "amortised", "k_dim": 1, "guide": "amortised"},
        {"objective": "paper"},
    ),
    "implicit, categorical": (
        IGCM,
        {"prior": "categorical"},
        {"objective": "response_revenue"},
    ),
}


def rows_for(options: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(3)
    x, r = torch.randn(48, 3, generator=g), torch.randn(48, 2, generator=g)
    y = (r.sum(1) + x[:, 0] + torch.randn(48, generator=g) > 0.0).double()
    if options.get("response") == "quantile":
        r = torch.rand(len(r), 1, generator=torch.Generator().manual_seed(0)) * 0.9 + 0.05
    if options.get("response") in ("quantile", "continuous"):
        y = y + x[:, 0]
    return x.double(), r.double(), y.double()


def fitted(case: str, **extra: Any) -> tuple[Any, Any]:
    kind, options, training = CASES[case]
    x, r, y = rows_for(options)
    torch.set_default_dtype(torch.float64)
    try:
        model = kind(x.shape[1], r.shape[1], hidden=4, z_dim=2, seed=1, **options)
        result = fit(model, x, r, y, **{**STEPS, **training, **extra})
    finally:
        torch.set_default_dtype(torch.float32)
    return model, result


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.long(keep=20)
@pytest.mark.usefixtures("seeded_steps")
@pytest.mark.filterwarnings("ignore:prior='standard':UserWarning")
@pytest.mark.parametrize("particles", ["random", "qmc"])
@pytest.mark.parametrize("case", CASES)
def test_the_plain_step_trains_as_pyro_does(case: str, particles: str) -> None:
    plain, result = fitted(case, particles=particles, validation=0.25)
    through_pyro, reference = fitted(case, particles=particles, validation=0.25, engine="pyro")
    assert (result.engine, reference.engine) == ("plain", "pyro"), result.engine_reason
    assert reference.engine_reason == "engine='pyro' was asked for"
    torch.testing.assert_close(weights(plain), weights(through_pyro), rtol=1e-8, atol=1e-9)
    for column in ("loss", "validation_loss"):
        found, wanted = (torch.tensor(h.history[column]) for h in (result, reference))
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-9)


class Doubled(GCM):
    """A program of the user's own, which the plain step knows nothing of."""

    def model(self, *args: Any, **options: Any) -> Tensor:
        with pyro.poutine.scale(scale=2.0):
            return super().model(*args, **options)


class Dropped(nn.Module):
    """A prior whose network draws random numbers, more of them where it is run twice."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.net = nn.Dropout(0.5), Conditional(dist.Normal, 3, (2,), 4)

    def forward(self, x: Tensor) -> Any:
        return self.net(self.drop(x))


class Counting(nn.Module):
    """A prior with batch norm, whose statistics a step changes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.net = nn.BatchNorm1d(3), Conditional(dist.Normal, 3, (2,), 4)

    def forward(self, x: Tensor) -> Any:
        return self.net(self.norm(x))


@pytest.mark.parametrize(
    ("make", "training", "reason"),
    [
        (lambda: Doubled(3, 2), {}, "loss of the first step differs"),
        (lambda: GCM(3, 2, prior=Dropped(), z_dim=2, guide="posterior"), {}, "differs"),
        (lambda: GCM(3, 2), {"elbo": "renyi"}, "bound RenyiELBO has no plain form"),
        (
            lambda: GCM(3, 2),
            {"elbo": type("Mine", (TraceMeanField_ELBO,), {})(4, max_plate_nesting=1)},
            "bound Mine has no plain form",
        ),
    ],
    ids=["program", "dropout", "renyi", "bound"],
)
def test_what_has_no_plain_form_goes_through_pyro_and_says_why(
    make: Callable[[], GCM], training: dict[str, Any], reason: str, toy: Rows
) -> None:
    models = []
    for _ in range(2):
        torch.manual_seed(0)  # of the parts that are made here
        models.append(make())
    auto, forced = models
    result = fit(auto, *toy, **{**STEPS, **training})
    assert result.engine == "pyro"
    assert reason in result.engine_reason
    # The step that was tried left no trace.
    fit(forced, *toy, **{**STEPS, **training}, engine="pyro")
    assert torch.equal(weights(auto), weights(forced))


def test_missing_values_and_observed_costs_need_pyro(toy: Rows) -> None:
    x, r, y = (part.clone() for part in toy)
    c = torch.full_like(r, torch.nan)
    c[y > 0, 0] = r[y > 0, 0] - 1.0
    observed = fit(GCM(3, 2), x, r, y, c, **STEPS)
    assert (observed.engine, observed.engine_reason) == ("pyro", "costs were observed")
    x[0, 0] = torch.nan
    missing = fit(GCM(3, 2, prior="standard"), x, r, y, objective="joint", **STEPS)
    assert missing.engine == "pyro"
    assert missing.engine_reason == "x has missing values"


def test_the_first_step_updates_the_statistics_of_batch_norm_once(toy: Rows) -> None:
    model = GCM(3, 2, prior=Counting(), z_dim=2)
    result = fit(model, *toy, **STEPS)
    assert result.engine == "plain"
    steps = int(result.history["step"].iloc[-1])
    assert int(model.z_prior.norm.num_batches_tracked) == steps


def test_a_wrong_gradient_is_noticed(toy: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyro_gcm.inference import program_trainer

    true = program_trainer.plain_loss

    def off(*parts: Any) -> Tensor:
        loss = true(*parts)
        return loss.detach() + 1.001 * (loss - loss.detach())

    monkeypatch.setattr(program_trainer, "plain_loss", off)
    result = fit(GCM(3, 2), *toy, **STEPS)
    assert result.engine == "pyro"
    assert "gradient" in result.engine_reason


def test_unknown_engines_and_particles_are_refused(toy: Rows) -> None:
    with pytest.raises(ValueError, match=r"engine must be one of .*got 'fast'"):
        fit(GCM(3, 2), *toy, engine="fast")
    with pytest.raises(ValueError, match=r"particles must be one of .*got 'sobol'"):
        fit(GCM(3, 2), *toy, particles="sobol")


def test_quasi_random_draws_are_standard_normal_and_fill_the_space() -> None:
    torch.manual_seed(0)
    noise = QuasiRandomNoise(16, 3, seed=0, like=torch.zeros((), dtype=torch.float64))
    noise.new_batch(20_000)
    q = dist.Normal(torch.zeros(20_000, 3, dtype=torch.float64), 1.0).to_event(1)
    draws = noise.draw(q, (16, 20_000))
    assert draws.shape == (16, 20_000, 3)
    torch.testing.assert_close(draws.mean((0, 1)), torch.zeros(3).double(), rtol=0.0, atol=0.02)
    torch.testing.assert_close(draws.std((0, 1)), torch.ones(3).double(), rtol=0.01, atol=0.0)
    # The mean over a row's draws has a fraction of the variance 1/16 of independent ones.
    assert (draws.mean(0).var(0) < 0.3 / 16).all()
    # Nearly one point in every sixteenth of each coordinate; of random ones 10.3 are hit.
    cells = (torch.special.ndtr(draws) * 16).floor()
    counts = [len(set(column.tolist())) for row in cells[:, :200].unbind(1) for column in row.T]
    assert sum(counts) / len(counts) > 12.0


class Heavy(nn.Module):
    """A prior without quantile functions."""

    def __init__(self) -> None:
        super().__init__()
        self.loc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Any:
        return dist.StudentT(5.0, self.loc(x), 1.0).to_event(1)


@pytest.mark.parametrize(
    ("make", "name"), [(lambda: "mixture", "DiagNormalMixture"), (Heavy, "Independent")]
)
def test_what_nothing_can_drive_is_drawn_at_random_and_says_so(
    make: Callable[[], Any], name: str, toy: Rows
) -> None:
    model = GCM(3, 2, prior=make(), z_dim=2)
    result = fit(model, *toy, **STEPS, particles="qmc")
    assert result.engine == "plain"
    assert result.engine_reason.endswith(f"nothing drives draws of {name}, which are random")
    noise = QuasiRandomNoise(4, 2, seed=0, like=torch.zeros(()))
    q = model.z_dist(toy.x[:5])
    noise.new_batch(5)
    first, second = noise.draw(q, (4, 5)), noise.draw(q, (4, 5))
    assert first.requires_grad
    assert not torch.equal(first, second)


def test_float32_draws_by_quantiles_are_finite_in_the_tails() -> None:
    noise = QuasiRandomNoise(2, 1, seed=0, like=torch.zeros(()))
    noise.new_batch(3)
    noise.base = torch.tensor([-8.1, 8.1]).reshape(2, 1, 1).expand(2, 3, 1)
    q = dist.Laplace(torch.zeros(3, 1), torch.ones(3, 1)).to_event(1)
    assert noise.draw(q, (2, 3)).isfinite().all()


@pytest.mark.parametrize(
    "bound", [ImportanceWeightedELBO(4), Trace_ELBO(4, max_plate_nesting=1), Trace_ELBO(4)]
)
def test_one_set_of_points_needs_a_bound_that_draws_all_particles_at_once(
    bound: Any, toy: Rows
) -> None:
    with pytest.raises(ValueError, match="elbo must have max_plate_nesting=1"):
        fit(GCM(3, 2), *toy, **STEPS, elbo=bound, particles="qmc")
    result = fit(GCM(3, 2), *toy, **STEPS, elbo=bound)
    assert (result.engine, result.engine_reason) == (
        "pyro",
        "the bound draws in another order: pass max_plate_nesting=1 to it",
    )


class Fixed(nn.Module):
    """A guide that has nothing to learn."""

    reads_outcome = True

    def forward(self, x: Tensor, r: Tensor, y: Tensor) -> Any:
        return dist.Normal(torch.zeros(len(x), 2), 1.5).to_event(1)


def test_dreg_of_a_guide_without_parameters(toy: Rows) -> None:
    result = fit(GCM(3, 2, guide=Fixed(), z_dim=2), *toy, **STEPS, elbo="dreg")
    assert result.engine == "plain", result.engine_reason


def test_an_error_of_the_plain_step_leaves_the_fit_to_pyro(
    toy: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyro_gcm.inference import program_trainer

    def broken(*parts: Any) -> Tensor:
        raise IndexError("no such draw")

    monkeypatch.setattr(program_trainer, "plain_loss", broken)
    result = fit(GCM(3, 2), *toy, **STEPS)
    assert (result.engine, result.engine_reason) == (
        "pyro",
        "the plain step raised IndexError: no such draw",
    )


def test_a_run_that_was_whole_but_for_its_end_still_names_its_engine(
    toy: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state"

    def killed(self: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(GCM(3, 2), *toy, **STEPS, checkpoint=file)
    resumed = fit(GCM(3, 2), *toy, **STEPS, checkpoint=file)
    assert resumed.engine == "plain"
    assert resumed.engine_reason == "loss and gradients of the first step are those of Pyro"

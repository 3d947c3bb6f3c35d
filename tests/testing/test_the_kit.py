"""The kit finds faults that are planted, and says what is wrong; parts of users pass it."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pyro.distributions as dist
import pytest
import torch
from test_own_parts import Everywhere
from torch import Tensor, nn

from pyro_gcm import GCM
from pyro_gcm.distributions import families, shifted
from pyro_gcm.inference.scored import Scored
from pyro_gcm.io import recorded
from pyro_gcm.responses import Binary
from pyro_gcm.testing import (
    CostFamilyTests,
    GuideTests,
    PriorTests,
    ResponseTests,
    RevenueMapTests,
    StoryTests,
)

# Parts of a user, each of which is right


class LaplacePrior(nn.Module):
    """The page for users of Pyro has it."""

    def __init__(self) -> None:
        super().__init__()
        self.loc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Any:
        return dist.Laplace(self.loc(x), 1.0).to_event(1)


class FullGuide(nn.Module):
    """q(z|x, r, y)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3 + 2 + 1, 4)

    def forward(self, x: Tensor, r: Tensor, y: Tensor) -> Any:
        loc, scale = self.net(torch.cat([x, r, y[..., None]], -1)).chunk(2, -1)
        return dist.Normal(loc, scale.exp()).to_event(1)


class Gumbel(dist.Gumbel):
    """A family that is registered below."""


def log_cdf(d: Any, value: Tensor) -> Tensor:
    return -torch.exp((d.loc - value) / d.scale)


def log_survival(d: Any, value: Tensor) -> Tensor:
    return torch.log(-torch.expm1(log_cdf(d, value)))


def quantile(d: Any, log_p: Tensor, log_q: Tensor) -> Tensor:
    below = torch.where(log_p < log_q, -log_p, -torch.log1p(-log_q.exp()))
    return d.loc - d.scale * below.log()


families.register_cost_family(Gumbel, log_cdf, log_survival, quantile)


class Cubes(nn.Module):
    """An increasing map."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(2))

    def forward(self, r: Tensor) -> Tensor:
        return r**3 + r * self.slope.exp()


class Noisy(Binary):
    """The event, whose prediction is a percentage."""

    def predict(self, p_y: Any) -> Tensor:
        return 100.0 * super().predict(p_y)

    def expected(self, p_y: Any) -> Tensor:
        return 100.0 * super().expected(p_y)


class Factor(GCM):
    """A story with a factor of the costs, and a reading of it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.loading = nn.Parameter(torch.tensor(0.5))

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        z = sample("z", lambda: self.z_dist(x))
        u = sample("u", dist.Normal(torch.zeros(len(x)), 1.0))
        sample("reading", lambda: dist.Normal(u, 0.7), obs=x[..., 1])
        c = sample("c", lambda: shifted(self.c_dist(z, x), self.loading * u))
        return sample("y", lambda: self.y_dist(c, x, r), obs=y)


class TestLaplacePrior(PriorTests):
    def make(self) -> Any:
        return LaplacePrior()


class TestFullGuide(GuideTests):
    factories: ClassVar[Any] = {"guide": FullGuide}

    def make(self) -> Any:
        return FullGuide()


class TestGumbel(CostFamilyTests):
    def make(self) -> Any:
        return Gumbel


class TestCubes(RevenueMapTests):
    factories: ClassVar[Any] = {"revenue_map": Cubes}

    def make(self) -> Any:
        return Cubes()


class TestNoisy(ResponseTests):
    def make(self) -> Any:
        return Noisy()


class TestFactor(StoryTests):
    def make(self) -> Any:
        return Factor(3, 2, z_dim=2, hidden=4)


# Planted faults: the test that finds each, and what it says


class OtherDensity(dist.Laplace):
    def log_prob(self, value: Tensor) -> Any:
        return super().log_prob(value + 1.0)


class OtherInverse(dist.Laplace):
    def icdf(self, value: Tensor) -> Any:
        return super().icdf(value) + 1.0


class Shifted(LaplacePrior):
    """Density and draws differ."""

    def forward(self, x: Tensor) -> Any:
        return OtherDensity(self.loc(x), 1.0).to_event(1)


class ShiftedNoise(LaplacePrior):
    """Predictions draw otherwise than Pyro does."""

    def forward(self, x: Tensor) -> Any:
        return OtherInverse(self.loc(x), 1.0).to_event(1)


class OfTheBatch(LaplacePrior):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x - 0.1 * x.mean(0))


class OfTheType(LaplacePrior):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x + 0.3 * (x.dtype == torch.float32))


class Detached(LaplacePrior):
    def forward(self, x: Tensor) -> Any:
        return super().forward(0.5 * x + 0.5 * x.detach())


class Forgetful(LaplacePrior):
    """A copy starts anew."""

    def __init__(self) -> None:
        super().__init__()
        self.by = 1.0

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "by": 0.0}

    def forward(self, x: Tensor) -> Any:
        return super().forward(x + self.by)


@recorded("tests.Unkept")
class Unkept(LaplacePrior):
    """A number that no file has."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("by", torch.randn(1), persistent=False)

    def forward(self, x: Tensor) -> Any:
        return super().forward(x + self.by)


class OnTheCPU(LaplacePrior):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x + torch.zeros(len(x), 1))


class Unused(LaplacePrior):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))


class Falling(Cubes):
    """Beyond what the constructor looks at."""

    def forward(self, r: Tensor) -> Tensor:
        return super().forward(torch.where(r > 50.0, -r, r))


class Rounded(Cubes):
    """A quotient that falls by some of its steps."""

    def forward(self, r: Tensor) -> Tensor:
        return r / (1.0 + r.abs() / 4.0) + 1e-30 * self.slope


class Contrary(Binary):
    """Its costs are those of the other outcome."""

    def distribution(self, event: Any, x: Tensor, r: Tensor) -> Any:
        plain = type(event).cost_posterior
        event.cost_posterior = lambda y: plain(event, 1.0 - y)
        return event


class Doubled(Binary):
    """Its probabilities do not sum to 1."""

    def distribution(self, event: Any, x: Tensor, r: Tensor) -> Any:
        plain = type(event).log_prob
        event.log_prob = lambda y: plain(event, y) + 0.1
        return event


class FromTheFront(Factor):
    def c_dist(self, z: Tensor, x: Tensor) -> Any:
        return super().c_dist(z - z.mean(0), x)


class OnRevenue(Factor):
    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        z = sample("z", lambda: self.z_dist(x))
        u = sample("u", lambda: dist.Normal(2.0 * r[..., 0] * self.loading, 0.2))
        c = sample("c", lambda: shifted(self.c_dist(z, x), u))
        return sample("y", lambda: self.y_dist(c, x, r), obs=y)


def _registered(name: str, **functions: Any) -> type:
    """A family with some wrong functions."""
    family = type(name, (dist.Gumbel,), {})
    families.register_cost_family(family, log_cdf, log_survival, quantile)
    families._FAMILIES[family] = families._FAMILIES[family]._replace(**functions)
    return family


def _without_digits(d: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    below = log_cdf(d, value)
    return below, torch.log1p(-below.exp())


def _of_another_scale(d: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    unit = dist.Gumbel(d.loc, 1.1 * d.scale)
    return log_cdf(unit, value), log_survival(unit, value)


def _trembling(d: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    noise = 1e-12 * torch.sin(1e15 * value.detach())
    return log_cdf(d, value) * (1.0 + noise), log_survival(d, value)


NO_DIGITS = _registered("NoDigits", log_tails=_without_digits)
RESCALED = _registered("Rescaled", log_tails=_of_another_scale)
TREMBLING = _registered("Trembling", log_tails=_trembling)
#: A kit, a part with a fault, the beginning of the test that finds it, and what that says.
FAULTS = [
    (StoryTests, lambda: FromTheFront(3, 2), "every", "site 'c' of the story has another density"),
    (StoryTests, lambda: OnRevenue(3, 2), "every", "site 'u' of the story depends on r"),
    (StoryTests, lambda: OnRevenue(3, 2), "predictions_never", "predictions in torch.float32 fall"),
    (PriorTests, ShiftedNoise, "predictions_are", "predict, beside the mean over draws of the"),
    (PriorTests, Shifted, "its_density", "the mean of the density of the prior"),
    (PriorTests, OfTheBatch, "a_row", "the prediction of row 0 alone, and not among others, is"),
    (PriorTests, OfTheType, "both", "predict in float32, beside float64, is"),
    (PriorTests, Detached, "gradients", "the gradient of the density in x is not its finite"),
    (PriorTests, Forgetful, "copies", "the prediction of a deep copy is"),
    (PriorTests, Unkept, "copies", "the prediction of the saved model is"),
    (PriorTests, OnTheCPU, "a_second", "on the same device"),
    (PriorTests, Unused, "fit_moves", "no gradient reached ['z_prior.scale']"),
    (RevenueMapTests, Falling, "it_rises", "the map falls in torch.float32, such as"),
    (RevenueMapTests, Falling, "predictions_never", "predictions in torch.float32 fall"),
    (RevenueMapTests, Rounded, "it_rises", "the map falls in torch.float32, such as"),
    (ResponseTests, Contrary, "costs_given", "the mean of costs given draws of y, beside all"),
    (ResponseTests, Contrary, "posteriors", "the posterior mean of site 'c', beside that of"),
    (ResponseTests, Doubled, "its_density", "the sum of the probabilities of y is 1.1"),
    (
        CostFamilyTests,
        lambda: NO_DIGITS,
        "its_tails_are_inv",
        "log_survival at its own quantile is",
    ),
    (CostFamilyTests, lambda: RESCALED, "its_tails_are_those", "the slope of log_cdf is"),
    (CostFamilyTests, lambda: TREMBLING, "its_tails_are_those", "log_cdf falls from one float to"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_a_planted_fault_is_found_and_told(number: int) -> None:
    base, make, start, sentence = FAULTS[number]
    tests = type("Tests", (Everywhere, base), {"make": lambda self: make()})()
    (test,) = (name for name in dir(tests) if name.startswith(f"test_{start}"))
    with pytest.raises(
        (AssertionError, ValueError, UserWarning, RuntimeError), match=re.escape(sentence)
    ):
        getattr(tests, test)()


def test_a_fault_of_a_reader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Scored._log_ratio
    monkeypatch.setattr(Scored, "_log_ratio", lambda *given: right(*given) + 0.1)
    with pytest.raises(AssertionError, match=r"loss of fit, beside Pyro's of the same draws, is"):
        TestFullGuide().test_the_loss_of_fit_is_that_of_pyro()

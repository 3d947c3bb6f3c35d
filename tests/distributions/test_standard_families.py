"""Built-in families: exact far out, each told by one object, and a user's family beside them."""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from mpmath import mp, mpf
from mpmath_reference import DIGITS, Tails, standardized, tails, worst_error
from order_event_cases import families as symmetric
from torch import Tensor

from pyro_gcm import GCM
from pyro_gcm.distributions import register_cost_family
from pyro_gcm.distributions.families import (
    cost_family,
    log_interval,
    of_same_family,
    parameters_of,
    resolve_cost_family,
)
from pyro_gcm.distributions.numerics import log1mexp
from pyro_gcm.distributions.several_outcomes import costs_between
from pyro_gcm.distributions.standard_families import BUILT_IN, StandardFamily
from pyro_gcm.io.export import export

#: Around the centre, around where the probabilities of each family underflow, and beyond.
FAR = (1e-9, 0.3, 1.0, 5.0, 20.0, 36.0, 38.4, 38.6, 300.0, 690.0, 708.0, 720.0, 746.0, 1e3, 1e4)
U = torch.tensor([0.0, *(sign * u for u in FAR for sign in (-1, 1))], dtype=torch.float64)
built_in = pytest.mark.parametrize("family", BUILT_IN.values(), ids=lambda family: family[0])


def exact(name: str) -> list[Tails]:
    return [tails(name.capitalize(), mpf(u)) for u in U.tolist()]


def exp(logarithms: list[mpf]) -> list[mpf]:
    with mp.workdps(DIGITS):
        return [mp.exp(v) for v in logarithms]


def interval(family: str, low: mpf, high: mpf) -> mpf:
    """log(F(high) - F(low)) from the tails on the side where they are small."""
    a, b = (tails(family, v) for v in (low, high))
    larger, smaller = exp([a.log_q, b.log_q] if a.log_p > a.log_q else [b.log_p, a.log_p])
    with mp.workdps(DIGITS):
        return mp.log(larger - smaller)


@built_in
def test_tails_and_densities_are_exact_until_they_underflow(
    family: tuple[str, StandardFamily],
) -> None:
    name, standard = family
    wanted, one = exact(name), torch.ones((), dtype=torch.float64)
    logs = standard.log_tails(U, 0.0 * one, one)
    below, above = standard.tails(U)
    log_p, log_q = ([getattr(t, side) for t in wanted] for side in ("log_p", "log_q"))
    for found, want, floor in (
        (logs[0], log_p, 1e-300),
        (logs[1], log_q, 1e-300),
        (below, exp(log_p), 1e-290),
        (above, exp(log_q), 1e-290),
        (standard.log_density(U), [t.log_density for t in wanted], 1e-300),
    ):
        assert worst_error(found.tolist(), want, floor) < 1e-12
    up, a = U >= 0.0, U[U >= 0.0]
    both = [2 * q for q, positive in zip(exp(log_q), up.tolist(), strict=True) if positive]
    assert worst_error(standard.two_tails(a / standard.unit).tolist(), both, 1e-290) < 1e-12
    alive = below > 1e-290
    hazard = exp([t.log_density - t.log_p for t, p in zip(wanted, alive, strict=True) if p])
    pulls = standard.pull(torch.ones_like(U), U, below, above)[alive].tolist()
    assert worst_error(pulls, hazard, 1e-290) < 1e-12


@built_in
def test_quantiles_and_intervals_are_exact_far_out(family: tuple[str, StandardFamily]) -> None:
    name, standard = family
    one = torch.ones((), dtype=torch.float64)
    again = standard.quantile_of_logs(*standard.log_tails(U, 0.0 * one, one))
    torch.testing.assert_close(again, U, rtol=1e-13, atol=1e-15)
    below = standard.tails(U)[0]
    small = (below > 1e-290) & (U < 0.0)
    torch.testing.assert_close(standard.quantile(below[small]), U[small], rtol=1e-12, atol=1e-15)
    for width in (1e-3, 0.5, 1e4):
        ends = zip(U.tolist(), (U + width).tolist(), strict=True)
        want = [interval(name.capitalize(), mpf(low), mpf(high)) for low, high in ends]
        assert worst_error(standard.log_interval(U, U + width).tolist(), want, 1.0) < 1e-12


def log_cauchy(u: Tensor) -> Tensor:
    return torch.log(torch.atan2(torch.ones_like(u), -u) / math.pi)


def registered_cauchy() -> None:
    register_cost_family(
        dist.Cauchy,
        lambda d, value: log_cauchy((value - d.loc) / d.scale),
        lambda d, value: log_cauchy((d.loc - value) / d.scale),
        name="cauchy",
    )


def test_a_users_family_keeps_its_parameters_and_has_intervals_and_curves(registry: None) -> None:
    registered_cauchy()
    loc, scale = torch.randn(4, 5, dtype=torch.float64), torch.full((), 2.0, dtype=torch.float64)
    cost = dist.Cauchy(loc, scale)
    parameters = parameters_of(cost)
    assert list(parameters) == ["loc", "scale"]
    again = of_same_family(cost, **{name: value[1:3] for name, value in parameters.items()})
    assert torch.equal(again.log_prob(loc[1:3]), cost.log_prob(loc)[1:3])
    part: Any = costs_between(cost.to_event(1), 1, 3)
    assert torch.equal(part.base_dist.loc, loc[:, 1:3])
    u = torch.tensor([[-3.0, 0.5], [-1.0, 0.7]], dtype=torch.float64)
    found = log_interval(dist.Cauchy(0.0 * scale, scale), *u)
    for value, low, high in zip(found.tolist(), *u.tolist(), strict=True):
        a, b = (mp.atan(standardized(v, 0.0, 2.0)) for v in (low, high))
        assert value == pytest.approx(float(mp.log((b - a) / mp.pi)), rel=1e-12)


def test_a_family_of_other_parts_has_no_parameters_to_keep(registry: None) -> None:
    class Shifted(dist.Normal):
        """Its constructor takes something that is no parameter of its own."""

        def __init__(self, loc: Tensor, scale: Tensor, by: float, **options: Any) -> None:
            super().__init__(loc + by, scale, **options)

    normal = cost_family(dist.Normal)
    register_cost_family(
        Shifted,
        lambda d, value: normal.log_tails(d, value)[0],
        lambda d, value: normal.log_tails(d, value)[1],
    )
    assert cost_family(Shifted).parameters == ()


def test_onnx_refuses_a_users_family_by_name(registry: None, tmp_path: Any) -> None:
    registered_cauchy()
    model = GCM(2, 1, cost_family="cauchy")
    model.objective = "conditional"
    with pytest.raises(ValueError, match=r"of the model is Cauchy.*'onnx' takes Normal, Logi"):
        export(model, tmp_path / "model.onnx", format="onnx")


LOWER = (-60.0, -30.0, -7.0, -1.0, -1e-3, 0.0, 0.4, 3.0, 12.0, 40.0)
WIDTHS = (1e-12, 1e-6, 1e-3, 0.03, 0.5, 1.0, 4.0, 30.0)
LOC, SCALE = 0.25, 1.5


@symmetric
def test_intervals_are_exact_however_narrow_and_far(family: str) -> None:
    ends = [(low, low + width) for low in LOWER for width in WIDTHS if low + width > low]
    low, high = torch.tensor(ends, dtype=torch.float64).T
    base = getattr(dist, family)(torch.tensor(LOC).double(), torch.tensor(SCALE).double())
    found = log_interval(base, low, high)
    for got, a, b in zip(found.tolist(), low.tolist(), high.tolist(), strict=True):
        # Standardising rounds: of a narrow interval that is an error relative to its width.
        rounding = 4e-16 * (abs(a) + abs(b) + 1.0) / (b - a)
        want = interval(family, *(standardized(v, LOC, SCALE) for v in (a, b)))
        assert abs(got - want) <= 1e-12 * (1.0 + abs(got)) + rounding, (a, b)


@pytest.mark.parametrize("loc", [0.0, 1e6, -1e6], ids="loc={:g}".format)
def test_bisection_finds_quantiles_to_the_last_bits(loc: float, gumbel: type) -> None:
    d = dist.Gumbel(torch.tensor(loc, dtype=torch.float64), torch.tensor(3.0))
    log_p = torch.tensor([-700.0, -5.0, -math.log(2.0), -1e-3, -1e-200], dtype=torch.float64)
    log_q = torch.log(-torch.expm1(log_p))
    closed_form = d.loc - d.scale * torch.log(-log_p)
    quantile = cost_family(dist.Gumbel).quantile(d, log_p, log_q)
    torch.testing.assert_close(quantile, closed_form, rtol=1e-14, atol=1e-12)


def log_cdf(d: dist.Gumbel, value: Tensor) -> Tensor:
    return -((d.loc - value) / d.scale).exp()


def log_survival(d: dist.Gumbel, value: Tensor) -> Tensor:
    return log1mexp(log_cdf(d, value))


def quantile(d: dist.Gumbel, log_p: Tensor, log_q: Tensor) -> Tensor:
    return d.loc - d.scale * torch.log(-log_p)


def test_built_in_families_and_names_cannot_be_taken(registry: None) -> None:
    with pytest.raises(ValueError, match="name='normal' belongs to a built-in family"):
        register_cost_family(dist.Gumbel, log_cdf, log_survival, name="normal")
    with pytest.raises(ValueError, match="distribution=Logistic belongs to a built-in family"):
        register_cost_family(
            dist.Logistic,
            lambda d, v: torch.nn.functional.logsigmoid((v - d.loc) / d.scale),
            lambda d, v: torch.nn.functional.logsigmoid((d.loc - v) / d.scale),
        )
    assert resolve_cost_family("normal") is dist.Normal


def test_a_later_registration_of_a_class_or_a_name_takes_the_place_of_an_earlier_one(
    registry: None,
) -> None:
    def register(cls: type, function: Any) -> None:
        register_cost_family(cls, log_cdf, log_survival, function, name="gumbel")

    register(dist.Gumbel, None)
    register(dist.Gumbel, quantile)
    assert cost_family(dist.Gumbel).quantile is quantile
    other = type("Other", (dist.Gumbel,), {})
    register(other, quantile)
    assert resolve_cost_family("gumbel") is other


def test_unknown_families_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"cost_family='cauchy' is unknown; known names: \['lap"):
        resolve_cost_family("cauchy")
    with pytest.raises(TypeError, match=r"StudentT is not a registered .* \(known: .*Normal.*\)"):
        resolve_cost_family(dist.StudentT)

"""Order events to try, how their errors are measured, and whether two samplers agree."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from mpmath import mpf
from mpmath_reference import event_log_probs, standardized, worst_error
from scipy.stats import ks_2samp
from torch import Tensor

from pyro_gcm.distributions import InfiniteCost, OrderEvent, ThresholdNormal

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
GRADIENT_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
# Below this size the error is absolute.
FLOOR = {torch.float32: 1e-30, torch.float64: 1e-290}

#: Log-odds of an infinite cost: never, hardly ever, sometimes, nearly always.
LOGITS = [-math.inf, -40.0, -9.0, -2.0, 0.0, 1.5, 12.0, 40.0]

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
outcomes = pytest.mark.parametrize("outcome", [0.0, 1.0], ids=["y=0", "y=1"])
families = pytest.mark.parametrize("family", ["Normal", "Logistic", "Laplace"])
atoms = pytest.mark.parametrize("infinite", [False, True], ids=["finite", "infinite"])
SHAPES = [(1,), (2,), (4,), (1, 1), (4, 1), (2, 2), (3, 2), (4, 4)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
event_shapes = pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=["K", "G,K"])
#: Every shape with one family, and every family with some.
FAMILIES_AND_SHAPES: list[tuple[str, tuple[int, ...]]] = [
    *(("Normal", shape) for shape in [(1,), (3,), (16,), (1, 2), (3, 5), (4, 1), (4, 16)]),
    *((family, shape) for family in ("Logistic", "Laplace") for shape in [(3,), (3, 2)]),
]
families_and_shapes = pytest.mark.parametrize(("family", "shape"), FAMILIES_AND_SHAPES, ids=str)


def independent(family: str, loc: Tensor, scale: Tensor, event_dim: int = 1):
    return getattr(dist, family)(loc, scale).to_event(event_dim)


def order_event(family: str, loc: Tensor, scale: Tensor, revenue: Tensor) -> OrderEvent:
    """The event for [B, G, K]; one alternative is given as the model gives it, without G."""
    if loc.shape[-2] == 1:
        loc, scale, revenue = (t.squeeze(-2) for t in (loc, scale, revenue))
        return OrderEvent(independent(family, loc, scale), revenue)
    return OrderEvent(independent(family, loc, scale, 2), revenue)


def hard_revenues(rows: int, alternatives: int, costs: int) -> Tensor:
    """Standardised revenues [rows, G, K] from -40 to 40 in all mixtures of signs and sizes.

    They come from 161 float32 numbers, so that the reference is computed once for each.
    """
    pool = torch.cat([torch.linspace(-40.0, 40.0, 81), 3.0 * torch.randn(80)])
    shape = (rows, alternatives, costs)
    mixed = torch.randint(len(pool), shape)
    kind = torch.arange(rows) % 5
    ends = torch.where(torch.rand(shape) < 0.5, pool[mixed].abs().clamp(max=40.0), pool[mixed])
    return torch.stack(
        [
            pool[mixed],
            ends,  # mostly certain
            -ends,  # mostly impossible
            pool[81 + mixed % 80],  # around the centre
            pool[mixed[:, :1, :1]].expand(shape),  # all equal
        ]
    )[kind, torch.arange(rows)]


def random_parameters(shape: torch.Size, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return 5.0 * torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype).exp()


def hard_event(
    family: str, rows: int, shape: tuple[int, ...], dtype: torch.dtype, infinite: bool = False
) -> tuple[OrderEvent, dict[str, Tensor]]:
    """Revenues from -40 to 40 standard deviations, and logits from -40 to 40; with its leaves."""
    full = torch.Size((rows, *shape))
    u = hard_revenues(rows, 1 if len(shape) == 1 else shape[0], shape[-1]).reshape(full).to(dtype)
    loc, scale = random_parameters(full, dtype)
    # The revenue is rounded: a reference starts from the rounded numbers.
    leaves = {"revenue": loc + scale * u, "loc": loc, "scale": scale}
    cost = independent(family, loc.requires_grad_(), scale.requires_grad_(), len(shape))
    if infinite:
        logits = torch.tensor(LOGITS, dtype=dtype)[torch.randint(len(LOGITS), full[:-1])]
        leaves["logits"] = logits.requires_grad_()
        cost = InfiniteCost(cost, logits)
    leaves["revenue"] = leaves["revenue"].detach().requires_grad_()
    return OrderEvent(cost, leaves["revenue"]), leaves


def fair_event(
    shape: tuple[int, ...],
    family: str = "Normal",
    batch_shape: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
    infinite: bool = False,
) -> OrderEvent:
    """An event of random parameters, both of whose outcomes have a fair chance."""
    full = batch_shape + shape
    loc, scale = torch.randn(full, dtype=dtype), 0.5 + torch.rand(full, dtype=dtype)
    plain = getattr(dist, family)(loc, scale)
    # With K costs and G alternatives this quantile gives Pr(y = 1) = 1/2.
    alternatives = shape[0] if len(shape) == 2 else 1
    p = (1.0 - 0.5 ** (1.0 / alternatives)) ** (1.0 / shape[-1])
    revenue = plain.icdf(torch.full(full, p, dtype=dtype)) + 0.3 * torch.randn(full, dtype=dtype)
    cost = plain.to_event(len(shape))
    if infinite:
        revenue = revenue + 0.5 * scale
        cost = InfiniteCost(cost, 0.5 * torch.randn(full[:-1], dtype=dtype) - 0.5)
    return OrderEvent(cost, revenue)


def finite(draws: Tensor) -> Tensor:
    """Draws with their infinite costs far away from the others, at a place that has a rank."""
    return draws.nan_to_num(posinf=100.0)


def exact_inputs(loc: Tensor, scale: Tensor, revenue: Tensor) -> list[list[list[mpf]]]:
    """Standardised revenues [B][G][K] from the very numbers in the tensors [B, (G,) K]."""
    tensors = (t.detach().reshape(len(t), -1, t.shape[-1]) for t in (revenue, loc, scale))
    return [
        [
            [standardized(*triple) for triple in zip(*row, strict=True)]
            for row in zip(*event, strict=True)
        ]
        for event in zip(*(t.tolist() for t in tensors), strict=True)
    ]


def exact_logits(leaves: dict[str, Tensor]) -> list[list[float] | None]:
    """Log-odds of p0 [B][G], or None for each event of finite costs."""
    rows = len(leaves["revenue"])
    return leaves["logits"].reshape(rows, -1).tolist() if "logits" in leaves else [None] * rows


def largest_error(event: OrderEvent, family: str, u: list, logits: list | None = None) -> float:
    """Of the log-probabilities of both outcomes."""
    of_rows = zip(u, logits or [None] * len(u), strict=True)
    exact = zip(*(event_log_probs(family, *row) for row in of_rows), strict=True)
    errors = []
    for outcome, found, wanted in zip((0.0, 1.0), event.log_probs(), exact, strict=True):
        assert torch.equal(event.log_prob(torch.tensor(outcome, dtype=event.dtype)), found)
        assert found.dtype == event.dtype
        errors.append(worst_error(found.tolist(), wanted, FLOOR[event.dtype]))
    return max(errors)


def threshold_response(shape: tuple[int, ...], infinite: bool = False) -> ThresholdNormal:
    """A response of random parameters whose event is neither rare nor sure."""
    scales = 0.5 + torch.rand(2, dtype=torch.float64)
    loc = torch.randn((), dtype=torch.float64)
    return ThresholdNormal(fair_event(shape, infinite=infinite), loc, *scales)


#: The p-value, corrected for the number of comparisons, below which two samplers differ.
DIFFERENT = 1e-4


def agreement(draws: Tensor, others: Tensor) -> float:
    """Corrected p-value for draws [S, ...] and [T, ...] being of one distribution.

    Beside the coordinates, their sum, smallest and largest are compared: samplers with the right
    margins and a wrong dependence differ there (most of all if the draws are distances to the
    revenue, whose signs make the event).
    """
    p_values = [
        ks_2samp(a.numpy(), b.numpy(), method="asymp").pvalue
        for a, b in zip(_features(draws), _features(others), strict=True)
    ]
    return min(1.0, min(p_values) * len(p_values))


def _features(draws: Tensor) -> list[Tensor]:
    flat = draws.flatten(1)
    return [*flat.T, flat.sum(1), flat.amin(1), flat.amax(1)]

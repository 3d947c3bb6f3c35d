"""The parts of a model, from the names or modules that were passed to its constructor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pyro_gcm._utils.evaluating import evaluating
from pyro_gcm._utils.validation import one_of, positive_int
from pyro_gcm.nets import (
    AmortizedGuide,
    Bijection,
    ConstantLogits,
    PiecewiseLinear,
    PositiveLinear,
    PosteriorGuide,
    Probit,
    Sigmoid,
    StandardNormal,
)
from pyro_gcm.nets.conditional import mlp
from pyro_gcm.nets.latent import GUIDE_NETWORKS, PRIOR_NETWORKS
from pyro_gcm.nets.parts import check_guide, check_shape, one_row
from pyro_gcm.responses import RESPONSES, Response

PRIORS = ("standard", *PRIOR_NETWORKS)
GUIDES = ("prior", *(f"{of}{end}" for of in ("amortised", "posterior") for end in GUIDE_NETWORKS))
REVENUE_MAPS = ("identity", "piecewise_linear", "positive_linear", "probit", "sigmoid")


def response_part(response: str | Response, x_dim: int, hidden: Any) -> Response:
    """The response that `response=` names or is."""
    if isinstance(response, Response):
        return response
    one_of("response", response, list(RESPONSES))
    named: Any = RESPONSES[response]
    made: Response = named(x_dim, hidden)
    return made


def prior_part(
    name: str, prior: Any, x_dim: int, dim: int, hidden: Any, names: Iterable[str] | None = None
) -> nn.Module:
    """p(z|x) or p(z), and that of k.

    :param names: of networks, by default all that there are.
    """
    if not isinstance(prior, nn.Module):
        named(name, prior, ("standard", *(names or PRIOR_NETWORKS)), "x")
        if prior == "standard":
            return StandardNormal(dim)
        prior = PRIOR_NETWORKS[prior](x_dim, dim, hidden=hidden)
    check_shape(name, prior, x_dim, (dim,))
    return prior


def guide_part(
    guide: Any, prior: nn.Module, x_dim: int, r_dim: int, z_dim: int, hidden: Any
) -> nn.Module | None:
    """q(z|x, r, y), or None where z is drawn from the prior itself, or summed out."""
    given_x = not isinstance(prior, StandardNormal)
    guide = guide if guide is not None else "prior" if given_x else "amortised"
    if not isinstance(guide, nn.Module):
        kinds = ("amortised", "posterior")
        names = ("prior", *(f"{kind}{end}" for kind in kinds for end in GUIDE_NETWORKS))
        named("guide", guide, names, "(x, r, y)")
        if guide == "prior" and given_x:
            return None
    if has_finite_support(prior, x_dim):
        raise ValueError(
            f"guide={_shown(guide)} with a categorical prior: z is summed out exactly, without a "
            "guide; leave guide out"
        )
    if guide == "prior":
        raise ValueError("guide='prior' with prior='standard' would never read x: use 'amortised'")
    if isinstance(guide, nn.Module):
        part = guide
    elif guide.startswith("posterior"):
        part = PosteriorGuide(network(guide)(x_dim + r_dim + 1, z_dim, hidden=hidden))
    else:
        part = AmortizedGuide(network(guide)(x_dim, z_dim, hidden=hidden))
    if not given_x:
        refusal = _refusal(part, (x_dim,), 2)
        if refusal is not None:
            raise ValueError(
                f"guide={_shown(guide)} must be q(z|x), such as 'amortised', with "
                "prior='standard', where a prediction draws z from the guide without r and y; "
                f"called as guide(x, None, None) it raised {type(refusal).__name__}: {refusal}"
            ) from refusal
    if part is guide:
        check_guide("guide", guide, (x_dim, r_dim), (z_dim,))
    return part


def network(guide: str) -> Callable[..., nn.Module]:
    """The network of a guide that is named."""
    return GUIDE_NETWORKS[guide.removeprefix("amortised").removeprefix("posterior")]


def reads_outcome(guide: nn.Module | None, x_dim: int, r_dim: int) -> bool:
    """Whether a guide cannot do without y."""
    return guide is not None and _refusal(guide, (x_dim, r_dim), 1) is not None


@torch.no_grad()
def _refusal(guide: nn.Module, columns: tuple[int, ...], without: int) -> Exception | None:
    """Return the error of a guide for a row of zeros whose last arguments are None."""
    like = next(guide.parameters(), torch.zeros(()))
    try:
        with evaluating(guide):
            guide(*(like.new_zeros(1, count) for count in columns), *[None] * without)
    except Exception as error:
        return error
    return None


def has_finite_support(prior: nn.Module, x_dim: int) -> bool:
    """Whether z takes finitely many values, so that it can be summed out."""
    return bool(one_row(prior, x_dim).has_enumerate_support)


def named(name: str, value: Any, names: Iterable[str], reads: str) -> None:
    """Refuse anything but the name of a part or a module, such as a plain function."""
    if not isinstance(value, str) or value not in names:
        raise ValueError(
            f"{name} must be one of {list(names)}, or a torch module that takes {reads} to a "
            f"distribution, got {_shown(value)}"
        )


def infinite_part(p0: Any, x_dim: int, shape: tuple[int, ...], hidden: Any) -> nn.Module | None:
    """Logits of the probability that a cost is infinite: x -> [..., *shape], or None for never.

    :param shape: (), or (G,) with several alternatives.
    """
    if p0 is None or isinstance(p0, nn.Module):
        return p0
    one_of("p0", p0, ["constant", "conditional"])
    if p0 == "constant":
        return ConstantLogits(shape)
    network = mlp(x_dim, math.prod(shape), hidden)
    nn.init.constant_(network[-1].bias, ConstantLogits.START)  # type: ignore[arg-type]
    return network if shape else nn.Sequential(network, nn.Flatten(-2))


def start_infinite(part: Any, never: float | None, shape: tuple[int, ...]) -> None:
    """Start what `infinite_part` made where all alternatives are infinite with a probability.

    :param never: that probability, or None to leave it.
    """
    if never is None:
        return
    each = torch.tensor(never ** (1.0 / math.prod(shape)), dtype=torch.float64).logit()
    last = [bias for name, bias in part.named_parameters() if name.endswith(("logits", "bias"))][-1]
    nn.init.constant_(last, each.item())


def revenue_map_part(
    revenue_map: Any,
    r_dim: int,
    cost_shape: tuple[int, ...],
    name: str = "revenue_map",
    *,
    levels: bool = False,
) -> nn.Module:
    """h, increasing, from r_dim revenues (or quantile levels) to the shape of the costs."""
    if isinstance(revenue_map, nn.Module):
        _check_map(revenue_map, r_dim, cost_shape, name, levels)
        return revenue_map
    elementwise = cost_shape == (r_dim,)
    if isinstance(revenue_map, torch.distributions.transforms.Transform):
        part: nn.Module = Bijection(revenue_map)
    else:
        one_of(name, revenue_map, list(REVENUE_MAPS))
        if revenue_map == "positive_linear":
            return PositiveLinear(r_dim, cost_shape)
        if revenue_map == "piecewise_linear":
            return PiecewiseLinear(r_dim, cost_shape)
        part = {"identity": nn.Identity, "probit": Probit, "sigmoid": Sigmoid}[revenue_map]()
    if not elementwise:
        raise ValueError(
            f"{name}={_shown(revenue_map)} needs one alternative with a cost for each of the "
            f"{r_dim} revenues, got costs of shape {cost_shape}: use 'positive_linear'"
        )
    return part


@torch.no_grad()
def _check_map(
    part: nn.Module, r_dim: int, cost_shape: tuple[int, ...], name: str, levels: bool
) -> None:
    """Refuse a module whose shape is wrong, or that falls somewhere on 256 pairs of revenues."""
    like = next(part.parameters(), torch.zeros(()))
    g = torch.Generator().manual_seed(0)
    pairs = torch.rand(2, 256, r_dim, generator=g).clamp(1e-3, 1.0 - 1e-3).sort(0).values.to(like)
    with evaluating(part):
        low, high = part(pairs if levels else torch.special.ndtri(pairs))
    if tuple(low.shape) != (256, *cost_shape):
        raise ValueError(
            f"{name} must give values of shape {cost_shape} for a row, got {tuple(low.shape[1:])}"
        )
    if (high < low).any():
        raise ValueError(f"{name} must be increasing, but it falls where revenues rise")


@runtime_checkable
class LearnsFromRows(Protocol):
    """A revenue map that adapts itself to the standardised revenues of the training rows."""

    def learn(self, r: Tensor) -> None:
        """Adapt to rows [n, m]."""


def x_decoder_part(
    x_decoder: nn.Module | None, prior: nn.Module, in_dim: int, x_dim: int, hidden: Any
) -> nn.Module | None:
    """p(x|z) or p(x|z, k), from in_dim columns; None where x is an input and not drawn."""
    if isinstance(prior, StandardNormal):
        normal = PRIOR_NETWORKS["conditional"]
        return normal(in_dim, x_dim, hidden) if x_decoder is None else x_decoder
    if x_decoder is not None:
        raise ValueError("x_decoder needs prior='standard': with p(z|x), x is an input, not drawn")
    return None


def cost_shape(alternatives: int, costs: int) -> tuple[int, ...]:
    """Event shape of the costs: (K,), or (G, K) with several alternatives."""
    alternatives, costs = positive_int("alternatives", alternatives), positive_int("costs", costs)
    return (costs,) if alternatives == 1 else (alternatives, costs)


def _shown(part: Any) -> str:
    return repr(part) if isinstance(part, str) else type(part).__name__

"""The parts of a model, by name or as modules, and their checks on rows of zeros."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyro.distributions as dist
import pyro.poutine as poutine
import torch
from torch import Tensor, nn

from pyro_gcm import nets
from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import kind, one_of, positive_int, shown
from pyro_gcm.nets.networks import ConstantLogits, mlp

#: A network from so many columns to a distribution of so many coordinates; then hidden layers.
Network = Callable[[int, int, Any], nn.Module]


def _diagonal(family: Any) -> Network:
    return lambda in_dim, dim, hidden: nets.Conditional(family, in_dim, (dim,), hidden)


_PRIORS: dict[str, Network] = {
    "conditional": _diagonal(dist.Normal),
    "laplace": _diagonal(dist.Laplace),
    "mixture": lambda in_dim, dim, hidden: nets.ConditionalMixture(in_dim, dim, hidden=hidden),
    "categorical": nets.ConditionalCategorical,
    "flow": nets.ConditionalFlow,
}
_GUIDES: dict[str, Network] = {
    "amortised": _diagonal(dist.Normal),
    "posterior": _diagonal(dist.Normal),
    "posterior_full": nets.ConditionalMultivariateNormal,
    "posterior_flow": nets.ConditionalFlow,
}
PRIORS, GUIDES = ("standard", *_PRIORS), ("prior", *_GUIDES)
#: The same for type checkers.
PriorName = Literal["standard", "conditional", "laplace", "mixture", "categorical", "flow"]
GuideName = Literal["prior", "amortised", "posterior", "posterior_full", "posterior_flow"]
ResponseName = Literal[
    "binary", "continuous", "quantile", "survival", "ordinal", "distribution", "count", "classes"
]
KERNEL_GUIDES = ("exact", "amortised")
REVENUE_MAPS = ("identity", "piecewise_linear", "positive_linear", "probit", "sigmoid")


def prior_part(
    name: str, prior: Any, x_dim: int, dim: int, hidden: Any, names: Sequence[str] = PRIORS
) -> nn.Module:
    """p(z|x) or p(z), and that of k."""
    if not isinstance(prior, nn.Module):
        one_of(name, prior, names)
        if prior == "standard":
            return nets.StandardNormal(dim)
        prior = _PRIORS[prior](x_dim, dim, hidden)
    check_part(name, prior, x_dim, (dim,))
    return prior


def guide_part(guide: Any, model: Any, hidden: Any) -> nn.Module | None:
    """q(z|x, r, y), or None where z is drawn from the prior itself, or summed out."""
    if guide is None:
        guide = "prior" if model.reads_x else "amortised"
    if not isinstance(guide, nn.Module):
        one_of("guide", guide, GUIDES)
        if guide == "prior" and model.reads_x:
            return None
    if model.enumerates:
        raise ValueError(
            f"guide={shown(guide)} with a categorical prior: z is summed out exactly, without a "
            "guide; leave guide out"
        )
    if guide == "prior":
        raise ValueError("guide='prior' with prior='standard' would never read x: use 'amortised'")
    x_dim, r_dim, z_dim = model.x_dim, model.r_dim, model.z_dim
    part = guide
    if not isinstance(guide, nn.Module):
        wrap, columns = nets.AmortizedGuide, x_dim
        if guide != "amortised":
            wrap, columns = nets.PosteriorGuide, x_dim + r_dim + 1
        with torch.random.fork_rng([]):  # the other parts start alike with every guide
            part = wrap(_GUIDES[guide](columns, z_dim, hidden), from_prior=True)
    sizes = (x_dim, r_dim), (z_dim,)
    if not model.reads_x:
        check_guide(f"guide={shown(guide)} with prior='standard'", part, *sizes, "x")
    if part is guide:
        check_guide("guide", guide, *sizes)
    return part


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


def revenue_map_part(
    revenue_map: Any,
    r_dim: int,
    cost_shape: tuple[int, ...],
    name: str = "revenue_map",
    *,
    levels: bool = False,
) -> nn.Module:
    """h, increasing, from r_dim revenues (or quantile levels) to the shape of the costs."""
    if isinstance(revenue_map, torch.distributions.transforms.Transform):
        revenue_map = nets.Bijection(revenue_map)
    if isinstance(revenue_map, nn.Module):
        _check_map(revenue_map, r_dim, cost_shape, name, levels)
        return revenue_map
    one_of(name, revenue_map, list(REVENUE_MAPS))
    if revenue_map == "positive_linear":
        return nets.PositiveLinear(r_dim, cost_shape)
    if revenue_map == "piecewise_linear":
        return nets.PiecewiseLinear(r_dim, cost_shape)
    if cost_shape != (r_dim,):
        raise ValueError(
            f"{name}={shown(revenue_map)} needs one alternative with a cost for each of the "
            f"{r_dim} revenues, got costs of shape {cost_shape}: use 'positive_linear'"
        )
    plain = {"identity": nn.Identity, "probit": nets.Probit, "sigmoid": nets.Sigmoid}
    return plain[revenue_map]()


@torch.no_grad()
def _check_map(
    part: nn.Module, r_dim: int, cost_shape: tuple[int, ...], name: str, levels: bool
) -> None:
    """Refuse a module whose shape is wrong, or that falls somewhere on 256 pairs of revenues."""
    check_part(name, part, r_dim, cost_shape, drawn=False)
    like = next(part.parameters(), torch.zeros(()))
    g = torch.Generator().manual_seed(0)
    pairs = torch.rand(2, 256, r_dim, generator=g).clamp(1e-3, 1.0 - 1e-3).sort(0).values.to(like)
    with evaluating(part):
        low, high = part(pairs if levels else torch.special.ndtri(pairs))
    if (high < low).any():
        raise ValueError(f"{name} must be increasing, but it falls where revenues rise")


def x_decoder_part(model: Any, x_decoder: nn.Module | None, in_dim: int, hidden: Any) -> Any:
    """p(x|z) or p(x|z, k), from in_dim columns; None where x is an input and not drawn."""
    if not model.reads_x:
        normal = _PRIORS["conditional"]
        return normal(in_dim, model.x_dim, hidden) if x_decoder is None else x_decoder
    if x_decoder is not None:
        raise ValueError("x_decoder needs prior='standard': with p(z|x), x is an input, not drawn")
    return None


def cost_shape_of(alternatives: int, costs: int) -> tuple[int, ...]:
    """Event shape of the costs: (K,), or (G, K) with several alternatives."""
    alternatives, costs = positive_int("alternatives", alternatives), positive_int("costs", costs)
    return (costs,) if alternatives == 1 else (alternatives, costs)


def check_part(
    name: str, part: nn.Module, columns: int, shape: Any = None, *, drawn: bool = True
) -> Any:
    """Return a module's result for a row; a shape other than this would broadcast silently.

    :param columns: of the row.
    :param shape: of the result; any by default.
    :param drawn: whether it has to return a distribution, and not a tensor.
    :raises ValueError: for a module that takes other columns, draws random variables of its own,
        or returns something else.
    """
    like = next(part.parameters(), torch.zeros(()))
    made = _result(name, part, f"{columns} columns", like.new_zeros(1, columns))
    if shape is not None:
        _check_event(name, made, shape, drawn)
    return made


def check_guide(name: str, guide: nn.Module, columns: Any, shape: Any, given: str = "xry") -> None:
    """Refuse a guide that does not take (x, r, y) to a distribution of this event shape.

    :param columns: of x and r.
    :param given: what predictions have of them; None is in the place of the others.
    """
    like = next(guide.parameters(), torch.zeros(()))
    x, r = (like.new_zeros(2, count) for count in columns)
    rows = {"x": x, "r": r, "y": like.new_ones(2)}
    known = {letter: row if letter in given else None for letter, row in rows.items()}
    wanted = ", ".join(letter if letter in given else "None" for letter in rows)
    made = _result(name, guide, f"({wanted}) to a distribution", *known.values())
    _check_event(name, made, shape)
    if tuple(made.batch_shape) != (2,):
        raise ValueError(
            f"{name} must give a distribution with a batch shape of one dimension, that of the "
            f"rows, got {tuple(made.batch_shape)} for 2 rows: use .to_event(1)"
        )


@torch.no_grad()
def _result(name: str, part: nn.Module, wanted: str, *rows: Tensor | None) -> Any:
    """What a part makes of rows, if it takes them and draws nothing."""
    try:
        with evaluating(part), poutine.trace() as trace:
            made = part(*rows)
    except Exception as error:
        shapes = [None if own is None else [*own.shape] for own in rows]
        raise ValueError(
            f"{name} must take {wanted}, and for rows of shapes {shapes} raised "
            f"{type(error).__name__}: {error}"
        ) from error
    sites = [key for key, site in trace.trace.nodes.items() if site["type"] == "sample"]
    if sites:
        raise ValueError(
            f"{name} must not draw random variables itself, got sites {sites}: what all rows share "
            "is drawn in `shared`, before the rows, and what a row has of its own in `story`"
        )
    return made


def _check_event(name: str, made: Any, wanted: Sequence[int], drawn: bool = True) -> None:
    if not isinstance(made, torch.distributions.Distribution if drawn else Tensor):
        kind_of = "distribution" if drawn else "tensor"
        raise ValueError(f"{name} must give a {kind_of}, got {kind(made)}")
    found = tuple(made.shape[1:] if isinstance(made, Tensor) else made.event_shape)
    if found != tuple(wanted):
        raise ValueError(f"{name} must give values of shape {tuple(wanted)} for a row, got {found}")

"""Every distribution keeps the conventions that Pyro's own tests check."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_gcm.distributions import (
    InfiniteCost,
    LatentMixture,
    LazyDistribution,
    ObservedCost,
    OrderEvent,
    PartlyKnown,
    ThresholdNormal,
    ThresholdQuantile,
)
from pyro_gcm.nets import ConditionalFlow, DiagNormalMixture

Shape = tuple[int, ...]
#: Of all parameters.
OPTIONS: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}


def real(*shape: int) -> Tensor:
    return torch.randn(shape, **OPTIONS)


def positive(*shape: int) -> Tensor:
    return 0.5 + torch.rand(shape, **OPTIONS)


def outcome(*shape: int) -> Tensor:
    return torch.bernoulli(torch.full(shape, 0.5, **OPTIONS))


def cost(batch: Shape, event: Shape = (3,), infinite: bool = False) -> Any:
    plain = dist.Normal(real(*batch, *event), positive(*batch, *event)).to_event(len(event))
    return InfiniteCost(plain, real(*batch, *event[:-1])) if infinite else plain


def event(batch: Shape, shape: Shape = (3,), infinite: bool = False) -> OrderEvent:
    return OrderEvent(cost(batch, shape, infinite), real(*batch, *shape) + 1.0)


def random_revenue(batch: Shape, infinite: bool = False) -> OrderEvent:
    return OrderEvent(cost(batch, infinite=infinite), cost(batch))


def posterior(batch: Shape, shape: Shape = (3,), infinite: bool = False) -> Any:
    return event(batch, shape, infinite).cost_posterior(outcome(*batch))


def threshold_normal(batch: Shape) -> ThresholdNormal:
    return ThresholdNormal(event(batch), real(*batch), positive(*batch), positive(*batch))


def threshold_quantile(batch: Shape) -> ThresholdQuantile:
    level = 0.4 * positive(*batch)
    return ThresholdQuantile(event(batch), real(*batch), positive(*batch), level, positive(*batch))


def partly_known(batch: Shape) -> PartlyKnown:
    known = torch.where(outcome(*batch) == 1.0, real(*batch), math.nan)
    return PartlyKnown(dist.Normal(real(*batch), positive(*batch)), known)


def mixture(batch: Shape, shape: Shape = (3,), infinite: bool = False) -> LatentMixture:
    component = cost((5, *batch), shape, infinite)
    weights = real(5, *batch).log_softmax(0)
    return LatentMixture(component, real(shape[-1]), positive(shape[-1]), weights)


def lazy(batch: Shape) -> LazyDistribution:
    return LazyDistribution(partial(copy.copy, cost(batch)), torch.Size(batch), torch.Size((3,)))


def mixture_of_normals(batch: Shape) -> DiagNormalMixture:
    return DiagNormalMixture(real(*batch, 4, 3), positive(*batch, 4, 3), real(*batch, 4))


CASES: dict[str, Callable[[Shape], Any]] = {
    "certain event": lambda b: OrderEvent(real(*b, 2), real(*b, 2) + 1.0),
    "event": event,
    "event of alternatives": partial(event, shape=(2, 3)),
    "event of infinite costs": partial(event, infinite=True),
    "event of a random revenue": random_revenue,
    "cost posterior": posterior,
    "cost posterior, alternatives": partial(posterior, shape=(2, 3), infinite=True),
    "revenue posterior": lambda b: random_revenue(b).revenue_posterior(outcome(*b)),
    "revenue posterior, infinite costs": (
        lambda b: random_revenue(b, infinite=True).revenue_posterior(outcome(*b))
    ),
    "threshold normal": threshold_normal,
    "threshold normal, given cost": lambda b: threshold_normal(b).given_cost(real(*b, 3)),
    "threshold quantile": threshold_quantile,
    "latent mixture": mixture,
    "latent mixture, alternatives": partial(mixture, shape=(2, 3)),
    "latent mixture, infinite costs": partial(mixture, infinite=True),
    "infinite cost": partial(cost, infinite=True),
    "infinite cost, alternatives": partial(cost, event=(2, 3), infinite=True),
    "observed cost": lambda b: ObservedCost(cost(b), 2.0, 3.0),
    "observed cost, alternatives": lambda b: ObservedCost(cost(b, (2, 3), True), 2.0, 3.0),
    "partly known": partly_known,
    "lazy": lazy,
    "mixture of normals": mixture_of_normals,
    "flow": lambda b: ConditionalFlow(2, 3).to(**OPTIONS)(real(*b, 2)),
}
EVENT_SHAPES = {"event": (), "threshold": (), "partly": (), "certain": ()}
cases = pytest.mark.parametrize("case", CASES)
batches = pytest.mark.parametrize("batch", [(), (3, 1)], ids=str)
defaults = pytest.mark.parametrize("default", [False, True], ids=["own expand", "Pyro's expand"])


def expanded(d: Any, shape: Shape, default: bool) -> Any:
    """The distribution expanded by its own method, or wrapped by Pyro."""
    return TorchDistribution.expand(d, shape) if default else d.expand(torch.Size(shape))


def agree(small: Any, large: Any) -> None:
    """As in Pyro's tests: the densities of draws of both are those of both."""
    for x in (small.sample(), large.sample()):
        shape = torch.broadcast_shapes(x.shape[: x.dim() - small.event_dim], large.batch_shape)
        wide = large.log_prob(x)
        assert wide.shape == shape
        torch.testing.assert_close(small.log_prob(x).expand(shape), wide)


@cases
@batches
def test_draws_densities_and_moments_have_their_shapes(case: str, batch: Shape) -> None:
    d = CASES[case](batch)
    event_shape = (2, 3) if "alternatives" in case else (3,)
    if case.split()[0] in EVENT_SHAPES:
        event_shape = ()
    assert (d.batch_shape, d.event_shape, d.event_dim) == (batch, event_shape, len(event_shape))
    for sample_shape in ((), (4,), (2, 1)):
        x = d.sample(torch.Size(sample_shape))
        assert x.shape == d.shape(torch.Size(sample_shape)) == sample_shape + batch + event_shape
        assert x.dtype == torch.float64
        log_p = d.log_prob(x)
        assert log_p.shape == sample_shape + batch
        assert not log_p.isnan().any()
        assert d.to_event(len(batch)).log_prob(x).shape == sample_shape
        assert not d.mask(torch.tensor(False)).log_prob(x).any()
    for name, shape in (
        ("mean", batch + event_shape),
        ("variance", batch + event_shape),
        ("entropy", batch),
    ):
        try:
            value = getattr(d, name)
            value = value() if name == "entropy" else value
        except NotImplementedError:
            continue
        assert value.shape == shape


@cases
@pytest.mark.parametrize(
    "options", [{"dtype": torch.float32}, {"dtype": torch.float64}, {"device": "meta"}], ids=str
)
def test_type_and_device_are_those_of_the_parameters(
    case: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in options.items():
        monkeypatch.setitem(OPTIONS, name, value)
    # "meta" tensors have no values, so that this also shows that nothing branches on them.
    with pyro.validation_enabled("device" not in options):
        d = CASES[case]((2,))
        x = d.sample((4,))
        results = [x, d.log_prob(x)]
        for name in ("mean", "variance"):
            try:
                results.append(getattr(d, name))
            except NotImplementedError:
                continue
    assert {(one.dtype, one.device.type) for one in results} == {tuple(OPTIONS.values())}


@cases
def test_mean_and_variance_are_those_of_the_draws(case: str) -> None:
    d, count = CASES[case]((2,)), 20_000
    try:
        mean, variance = d.mean, d.variance
    except NotImplementedError:
        pytest.skip("without moments")
    x = d.sample((count,))
    if x.isinf().any():
        assert mean.isinf().all()
        assert variance.isinf().all()
        return
    assert ((x.mean(0) - mean).abs() <= 5.0 * (variance / count).sqrt() + 1e-12).all()
    fourth = (x - mean).pow(4).mean(0)
    error = ((fourth - variance.square()).clamp(min=0.0) / count).sqrt()
    assert (((x - mean).square().mean(0) - variance).abs() <= 5.0 * error + 1e-12).all()


@cases
@batches
def test_support_has_the_dimension_of_the_event_and_contains_the_draws(
    case: str, batch: Shape
) -> None:
    d = CASES[case](batch)
    assert d.support.event_dim == d.event_dim
    assert d.support.is_discrete == isinstance(d, OrderEvent)
    inside = d.support.check(d.sample((5,)))
    assert inside.shape == (5, *batch)
    assert inside.all()


@cases
@batches
def test_shapes_are_inferred_or_said_not_to_be(case: str, batch: Shape) -> None:
    d = CASES[case](batch)
    arguments: dict[str, Any] = {
        OrderEvent: {"cost": (*batch, 2, 3), "revenue": (3,), "cost_event_dim": 2},
        PartlyKnown: {"base_dist": batch, "known": ()},
        ThresholdNormal: {"event": batch, "threshold_loc": (), "threshold_scale": (), "scale": ()},
        ThresholdQuantile: {"event": batch, "threshold_loc": (), "spread": (), "level": batch},
        DiagNormalMixture: {
            "locs": (*batch, 4, 3),
            "coord_scale": (*batch, 4, 3),
            "component_logits": (*batch, 4),
        },
    }.get(type(d))
    if arguments is not None:
        assert type(d).infer_shapes(**arguments) == (d.batch_shape, d.event_shape)
    else:
        with pytest.raises(NotImplementedError):
            type(d).infer_shapes(cost=(*batch, 3))


@cases
@pytest.mark.parametrize(
    ("batch", "default"), [((), False), ((3, 1), False), ((2,), True)], ids=str
)
def test_new_batch_dimensions_are_put_in_front(case: str, batch: Shape, default: bool) -> None:
    d = CASES[case](batch)
    agree(d, d.expand_by([4]))
    for shape in ((2, 1, 1), (2, 1, 3), (2, 5, 3)):
        wide = expanded(d, shape + batch, default)
        assert (wide.batch_shape, wide.event_shape) == (shape + batch, d.event_shape)
        assert wide.sample((6,)).shape == (6, *wide.shape())
        agree(d, wide)
        d = wide


@cases
@defaults
def test_single_batch_dimensions_are_widened(case: str, default: bool) -> None:
    d = CASES[case]((3, 1))
    wide = expanded(d, (3, 5), default)
    assert wide.batch_shape == (3, 5)
    agree(d, wide)
    for name in ("mean", "variance"):
        try:
            want = getattr(d, name)
        except NotImplementedError:
            continue
        torch.testing.assert_close(getattr(wide, name), want.expand(wide.shape()))
    if not isinstance(d, LazyDistribution) and not default:
        assert isinstance(wide, type(d))


@cases
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_impossible_expansion_is_refused(case: str, batch: Shape) -> None:
    d = CASES[case](batch)
    for first, second in (
        ((2, 1), (4, 3)),
        ((2, 4), (2, 2, 1)),
        ((1, 2, 1), (2, 1)),
        ((3,), (1,)),
        ((3,), ()),
    ):
        large = d.expand(torch.Size(first + batch))
        with pytest.raises((RuntimeError, ValueError)):
            large.expand(torch.Size(second + batch))


@cases
def test_draws_of_an_expanded_distribution_are_independent(case: str) -> None:
    x = CASES[case](()).expand(torch.Size((2000, 2))).sample().reshape(2000, 2, -1)
    for column in x.nan_to_num(posinf=20.0).unbind(-1):
        if column.std() > 1e-9:
            assert torch.corrcoef(column.T)[0, 1].abs() < 5.0 / 2000**0.5


@cases
@pytest.mark.parametrize("batch", [(2,), (3, 1)], ids=str)
def test_values_of_a_wrong_shape_are_refused(case: str, batch: Shape) -> None:
    d = CASES[case](batch)
    wrong = torch.ones((batch[0] + 1, *d.shape()[1:]), dtype=torch.float64)
    with pytest.raises((RuntimeError, ValueError)):
        d.log_prob(wrong)
    if d.event_shape and case != "lazy":  # torch's Independent, which is in it, does not look
        with pytest.raises((RuntimeError, ValueError)):
            d.log_prob(torch.ones((*d.shape(), 1), dtype=torch.float64))


@cases
def test_draws_are_reparametrised_where_it_is_said(case: str) -> None:
    d = CASES[case]((2,))
    if not d.has_rsample:
        with pytest.raises(NotImplementedError):
            d.rsample()
        return
    torch.manual_seed(1)
    draw = d.rsample((4,))
    torch.manual_seed(1)
    assert torch.equal(draw, d.sample((4,)))
    assert not d.sample().requires_grad


@cases
@batches
def test_a_finite_support_is_enumerated(case: str, batch: Shape) -> None:
    d = CASES[case](batch)
    assert d.has_enumerate_support == isinstance(d, OrderEvent)
    if d.has_enumerate_support:
        support = d.enumerate_support()
        assert support.shape == (2, *batch)
        assert d.enumerate_support(expand=False).shape == (2, *(1,) * len(batch))
        total = d.log_prob(support).exp().sum(0)
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-15)


@cases
@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))],
    ids=["deepcopy", "pickle"],
)
def test_copies_draw_the_same_bits(case: str, duplicate: Callable[[Any], Any]) -> None:
    with torch.no_grad():
        d = CASES[case]((2,))
        for one in (d, d.expand(torch.Size((3, 2)))):
            results = []
            for same in (one, duplicate(one)):
                torch.manual_seed(1)
                x = same.sample((4,))
                results.append((x, same.log_prob(x)))
            assert all(map(torch.equal, *results))


@pytest.mark.parametrize("outcome_shape", [(), (5,), (4, 5)], ids=str)
@pytest.mark.parametrize("case", ["cost", "revenue"])
def test_posteriors_broadcast_outcome_and_event(case: str, outcome_shape: Shape) -> None:
    y = outcome(*outcome_shape)
    d = (
        event((5,)).cost_posterior(y)
        if case == "cost"
        else random_revenue((5,)).revenue_posterior(y)
    )
    assert d.batch_shape == torch.broadcast_shapes((5,), outcome_shape)
    x = d.sample((7,))
    assert d.log_prob(x).shape == (7, *d.batch_shape)
    assert d.log_prob(x[0, ..., :1, :]).shape == d.batch_shape


@cases
def test_sites_stand_in_nested_plates(case: str) -> None:
    d = CASES[case]((2,))

    def program(x: Tensor | None = None) -> Tensor:
        with pyro.plate("particles", 3, dim=-2), pyro.plate("data", 2, dim=-1):
            return pyro.sample("x", d, obs=x)

    x = program()
    assert x.shape == (3, 2, *d.event_shape)
    trace = pyro.poutine.trace(program).get_trace(x)
    trace.compute_log_prob()
    torch.testing.assert_close(trace.nodes["x"]["log_prob"], d.log_prob(x))

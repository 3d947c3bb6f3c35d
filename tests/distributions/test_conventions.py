"""Every distribution keeps the conventions that Pyro's own tests check.

The conventions are those of `tests/distributions/test_distributions.py`, `test_mask.py` and
`test_pickle.py` in Pyro's repository (Uber Technologies and contributors, Apache-2.0): shapes of
draws, densities, supports and expansions, refusal of impossible ones, goodness of fit, moments,
enumeration, copies. Where one has no meaning for a distribution of ours, the reason stands there.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from convention_cases import (
    CASES,
    OPTIONS,
    Shape,
    cost,
    event,
    outcome,
    random_revenue,
    real,
)
from torch import Tensor
from torch.func import vmap

from pyro_gcm.distributions import (
    AlongAxis,
    CostPosterior,
    EventCount,
    EventTime,
    GuessedEvent,
    InfiniteCost,
    LatentMixture,
    OrderedLevel,
    OrderEvent,
    RevenuePosterior,
    ThresholdNormal,
    ThresholdQuantile,
)
from pyro_gcm.distributions.several_outcomes import SeveralOutcomes
from pyro_gcm.nets import DiagNormalMixture

#: First words of the cases without an event dimension.
UNIVARIATE = {"univariate", "event", "threshold", "partly", "certain", "level", "along"}
#: Outcomes whose type is not that of their costs, and the costs given those that are positions.
IN_FLOAT64 = AlongAxis | EventCount | EventTime | SeveralOutcomes
OF_POSITIONS = ("costs given a value", "costs given times")
#: Distributions of finitely many outcomes.
DISCRETE = OrderEvent | GuessedEvent | OrderedLevel
ONE = torch.ones((), dtype=torch.float64)


CORRELATED = dist.MultivariateNormal(torch.zeros(2), torch.eye(2))


def check_that_draws_densities_and_moments_have_their_shapes(case: str) -> None:
    for batch in ((), (3, 1)):
        check_shapes(case, batch)


def check_shapes(case: str, batch: Shape) -> None:
    d = CASES[case](batch)
    pairs = case.startswith(("several", "count"))
    event_shape = (2, 3) if "alternatives" in case else (2,) if pairs else (3,)
    if re.split(r"\W", case)[0] in UNIVARIATE:
        event_shape = ()
    assert (d.batch_shape, d.event_shape, d.event_dim) == (batch, event_shape, len(event_shape))
    assert d.support.event_dim == len(event_shape)
    assert d.support.is_discrete == d.has_enumerate_support == isinstance(d, DISCRETE)
    for sample_shape in ((), (4,), (2, 1)):
        x = d.sample(torch.Size(sample_shape))
        assert x.shape == d.shape(torch.Size(sample_shape)) == sample_shape + batch + event_shape
        assert x.dtype == torch.float64
        log_p, inside = d.log_prob(x), d.support.check(x)
        assert log_p.shape == inside.shape == sample_shape + batch
        assert inside.all()
        assert (log_p > -math.inf).all()
        with contextlib.suppress(NotImplementedError):
            column = {EventTime: 1, EventCount: 0}.get(type(d))
            below = d.cdf(x if column is None else x[..., column])
            assert below.shape == sample_shape + batch
            assert ((below >= 0.0) & (below <= 1.0)).all()
        assert d.to_event(len(batch)).log_prob(x).shape == sample_shape
        assert not d.mask(torch.tensor(False)).log_prob(x).any()
    for name, shape in (
        ("mean", batch + event_shape),
        ("variance", batch + event_shape),
        ("entropy", batch),
    ):
        with contextlib.suppress(NotImplementedError):
            value = getattr(d, name)
            value = value() if name == "entropy" else value
            assert value.shape == shape
    if d.has_enumerate_support:
        support, count = d.enumerate_support(), d.levels if isinstance(d, OrderedLevel) else 2
        assert support.shape == (count, *batch)
        assert d.enumerate_support(expand=False).shape == (count, *(1,) * len(batch))
        total = d.log_prob(support).exp().sum(0)
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-15)


def check_that_type_and_device_are_those_of_the_parameters(case: str) -> None:
    if isinstance(CASES[case]((2,)), IN_FLOAT64) or case in OF_POSITIONS:
        return  # y is in float64 whatever its costs are, and looked for step by step
    # "meta" tensors have no values, so that this also shows that nothing branches on them.
    for options in ({"dtype": torch.float32}, {"device": "meta"}):
        with pytest.MonkeyPatch.context() as patch, pyro.validation_enabled("dtype" in options):
            for name, value in options.items():
                patch.setitem(OPTIONS, name, value)
            d = CASES[case]((2,))
            x = d.sample((4,))
            results = [x, d.log_prob(x)]
            with contextlib.suppress(NotImplementedError):
                results += [d.mean, d.variance]
            assert {(one.dtype, one.device.type) for one in results} == {tuple(OPTIONS.values())}


def check_that_mean_and_variance_are_those_of_the_draws(case: str) -> None:
    d, count = CASES[case]((2,)), 20_000
    try:
        mean, variance = d.mean, d.variance
    except NotImplementedError:
        return  # without moments
    x = d.sample((count,))
    if x.isinf().any():
        assert mean.isinf().all()
        assert variance.isinf().all()
        return
    assert ((x.mean(0) - mean).abs() <= 5.0 * (variance / count).sqrt() + 1e-12).all()
    fourth = (x - mean).pow(4).mean(0)
    error = ((fourth - variance.square()).clamp(min=0.0) / count).sqrt()
    assert (((x - mean).square().mean(0) - variance).abs() <= 5.0 * error + 1e-12).all()


WRONG: list[tuple[str, Callable[[], Any]]] = [
    ("threshold_loc", lambda: ThresholdNormal(event(()), real() / 0.0 * 0.0, ONE, ONE)),
    ("threshold_scale", lambda: ThresholdNormal(event(()), ONE, -ONE, ONE)),
    ("scale", lambda: ThresholdNormal(event(()), ONE, ONE, -ONE)),
    ("spread", lambda: ThresholdQuantile(event(()), ONE, -ONE, 0.5 * ONE, ONE)),
    ("level", lambda: ThresholdQuantile(event(()), ONE, ONE, 3.0 * ONE, ONE)),
    ("level", lambda: ThresholdQuantile(event(()), ONE, ONE, math.nan * ONE, ONE)),
    ("scale", lambda: ThresholdQuantile(event(()), ONE, ONE, 0.5 * ONE, -ONE)),
    ("scale", lambda: LatentMixture(cost((5,)), ONE, -ONE)),
    ("log_weights", lambda: LatentMixture(cost((5,)), ONE, ONE, real(5).abs())),
    ("logits", lambda: InfiniteCost(cost(()), math.nan * ONE)),
    ("cost has event_dim 0", lambda: InfiniteCost(dist.Normal(real(2), 1.0), ONE)),
    ("MultivariateNormal is not", lambda: InfiniteCost(CORRELATED, ONE)),
    ("InfiniteCost is not", lambda: InfiniteCost(cost((), infinite=True), ONE)),
    ("outcome", lambda: CostPosterior(event(()), 2.0 * ONE)),
    ("outcome", lambda: CostPosterior(event(()), math.nan * ONE)),
    ("outcome", lambda: RevenuePosterior(random_revenue(()), 0.5 * ONE)),
    ("revenue", lambda: OrderEvent(cost(()), math.nan * real(3))),
    ("cost", lambda: OrderEvent(real(2, 2, 2), real(2), cost_event_dim=3)),
    ("coord_scale", lambda: DiagNormalMixture(real(4, 3), -real(4, 3).abs(), real(4))),
]


def test_wrong_parameters_are_refused_by_name() -> None:
    for argument, build in WRONG:
        with pyro.validation_enabled(), pytest.raises((TypeError, ValueError), match=argument):
            pytest.fail(f"{build()} with a wrong {argument}")


def check_that_density_is_that_of_the_draws(case: str) -> None:
    """Probabilities of half-spaces and corners by draws, and by the density at other draws.

    Pyro's test of goodness of fit compares the density with the volume up to the nearest draw. It
    needs a smooth density and few dimensions: at 50,000 draws it rejects the half-normal in three
    dimensions and the normal in six.
    """
    d, count = CASES[case](()), 10_000
    kinds = DISCRETE | EventCount | EventTime | SeveralOutcomes
    if isinstance(d, kinds) or case in OF_POSITIONS:
        return  # probabilities of outcomes, or a density of a position
    x = d.sample((count,)).reshape(count, -1)
    finite = torch.where(x.isfinite(), x, math.nan)
    # Heavier tails than those of the draws, so that the weights are bounded.
    other: Any = dist.StudentT(4.0, finite.nanmedian(0).values, 1.5 * x[x.isfinite()].std())
    y = other.sample((count,))
    log_q = other.log_prob(y).reshape(count, *d.event_shape)
    y = y.reshape(log_q.shape)
    if x.isinf().any():  # whole rows: here each with probability 1/2
        infinite = outcome(*y.shape[:-1]).bool().unsqueeze(-1)
        y = y.masked_fill(infinite, math.inf)
        log_q = log_q.masked_fill(infinite, 0.0) - math.log(2.0) / y.shape[-1]
    weights = (d.log_prob(y) - log_q.reshape(count, -1).sum(-1)).exp()

    def with_sum(values: Tensor) -> Tensor:
        values = values.reshape(count, -1)
        return torch.cat([values, values.sum(-1, keepdim=True)], -1)

    points = with_sum(x).quantile(torch.tensor([0.3, 0.7]).to(x), dim=0, interpolation="higher")
    corners = torch.tensor([*itertools.combinations_with_replacement(range(points.numel()), 2)])
    by_draws, by_density = (
        (with_sum(values).unsqueeze(1) <= points).flatten(1)[:, corners].all(-1).double()
        for values in (x, y)
    )
    by_density = by_density * weights.unsqueeze(-1)
    error = ((by_draws.var(0) + by_density.var(0)) / count).sqrt()
    assert ((by_draws.mean(0) - by_density.mean(0)).abs() < 5.0 * error).all()
    assert abs(weights.mean() - 1.0) < 5.0 * weights.std() / count**0.5


def check_that_copies_and_reparametrised_draws_are_the_same_bits(case: str) -> None:
    def drawn(d: Any) -> tuple[Tensor, Tensor]:
        torch.manual_seed(1)
        x = d.sample((4,))
        assert not x.requires_grad
        return x, d.log_prob(x)

    with torch.no_grad():
        d = CASES[case]((2,))
        for one in (d, d.expand(torch.Size((3, 2)))):
            for same in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
                assert all(map(torch.equal, drawn(one), drawn(same)))
    torch.manual_seed(1)
    if d.has_rsample:
        with torch.no_grad():  # as draws are made
            draws = d.rsample((4,))
        assert torch.equal(draws, drawn(d)[0])
    else:
        with pytest.raises(NotImplementedError):
            d.rsample()


def check_that_values_are_checked_unless_that_is_left_out(case: str) -> None:
    for checked in (True, False):
        with pyro.validation_enabled(checked):
            d = CASES[case]((2,))
            for one in (d, d.expand(torch.Size((3, 2)))):
                wrong = -0.5 if case == "several outcomes" else math.nan  # NaN was not seen
                value = torch.full(one.shape(), wrong, dtype=torch.float64)
                if checked:
                    with pytest.raises(ValueError, match="value argument"):
                        one.log_prob(value)
                else:
                    assert one.log_prob(value).shape == one.batch_shape


def check_that_densities_are_vectorised_over_draws_by_torch_func(case: str) -> None:
    with pyro.validation_enabled(False):
        d = CASES[case]((2,))
        x = d.sample((4,))
        torch.testing.assert_close(vmap(d.log_prob)(x), d.log_prob(x), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_distribution_keeps_the_conventions(case: str) -> None:
    for name, check in globals().items():
        if name.startswith("check_that"):
            torch.manual_seed(0)
            check(case)

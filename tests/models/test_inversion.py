"""The smallest revenue that reaches a level: a quantile of the cost, or found by bisection."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, IGCM
from pyro_gcm._utils.bisection import REACH

KINDS = (
    *("plain", "alternatives", "continuous", "categorical prior", "conditional p0"),
    "sigmoid and laplace costs",
)


def some_model(kind: str, dtype: torch.dtype = torch.float64) -> tuple[GCM, Tensor, Tensor, float]:
    """A model, rows, and a level between their predictions."""
    model: GCM = zoo.informative(zoo.with_units(kind)).to(dtype)
    x, r, _ = zoo.rows_of(kind, 70, 2, dtype)
    return model, x, r, float(model.predict(x, r).median())


def with_column(r: Tensor, column: int, value: Tensor) -> Tensor:
    changed = r.clone()
    changed[:, column] = value
    return changed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("kind", KINDS)
def test_prediction_reaches_the_level_there_and_not_just_below(
    kind: str, dtype: torch.dtype
) -> None:
    model, x, r, level = some_model(kind, dtype)
    for revenue in (0, 1):
        found = model.required_revenue(x, level, revenue=revenue, r=r[:, [1 - revenue]])
        assert found.dtype == dtype
        inside = found.isfinite()
        assert inside.double().mean() > 0.5
        at = with_column(r, revenue, found.nan_to_num(posinf=1e4, neginf=-1e4))
        assert (model.predict(x, at) >= level)[inside].all()
        step = 1e-4 if dtype == torch.float32 else 1e-9
        below = at.clone()
        below[:, revenue] -= step * model.r_standardizer.scale[revenue]
        assert (model.predict(x, below) < level)[inside].all()
        far = 0.9 * REACH * model.r_standardizer.scale[revenue].expand(70)
        high, low = (model.predict(x, with_column(r, revenue, end)) for end in (far, -far))
        assert (high < level)[found == math.inf].all()
        assert (low >= level)[found == -math.inf].all()


def test_prediction_as_it_is_rounded_reaches_levels_between_two_floats() -> None:
    for kind in KINDS[:4]:
        model, x, r, middle = some_model(kind, torch.float32)
        for level in torch.linspace(0.7, 1.3, 7).double() * middle:
            found = model.required_revenue(x, float(level), revenue=-0.0, r=r[:, 1:])
            at = with_column(r, 0, found)[found.isfinite()]
            for types in itertools.product((torch.float32, torch.float64), repeat=2):
                reached = model.predict(x[found.isfinite()].to(types[0]), at.to(types[1]))
                assert (reached.double() >= level).all()


def test_level_that_no_revenue_reaches_or_every_one_does_is_infinite() -> None:
    model, x, r, _ = some_model("constant p0")
    most = torch.sigmoid(-model.infinite_net.logits).item()
    r = r[:, 1:]
    assert (model.required_revenue(x, most + 0.001, r=r) == math.inf).all()
    assert model.required_revenue(x, 0.2, r=torch.tensor([5.0])).isfinite().all()
    # The other cost is never paid; with alternatives the other revenue can do it alone.
    assert (model.required_revenue(x, 0.2, r=[-1e3]) == math.inf).all()
    either = some_model("alternatives")[0]
    assert (either.required_revenue(x, 0.5, r=[1e7]) == -math.inf).all()
    assert either.required_revenue(x, 0.5, r=r).isfinite().all()


def test_other_revenues_are_those_given_or_their_means() -> None:
    model, x, r, _ = some_model("plain")
    means = model.r_standardizer.loc[1:]
    found = model.required_revenue(x, 0.3)
    for same in (means, means.expand(70, 1), means.tolist(), [math.nan, *means.tolist()]):
        assert torch.equal(found, model.required_revenue(x, 0.3, r=same))
    marked = with_column(r, 0, torch.tensor(math.nan))
    found = model.required_revenue(x, 0.3, r=marked)
    assert torch.equal(found, model.required_revenue(x, 0.3, r=r[:, 1:]))
    assert (model.required_revenue(x, 0.3, r=r[:, 1:] + 0.2) <= found).all()


def test_joint_model_weighs_its_draws_here_too() -> None:
    model, x, r, level = some_model("joint")
    found = model.required_revenue(x, level, r=r[:, 1:])
    inside = found.isfinite()
    assert inside.double().mean() > 0.5
    reached = model.predict(x[inside], with_column(r, 0, found)[inside])
    torch.testing.assert_close(reached, torch.full_like(reached, level), rtol=0, atol=1e-6)


def test_wrong_arguments_are_refused() -> None:
    for options, message in (
        ({"level": 0.0}, r"level must be a probability in \(0, 1\), got 0.0"),
        ({"level": 1.0}, r"level must be a probability in \(0, 1\)"),
        ({"level": math.nan}, r"level must be a probability in \(0, 1\), got nan"),
        ({"level": torch.tensor([0.5, math.nan, 0.5, 0.5])}, "level must be finite, got nan"),
        ({"level": torch.tensor([0.5])}, "row counts differ: x has 4, level has 1"),
        ({"r": torch.zeros(3, 1)}, "row counts differ: x has 4, r has 3"),
        ({"r": torch.full((2,), math.nan)}, "r must be finite"),
        ({"revenue": 1, "r": [70.0, 80.0]}, r"r must have NaN in column 1.* got 80"),
    ):
        with pytest.raises(ValueError, match=message):
            GCM(3, 2).required_revenue(**{"x": torch.zeros(4, 3), **options})
    with pytest.raises(ValueError, match="level must be a finite number, got nan"):
        GCM(3, 2, response="continuous").required_revenue(torch.zeros(4, 3), math.nan)
    with pytest.raises(ValueError, match="needs revenues that are not quantile levels"):
        GCM(3, 1, response="quantile").required_revenue(torch.zeros(4, 3), 0.5)
    assert not hasattr(IGCM(3, 2), "required_revenue")


def test_times_of_a_model_without_revenues_need_none() -> None:
    model, x = GCM(2, 0, response="survival", hidden=4), torch.randn(5, 2)
    times = torch.linspace(0.2, 3.0, 5).double()
    found = model.along(x, lambda cdf, t: cdf(t), times, revenue=None)
    later = model.predictive(x, torch.zeros(5, 0)).survival(times).diagonal()
    torch.testing.assert_close(found, 1.0 - later.double())
    with pytest.raises(ValueError, match="r must have shape"):
        GCM(2, 1, response="survival").along(x, lambda cdf, t: cdf(t), times, revenue=None)

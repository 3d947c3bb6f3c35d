"""Competing risks: incidences, their order, hazards, draws, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import zoo
from scipy import integrate, stats
from torch import Tensor

from pyro_gcm import GCM, MemberGCM, SurvivalTimes, fit, load, save
from pyro_gcm.prediction.incidence import incidences
from pyro_gcm.responses import CompetingRisks

TIMES = torch.tensor([0.0, 0.05, 0.4, 1.0, 2.5, 30.0, torch.inf]).double()
#: Which causes each revenue hastens (+1) and delays (-1).
ALONE = {"a": [1, 0], "b": [0, 1]}
OPPOSITE = {"a": [1, -1], "b": [-1, 0]}
THREE = {"a": [0, 1], "b": [0, 0], "c": [1, 0]}


def rows(count: int, seed: int = 0, causes: int = 2) -> tuple[Tensor, Tensor, Tensor, np.ndarray]:
    """x, r, the first time and its cause, 0 where none was seen."""
    rng = np.random.default_rng(seed)
    x, r = rng.normal(size=(count, 3)), rng.uniform(size=(count, 2))
    scores = np.stack([0.5 * x[:, k] + r[:, k % 2] for k in range(causes)], 1)
    late = np.exp(0.5 * rng.normal(size=(count, causes)) - scores)
    ends = np.concatenate([rng.uniform(0.2, 4.0, size=(count, 1)), late], 1)
    return torch.tensor(x), torch.tensor(r), torch.tensor(ends.min(1)), ends.argmin(1)


def made(
    family: Any = GCM, directions: Any = ALONE, dtype: torch.dtype = torch.float64, **more: Any
) -> Any:
    """A model that was trained for an epoch."""
    names = "abc"[: len(directions)]
    x, r, time, cause = rows(200, causes=len(names))
    labels = np.array(["", *names])[cause]
    response = CompetingRisks([*names], directions, **{"nodes": 256, **more})
    sizes = {"members": 3} if family is MemberGCM else {"num_samples": 16, "z_dim": 2}
    with zoo.default_dtype(dtype):
        model = family(3, 2, response=response, hidden=4, **sizes)
    times = SurvivalTimes.competing(time, labels)
    fit(model, x.to(dtype), r.to(dtype), times, epochs=1, progress=False)
    return model


def lognormals(*parts: tuple[float, float]) -> Callable[[Tensor], list[Tensor]]:
    """Distribution functions of latent times with these medians and spreads, by log t."""
    own = [stats.lognorm(spread, scale=median) for median, spread in parts]
    return lambda at: [torch.from_numpy(np.atleast_1d(one.cdf(at.exp().numpy()))) for one in own]


def summed(cdfs: Any, blocks: int, short: bool = True, at: Tensor = TIMES) -> Tensor:
    edges = torch.linspace(-10.0, 10.0, blocks + 1).double()

    def every(low: Tensor, _: Tensor) -> Tensor:
        return torch.full(low.shape, short)

    return torch.stack([*incidences(cdfs, every, edges, at.log(), 64)])


def integral(k: int, t: float, parts: Sequence[tuple[float, float]]) -> float:
    """The incidence of cause k by t, by adaptive quadrature over log t."""
    own, *others = (stats.norm(math.log(m), s) for m, s in (parts[k], *parts[:k], *parts[k + 1 :]))
    low, high = own.ppf(1e-300), min(math.log(t), own.isf(1e-300)) if t else -math.inf
    if high <= low:
        return 0.0
    options: Any = {"epsabs": 1e-15, "epsrel": 1e-12, "limit": 2000}
    points = np.clip(own.ppf([1e-9, 0.01, 0.5, 0.99]), low, high)

    def density(u: float) -> Any:
        return own.pdf(u) * math.prod(other.sf(u) for other in others)

    return float(integrate.quad(density, low, high, points=points, **options)[0])


@pytest.mark.parametrize(
    "parts",
    [
        ((1.0, 0.6), (1.4, 0.9)),
        ((1.0, 0.3), (30.0, 0.4)),  # the other one hardly ever comes first
        ((2.0, 1.5), (0.2, 0.35), (1.0, 0.8)),
    ],
)
def test_incidences_are_integrals_in_tails_too_and_add_up(parts: Any) -> None:
    found = summed(lognormals(*parts), 100)
    for t, each in zip(TIMES.tolist(), found, strict=True):
        for k in range(len(parts)):
            assert each[k].item() == pytest.approx(integral(k, t, parts), abs=1e-10)
        none = math.prod(stats.lognorm(spread, scale=median).sf(t) for median, spread in parts)
        assert each[-1].item() == pytest.approx(none, abs=1e-11)
    torch.testing.assert_close(found.sum(1), torch.ones(len(TIMES)).double(), rtol=0, atol=1e-11)


def test_the_error_falls_with_the_square_of_long_blocks_and_at_once_in_short_ones() -> None:
    parts = ((1.0, 0.6), (1.4, 0.9))
    rows = [[integral(k, t, parts) for k in (0, 1)] for t in TIMES.tolist()]
    wanted = torch.tensor(rows, dtype=torch.float64)
    errors = {}
    for short in (False, True):
        for blocks in (20, 40, 80):
            found = summed(lognormals(*parts), blocks, short)
            errors[short, blocks] = (found[:, :2] - wanted).abs().max().item()
            assert (found.sum(1) - 1.0).abs().max() < 1e-15
    assert 3.0 < errors[False, 40] / errors[False, 80] < 5.0
    assert errors[True, 20] < 1e-9
    assert errors[True, 80] < 1e-10 < 1e-6 < errors[False, 80]


def test_times_of_a_call_do_not_depend_on_the_others() -> None:
    whole = summed(lognormals((1.0, 0.6), (1.4, 0.9)), 40)
    for place in range(len(TIMES)):
        alone = summed(lognormals((1.0, 0.6), (1.4, 0.9)), 40, at=TIMES[place : place + 1])
        assert torch.equal(whole[place], alone[0])


def test_what_hastens_a_cause_raises_its_incidence_and_lowers_that_of_others() -> None:
    """At every time, to the last bit, by steps of one ulp and larger ones."""
    # With the cause whose incidence each revenue raises.
    cases = ((GCM, ALONE, (0, 1)), (MemberGCM, OPPOSITE, (0, 1)), (MemberGCM, THREE, (2, 0)))
    for family, directions, raised in cases:
        for dtype in (torch.float32, torch.float64):
            model = made(family, directions, dtype, nodes=64)
            x, r, *_ = rows(30, seed=5)
            x, r = x.to(dtype), r.to(dtype)
            low = model.predictive(x, r).incidence(TIMES)
            for revenue, step in ((0, 0.0), (0, 1e-7), (1, 0.0), (1, 0.3)):
                up = r.clone()
                up[:, revenue] = torch.nextafter(r[:, revenue] + step, torch.tensor(9.0).to(dtype))
                high = model.predictive(x, up).incidence(TIMES)
                for k in range(low.shape[-1]):
                    sign = 1.0 if k == raised[revenue] else -1.0
                    assert (sign * (high - low)[..., k] >= 0.0).all(), (directions, dtype, step)


def test_incidences_are_integrals_of_the_density_and_a_hazard_is_that_over_survival() -> None:
    """The density is computed by other means than the distribution functions."""
    shares, weights = np.polynomial.legendre.leggauss(12)
    ends = np.linspace(-25.0, math.log(0.6), 121)
    places = (ends[:-1, None] + np.diff(ends)[:, None] * (0.5 + 0.5 * shares)).ravel()
    widths = (np.diff(ends)[:, None] * 0.5 * weights).ravel()
    for family, directions in ((GCM, ALONE), (MemberGCM, THREE)):
        names = [*directions]
        model = made(family, directions, nodes=2048)
        x, r, *_ = rows(3, seed=2)
        p_y, found = model.predictive(x, r), model.predictive(x, r).incidence([0.6])[:, 0]
        many = len(places)
        dense = model.predictive(x.repeat_interleave(many, 0), r.repeat_interleave(many, 0))
        for k, name in enumerate(names):
            seen = SurvivalTimes.competing(np.tile(np.exp(places), 3), [name] * 3 * many, names)
            density = dense.log_prob(seen).exp().reshape(3, many).double()
            wanted = density @ torch.from_numpy(np.exp(places) * widths)
            torch.testing.assert_close(found[:, k], wanted, rtol=0, atol=1e-9)
            at = SurvivalTimes.competing([0.6] * 3, [name] * 3, names)
            hazard = p_y.log_prob(at).exp() / p_y.survival([0.6])[:, 0]
            torch.testing.assert_close(p_y.hazard([0.6])[:, 0, k], hazard, rtol=1e-8, atol=0)


def test_draws_have_the_incidences() -> None:
    model = made(MemberGCM)
    x, r, *_ = rows(4, seed=3)
    p_y = model.predictive(x, r)
    time, cause = p_y.sample(6_000)
    for at in (0.3, 1.0, torch.inf):
        for k in range(2):
            share = ((time <= at) & (cause == k)).double().mean(0)
            wanted = p_y.incidence([at])[:, 0, k]
            error = (wanted * (1.0 - wanted) / 6_000).sqrt()
            assert ((share - wanted).abs() < 5.0 * error + 1e-4).all()
    torch.testing.assert_close(p_y.causes().sum(1), torch.ones(4).double(), rtol=0, atol=1e-15)


def test_predictions_are_of_the_first_cause_and_are_saved(tmp_path: Path) -> None:
    model = made(horizon=0.7)
    x, r, time, cause = rows(30, seed=4)
    predicted = model.predict(x, r)
    torch.testing.assert_close(predicted, model.predictive(x, r).incidence([0.7])[:, 0, 0])
    same = model.predict(x[:4], r[:1].expand(4, -1))
    assert torch.equal(model.surface(x[:4], r[:1])[:, 0], same)
    needed = model.required_revenue(x[:3], 0.3, revenue=0)
    assert needed.shape == (3,)
    with pytest.raises(ValueError, match="must be one in which the prediction rises"):
        model.required_revenue(x[:3], 0.3, revenue=1)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert torch.equal(again.predictive(x, r).causes(), model.predictive(x, r).causes())
    y = SurvivalTimes.competing(time, np.array(["", "a", "b"])[cause])
    draws = model.posterior(x, r, y, num_samples=50, progress=False)
    assert (draws["a.t"][:, cause == 2] >= time[cause == 2] - 1e-6).all()  # which had not come


def test_causes_are_named_and_others_are_refused() -> None:
    times = SurvivalTimes.competing([1.0, 2.0, 3.0], [2.0, 0.0, 1.0])
    assert [*times] == ["1", "2"]
    assert times["2"].is_exact.tolist() == [True, False, False]
    assert CompetingRisks([1, 2], {1: [1], 2: [0]}).directions_of == {"1": [1], "2": [0]}
    none = SurvivalTimes.competing([1.0, 2.0], [None, "b"], causes=["a", "b"])
    assert none["a"].is_exact.tolist() == [False, False]
    for labels in (
        np.array([0, "a", "b"]),
        np.array([np.nan, "a", "b"]),
        pd.Series([None, "a", "b"], dtype="string"),
        [False, "a", "b"],
    ):
        assert [*SurvivalTimes.competing([1.0, 2.0, 3.0], labels)] == ["a", "b"]
    codes = pd.Series([None, 1, 2], dtype="Int64")
    assert [*SurvivalTimes.competing([1.0, 2.0, 3.0], codes)] == ["1", "2"]
    x, r, time, cause = rows(30)
    model = made()
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: SurvivalTimes.competing([1.0], [["a"]]), r"cause must have shape \[n\]"),
        (lambda: SurvivalTimes.competing([1.0], ["a"], causes=["0", "a"]), "causes must not have"),
        (lambda: SurvivalTimes.competing([1.0], ["x"], causes=["a"]), r"one of \['a'\] or 0, got"),
        (lambda: SurvivalTimes.competing([1.0, 2.0], [0, None]), "must have a cause in some row"),
        (lambda: SurvivalTimes.competing([-1.0, 2.0], [1, 0]), "time must be at least 0"),
        (lambda: CompetingRisks(["a"]), "causes must be two or more different names"),
        (lambda: CompetingRisks([1, "1"]), "causes must be two or more different names"),
        (lambda: CompetingRisks("ab"), "causes must be two or more different names"),
        (lambda: CompetingRisks(["a", "b"], {"c": [1]}), r"directions\['c'\] must"),
        (lambda: model.predictive(x, r).incidence([-1.0]), "times must be .* at least 0"),
        (lambda: model.predictive(x, r).hazard([0.0]), "times must be above 0 for a hazard"),
        (lambda: fit(model, x, r, SurvivalTimes.right_censored(time, cause > 0)), "y must be a ma"),
    ]
    for call, message in calls:
        with pytest.raises((TypeError, ValueError), match=message):
            call()

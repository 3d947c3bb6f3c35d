"""Competing risks: incidences, their order, hazards, draws, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
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
    response = CompetingRisks([*names], directions, **more)
    sizes = {"members": 3} if family is MemberGCM else {"num_samples": 16, "z_dim": 2}
    with zoo.default_dtype(dtype):
        model = family(3, 2, response=response, hidden=4, **sizes)
    times = SurvivalTimes.competing(time, labels)
    fit(model, x.to(dtype), r.to(dtype), times, epochs=1, progress=False)
    return model


def lognormals(*parts: tuple[float, float]) -> Callable[[Tensor], list[Tensor]]:
    """Distribution functions of latent times with these medians and spreads of the logarithm."""
    own = [stats.lognorm(spread, scale=median) for median, spread in parts]
    return lambda at: [torch.from_numpy(np.atleast_1d(one.cdf(at.numpy()))) for one in own]


def summed(cdfs: Any, count: int) -> Tensor:
    nodes = torch.linspace(-10.0, 10.0, count).double().exp()
    return torch.stack([*incidences(cdfs, nodes, TIMES, 64)])


def test_incidences_are_integrals_and_add_up_to_the_last_bit() -> None:
    parts = ((1.0, 0.6), (1.4, 0.9))
    found, finer = (summed(lognormals(*parts), count) for count in (2000, 8000))
    one, two = (stats.lognorm(spread, scale=median) for median, spread in parts)
    for t, each, fine in zip(TIMES.tolist(), found, finer, strict=True):
        end = min(t, 1e3)
        options: Any = {"epsabs": 1e-13, "limit": 500, "points": [0.2, 1.0, 3.0] if end else None}
        wanted = integrate.quad(lambda u: one.pdf(u) * two.sf(u), 0.0, end, **options)[0]
        assert each[0].item() == pytest.approx(wanted, abs=4e-6)
        assert fine[0].item() == pytest.approx(wanted, abs=3e-7)  # a sixteenth of that
        assert each[2].item() == pytest.approx(one.sf(t) * two.sf(t), abs=2e-9)
    assert torch.equal(found.sum(1), torch.ones(len(TIMES)).double())
    three = summed(lognormals(*parts, (2.0, 0.3)), 2000)
    assert (three.sum(1) - 1.0).abs().max() < 4e-9


def test_times_of_a_call_do_not_depend_on_the_others() -> None:
    cdfs = lognormals((1.0, 0.6), (1.4, 0.9))
    nodes = torch.linspace(-10.0, 10.0, 300).double().exp()
    for at_once in (1, 7, 1000):
        whole = torch.stack([*incidences(cdfs, nodes, TIMES, at_once)])
        for t, each in zip(TIMES, whole, strict=True):
            (alone,) = incidences(cdfs, nodes, t.reshape(1), 64)
            assert torch.equal(each, alone)


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


def test_a_density_is_the_slope_of_an_incidence_and_a_hazard_that_over_survival() -> None:
    for family in (GCM, MemberGCM):
        model = made(family, nodes=4096)
        x, r, *_ = rows(3, seed=2)
        p_y, t, step = model.predictive(x, r), 0.6, 1e-3
        ends = p_y.incidence([t - step, t + step])
        slope = (ends[:, 1] - ends[:, 0]) / (2.0 * step)
        for k, name in enumerate("ab"):
            seen = SurvivalTimes.competing([t] * 3, [name] * 3, causes=["a", "b"])
            torch.testing.assert_close(p_y.log_prob(seen).exp(), slope[:, k], rtol=1e-3, atol=1e-6)
        hazard = slope / p_y.survival([t])
        torch.testing.assert_close(p_y.hazard([t])[:, 0], hazard, rtol=1e-3, atol=1e-6)


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
    with pytest.raises(ValueError, match="must be one that hastens 'a' or delays others"):
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
        (lambda: CompetingRisks("ab"), "causes must be two or more different names"),
        (lambda: CompetingRisks(["a", "b"], {"c": [1]}), r"directions\['c'\] must"),
        (lambda: model.predictive(x, r).incidence([-1.0]), "times must be .* at least 0"),
        (lambda: model.predictive(x, r).hazard([0.0]), "times must be above 0 for a hazard"),
        (lambda: fit(model, x, r, SurvivalTimes.right_censored(time, cause > 0)), "y must be a ma"),
    ]
    for call, message in calls:
        with pytest.raises((TypeError, ValueError), match=message):
            call()

"""Strict against implicit: every row scored once, by models that have not seen it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import zoo
from torch import Tensor

from pyro_gcm import GCM, IGCM, compare_assumptions, fit
from pyro_gcm.data import Dataset

QUICK: dict[str, Any] = {"epochs": 2, "num_particles": 4, "progress": False}


def rows(count: int) -> tuple[Tensor, Tensor, Tensor]:
    return zoo.rows(count=count).map(Tensor.float)[:3]


def test_every_row_is_held_out_once_and_scored_by_both() -> None:
    x, r, y = rows(103)
    result = compare_assumptions((x, r, y), folds=3, **QUICK)
    scores = result.scores
    assert list(scores.index) == list(range(103))
    assert scores["fold"].value_counts().to_dict() == {0: 35, 1: 34, 2: 34}
    train = torch.tensor((scores["fold"] != 1).to_numpy())
    for name, build in (("strict", GCM), ("implicit", IGCM)):
        model = build(3, 2)
        fit(model, x[train], r[train], y[train], **QUICK)
        wanted = model.log_prob(x[~train], r[~train], y[~train]).double()
        found = torch.tensor(scores.loc[scores["fold"] == 1, name].to_numpy())
        torch.testing.assert_close(found, wanted)
    gap = scores["implicit"] - scores["strict"]
    assert result.difference == pytest.approx(gap.mean())
    assert result.standard_error == pytest.approx(gap.std() / math.sqrt(103))
    assert f"{result.difference:+.4f} ± {result.standard_error:.4f}" in str(result)


def test_one_fold_is_one_held_out_fifth() -> None:
    assert len(compare_assumptions(rows(100), folds=1, **QUICK).scores) == 20


def test_data_set_brings_its_response_and_options_reach_their_models() -> None:
    x, r, y = (t.double() for t in rows(60))
    names = tuple("abc"), tuple("de")
    data = Dataset("toy", "default", x, r, y + x[:, 1], *names, "continuous", "rmse")
    options: dict[str, Any] = {"strict": {"alternatives": 2}, "implicit": {"k_dim": 1}}
    result = compare_assumptions(data, folds=2, **options, **QUICK)
    assert result.scores[["strict", "implicit"]].notna().all(axis=None)
    options["implicit_objective"] = "response_revenue"
    other = compare_assumptions(data, folds=2, **options, **QUICK)
    assert (other.scores["strict"] == result.scores["strict"]).all()
    assert (other.scores["implicit"] != result.scores["implicit"]).all()


def test_the_right_assumption_wins() -> None:
    """r_0 = k_0 + k_1, r_1 = k_1 and y follows k_0: given r_0, y falls in r_1."""
    g = torch.Generator().manual_seed(0)
    k = torch.randn(3000, 2, generator=g)
    r = torch.stack([k.sum(1), k[:, 1]], 1) + 0.2 * torch.randn(3000, 2, generator=g)
    x = torch.randn(3000, 1, generator=g)
    y = (k[:, 0] + 0.3 * x[:, 0] > 0.0).float()
    training = {"epochs": 12, "num_particles": 4, "progress": False}
    result = compare_assumptions((x, r, y), folds=1, **training)
    assert result.difference > 5.0 * result.standard_error
    r[:, 1] *= -1.0  # then y rises in both, and no positive W gives such revenues
    strict = {"alternatives": 3, "costs": 3}  # one revenue makes up for the other
    result = compare_assumptions((x, r, y), folds=1, strict=strict, **training)
    assert result.difference < -3.0 * result.standard_error


def test_data_that_fit_would_refuse_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="r must be finite"):
        compare_assumptions((torch.zeros(9, 2), torch.zeros(9, 2) / 0, torch.zeros(9)), folds=2)
    with pytest.raises(ValueError, match="folds must be an integer of at least 1, got 0"):
        compare_assumptions(rows(20), folds=0, progress=False)

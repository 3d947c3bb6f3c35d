"""A model with the score of boosted trees is saved with its trees, in a format of their library."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from boosters import sized

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm.boosted import Boosted, BoostedScore

SUFFIXES = {"lightgbm": "txt", "xgboost": "json", "catboost": "cbm"}


def boosted(library: str, response: str, role: str) -> tuple[Boosted, torch.Tensor, torch.Tensor]:
    options = sized(library, 12) | ({"min_child_samples": 5} if library == "lightgbm" else {})
    g = torch.Generator().manual_seed(0)
    x, r = (torch.randn(300, k, generator=g, dtype=torch.float64) for k in (3, 2))
    y = x[:, 0] + r.sum(1) + torch.randn(300, generator=g, dtype=torch.float64)
    y = (y > 0).double() if response == "binary" else 1.7 + y
    score = BoostedScore(role, library, response=response, folds=2, **options)
    columns = score.columns(x, r, score.fit(x, r, y))
    model = GCM(columns[0].shape[1], columns[1].shape[1], response=response)
    model.learn_units(*columns, y)
    return Boosted(model, score), x, r


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("role", ["revenue", "covariate"])
@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("library", SUFFIXES)
def test_trees_come_back_to_the_last_bit(
    library: str, response: str, role: str, tmp_path: Path
) -> None:
    model, x, r = boosted(library, response, role)
    pyro_gcm.save(model, tmp_path / "first")
    once = pyro_gcm.load(tmp_path / "first")
    assert torch.equal(once.score.score(x, r), model.score.score(x, r))
    assert torch.equal(once.predict(x, r), model.predict(x, r))
    pyro_gcm.save(once, tmp_path / "second")
    twice = pyro_gcm.load(tmp_path / "second")
    assert torch.equal(twice.predict(x, r), model.predict(x, r))
    # The name in folders of 0.2.0, whose classes were in the package `encoders`.
    assert '"encoders.Boosted"' in (tmp_path / "second" / "card.json").read_text("utf-8")
    assert (tmp_path / "second" / f"score.booster1.{SUFFIXES[library]}").stat().st_size


def test_trees_without_a_format_of_their_own_are_refused(tmp_path: Path) -> None:
    score = BoostedScore("revenue", "sklearn", folds=2, max_iter=2)
    x, r = torch.randn(80, 2), torch.randn(80, 1)
    score.fit(x, r, r[:, 0] > 0)
    with pytest.raises(TypeError, match="library='sklearn' cannot be saved: HistGradient"):
        pyro_gcm.save(score, tmp_path / "saved")

"""A model with the score of boosted trees is saved with its trees, in a format of their library."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from boosters import boosted, rows

import pyro_gcm
from pyro_gcm.boosted import BoostedScore

SUFFIXES = {"lightgbm": "txt", "xgboost": "json", "catboost": "cbm"}


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("role", ["revenue", "covariate"])
@pytest.mark.parametrize("response", ["binary", "continuous"])
@pytest.mark.parametrize("library", SUFFIXES)
def test_trees_come_back_exactly(library: str, response: str, role: str, tmp_path: Path) -> None:
    model, (x, r, _) = boosted(role, response, library, epochs=0), rows(100, seed=1)
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

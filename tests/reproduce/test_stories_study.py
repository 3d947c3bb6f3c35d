"""Simulated data of changed stories: their truths are those of the costs that are drawn."""

from typing import Any

import pandas as pd
import pytest
import torch
from toys import options

from reproduce import stories


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> list[stories.Data]:
    """One epoch of every fit, and the data of the study."""
    own, seen = stories.fit, []

    def one_epoch(model: Any, *columns: Any, **training: Any) -> Any:
        return own(model, *(column[:200] for column in columns), **{**training, "epochs": 1})

    class Seen(stories.Data):
        def log_score(self, p: Any) -> float:
            seen.append(self)
            return super().log_score(p)

    monkeypatch.setattr(stories, "fit", one_epoch)
    monkeypatch.setattr(stories, "Data", Seen)
    return seen


@pytest.mark.parametrize("part", ["groups", "factor", "modes"])
def test_truths_are_those_of_the_outcomes(part: str, quickly: list[stories.Data]) -> None:
    method = stories.PARTS[part][0]
    scores = getattr(stories, part)(method, 3)
    data = quickly[0]
    assert len(data.truth) == len(data.test_x) == stories.TEST
    # The best score of all is that of the truth, and the rate of training rows is that of others.
    assert scores["log score"] < scores["log score of the truth"] < 0.0
    error = (0.25 / len(data.y)) ** 0.5 + (0.25 / stories.TEST) ** 0.5
    assert abs(data.y.double().mean() - data.truth.mean()) < 4.0 * error
    assert all(torch.tensor(value).isfinite() for value in scores.values())


def test_a_gain_is_that_on_the_same_data() -> None:
    keys: dict[str, Any] = {"dataset": "modes", "variant": "", "metric": "log score"}
    first, other = stories.PARTS["modes"]
    scores = {first: (-0.5, -0.9), other: (-0.4, -0.6)}
    rows = [
        keys | {"seed": i, "method": m, "value": s[i]} for m, s in scores.items() for i in (0, 1)
    ]
    last = stories.report(pd.DataFrame(rows), "modes").splitlines()[-1]
    assert last == f"| {other} | -0.5000 (0.1414) | 0.2000 (0.1000) |"


def test_quick_fits_are_run_and_reported(tmp_path: Any, quickly: Any, capsys: Any) -> None:
    asked = options(stories, tmp_path, "--quick", "--jobs", "1", "--parts", "modes")
    stories.main(asked)
    told = capsys.readouterr().out
    assert "| GCM, modes, Sobol draws |" in told
    assert "error of the distribution function" in told
    assert len(stories.fits([*stories.PARTS], 50, 1)) == 570

"""What sections on quality say of rows that cannot tell everything."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from pyro_gcm.cli.output import WrongUse
from pyro_gcm.cli.target import outcomes_of
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.report import quality_of_classes, quality_of_numbers
from pyro_gcm.report.page import Facts
from pyro_gcm.report.subject import Subject


def of_times(monkeypatch: pytest.MonkeyPatch, horizon: float, scores: dict[str, float]) -> Any:
    monkeypatch.setattr(quality_of_numbers, "_curves", lambda subject: None)
    model = SimpleNamespace(response=SimpleNamespace(reference=horizon))
    y = SurvivalTimes.right_censored([1.0, 2.0, 3.0, 7.0], [True, False, True, False])
    estimator = SimpleNamespace(response="survival", model_=model)
    subject = Subject(estimator, pd.DataFrame({"a": np.zeros(4)}), y, "years")
    subject.__dict__ |= {"predictions": np.full(4, 0.3), "scores": scores}
    return quality_of_numbers.of_times(subject)


def test_a_horizon_that_no_row_was_watched_to_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, in_short = of_times(monkeypatch, 20.0, {"concordance": 0.7})
    assert "have the event by 7 (no row was watched up to 20), and the mean risk by 20" in in_short
    assert isinstance(blocks[0], Facts)
    assert "= 7 (no row was watched up to 20)" in blocks[0].entries[0].meaning
    _, in_short = of_times(monkeypatch, 5.0, {"concordance": 0.7})
    assert "have the event by 5, and the mean risk by 5 is" in in_short
    _, in_short = of_times(monkeypatch, 5.0, {})
    assert in_short.startswith("No two rows can be compared, so there is no concordance")


def test_rows_are_named_by_their_number() -> None:
    subject = Subject(None, pd.DataFrame({"a": np.zeros(30)}))
    assert subject.sampled(30) == "30 rows"
    assert subject.sampled(20) == "20 rows that were drawn at random from all"
    assert len(subject.sample(20)) == len(set(subject.sample(20))) == 20


def test_axes_of_calibration_end_where_the_curves_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality_of_classes, "drawn", lambda draw, alt, caption: draw)
    curve = pd.DataFrame({"predicted": [0.93, 0.97], "observed": [0.92, 0.99], "count": 50})
    low = curve.assign(predicted=0.0, observed=[0.0, 0.01], standard_error=0.001)
    for shown, left, right in (
        (curve.assign(standard_error=0.01), (0.89, 0.9), (1.0, 1.03)),
        (low, (-0.01, 0.0), (0.0, 0.02)),
    ):
        ax = Figure().subplots()
        quality_of_classes._calibration({"GCM": shown})(ax)  # type: ignore[operator]
        for ends, (at_least, at_most) in zip(ax.get_xlim(), (left, right), strict=True):
            assert at_least < ends < at_most
        assert ax.get_ylim() == ax.get_xlim()


class Survival(SimpleNamespace):
    """A saved model of times."""

    kind = "survival"
    names: ClassVar = ["age"]
    estimator = None

    labels: ClassVar = []

    def table(self, data: Path, text: list[str]) -> pd.DataFrame:
        return pd.DataFrame({"age": [1.0], "time": [2.0]})


def test_the_column_that_is_missing_is_named() -> None:
    data, knows = Path("a.csv"), Survival(notes={"target": "time", "event": "died"})
    found = outcomes_of(knows, data, target=None, event=None)  # type: ignore[arg-type]
    assert found.y is None
    assert found.lacks == "a.csv has no column 'died'"
    with pytest.raises(WrongUse, match=r"--event: a.csv has no column 'died'"):
        outcomes_of(knows, data, target="time", event=None)  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match="--event names no column"):
        outcomes_of(Survival(notes={}), data, target="time", event=None)  # type: ignore[arg-type]

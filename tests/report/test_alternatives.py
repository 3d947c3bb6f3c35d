"""The report on three or more classes, and on competing risks: all of them side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_page import Page, report
from sklearn.metrics import roc_auc_score

from pyro_gcm.data import SurvivalTimes
from pyro_gcm.estimators import GCMClassifier, GCMCompetingRisks
from pyro_gcm.estimators.competing import concordance_of
from pyro_gcm.report.causes import aalen_johansen
from pyro_gcm.report.subject import Subject, percent

rng = np.random.default_rng(0)
X = pd.DataFrame({"fare": rng.uniform(1.0, 5.0, 120), "minutes": rng.uniform(10.0, 60.0, 120)})
X["town"] = rng.choice(["north", "south"], 120)
utility = np.stack([3.0 - X["fare"], 2.0 - X["minutes"] / 20.0, np.zeros(120)], 1)
MODE = np.array(["bus", "car", "<b>walk"])[(utility + rng.gumbel(size=(120, 3))).argmax(1)]
own = rng.exponential(4.0 * np.exp(1.0 - 0.3 * X["fare"])), rng.exponential(6.0, 120)
TIME = np.minimum(np.minimum(*own), 5.0)
CAUSE = np.where(TIME == 5.0, "", np.where(own[0] < own[1], "default", "repaid"))
CLASSES = {"bus": {"fare": -1}, "car": {"minutes": -1}}


def cells(page: Page, title: str) -> list[list[str]]:
    """The rows of the table with a title."""
    table = page.source[page.source.index(title) :]
    rows = table[table.index("<tbody>") : table.index("</tbody>")].split("</tr>")[:-1]
    return [[cell.split(">")[-1] for cell in row.split("</t")[:-1]] for row in rows]


def test_all_classes_are_side_by_side(tmp_path: Path) -> None:
    options: Any = {"monotonic_cst": CLASSES, "positive": "bus", "members": 2, "epochs": 2}
    model = GCMClassifier(**options).fit(X, MODE)
    written, page = report(model, X, MODE, tmp_path / "a.html", target="mode")
    page.check()
    assert "All classes side by side" in written.sections
    shares = model.predict_proba(X)
    for row in cells(page, "Each class against all others"):
        name = row[0].replace("&lt;", "<").replace("&gt;", ">")
        came, p = name == MODE, shares[:, [*model.classes_].index(name)]
        wanted = [f"{came.sum()}", percent(came.mean()), percent(p.mean())]
        assert row[1:4] == wanted
        assert row[4].startswith(f"{roc_auc_score(came, p):.3f} (")
    assert cells(page, "How the probability of each moves") == [
        ["fare", "can only rise", "can only rise", "can only fall"],
        ["minutes", "can only rise", "can only fall", "can only rise"],
    ]
    assert "“car”: " in page.source
    two = GCMClassifier(members=2, epochs=1).fit(X, MODE == "bus")
    assert "All classes" not in str(report(two, X, None, tmp_path / "b.html")[0].sections)


def test_all_causes_are_beside_aalen_and_johansen(tmp_path: Path) -> None:
    options: Any = {"members": 2, "epochs": 1, "horizon": 2.0, "cause": "repaid"}
    directions: Any = {"default": {"fare": 1}}
    model = GCMCompetingRisks(monotonic_cst=directions, **options).fit(X, (CAUSE, TIME))
    asked: Any = {"target": "years", "at": 0.2, "by": X["town"]}
    written, page = report(model, X, (CAUSE, TIME), tmp_path / "a.html", **asked)
    page.check()
    assert written.scores == {"concordance": model.score(X, (CAUSE, TIME))}
    found = model.predict_cumulative_incidence(X, [2.0])[:, 0]
    times = SurvivalTimes.competing(TIME, CAUSE)
    at, steps = aalen_johansen(times)
    for row in cells(page, "Incidences of the causes by 2"):
        place = model.causes_.index(row[0])
        p, came = found[:, place], [*CAUSE].count(row[0])
        observed = steps[np.searchsorted(at, 2.0, side="right")][[*times].index(row[0])]
        concordance = f"{concordance_of(times, row[0], p):.3f}"
        assert row[1:] == [f"{came}", percent(observed), percent(p.mean()), concordance]
    assert row[0] == "repaid"
    title = "How the incidence of each moves"
    assert cells(page, title) == [["fare", "can only rise", "can only fall"]]
    assert len(cells(page, "Importance: mean change of each incidence")) == 3
    for words in (
        "“repaid” comes first by “years” = 2",
        "Passed. No violation",
        "Groups by “town”",
    ):
        assert words in page.text
    _, page = report(model, X, None, tmp_path / "b.html")
    assert "scores and calibration are left out" in page.text
    with pytest.raises(ValueError, match="y must have one entry for each of the 120 rows, got 60"):
        report(model, X, (CAUSE[:60], TIME[:60]), tmp_path / "c.html")


def test_what_moves_most_is_what_the_prediction_moves_with() -> None:
    options: Any = {"monotonic_cst": CLASSES, "positive": "bus", "members": 2, "epochs": 2}
    subject = Subject(GCMClassifier(**options).fit(X, MODE), X)
    shares, p = subject.shares(X), subject.predictions
    np.testing.assert_array_equal(shares[:, -1], p)
    assert np.abs(shares.sum(1) - 1.0).max() < 1e-12
    assert subject.importances.shape == (3, 3)
    assert subject.importance.is_monotonic_decreasing


def test_incidences_are_those_of_aalen_and_johansen_elsewhere() -> None:
    """With ties of both causes and of censored times."""
    sksurv = pytest.importorskip("sksurv.nonparametric", reason="its estimates are the reference")
    time, cause = np.ceil(4.0 * TIME), np.array([("", "default", "repaid").index(c) for c in CAUSE])
    at, steps = aalen_johansen(SurvivalTimes.competing(time, CAUSE))
    wanted = sksurv.cumulative_incidence_competing_risks(cause, time)
    place = np.searchsorted(wanted[0], at)
    np.testing.assert_allclose(steps[1:].T, wanted[1][1:, place], rtol=0.0, atol=1e-12)

"""The report: every kind of model, rows as files have them, escaped text, what is left out."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import loans
import numpy as np
import pandas as pd
import pytest
from report_page import report

import pyro_gcm
from pyro_gcm import estimators
from pyro_gcm.audit import audit_table
from pyro_gcm.cli import main
from pyro_gcm.data import SurvivalTimes
from pyro_gcm.estimators import GCMClassifier, GCMOrdinal, IGCMClassifier
from pyro_gcm.report import quality, write_report
from pyro_gcm.report.page import Facts
from pyro_gcm.report.subject import Subject

DIRECTIONS = {"debt": 1, "income": -1}


def table(kind: str) -> tuple[pd.DataFrame, Any]:
    """Columns with missing values, and what came, for a kind of model."""
    rows = loans.table()
    X = rows[["income", "debt", "job"]].assign(debt=rows["debt"].round(-1))  # quick curves
    outcomes = {
        "classifier": rows["default"].to_numpy(),
        "ordinal": rows["grade"].map({"low": 0, "medium": 1, "high": 2}).to_numpy(),
        "survival": (rows["event"].to_numpy() == 1, rows["time"].to_numpy()),
    }
    return X, outcomes.get(kind, rows["loss"])


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "classifier": (estimators.GCMClassifier, {}),
    "ordinal": (estimators.GCMOrdinal, {}),
    "survival": (estimators.GCMSurvival, {}),
    "regressor": (estimators.GCMRegressor, {"response": "continuous"}),
    "distribution": (estimators.GCMRegressor, {"response": "distribution"}),
}


def fitted(kind: str, X: pd.DataFrame, y: Any, directions: dict[str, int] = DIRECTIONS) -> Any:
    """A model of a kind that is trained for one epoch."""
    model, options = MODELS[kind]
    return model(monotonic_cst=directions, members=2, epochs=1, **options).fit(X, y)


SAYS = {
    "classifier": ("base rate", "AUC", "log score", "Calibration. Rows", "Discrimination."),
    "regressor": ("typical error", "R²", "log score", "In 60 rows: 20", "90 % intervals hold"),
    "distribution": ("typical error", "R²", "In 60 rows: 20", "Calibration of the mean"),
    "ordinal": ("Base rates of the levels", "accuracy", "mean distance", "Calibration. Rows"),
    "survival": ("base rate", "concordance", "Kaplan and Meier", "Thirds of 60 rows"),
}


def test_a_classifier_is_reported_and_names_are_escaped(tmp_path: Path) -> None:
    X, y = table("classifier")
    debt, job, target = "<script>alert('debt')</script>", 'a $ & $^ "b"', "</style><b>late"
    X = X.rename(columns={"debt": debt, "job": job})
    X[job] = X[job].replace("smith", "<img src=http:x onerror=y>")
    y = np.where(y == "yes", "was <i>late", "paid")
    model = fitted("classifier", X, y, {debt: 1, "income": -1})
    names = {"target": target, "source": "<a href='x'>.csv"}
    written, page = report(model, X[::-1], y[::-1], tmp_path / "new" / "a.html", **names)
    page.check()
    for words in (debt, job, target, names["source"], "<i>late", *SAYS["classifier"]):
        assert " ".join(words.split()) in page.text
    assert set(written.scores) == {"auc", "log_score", "accuracy"}
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["a.html"]


@pytest.mark.long(keep=0)
@pytest.mark.parametrize("kind", ["regressor", "distribution", "ordinal", "survival"])
def test_every_other_kind_is_reported(kind: str, tmp_path: Path) -> None:
    X, y = table(kind)
    model = fitted(kind, X, y, {"debt": 1})
    written, page = report(model, X, y, tmp_path / "a.html", target="loss", source="rows.csv")
    page.check()
    for words in (*SAYS[kind], "rows.csv", "they are strict", "Passed. No violation"):
        assert words in page.text
    assert len(page.pictures) == 2 + 3  # scores, importance, and curves of all columns
    assert page.source.count("column by column</p>") == 3
    assert written.scores
    assert written.audit is not None
    assert written.audit.passed
    assert "Response curve of “debt”" in page.source


@pytest.mark.long(keep=0)
def test_figures_are_those_of_the_estimator(tmp_path: Path) -> None:
    X, y = table("classifier")
    model = fitted("classifier", X, y, {"debt": 1})
    written, page = report(model, X, y, tmp_path / "report.html")
    rate, accuracy = (y == "yes").mean(), model.score(X, y)
    assert written.scores["accuracy"] == accuracy
    for share in (rate, accuracy):
        assert f"{100 * share:.1f}".removesuffix(".0") + "\u00a0%" in page.source
    _, again = report(model, X[["job", "debt", "income"]], y, tmp_path / "again.html")
    assert again.source == page.source
    curve = model.response_curve(X, "debt")
    assert f"{100 * curve['prediction'].iloc[-1]:.1f}".removesuffix(".0") in page.source
    highest = X.iloc[[model.predict_proba(X)[:, 1].argmax()]]
    for added in model.contributions(highest, X)["contribution"]:
        assert (f"{100 * added:+.1f} points" if abs(added) >= 5e-4 else ">0</td>") in page.source
    found = audit_table(model, X, pairs=30, searches=["random", "grid"], progress=False)
    assert written.audit is not None
    pd.testing.assert_frame_equal(written.audit.frame, found.frame)


@pytest.mark.long(keep=0)
def test_sections_without_a_meaning_are_left_out_with_a_sentence(tmp_path: Path) -> None:
    X, y = table("classifier")
    options: Any = {"epochs": 1, "hidden": 4}
    free = GCMClassifier(members=2, epochs=1).fit(X, y)
    written, page = report(free, X, None, tmp_path / "free.html", target="late")
    page.check()
    assert written.audit is None
    assert written.scores == {}
    for words in (
        "The table has no outcomes of “late” to compare the predictions with",
        "No direction was imposed on any column",
        "nothing to search for",
        "cannot say which value would change a prediction",
    ):
        assert words in page.text
    assert len(page.pictures) == 1 + 3  # of importance, and curves of free columns
    implicit = IGCMClassifier(monotonic_cst={"debt": 1}, **options).fit(X, y)
    _, page = report(implicit, X, y, tmp_path / "implicit.html")
    page.check()
    for words in ("they are not strict", "no response curve is drawn", "AUC"):
        assert words in page.text
    one, page = report(free, X[y == "no"], y[y == "no"], tmp_path / "one.html")
    assert "auc" not in one.scores
    assert "All rows have the same outcome" in page.text
    still = fitted("classifier", X, y, {"debt": 1})
    _, page = report(still, X.assign(debt=1.0), y, tmp_path / "still.html")
    assert "two different values in these rows" in page.text


@pytest.mark.long(keep=0)
def test_a_failed_audit_has_its_worst_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table("regressor")
    model = fitted("regressor", X, y, {"debt": 1})
    right = type(model).predict
    monkeypatch.setattr(type(model), "predict", lambda self, X: -right(self, X))
    written, page = report(model, X, None, tmp_path / "report.html")
    page.check()
    assert written.audit is not None
    assert not written.audit.passed
    assert "Not passed." in page.text
    assert "Violations by column" in page.text
    assert any("along the worst pair" in (p["alt"] or "") for p in page.pictures)


def test_wrong_arguments_are_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = table("classifier")
    right = {"estimator": fitted("classifier", X, y), "X": X, "path": "report.html"}
    wrongs: list[tuple[str, Any, str]] = [
        ("estimator", "model", "estimator must be fitted and of pyro_gcm.estimators"),
        ("estimator", GCMClassifier(), "estimator must be fitted"),
        ("X", np.zeros((60, 3)), "X must be a DataFrame"),
        ("X", pd.DataFrame({"debt": [1.0] * 60}), r"\['income'"),
        ("X", X[:9], "X must have at least 10 rows, got 9"),
        ("y", ["yes"], "y must have one entry for each of the 60 rows, got 1"),
        ("y", ["maybe"] * 60, r"labels among those of fit, \['no', 'yes'\], got 'maybe'"),
        ("path", "report.pdf", "path must end in .html, got report.pdf"),
        ("pairs", 2, "pairs must be"),
        ("level", 1.0, "level must be"),
    ]
    for name, value, message in wrongs:
        with pytest.raises((TypeError, ValueError, KeyError), match=message):
            write_report(**{**right, name: value})
        assert list(tmp_path.iterdir()) == [], name


LEVELS = ["low", "mid", "high"]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    own = pd.Series(rng.random(60) < 0.5).astype(object)
    grade = pd.Categorical(rng.choice(LEVELS, 60), LEVELS, ordered=True)
    return pd.DataFrame({"grade": grade, "own": own.where(own.index % 7 > 0), "self": own.index})


@pytest.fixture(scope="module")
def model(rows: pd.DataFrame) -> Any:
    y = np.where(rows["grade"] == "low", "no", "yes")
    return fitted("classifier", rows, y, {"grade": 1, "own": 1, "self": -1})


def test_the_audit_has_the_levels_of_the_model(rows: pd.DataFrame, model: Any) -> None:
    text = rows["grade"].astype(str)
    for order in (LEVELS, sorted(LEVELS), None):
        grade = text if order is None else pd.Categorical(text, order, ordered=True)
        read = model.as_read(rows.assign(grade=grade))
        assert [*read["grade"].cat.categories] == LEVELS
        assert read["grade"].tolist() == text.tolist()
        assert read["own"].isna().sum() == rows["own"].isna().sum()
        options: Any = {"pairs": 60, "searches": ["random"], "progress": False}
        assert audit_table(model, read, **options).passed, order


@pytest.mark.long(keep=0)
def test_both_commands_read_what_predict_reads(
    rows: pd.DataFrame, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pyro_gcm.save(model, "model")
    rows.to_csv("rows.csv", index=False)
    for command in (["audit"], ["report", "--out=report.html"]):
        assert main([*command, "model", "rows.csv", "--pairs=30", "--quiet"]) == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "false and true" in page
    assert re.search(r">own</th>\n<td class=.number.>(true|false|missing)</td>", page)
    surface = ["surface", "model", "rows.csv", "--column=self", "--values=3,5"]
    assert main([*surface, "--out=surface.csv"]) == 0


@pytest.mark.long(keep=0)
def test_levels_of_text_in_a_series_are_told(rows: pd.DataFrame, tmp_path: Path) -> None:
    y = pd.Series(np.resize(LEVELS, 60), dtype=object)
    options: Any = {"monotonic_cst": {"self": 1}, "levels": LEVELS, "members": 2, "epochs": 1}
    _, page = report(GCMOrdinal(**options).fit(rows, y), rows, y, tmp_path / "a.html")
    assert "where 0 is “low” and 2 is “high”" in page.text


def of_times(monkeypatch: pytest.MonkeyPatch, horizon: float, scores: dict[str, float]) -> Any:
    monkeypatch.setattr(quality, "_curves", lambda subject: None)
    model = SimpleNamespace(response=SimpleNamespace(reference=horizon))
    y = SurvivalTimes.right_censored([1.0, 2.0, 3.0, 7.0], [True, False, True, False])
    estimator = SimpleNamespace(response="survival", model_=model)
    subject = Subject(estimator, pd.DataFrame({"a": np.zeros(4)}), y, "years")
    subject.__dict__ |= {"predictions": np.full(4, 0.3), "scores": scores}
    return quality.of_times(subject)


def test_a_horizon_that_no_row_was_watched_to_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, in_short = of_times(monkeypatch, 20.0, {"concordance": 0.7})
    assert "have the event by 7 (no row was watched up to 20), and the mean risk by 20" in in_short
    assert isinstance(blocks[0], Facts)
    assert "= 7 (no row was watched up to 20)" in blocks[0].entries[0].meaning
    _, in_short = of_times(monkeypatch, 5.0, {"concordance": 0.7})
    assert "have the event by 5, and the mean risk by 5 is" in in_short
    _, in_short = of_times(monkeypatch, 5.0, {})
    assert in_short.startswith("No two rows can be compared, so there is no concordance")

"""The report: every kind of model, text that is escaped, the same bytes, what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reports import fitted, report, table

from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import GCMClassifier, IGCMClassifier
from pyro_gcm.report import write_report

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
    model = fitted("classifier", X, y, {debt: 1, "income": -1})
    names = {"target": target, "source": "<a href='x'>.csv", "labels": ["paid", "<i>late"]}
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
    assert len(page.pictures) == 2
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
        "no response curve is drawn",
        "nothing to search for",
        "cannot say which value would change a prediction",
    ):
        assert words in page.text
    assert page.pictures == []
    implicit = IGCMClassifier(monotonic_cst={"debt": 1}, **options).fit(X, y)
    _, page = report(implicit, X, y, tmp_path / "implicit.html")
    page.check()
    for words in ("they are not strict", "IGCMClassifier has no strict directions", "AUC"):
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
        ("labels", ["yes"], "labels must have a name for each of the 2"),
        ("pairs", 2, "pairs must be"),
        ("level", 1.0, "level must be"),
    ]
    for name, value, message in wrongs:
        with pytest.raises((TypeError, ValueError, KeyError), match=message):
            write_report(**{**right, name: value})
        assert list(tmp_path.iterdir()) == [], name

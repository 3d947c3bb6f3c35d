"""Directions of classes, and columns with diminishing returns, on the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from command_line import QUICK, fit, run

import pyro_gcm
from pyro_gcm.estimators import GCMClassifier


def test_classes_without_an_order_have_directions_by_their_names() -> None:
    data = pd.read_csv("data.csv").rename(columns={"debt": "debt, net", "income": "in:come"})
    data.to_csv("named.csv", index=False)
    ignored = ",".join(["id", "default", "loss", "time", "event", "claims", "span"])
    done = run(
        *("fit", "named.csv", "--target=grade", '--increasing="high:debt, net"', "--positive=high"),
        *("--decreasing=high:in:come,low: in:come", '--increasing="medium:debt, net"'),
        *("--ignore", ignored, "--out=model", "--test-share=0.2", "--json", *QUICK),
    )
    assert done.code == 0, done.err
    roles = {column["name"]: column["role"] for column in done.json["columns"]}
    assert roles["debt, net"] == "high +, medium +"
    assert roles["in:come"] == "high -, low -"
    assert (done.json["kind"], done.json["positive"]) == ("classifier", "high")
    model = pyro_gcm.load("model")
    assert model.monotonic_cst == {
        "high": {"debt, net": 1, "in:come": -1},
        "medium": {"debt, net": 1},
        "low": {"in:come": -1},
    }
    about = {c["name"]: c["direction"] for c in run("info", "model", "--json").json["columns"]}
    assert about == {
        "in:come": "high -, low -",
        "debt, net": "high +, medium +",
        "owner": "free",
        "job": "free",
    }
    found = run("predict", "model", "named.csv").table
    shares = found[["probability_high", "probability_low", "probability_medium"]]
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=0.0, atol=1e-12)
    assert (found["probability"] == found["probability_high"]).all()
    assert {*found["class"]} <= {"high", "low", "medium"}
    wrong = run("audit", "model", "named.csv")
    assert wrong.code == 2
    assert "must have a column with a direction for high, and has none" in wrong.err


def test_audit_report_and_questions_of_classes_are_about_the_positive_one() -> None:
    more = ("--kind=classifier", "--positive=low", "--decreasing=low:debt,high:income")
    ignored = ",".join(["id", "default", "loss", "time", "event", "claims", "span"])
    done = run("fit", "data.csv", "--target=grade", *more, "--ignore", ignored, "--out=m", *QUICK)
    assert done.code == 0, done.err
    audit = run("audit", "m", "data.csv", "--pairs=30", "--json", "--quiet")
    assert (audit.code, audit.json["violations"]) == (0, 0)
    assert {column["column"] for column in audit.json["by_column"]} == {"debt", "income"}
    level = run("predict", "m", "data.csv").table["probability"].median()
    asked = ("required", "m", "data.csv", "--column=debt", "--probability", level)
    assert run(*asked).code == 0
    report = run("report", "m", "data.csv", "--out=r.html", "--pairs=30", "--quiet")
    assert report.code == 0, report.err


def test_diminishing_returns_are_fitted_told_and_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = fit("classifier", "--out=model", "--concave=debt", "--positive=yes")
    assert fitted.code == 0, fitted.err
    assert "increasing, concave" in fitted.out
    columns = {c["name"]: c["direction"] for c in run("info", "model", "--json").json["columns"]}
    assert columns["debt"] == "increasing, concave"
    audit = run("audit", "model", "data.csv", "--pairs=60", "--json", "--quiet")
    assert audit.code == 0
    assert audit.json["concavity"]["passed"]
    assert audit.json["concavity"]["triples"] == 60
    proba = GCMClassifier.predict_proba
    monkeypatch.setattr(GCMClassifier, "predict_proba", lambda self, X: proba(self, X) ** 8)
    audit = run("audit", "model", "data.csv", "--pairs=60", "--quiet")
    assert audit.code == 1
    assert "concavity FAILED" in audit.out
    assert "column debt:" in audit.out

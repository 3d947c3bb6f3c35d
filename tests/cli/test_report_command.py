"""`pyro-gcm report`: what it reads of a table, and what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import fit, run
from loan_table import table

import pyro_gcm
from pyro_gcm.estimators import GCMClassifier

Models = Callable[[str], Path]
QUICK = ("--pairs=10", "--quiet", "--json", "--out=report.html")


@pytest.mark.long(keep=0)
def test_outcomes_are_read_as_fit_read_them(models: Models) -> None:
    data = pd.read_csv("data.csv")
    done = run("report", models("survival"), "data.csv", *QUICK)
    assert (done.code, done.err) == (0, "")
    assert done.json["kind"] == "survival"
    assert done.json["audit"] == {"passed": True, "pairs": 10, "violations": 0}
    model = pyro_gcm.load(models("survival"))
    came = data["event"].to_numpy() == 1, data["time"].to_numpy()
    assert done.json["scores"] == {"concordance": model.score(data[model.feature_names_in_], came)}
    page = Path("report.html").read_text(encoding="utf-8")
    for words in ("data.csv", "the event “event” comes by “time” = 0.5", "survival"):
        assert words in page
    assert str(models("survival")) not in page  # a name, and no place on a disk
    # The event is the first class in sorted order.
    assert fit("classifier", "--out=first", "--positive=no").code == 0
    done = run("report", "first", "data.csv", *QUICK)
    predicted = run("predict", "first", "data.csv").table["class"]
    assert done.json["scores"]["accuracy"] == (predicted == data["default"]).mean()
    assert "“default” is “no”" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.long(keep=0)
def test_a_table_without_the_target_has_no_scores(models: Models) -> None:
    new = pd.read_csv("data.csv").drop(columns="default")
    new.to_csv("new.csv", index=False)
    done = run("report", models("classifier"), "new.csv", "--out=report.html", "--pairs=10")
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    assert lines[0] == "new.csv has no column 'default', so scores are left out of the report"
    assert lines[-1] == "report written to report.html"
    assert "The table has no outcomes of “default”" in Path("report.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.long(keep=0)
def test_a_model_saved_in_python_takes_the_target_by_name() -> None:
    data = table()
    X, y = data[["debt"]], (data["default"] == "yes").to_numpy()
    model = GCMClassifier(monotonic_cst={"debt": 1}, members=2, epochs=1).fit(X, y)
    pyro_gcm.save(model, "model", metrics={"<rows>": len(X)})
    data.assign(late=y).to_csv("late.csv", index=False)
    done = run("report", "model", "late.csv", "--target=late", "--title=A & B", *QUICK)
    assert done.code == 0, done.err
    assert done.json["scores"]["accuracy"] == model.score(X, y)
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<h1>A &amp; B</h1>" in page
    assert "&lt;rows&gt;" in page
    assert np.isclose(
        done.json["scores"]["log_score"], model.predict_log_proba(X)[range(60), y * 1].mean()
    )

"""Every command, each kind of model and each format, against the estimators in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import KINDS, QUICK, exact, fit, run, written
from loan_table import table

import pyro_gcm
from pyro_gcm.audit import audit_table
from pyro_gcm.estimators import IGCMRegressor

Models = Callable[[str], Path]


def rows() -> pd.DataFrame:
    """The table as a user reads it."""
    return pd.read_csv("data.csv")


def test_fit_tells_names_types_roles_and_missing_values_and_saves_the_same_model() -> None:
    done = fit("classifier", "--out=model", "--test-share=0.2", "--json", "--seed=3")
    assert done.code == 0
    assert done.json["columns"][:5] == [
        {"name": "id", "type": "whole number", "role": "ignored", "missing": 0},
        {"name": "income", "type": "number", "role": "decreasing", "missing": 7},
        {"name": "debt", "type": "number", "role": "increasing", "missing": 0},
        {"name": "owner", "type": "boolean", "role": "free", "missing": 0},
        {"name": "job", "type": "text, 3 values", "role": "free", "missing": 6},
    ]
    assert done.json["rows"] == 48
    assert done.json["test_rows"] == 12
    assert set(done.json["scores"]) == {"auc", "log_score", "accuracy"}
    assert "income" not in done.err  # --quiet and --json: no table on either stream
    model = pyro_gcm.load("model")
    assert model.get_params()["monotonic_cst"] == {"income": -1, "debt": 1}
    assert model.random_state == 3
    # The same rows and options in Python give the same model.
    from sklearn.base import clone
    from sklearn.model_selection import train_test_split

    data = rows()
    train, test = train_test_split(
        np.arange(60), test_size=0.2, random_state=3, stratify=data["default"]
    )
    X = data[["income", "debt", "owner", "job"]]
    again = clone(model).fit(X.iloc[sorted(train)], data["default"].iloc[sorted(train)])
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    held_out = X.iloc[test], data["default"].iloc[test]
    assert again.score(*held_out) == pytest.approx(done.json["scores"]["accuracy"])


def test_predictions_in_blocks_are_those_of_the_estimator_to_the_last_bit(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyro_gcm.estimators.kinds.BLOCK", 23)
    for kind in KINDS:
        quantiles = ["--quantiles=0.1,0.9"] if kind == "survival" else []  # others have their own
        options = "--bands", "--level=0.5", "--keep=id,job", *quantiles
        done = run("predict", models(kind), "data.csv", *options)
        assert done.code == 0, done.err
        found, model = done.table, pyro_gcm.load(models(kind))
        X = rows()[list(model.feature_names_in_)]
        assert done.out.splitlines()[1].startswith("000,")  # as it came, not as the number 0
        bands = model.predict_bands(X, 0.5)
        expected: dict[str, Any] = {"lower": bands.lower, "upper": bands.upper}
        if kind == "classifier":
            expected |= {"probability": model.predict_proba(X)[:, 1], "class": model.predict(X)}
        elif kind == "ordinal":
            shares = zip(model.classes_, model.predict_proba(X).T, strict=True)
            expected |= {f"probability_{level}": column for level, column in shares}
            expected |= {"level": model.predict(X), "median": model.predict_median(X)}
            expected["mean_place"] = model.predict_mean(X)
        elif kind == "survival":
            assert model.horizon == 0.5
            expected |= {"risk": model.predict(X), "median": model.predict_median(X)}
            expected["q0.1"], expected["q0.9"] = model.predict_quantile(X, [0.1, 0.9]).T
        else:
            of_quantiles = model.predict_quantiles(X, [0.1, 0.5, 0.9]).T
            expected |= dict(
                zip(
                    ["mean", "q0.1", "q0.5", "q0.9"], [model.predict(X), *of_quantiles], strict=True
                )
            )
        assert set(found) == {"id", "job", *expected}
        for name, column in expected.items():
            assert (found[name] == column).all(), (kind, name)


def test_each_format_is_read_and_written(models: Models) -> None:
    data = rows().drop(columns="default").astype({"debt": "float64"})
    expected = run("predict", models("classifier"), "data.csv").table
    readers = {"csv": exact, "parquet": pd.read_parquet}
    for ending in ("csv", "parquet", "arrow", "feather"):
        new = written(data, Path(f"new.{ending}"))
        done = run("predict", models("classifier"), new, "--out", f"out.{ending}", "--json")
        assert done.code == 0, done.err
        assert done.json["out"] == f"out.{ending}"
        found = readers.get(ending, pd.read_feather)(f"out.{ending}")
        assert list(found.columns) == ["probability", "class"]
        assert (found["probability"] == expected["probability"]).all()
        assert (found["class"].astype(str) == expected["class"]).all()


def test_ordered_categories_of_arrow_are_read() -> None:
    data = table().drop(columns=["id", "loss", "grade", "time", "event"])
    grades = pd.CategoricalDtype(["C", "B", "A"], ordered=True)
    data["rating"] = pd.Series(["A", "B", "C"] * 20).astype(grades)
    arrow = pa.Table.from_pandas(data)
    with pa.ipc.new_file("data.arrow", arrow.schema) as sink:
        sink.write_table(arrow)
    pq.write_table(arrow, "data.parquet")
    options = "--target=default", "--increasing=rating", "--out=model", *QUICK
    assert run("fit", "data.arrow", *options).code == 0
    found = run("surface", "model", "data.parquet", "--column=rating", "--values=C,A").table
    low, high = (found["prediction"][found["rating"] == level] for level in "CA")
    assert (low.to_numpy() <= high.to_numpy()).all()
    assert run("audit", "model", "data.arrow", "--pairs=9", "--quiet").code == 0
    needed = run("required", "model", "data.parquet", "--column=rating", "--probability=0.01")
    assert set(needed.table["required"].dropna()) <= set("ABC")


def test_text_that_looks_like_numbers_stays_text() -> None:
    for codes, text in ((["01", "02", "x"], []), (["01", "02", "03"], ["--text=zone"])):
        data = table().assign(zone=codes * 20)[["zone", "debt", "default"]]
        data.to_csv("zones.csv", index=False)
        options = "--target=default", "--increasing=debt", "--out=model", "--overwrite", "--json"
        done = run("fit", "zones.csv", *options, *QUICK, *text)
        assert done.json["columns"][0]["type"] == "text, 3 values"
        digits = data[data["zone"] != "x"]
        digits.to_csv("digits.csv", index=False)
        found = run("predict", "model", "digits.csv").table["probability"].to_numpy()
        expected = pyro_gcm.load("model").predict_proba(digits[["zone", "debt"]])
        assert (found == expected[:, 1]).all()


def test_a_column_is_found_in_any_normal_form_of_unicode() -> None:
    composed, apart = "d\u00e9bit", "de\u0301bit"
    data = table()[["debt", "default"]].rename(columns={"debt": composed})
    data.to_csv("named.csv", index=False)
    options = "--target=default", f"--increasing={composed}", "--out=m"
    done = run("fit", "named.csv", *options, *QUICK)
    assert done.code == 0, done.err
    for command, *more in (
        ("required", "--probability=0.3"),
        ("surface", "--values=0,50"),
        ("surface", "--mean"),
        ("plot", "--out=curve.svg", "--json"),
    ):
        one, other = (
            run(command, "m", "named.csv", f"--column={name}", *more) for name in (composed, apart)
        )
        assert (other.code, other.out) == (0, one.out), (command, other.err)


def test_surface_moves_one_column_and_its_mean_is_the_response_curve(models: Models) -> None:
    options = "--column=debt", "--values=0:50:3", "--bands", "--keep=id"
    found = run("surface", models("classifier"), "data.csv", *options).table
    assert list(found.columns) == ["id", "row", "debt", "prediction", "lower", "upper"]
    assert found["debt"][:3].tolist() == [0.0, 25.0, 50.0]
    assert (np.diff(found["prediction"].to_numpy().reshape(60, 3)) >= 0.0).all()
    model, data = pyro_gcm.load(models("classifier")), rows()
    X = data[list(model.feature_names_in_)]
    assert (
        found["prediction"][1::3].to_numpy() == model.predict_proba(X.assign(debt=25.0))[:, 1]
    ).all()
    options = "--column=debt", "--values=9,7", "--mean"
    curve = run("surface", models("classifier"), "data.csv", *options).table
    expected = model.response_curve(X, "debt", [9.0, 7.0])
    pd.testing.assert_frame_equal(curve, expected, check_exact=True)


def test_required_values_do_what_was_asked_for(models: Models) -> None:
    rows()[:9].to_csv("few.csv", index=False)
    options = "--column=debt", "--probability=0.3", "--below", "--keep=id"
    done = run("required", models("classifier"), "few.csv", *options)
    model, data = pyro_gcm.load(models("classifier")), pd.read_csv("few.csv")
    X = data[list(model.feature_names_in_)]
    finite = np.isfinite(done.table["required"])
    assert (model.predict_proba(X.assign(debt=done.table["required"])[finite])[:, 1] < 0.3).all()
    assert "warning: column 'debt'" in done.err
    as_json = run("required", models("classifier"), "few.csv", *options, "--json").json
    assert as_json["rows"] == 9
    assert as_json["values"][0]["required"] == pytest.approx(done.table["required"][0])


@pytest.mark.long(keep=0)
def test_every_kind_is_audited_and_described(models: Models) -> None:
    rows()[:5].to_csv("few.csv", index=False)
    for kind in KINDS:
        done = run("audit", models(kind), "few.csv", "--pairs=9", "--json", "--quiet")
        assert done.code == 0, done.err
        assert done.json["passed"]
        about = run("info", models(kind), "--json", "--quiet").json
        assert about["kind"] == kind
        assert about["target"] == KINDS[kind][0].partition("=")[2]
        directions = {column["name"]: column["direction"] for column in about["columns"]}
        assert directions["debt"] == "increasing"
        assert directions["income"] == ("decreasing" if kind == "classifier" else "free")
        assert set(about["versions"]) >= {"pyro_gcm", "torch"}
    assert "labels: ['no', 'yes']\npositive: yes\n" in run("info", models("classifier")).out


def test_an_audit_that_finds_a_fall_exits_with_1() -> None:
    X = rows()[["income", "debt"]].fillna(1.0)
    free = IGCMRegressor(monotonic_cst={"debt": 1}, epochs=1)
    with pytest.warns(UserWarning, match="the data speak against direction"):
        free.fit(X, -X["debt"])  # which the implicit form does not prevent
    pyro_gcm.save(free, "falls")
    expected = audit_table(free, rows()[["income", "debt"]], pairs=30, progress=False)
    done = run("audit", "falls", "data.csv", "--pairs=30", "--quiet", "--json", "counts.json")
    assert done.code == (0 if expected.passed else 1)
    assert expected.summary() in done.out
    assert json.loads(Path("counts.json").read_text())["violations"] == expected.violations


def test_a_model_saved_in_python_is_asked_too() -> None:
    X = rows()[["income", "debt"]]
    pyro_gcm.save(IGCMRegressor(monotonic_cst={"debt": 1}, epochs=1).fit(X, X["debt"]), "own")
    assert list(run("predict", "own", "data.csv").table.columns) == ["mean"]
    refused = run("required", "own", "data.csv", "--column=debt", "--probability=1")
    assert refused.code == 2
    assert "MODEL must be a GCM for this command, and own has IGCMRegressor" in refused.err


def test_the_curve_is_drawn(models: Models) -> None:
    options = "--column=debt", "--values=0:50:5", "--out=curve.svg", "--json"
    done = run("plot", models("survival"), "data.csv", *options)
    assert done.code == 0, done.err
    assert done.json["out"] == "curve.svg"
    assert "<svg" in Path("curve.svg").read_text()

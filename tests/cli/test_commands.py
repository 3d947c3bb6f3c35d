"""Every command, each kind of model and each format, against the estimators in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import KINDS, QUICK, exact, fit, run, written
from loans import table

import pyro_gcm
from pyro_gcm.estimators import GCMClassifier, IGCMRegressor

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
        X = rows()[list(model.feature_names_in_)].assign(span=rows()["span"])
        X = X if kind == "count" else X.drop(columns="span")
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
            expected |= {"rate": model.predict_rate(X)} if kind == "count" else {}
            expected |= dict(
                zip(
                    ["mean", "q0.1", "q0.5", "q0.9"], [model.predict(X), *of_quantiles], strict=True
                )
            )
        assert set(found) == {"id", "job", *expected}
        for name, column in expected.items():
            assert (found[name] == column).all(), (kind, name)


HARD = ["clerk", "NA", "None", "007", "a,b", 'x"y', " padded ", "line\nbreak", "é中🙂", "nan"]


def test_hard_cells_are_read_and_written_alike_in_each_format() -> None:
    columns = {"debt": table()["debt"], "job": HARD * 6, "default": table()["default"]}
    data = pd.DataFrame(columns).assign(
        count=pd.array(range(60), "Int64"), owner=pd.array([True, False, None] * 20, "boolean")
    )
    data.loc[::7, ["debt", "job", "count"]] = None
    X, known = data.drop(columns="default"), {"epochs": 1, "members": 2, "positive": "yes"}
    made = GCMClassifier(monotonic_cst={"debt": 1}, **known).fit(X, data["default"])
    options = "--target=default", "--positive=yes", "--increasing=debt", "--out=model", *QUICK
    readers = {"csv": exact, "parquet": pd.read_parquet}
    for ending in ("csv", "parquet", "arrow", "feather"):
        file, out = written(data, Path(f"data.{ending}")), f"out.{ending}"
        assert run("fit", file, *options, "--overwrite").code == 0
        done = run("predict", "model", file, "--out", out, "--keep=job", "--json")
        assert (done.code, done.json["out"]) == (0, out), done.err
        found = readers.get(ending, pd.read_feather)(out)
        assert list(found.columns) == ["job", "probability", "class"]
        assert (found["probability"] == made.predict_proba(X)[:, 1]).all(), ending
        assert (found["class"].astype(str) == made.predict(X)).all()
        if ending != "csv":  # of which pandas reads "NA" as missing
            assert found["job"].fillna("").tolist() == X["job"].fillna("").tolist()


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


def test_levels_in_order_have_a_direction() -> None:
    options = "--target=default", "--increasing=job", "--epochs=1", "--members=2", "--json"
    done = run("fit", "data.csv", "--order=job=smith,clerk,farmer", "--out=ordered", *options)
    types = {column["name"]: column["type"] for column in done.json["columns"]}
    assert types["job"] == "ordered category, 3 levels"
    curve = run("surface", "ordered", "data.csv", "--column=job", "--mean")
    assert curve.table["job"].tolist() == ["smith", "clerk", "farmer"]
    assert curve.table["prediction"].is_monotonic_increasing


def test_a_column_that_counts_the_rows_is_left_out_unless_it_has_a_direction() -> None:
    data = table().assign(number=range(5, 65), jumps=range(0, 120, 2))
    data.to_csv("counted.csv", index=False)
    done = fit("classifier", "--out=left", data="counted.csv")
    assert [*pyro_gcm.load("left").feature_names_in_] == ["income", "debt", "owner", "job", "jumps"]
    assert "│ number  │ whole number   │ ignored" in done.out
    assert fit("classifier", "--decreasing=number", "--out=kept", data="counted.csv").code == 0
    assert "number" in pyro_gcm.load("kept").feature_names_in_


def test_free_columns_have_curves(models: Models) -> None:
    options = models("classifier"), "data.csv", "--column=job"
    curve = run("surface", *options, "--mean").table
    assert curve["job"].tolist() == ["clerk", "farmer", "smith"]
    model, X = pyro_gcm.load(models("classifier")), rows()
    X = X[list(model.feature_names_in_)]
    mean = model.predict_proba(X.assign(job="smith"))[:, 1].mean()
    assert curve["prediction"][2] == pytest.approx(mean, rel=1e-6)
    assert run("plot", *options, "--out=job.svg").code == 0


def test_digits_of_many_levels_stay_text() -> None:
    data = pd.DataFrame({"debt": range(120), "zip": [f"{at:05d}" for at in range(60)] * 2})
    data.assign(default=data["zip"].gt("00030")).to_csv("zips.csv", index=False)
    options = "--increasing=debt", "--text=zip", "--target=default", "--epochs=1", "--members=2"
    assert run("fit", "zips.csv", "--out=zips", *options).code == 0
    expected = pyro_gcm.load("zips").predict_proba(data)[:, 1]
    done = run("predict", "zips", "zips.csv")
    assert done.table["probability"].tolist() == expected.tolist()
    columns = run("info", "zips", "--json").json["columns"]
    assert {column["name"]: column["levels"] for column in columns} == {"debt": None, "zip": 60}


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

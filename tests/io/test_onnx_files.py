"""Files of whole estimators: the columns of a table in, the predictions of the estimator out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
import torch
from command_line import run

from pyro_gcm import export, save
from pyro_gcm.audit import audit_table
from pyro_gcm.distributions.products import on_grid
from pyro_gcm.estimators import GCMClassifier, GCMOrdinal, GCMRegressor, GCMSurvival
from pyro_gcm.estimators.kinds import monotone_prediction
from pyro_gcm.io.onnx_file import OnnxFile, erfc

TIMES = [0.0, 2.0, 9.0]
onnxruntime = pytest.importorskip("onnxruntime")
ROOT = Path(__file__).parents[2]


def table(seed: int = 0, rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    grades = pd.Categorical(rng.choice(["low", "mid", "high"], rows), ["low", "mid", "high"])
    columns = {
        "debt (€)": rng.uniform(0.0, 50.0, rows),
        "income": rng.lognormal(10.0, 1.0, rows),
        "add_1": rng.integers(18, 90, rows),  # a name as those inside of the file
        "grade": grades.as_ordered(),
        "job": rng.choice(["clerk", "smith", "rare"], rows, p=[0.6, 0.39, 0.01]),
        "size": pd.Categorical(rng.choice(["S", "M"], rows), ["S", "M"], ordered=True),
        "zip": rng.choice([f"z{place}" for place in range(40)], rows),
        "code": rng.choice([1, 2, 7], rows),
    }
    X = pd.DataFrame(columns)
    X.loc[::7, "income"] = X.loc[::9, "debt (€)"] = np.nan
    X.loc[::11, ["job", "grade"]] = None
    return X


def strange() -> pd.DataFrame:
    """Rows with levels that no training row has, and numbers far from theirs."""
    X = table(1, 70)
    X.loc[:9, ["job", "zip"]] = "unseen"
    X.loc[5:20, "debt (€)"], X.loc[10:30, "income"], X.loc[:30, "code"] = 1e12, -1e300, 99
    return X


KINDS: dict[str, Any] = {
    "members": GCMClassifier,
    "normal": lambda **options: GCMClassifier(prior="conditional", **options),
    "survival": lambda **options: GCMSurvival(cured="constant", **options),
    "ordinal": GCMOrdinal,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, Path]]:
    """A function from a kind to an estimator and its file, which are made once."""
    made: dict[str, tuple[Any, Path]] = {}

    def of_kind(kind: str) -> tuple[Any, Path]:
        if kind not in made:
            X, rng = table(), np.random.default_rng(2)
            cst = {"debt (€)": 1, "income": -1, "grade": 1}
            options: dict[str, Any] = {"members": 2, "hidden": 8, "epochs": 2}
            if kind == "normal":
                options = {"hidden": 4, "epochs": 2}
            categories = ["grade", "job", "size", "zip", "code"]
            score = 0.1 * X["debt (€)"].fillna(20.0) + rng.logistic(size=len(X))
            y: Any = np.where(score > 2.5, "late", "paid")
            if kind == "survival":
                y = rng.random(len(X)) < 0.7, np.exp(4.0 - score)
            elif kind == "ordinal":
                y = np.digitize(score, [1.0, 4.0])
            else:
                options["positive"] = "late"
            made_of = KINDS[kind](monotonic_cst=cst, categorical_features=categories, **options)
            estimator = made_of.fit(X, y)
            path = tmp_path_factory.mktemp("files") / f"{kind}.onnx"
            if kind == "members":  # through the command line
                folder = save(estimator, tmp_path_factory.mktemp("saved") / "model")
                assert run("export", folder, path).out == f"wrote {path}\n"
            else:
                times = TIMES if kind == "survival" else None
                export(estimator, path, format="onnx", times=times)
            made[kind] = estimator, path
        return made[kind]

    return of_kind


@pytest.mark.long(keep=("members",))
@pytest.mark.filterwarnings("ignore:column .* has in .* rows what fit never")
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_reads_columns_and_predicts_as_its_estimator(
    kind: str, files: Callable[[str], tuple[Any, Path]], tmp_path: Path
) -> None:
    estimator, path = files(kind)
    file = OnnxFile(path)
    for X in (table(), strange(), strange()[:1]):
        found = file(X)
        assert np.abs(found["prediction"] - monotone_prediction(estimator, X)).max() < 1e-6
        if kind == "survival":
            curves = estimator.predict_survival_function(X, True, times=TIMES)
            assert np.abs(found["survival"] - curves).max() < 1e-6
        if kind == "ordinal":
            assert np.abs(found["probabilities"] - estimator.predict_proba(X)).max() < 1e-6
    facts = {"members": "late", "normal": "late", "ordinal": None, "survival": "T <= "}
    assert (file.facts.get("event") or "").startswith(facts[kind] or "")
    assert file.feature_names_in_ == [*table()]
    assert file.directions_ == estimator.directions_
    audit = audit_table(path, table(), pairs=600, tolerance=0.0, progress=False)
    assert audit.frame.violations.sum() == 0
    table().to_csv(tmp_path / "rows.csv", index=False)
    assert run("audit", path, tmp_path / "rows.csv", "--pairs", 300, "--quiet").code == 0
    # Neighbouring numbers of one column, in all other columns of all rows.
    for name, sign in (("debt (€)", 1), ("income", -1)):
        X, other = table().fillna({name: 20.0}), table()
        other[name] = np.nextafter(X[name].astype(float), np.inf)
        assert (sign * (file.predict(other) - file.predict(X)) >= 0.0).all()


def test_erfc_is_right_and_falls_from_one_number_of_the_grid_to_the_next() -> None:
    a = torch.cat([torch.linspace(-6.0, 26.0, 1000), 10.0 ** torch.linspace(-9.0, 1.4, 1000)])
    with mpmath.workdps(30):
        exact = np.array([float(mpmath.erfc(value)) for value in a.double().tolist()])
    assert np.allclose(erfc(a.double()).numpy(), exact, rtol=2e-15, atol=0.0)
    edges = torch.tensor([0.0, 1e300, torch.inf], dtype=torch.float64)
    assert erfc(edges).tolist() == [1.0, 0.0, 0.0]
    # Revenues are multiples of 2^-40, in units of costs whose scale is at most 50.
    start = on_grid(40.0 * torch.rand(200_000, dtype=torch.float64))
    for steepness in (0.02, 0.4, 3.0):
        tails = [erfc((start + step * 2.0**-40) * steepness) for step in range(3)]
        assert (tails[0] >= tails[1]).all()
        assert (tails[1] >= tails[2]).all()


def test_what_a_file_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    X, path = table()[["add_1", "job"]].rename(columns={"add_1": "age"}), tmp_path / "a.onnx"
    options: Any = {"monotonic_cst": {"age": 1}, "members": 2, "hidden": 4, "epochs": 1}
    y = np.arange(len(X)) % 2
    numbers = GCMRegressor(**options).fit(X, y)
    three = GCMClassifier(members=2, hidden=4, epochs=1).fit(X, np.arange(len(X)) % 3)
    empty = GCMClassifier(**options).fit(X.fillna(""), y)
    renamed = {"age": "prediction"}
    named = GCMClassifier(**options | {"monotonic_cst": None}).fit(X.rename(columns=renamed), y)
    with pytest.raises(ValueError, match="'distribution': export takes 'binary', 'ordinal'"):
        export(numbers, path, format="onnx")
    with pytest.raises(ValueError, match="'classes': export takes"):
        export(three, path, format="onnx")
    with pytest.raises(ValueError, match="'job' has the level '', which is a missing value"):
        export(empty, path, format="onnx")
    with pytest.raises(ValueError, match="'prediction' has the name of an output"):
        export(named, path, format="onnx")
    with pytest.raises(FileNotFoundError, match=r"predictor must be a file, and nowhere\.onnx is"):
        audit_table("nowhere.onnx", X)
    with pytest.raises(ValueError, match=r"format must be 'onnx' for an estimator.* 'torch'"):
        export(empty, tmp_path / "a.pt2")
    assert not [*tmp_path.iterdir()]


def test_a_file_runs_in_node(files: Callable[[str], tuple[Any, Path]], tmp_path: Path) -> None:
    node = shutil.which("node")
    script = ROOT / "docs" / "examples" / "predict.cjs"
    there = [node or "node", "-e", "require('onnxruntime-node')"]
    if node is None or subprocess.run(there, check=False, capture_output=True).returncode:
        pytest.skip("onnxruntime-node is not there (npm install onnxruntime-node, and NODE_PATH)")
    estimator, path = files("members")
    rows = tmp_path / "rows.json"
    X = table()[:40]
    rows.write_text(X.to_json(orient="records", double_precision=15))
    done = subprocess.run(
        [node, script, path, rows], check=True, capture_output=True, env=os.environ
    )
    found = np.array(json.loads(done.stdout))
    assert np.abs(found - estimator.predict_proba(X)[:, 0]).max() < 1e-6
    session = onnxruntime.InferenceSession(str(path))
    assert np.abs(found - OnnxFile(session).predict(X)).max() < 1e-7

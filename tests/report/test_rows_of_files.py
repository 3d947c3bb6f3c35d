"""Rows that come as a file has them: levels without their order, booleans with gaps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reports import fitted, report

import pyro_gcm
from pyro_gcm.audit import audit_table
from pyro_gcm.cli import main
from pyro_gcm.estimators import GCMOrdinal

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

"""A method and a data set from outside, as the page on experiments shows them."""

import re
import sys
from pathlib import Path

import pytest
from toys import options

from reproduce import studies
from reproduce.defaults.own_study import STUDY
from reproduce.runs import Refused, read_results

PAGE = Path(__file__).parents[2] / "docs" / "reproducing.md"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The file of the page, where it can be imported."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def run(folder, *more):
    asked = ["--quick", "--jobs", "1", "--splits", "2", "--datasets", "mine:coins", *more]
    STUDY.main(options(STUDY, folder, *asked))


def test_a_method_and_a_data_set_of_ones_own_stand_beside_the_others(mine, capsys):
    chosen = ["--methods", "mine:Logistic", "HistGradientBoosting"]
    run(mine, *chosen)
    shown = capsys.readouterr().out
    assert re.search(r"mine:coins\n\n\| Method \| AUC .*\| mine:Logistic \|", shown, re.DOTALL)
    first = read_results(mine / "study.csv")
    assert set(first["method"]) == {"HistGradientBoosting", "mine:Logistic"}
    # What is there is not run again; a changed file is.
    run(mine, *chosen)
    assert len(read_results(mine / "study.csv")) == len(first)
    with (mine / "mine.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    run(mine, *chosen)
    again = read_results(mine / "study.csv")
    assert set(again.loc[~again["settings"].isin(first["settings"]), "method"]) == {"mine:Logistic"}


def test_what_is_wrong_is_said(mine):
    for method, message in (
        ("mine:Nothing", "cannot be imported: module 'mine' has no attribute"),
        ("nowhere:f", "cannot be imported: No module named 'nowhere'"),
        ("nowhere", "--methods nowhere: protocol held-out has HistGradientBoosting"),
    ):
        with pytest.raises(Refused, match=message):
            run(mine, "--methods", method)


def test_every_study_is_listed_once_the_papers_first_with_its_duration():
    listed = studies.listed().splitlines()
    names = [line.partition(":")[0] for line in listed]
    assert names[:5] == ["quantile", "datasets", "public", "ablation", "timing"]
    assert names == [*studies.STUDIES]
    assert all(len(line) < 170 and re.search(r"\d (h|min)\)$", line) for line in listed)

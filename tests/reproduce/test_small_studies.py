"""Sizes of the data sets."""

import pandas as pd
import pytest
from toys import REAL, load_as, options, toy

from reproduce import tasks
from reproduce.data import datasets


@REAL
@pytest.mark.parametrize("name", ["compas", "auto_mpg"])
def test_the_published_rows_are_exactly_those_of_the_paper(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(datasets, "TASKS", {name: tasks.TASKS[name]})
    datasets.main(options(datasets, tmp_path))
    table = pd.read_csv(tmp_path / "datasets.csv").set_index("variant")
    sizes = {"compas": (6172, 9, 4, "classification"), "auto_mpg": (392, 4, 3, "regression")}
    columns = ["paper examples", "paper x_dim", "paper r_dim", "paper target"]
    assert tuple(table.loc["published", columns]) == sizes[name]
    assert table.loc["published", "equal"]
    assert pd.isna(table.loc["default", "paper examples"])
    assert tasks.TASKS[name].title in capsys.readouterr().out


def test_every_data_set_is_compared_but_the_stand_in(monkeypatch):
    def made(name, variant):
        # One row fewer than the paper for COMPAS, its sizes for Auto MPG.
        if name == "auto_mpg":
            return toy(name, variant, x_dim=4, r_dim=3, rows=392)
        return toy(name, variant, "binary", rows=6171 if name == "compas" else 50)

    load_as(monkeypatch, made)
    found = datasets.table()
    lines = datasets.report(found).splitlines()
    assert len(lines) == 2 + 2 * len(tasks.TASKS)
    assert lines[3].startswith("| Adult | published | 50 | 9 | 4 | classification |")
    found = found.set_index(["dataset", "variant"])
    published = found.xs("published", level="variant")["equal"]
    assert published["Auto MPG"] is True
    assert published["COMPAS"] is False
    assert pd.isna(found.loc[("Loan (stand-in)", "published"), "paper examples"])
    assert found.loc[("Adult", "published"), "paper examples"] == 48_842
    assert found.xs("default", level="variant")["equal"].isna().all()

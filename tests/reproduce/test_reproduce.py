"""The experiment runner at a size that takes seconds."""

import argparse
import os

import pandas as pd
import pytest

from reproduce import fit, quantile, results, simulation

COLUMNS = [
    "experiment",
    "dataset",
    "seed",
    "method",
    "setting",
    "r",
    "metric",
    "value",
    "seconds",
    "versions",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return tmp_path


def arguments(module, *options):
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(options)


def small_quantile(folder, *options):
    return arguments(
        quantile, "--seeds", "2", "--iterations", "30", "--jobs", "1", "--output", str(folder),
        *options,
    )  # fmt: skip


def test_simulated_quantile_curve_is_the_quantile_of_the_simulated_data():
    x, _, y = simulation.sample(200_000, seed=1)
    for level in simulation.LEVELS:
        below = (y < simulation.quantile(x[:, 0], level)).double().mean()
        assert below.item() == pytest.approx(level, abs=0.005)


def test_levels_are_inside_the_unit_interval():
    _, level, _ = simulation.sample(100_000, seed=0)
    assert level.min() > 0
    assert level.max() < 1


def test_quantile_writes_a_tidy_table_and_a_figure(folder, capsys):
    quantile.main(small_quantile(folder))
    table = pd.read_csv(folder / "quantile.csv")
    assert list(table.columns) == COLUMNS
    assert len(table) == 2 * len(quantile.METHODS) * len(simulation.LEVELS)
    assert (folder / "quantile_curves.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "GCM       ours" in printed
    assert "0.0961 ±0.0261" in printed  # the paper's first GCM cell


def test_the_same_command_gives_the_same_numbers(folder):
    tables = []
    for _ in range(2):
        quantile.main(small_quantile(folder, "--methods", "GCM"))
        tables.append(pd.read_csv(folder / "quantile.csv")["value"])
    pd.testing.assert_series_equal(*tables)


def test_an_interrupted_run_resumes_without_repeating_finished_fits(folder, monkeypatch):
    original, calls = quantile.METHODS["MLP"], []

    def interrupted(data, options, seed, callback):
        calls.append(seed)
        if seed == 1 and len(calls) == 2:
            raise KeyboardInterrupt
        return original(data, options, seed, callback)

    monkeypatch.setitem(quantile.METHODS, "MLP", interrupted)
    options = small_quantile(folder, "--methods", "MLP")
    with pytest.raises(KeyboardInterrupt):
        quantile.main(options)
    assert not (folder / "quantile.csv").exists()
    quantile.main(options)
    assert calls == [0, 1, 1]
    assert len(pd.read_csv(folder / "quantile.csv")) == 2 * len(simulation.LEVELS)
    assert not (folder / ".partial" / "quantile").exists()


def test_finished_parts_of_other_options_are_not_reused(folder):
    def run(value):
        return {"rows": [{"value": value}]}

    first = results.run_parts("demo", [{"value": 1}], run, jobs=1)
    second = results.run_parts("demo", [{"value": 2}], run, jobs=1)
    assert first["rows"]["value"].tolist() == [1]
    assert second["rows"]["value"].tolist() == [2]


def test_paper_figures_are_those_of_table_1():
    paper = pd.read_csv(quantile.PAPER)
    assert len(paper) == 8 * 5
    assert paper.set_index(["method", "r"]).loc[("CMNN", 0.3), "mae"] == 0.1096


def test_both_optimisers_train_both_methods():
    options = {
        "setting": "test", "optimizer": "sgd", "learning_rate": 0.1, "revenue_map": "identity",
        "num_particles": 4, "iterations": 20, "batch_size": 20, "test_rows": 50, "stages": [0, 20],
        "figure_seed": 0,
    }  # fmt: skip
    for method in quantile.METHODS:
        tables = quantile.run(method, 0, options)
        curves = pd.DataFrame(tables["curves"])
        start, end = (curves[curves["step"] == step]["y"].to_numpy() for step in (0, 20))
        assert abs(start - end).max() > 1e-3


@pytest.mark.skipif(not os.environ.get("PYRO_GCM_DATA"), reason="PYRO_GCM_DATA is not set")
@pytest.mark.parametrize("method", list(fit.METHODS))
def test_fit_reports_held_out_metrics_of_a_real_data_set(method):
    options = {"model": {}, "fit": {"epochs": 5}}
    (row,) = fit.run("auto_mpg", "default", method, 0, options)["metrics"]
    assert row["metric"] == "RMSE"
    assert 1.5 < row["value"] < 9.0
    assert list(row) == COLUMNS


def test_fit_prints_a_paired_comparison():
    table = pd.DataFrame(
        [
            {"seed": seed, "method": method, "metric": "AUC", "value": value, "seconds": 1.0}
            for seed in (0, 1)
            for method, value in (("GCM", 0.8 + seed / 100), ("monotone boosting", 0.79))
        ]
    )
    assert "difference +0.0150 ± 0.0050" in fit.report(table)

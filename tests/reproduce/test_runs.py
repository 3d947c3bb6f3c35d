"""The table of finished fits survives kills, errors, other runs, and goes on where it stood."""

import argparse
import math
import sys
import time

import pandas as pd
import pytest

from reproduce import runs
from reproduce.__main__ import main as reproduce_main
from reproduce.runs import COLUMNS, Fit, Refused, as_json, read_results, run_fits


def options(*more):
    parser = argparse.ArgumentParser()
    runs.add_run_arguments(parser)
    return parser.parse_args(["--jobs", "1", *more])


def fit(seed, method="m", settings="{}"):
    return Fit("e", "d", "v", "p", "", seed, method, settings)


def toy(fit, device="cpu"):
    values = {"loss": fit.seed / 3, "error": math.nan}
    return {**values, "seconds": time.perf_counter() % 1, "epochs": fit.seed}


def never(fit, device="cpu"):
    raise AssertionError(f"{fit} was run again")


def without_seconds(path):
    return read_results(path).drop(columns="seconds")


def test_the_table_is_tidy_and_sorted_with_a_row_a_metric(tmp_path):
    path = tmp_path / "new" / "table.csv"
    asked = [fit(2), fit(0, "b"), fit(0, "a", as_json({"b": 1, "a": "x, y"}))]
    returned = run_fits(path, asked, toy, options("--device", "cpu"))
    table = pd.read_csv(path)
    assert list(table.columns) == list(returned.columns) == COLUMNS
    keys = [*zip(table["seed"], table["method"], table["metric"], strict=True)]
    pairs = [(0, "a"), (0, "b"), (2, "m")]
    assert keys == [(*pair, metric) for pair in pairs for metric in ("loss", "error")]
    assert table.loc[4, "value"] == pytest.approx(2 / 3, rel=1e-5)
    assert table.loc[0, "settings"] == '{"a":"x, y","b":1}'
    assert (table["epochs"] == table["seed"]).all()
    assert table["versions"].str.contains("torch").all()
    assert list(dict.fromkeys(returned["seed"])) == [2, 0]
    run_fits(tmp_path / "other.csv", asked[::-1], toy, options())  # the order does not matter
    pd.testing.assert_frame_equal(without_seconds(tmp_path / "other.csv"), without_seconds(path))


def test_finished_fits_are_not_run_again_and_nan_is_a_result(tmp_path):
    path = tmp_path / "table.csv"
    like_missing = Fit("e", "None", "default", "NA", "", 0, "null", "{}")
    asked = [fit(0), fit(1), like_missing]
    first = run_fits(path, asked, toy, options())
    assert first["value"].isna().tolist() == [False, True] * 3
    pd.testing.assert_frame_equal(first, run_fits(path, asked, never, options()))


def test_an_error_in_one_fit_keeps_the_finished_ones(tmp_path):
    path = tmp_path / "table.csv"

    def fails(fit, device="cpu"):
        if fit.seed == 2:
            raise ZeroDivisionError("in fit 2")
        return toy(fit, device)

    asked = [fit(seed) for seed in range(4)]
    with pytest.raises(ZeroDivisionError, match="in fit 2"):
        run_fits(path, asked, fails, options())
    assert set(read_results(path)["seed"]) == {0, 1}
    assert set(run_fits(path, asked, toy, options())["seed"]) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "--results", "nowhere"], "--results nowhere: there is no such folder"),
        (
            ["public", "--methods", "MM", "GCM (literal)"],
            "--methods GCM (literal): protocol held-out has",
        ),
        (["quantile", "--seeds", "0"], "--seeds: must be a whole number of at least 1, got 0"),
        (["untouched"], "import of xgboost halted; None in sys.modules: pip install pyro-gcm[boo"),
        (["search", "--methods", "CatBoost"], "import of catboost halted"),
        (
            ["auctions", "--output", "/dev/null/a"],
            "error: Not a directory: '/dev/null/a'",
        ),
        (["search", "--device", "meta"], "--device must be cpu, whose time is measured, got meta"),
    ],
)
def test_what_cannot_run_is_told_without_a_traceback(
    arguments, message, tmp_path, monkeypatch, capsys
):
    for library in ("xgboost", "catboost"):
        monkeypatch.setitem(sys.modules, library, None)
    name, *more = arguments
    monkeypatch.setattr(sys, "argv", ["reproduce", name, "--output", str(tmp_path), *more])
    with pytest.raises(SystemExit) as ended:
        reproduce_main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_second_run_on_one_table_is_refused(tmp_path):
    path = tmp_path / "table.csv"

    def nested(asked, device="cpu"):
        with pytest.raises(Refused, match=r"another run is writing to .*table\.csv"):
            run_fits(path, [fit(1)], never, options())
        return toy(asked, device)

    assert set(run_fits(path, [fit(0)], nested, options())["seed"]) == {0}
    assert set(read_results(path)["seed"]) == {0}


def test_a_table_of_other_columns_is_refused_by_name(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("method,auc\nGCM,0.8\n")
    with pytest.raises(ValueError, match=r"table\.csv has columns \['method', 'auc'\], expected"):
        run_fits(path, [fit(0)], never, options())
    assert path.read_text() == "method,auc\nGCM,0.8\n"


def test_a_row_of_another_device_is_not_taken_for_this_one(tmp_path):
    path, calls = tmp_path / "table.csv", []

    def counted(fit, device):
        calls.append(device)
        return {"loss": 1.0, "seconds": 0.0, "epochs": 0}

    for device in ("cpu", "meta", "cpu"):
        table = run_fits(path, [fit(0)], counted, options("--jobs", "1", "--device", device))
        assert table["device"].tolist() == [device]
    assert calls == ["cpu", "meta"]
    assert len(pd.read_csv(path)) == 2

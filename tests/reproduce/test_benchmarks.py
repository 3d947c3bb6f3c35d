"""The benchmarks' own arithmetic, and that each of them runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from toys import row

from reproduce.benchmarks import scale, streaming, threads, training_step, workers
from reproduce.benchmarks.models import tuned
from reproduce.benchmarks.paired import paired, ratio, show
from reproduce.methods.spaces import SEARCHED


def test_sides_run_in_turn_after_a_warm_up(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    seconds = paired(sides, repeats=4, warm_up=2)
    assert calls == ["a", "b"] * 6
    assert {name: len(times) for name, times in seconds.items()} == {"a": 4, "b": 4}
    show({"slow": [0.2, 0.4], "fast": [0.1, 0.1]}, "fast")
    slow, fast = capsys.readouterr().out.splitlines()
    assert "3.000 x fast (2.500 to 3.500)" in slow
    assert "100.000 ms" in fast


def test_the_training_step_is_written_with_every_side_beside_both_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ["--steps", "3", "--batch-size", "8", "--particles", "2", "--hidden", "4"]
    monkeypatch.setattr(sys, "argv", ["training_step", *small, "--output", str(tmp_path)])
    training_step.main()
    table = pd.read_csv(tmp_path / "training_step.csv")
    assert len(table) == 4 * 2
    assert (table.loc[table["side"] == table["beside"], "ratio"] == 1.0).all()
    assert ((table["lower"] <= table["ratio"]) & (table["ratio"] <= table["upper"])).all()
    assert set(table["hidden"]) == {4}


def test_a_file_as_folder_of_the_training_step_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(sys, "argv", ["training_step", "--output", str(file)])
    with pytest.raises(SystemExit):
        training_step.main()
    out, error = capsys.readouterr()
    assert not out
    assert f"argument --output: {file} could not be written: File exists" in error


def test_ratio_is_the_median_of_pairs() -> None:
    # The ratio of the medians is 20.
    assert ratio([2.0, 20.0, 20.0], [1.0, 10.0, 1.0])[1] == 2.0


def test_lightgbm_has_what_the_search_chose_for_the_data_set(tmp_path: Path) -> None:
    default = dict(SEARCHED["LightGBM"].default)
    assert tuned("adult", tmp_path) == (default, 300)
    trials = [
        row(method="LightGBM", seed=number, value=loss, epochs=trees, settings=settings)
        for number, (loss, trees, settings) in enumerate(
            [(0.4, 90, '{"folds":1,"num_leaves":8}'), (0.3, 70, '{"folds":1,"num_leaves":16}')]
        )
    ]
    trials.append(row(method="XGBoost", value=0.1, settings="{}"))
    pd.DataFrame(trials).to_csv(tmp_path / "search_trials_adult.csv", index=False)
    assert tuned("adult", tmp_path) == ({"num_leaves": 16}, 70)
    assert tuned("compas", tmp_path) == (default, 300)
    final = [
        row(method="LightGBM", split=str(at), epochs=trees, settings='{"folds":1,"num_leaves":16}')
        for at, trees in enumerate((200, 260, 240))
    ]
    pd.DataFrame(final).to_csv(tmp_path / "search_adult.csv", index=False)
    assert tuned("adult", tmp_path) == ({"num_leaves": 16}, 240)


def test_the_model_of_costs_is_that_of_the_sizes() -> None:
    constants = np.array([2.0, 0.5, 0.1, 0.07])
    costs = [float(constants @ scale.terms(*size)) for size in scale.SIZES]
    np.testing.assert_allclose(scale.fitted(costs), constants, rtol=1e-9)
    assert scale.UNSEEN not in scale.SIZES


@pytest.mark.long(keep=0)
def test_scale_prints_the_model_beside_a_size_that_it_has_not_seen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "BATCH", 64)
    monkeypatch.setattr(scale.reading, "__defaults__", (2_000,))
    monkeypatch.setattr(sys, "argv", ["scale", "--rows", "400"])
    scale.main()
    printed = capsys.readouterr().out
    for part in ("fit: ", "predict: ", "read: ", "10^10: 840.0 GB"):
        assert part in printed


@pytest.mark.long(keep=0)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_streaming_trains_and_predicts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["streaming", "--rows", "50000", "--score-rows", "1000"])
    streaming.main()
    printed = capsys.readouterr().out
    assert "fit, one epoch after one survey: " in printed
    assert "predict: 50,000 rows" in printed


def test_neighbours_are_busy_inside_and_end_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), threads.neighbours(2) as others:  # noqa: PT012
        assert [other.poll() for other in others] == [None, None]
        raise ZeroDivisionError
    assert all(other.poll() is not None for other in others)


def test_threads_by_batch_has_a_line_for_each_size_and_kind(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ["--sizes", "8", "16", "--widths", "4", "--steps", "2", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", ["threads", "--batches", *small])
    threads.main()
    cells = [line.split("|") for line in capsys.readouterr().out.splitlines()[1:]]
    found = [(int(batch), what.strip()) for batch, _, what, *_ in cells]
    assert found == [(size, what) for size in (8, 16) for what in ("GCM", "members")]


@pytest.mark.long(keep=0)
def test_threads_has_a_line_for_each_piece_of_work_beside_a_neighbour(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ["--rows", "200", "--epochs", "1", "--predictions", "10", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", ["threads", "--neighbours", "1", *small])
    threads.main()
    lines = capfd.readouterr().out.splitlines()[1:]
    assert [line.count("(") for line in lines] == [2, 2, 2, 3, 2]
    assert all(line.startswith("1 busy") for line in lines)


@pytest.mark.long(keep=0)
@pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed")
def test_processes_that_torchrun_starts_end_with_a_score_as_good_as_that_of_one() -> None:
    one = workers.run(1, seed=0, options={"epochs": 1})
    two = workers.run(2, seed=0, options={"epochs": 1, "distributed": True})
    assert two["rows"][-1]["loss"] == pytest.approx(one["rows"][-1]["loss"], abs=0.02)
    assert two["auc"] == pytest.approx(one["auc"], abs=0.01)

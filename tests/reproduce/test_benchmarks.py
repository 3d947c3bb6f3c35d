"""The benchmarks' own arithmetic."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from reproduce import benchmarks, ratios


def test_sides_run_in_turn_after_a_warm_up(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    seconds = benchmarks.paired(sides, repeats=4, warm_up=2)
    assert calls == ["a", "b"] * 6
    assert {name: len(times) for name, times in seconds.items()} == {"a": 4, "b": 4}
    # The ratio is the median of those of pairs, 2, and not that of the medians, 20.
    benchmarks.show({"fast": [0.1, 1.0, 0.1], "slow": [0.2, 2.0, 2.0]})
    fast, slow = capsys.readouterr().out.splitlines()
    assert "2.000 x fast (2.000 to 11.000)" in slow
    assert "100.000 ms" in fast


def test_stored_ratios_replace_those_of_the_same_commit_and_are_drawn_over_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, figure = tmp_path / "ratios.csv", tmp_path / "ratios.png"
    for commit, ours in (("a1", 3.0), ("b2", 9.0), ("b2", 6.0)):
        monkeypatch.setattr(ratios, "versions", lambda commit=commit: f"pyro_gcm 1 {commit}; cpu")
        table = ratios.store(
            "predict", {"one row": {"theirs": [1.0, 2.0], "ours": [ours, ours]}}, path
        )
    pd.testing.assert_frame_equal(table, pd.read_csv(path))
    assert table["versions"].tolist() == ["pyro_gcm 1 a1; cpu", "pyro_gcm 1 b2; cpu"]
    assert table[ratios.QUARTILES].to_numpy().tolist() == [[1.875, 2.25, 2.625], [3.75, 4.5, 5.25]]
    ratios.draw(table, figure)
    assert figure.stat().st_size > 1000


def test_the_stored_ratios_are_of_benchmarks_that_are_there() -> None:
    table = pd.read_csv(ratios.STORED)
    assert {*table["benchmark"]} <= {*benchmarks.BENCHMARKS}
    assert not table.duplicated([*ratios.KEY, "comparison", "side"]).any()
    lower, ratio, upper = table[ratios.QUARTILES].to_numpy().T
    assert ((lower > 0) & (lower <= ratio) & (ratio <= upper)).all()

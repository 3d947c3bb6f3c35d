"""The benchmarks' own arithmetic."""

from __future__ import annotations

import pytest

from reproduce import benchmarks


def test_sides_run_in_turn_after_a_warm_up(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    seconds = benchmarks.paired(sides, repeats=4, warm_up=2)
    assert calls == ["a", "b"] * 6
    assert {name: len(times) for name, times in seconds.items()} == {"a": 4, "b": 4}
    benchmarks.show({"fast": [0.1, 0.1], "slow": [0.2, 0.4]})
    fast, slow = capsys.readouterr().out.splitlines()
    assert "3.000 x fast (2.500 to 3.500)" in slow
    assert "100.000 ms" in fast


def test_ratio_is_the_median_of_pairs() -> None:
    # The ratio of the medians is 20.
    assert benchmarks.ratio([2.0, 20.0, 20.0], [1.0, 10.0, 1.0])[1] == 2.0

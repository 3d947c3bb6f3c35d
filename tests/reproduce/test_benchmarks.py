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
    # The ratio is the median of those of pairs, 2, and not that of the medians, 20.
    benchmarks.show({"fast": [0.1, 1.0, 0.1], "slow": [0.2, 2.0, 2.0]})
    fast, slow = capsys.readouterr().out.splitlines()
    assert "2.000 x fast (2.000 to 11.000)" in slow
    assert "100.000 ms" in fast

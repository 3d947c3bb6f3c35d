"""Prediction times against the number of revenues: what is timed, and what is said of it."""

import pandas as pd
import pytest
import torch
from toys import load_as, options, toy

from reproduce import timing
from reproduce.runs import read_results


def test_every_way_of_predicting_gives_the_same_numbers(monkeypatch):
    load_as(monkeypatch, lambda name, variant: toy(name, variant, "binary"))
    table = toy()
    x, revenues = table.x[:64].float(), table.r[:7].float()
    with torch.no_grad():
        found = {side: call(revenues) for side, call in timing.calls("cpu", x).items()}
    ways = {method: {way for m, way in found if m == method} for method in timing.TIMED}
    for method in timing.TIMED:
        expected = found[method, "one by one"]
        assert expected.shape == (64, 7)
        assert expected.std() > 1e-4
        for way in ways[method]:
            torch.testing.assert_close(found[method, way], expected, atol=1e-5, rtol=0.0)
    assert ways.pop("GCM") == {"one by one", "cached"}
    assert all(way == {"one by one", "at once", "cached"} for way in ways.values())


def test_every_side_is_timed_and_no_quick_run_is_taken_for_another(monkeypatch, tmp_path, capsys):
    load_as(monkeypatch, lambda name, variant: toy(name, variant, "binary"))
    study, sides = timing.STUDY, 2 + 3 * (len(timing.TIMED) - 1)
    (fits,) = study.fits(options(study, tmp_path)).values()
    assert len(fits) == 11 * sides
    study.main(options(study, tmp_path, "--quick", "--jobs", "1"))
    assert "| GCM | cached |" in capsys.readouterr().out
    found = read_results(tmp_path / "timing.csv")
    assert len(found) == 2 * sides
    assert (found["value"] > 0.0).all()
    with pytest.raises(ValueError, match="duplicate entries"):
        timing.report(pd.concat([found, found.assign(settings=found["settings"])]))

"""Prediction times against the number of revenues: what is timed, and what is said of it."""

import json

import pandas as pd
import pytest
import torch
from toys import load_as, options, table, toy

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


def timed(revenues=1, **milliseconds):
    """Times of `method__way` for a number of revenues."""
    parts = []
    for side, ms in milliseconds.items():
        method, way = side.split("__")
        settings = json.dumps({"revenues": revenues, "rows": 64, "x": way.replace("_", " ")})
        parts.append(table({(method, "ms per batch"): [ms]}, settings=settings))
    return pd.concat(parts)


def test_gcm_is_faster_from_the_revenues_on_that_the_table_says():
    every = pd.concat(
        timed(n, MM__one_by_one=n, MM__at_once=n**0.1, GCM__cached=3.0 * n**0.1)
        for n in (1, 2, 4, 16)
    )
    assert timing.faster(every, "one by one") == "MM from R = 4 on"
    assert timing.faster(every, "at once") == "MM never"
    paper = "MM from R = 32 on, CMNN from R = 8 on, PWL from R = 64 on"
    assert timing.faster(every, "printed") == paper

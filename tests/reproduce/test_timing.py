"""Prediction times against the number of revenues: what is timed, and what is said of it."""

import pandas as pd
import pytest
from toys import load_as, options, toy

from reproduce import timing
from reproduce.runs import read_results


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

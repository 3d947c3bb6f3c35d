"""The search for predictions that fall."""

import argparse

import pandas as pd
import torch
from toys import row

from reproduce.checks import falls
from reproduce.runs import Fit


def search(kind, pairs, split="pairs", place="trained"):
    return Fit("any", kind, "float32", place, split, 0, "any", f'{{"pairs": {pairs}}}')


def test_the_model_that_was_made_to_fall_is_found(monkeypatch):
    flat = argparse.Namespace(predict=lambda x, r: torch.full((len(r),), 0.5))
    monkeypatch.setattr(falls, "trained", lambda *_, **__: flat)
    found = falls.run(search(falls.FALLING, 250, "1 threads"))
    assert found["falls"] > 0
    rows = [row(dataset=falls.FALLING, metric=k, value=v) for k, v in found.items()]
    lines = falls.report(pd.DataFrame(rows)).splitlines()
    assert lines[2] == f"| {falls.FALLING} | yes | {found['pairs']} | {found['falls']} |"
    assert lines[-1] == "Of those that may not fall, 0 in 0 pairs fell."

"""The search for predictions that fall."""

import argparse

import torch

from reproduce.checks import falls
from reproduce.runs import Fit


def test_the_model_that_was_made_to_fall_is_found(monkeypatch):
    flat = argparse.Namespace(predict=lambda x, r: torch.full((len(r),), 0.5))
    monkeypatch.setattr(falls, "trained", lambda *_, **__: flat)
    of = falls.FALLING, "float32", "trained", "1 threads", 0, "any", '{"pairs": 250}'
    assert falls.run(Fit("any", *of))["falls"] > 0

"""The same random numbers in every run of a test."""

from __future__ import annotations

import pyro
import pytest
import torch


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(20250721)
    pyro.clear_param_store()

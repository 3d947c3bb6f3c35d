"""Benchmark data sets with monotone inputs, as tensors: ``data.load("adult")``."""

from pyro_gcm.data.auctions import Auctions, simulate_auctions
from pyro_gcm.data.credit import load_heloc, load_loans, load_taiwan
from pyro_gcm.data.dataset import NAMES, Dataset, load
from pyro_gcm.data.survival_times import SurvivalTimes

__all__ = [
    "NAMES",
    "Auctions",
    "Dataset",
    "SurvivalTimes",
    "load",
    "load_heloc",
    "load_loans",
    "load_taiwan",
    "simulate_auctions",
]

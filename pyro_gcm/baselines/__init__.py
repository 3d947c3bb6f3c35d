"""Baseline methods in plain torch: modules of (x, r) with a loss and `predict`.

A new baseline is a subclass of `Baseline`, and a line in this file.
"""

from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.boosting import MonotoneBoosting
from pyro_gcm.baselines.both_signs import LipschitzMonotone, SwitchMonotone
from pyro_gcm.baselines.fit import fit
from pyro_gcm.baselines.min_max import MM, SMM
from pyro_gcm.baselines.mlp import MLP, PWL, Hint
from pyro_gcm.baselines.non_negative import CMNN, SMNN, PosNN

__all__ = [
    "CMNN",
    "MLP",
    "MM",
    "PWL",
    "SMM",
    "SMNN",
    "Baseline",
    "Hint",
    "LipschitzMonotone",
    "MonotoneBoosting",
    "PosNN",
    "SwitchMonotone",
    "fit",
]

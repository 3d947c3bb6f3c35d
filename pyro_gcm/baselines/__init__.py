"""Baseline methods in plain torch: modules of (x, r) with a loss and `predict`.

A new baseline is a subclass of `Baseline` in a module of its own, and a line in this file.
"""

from pyro_gcm.baselines.baseline import Baseline
from pyro_gcm.baselines.boosting import MonotoneBoosting
from pyro_gcm.baselines.constrained import CMNN
from pyro_gcm.baselines.fit import fit
from pyro_gcm.baselines.fit_many import fit_many
from pyro_gcm.baselines.lipschitz import LipschitzMonotone
from pyro_gcm.baselines.min_max import MM, SMM
from pyro_gcm.baselines.mlp import MLP, PWL, Hint
from pyro_gcm.baselines.pos_nn import PosNN
from pyro_gcm.baselines.scalable import SMNN
from pyro_gcm.baselines.switch import SwitchMonotone

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
    "fit_many",
]

"""Program views, bounds, training and prediction."""

from pyro_gcm.inference.collapse import collapse, conditional, uncollapse
from pyro_gcm.inference.fit import fit
from pyro_gcm.inference.importance_weighted_elbo import ImportanceWeightedELBO
from pyro_gcm.inference.trainer import FitResult

__all__ = [
    "FitResult",
    "ImportanceWeightedELBO",
    "collapse",
    "conditional",
    "fit",
    "uncollapse",
]

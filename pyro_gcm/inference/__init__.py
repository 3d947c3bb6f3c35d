"""Program views, bounds, training and prediction."""

from pyro_gcm.inference.collapse import collapse, conditional, uncollapse
from pyro_gcm.inference.fit import FitResult, fit
from pyro_gcm.inference.importance_weighted_elbo import ImportanceWeightedELBO

__all__ = [
    "FitResult",
    "ImportanceWeightedELBO",
    "collapse",
    "conditional",
    "fit",
    "uncollapse",
]

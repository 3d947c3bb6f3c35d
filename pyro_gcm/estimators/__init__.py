"""Estimators with the interface of scikit-learn."""

from pyro_gcm.estimators.bands import Bands
from pyro_gcm.estimators.gcm import GCMClassifier, GCMRegressor
from pyro_gcm.estimators.igcm import IGCMClassifier, IGCMRegressor
from pyro_gcm.estimators.ordinal import GCMOrdinal
from pyro_gcm.estimators.scorer import Scorer
from pyro_gcm.estimators.survival import GCMSurvival

__all__ = [
    "Bands",
    "GCMClassifier",
    "GCMOrdinal",
    "GCMRegressor",
    "GCMSurvival",
    "IGCMClassifier",
    "IGCMRegressor",
    "Scorer",
]

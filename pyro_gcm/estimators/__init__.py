"""Estimators with the interface of scikit-learn."""

from pyro_gcm.estimators.classifier import GCMClassifier, IGCMClassifier
from pyro_gcm.estimators.competing import GCMCompetingRisks
from pyro_gcm.estimators.counter import GCMCounter
from pyro_gcm.estimators.estimator import Bands
from pyro_gcm.estimators.moves import Move
from pyro_gcm.estimators.ordinal import GCMOrdinal
from pyro_gcm.estimators.regressor import GCMRegressor, IGCMRegressor
from pyro_gcm.estimators.survival import GCMSurvival

__all__ = [
    "Bands",
    "GCMClassifier",
    "GCMCompetingRisks",
    "GCMCounter",
    "GCMOrdinal",
    "GCMRegressor",
    "GCMSurvival",
    "IGCMClassifier",
    "IGCMRegressor",
    "Move",
]

"""Estimators with the interface of scikit-learn."""

from pyro_gcm.estimators.bands import Bands
from pyro_gcm.estimators.gcm import GCMClassifier, GCMRegressor
from pyro_gcm.estimators.igcm import IGCMClassifier, IGCMRegressor

__all__ = ["Bands", "GCMClassifier", "GCMRegressor", "IGCMClassifier", "IGCMRegressor"]

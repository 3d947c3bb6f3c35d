"""Base samples, draws and posterior samplers; nothing here knows a model class."""

# `inference` first: each package imports modules of the other.
import pyro_gcm.inference  # noqa: F401
from pyro_gcm.prediction.base_samples import BaseSamples
from pyro_gcm.prediction.draws import PosteriorDraws
from pyro_gcm.prediction.proposals import effective_sample_size, pareto_k

__all__ = ["BaseSamples", "PosteriorDraws", "effective_sample_size", "pareto_k"]

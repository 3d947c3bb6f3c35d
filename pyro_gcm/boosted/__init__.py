"""A model that reads the score of boosted trees beside x and r."""

from pyro_gcm.boosted.model import Boosted
from pyro_gcm.boosted.score import BoostedScore

__all__ = ["Boosted", "BoostedScore"]

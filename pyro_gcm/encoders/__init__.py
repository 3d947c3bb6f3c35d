"""What is made of x and r before a model sees them."""

from pyro_gcm.encoders.boosted import Boosted
from pyro_gcm.encoders.boosted_score import BoostedScore

__all__ = ["Boosted", "BoostedScore"]

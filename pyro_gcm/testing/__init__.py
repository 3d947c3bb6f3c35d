"""Tests to inherit, for stories, responses, priors, guides, cost families and revenue maps."""

from pyro_gcm.testing.parts import (
    CostFamilyTests,
    GuideTests,
    PriorTests,
    ResponseTests,
    RevenueMapTests,
)
from pyro_gcm.testing.stories import StoryTests

__all__ = [
    "CostFamilyTests",
    "GuideTests",
    "PriorTests",
    "ResponseTests",
    "RevenueMapTests",
    "StoryTests",
]

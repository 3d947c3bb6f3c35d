"""A registry of cost families that no test can leave changed."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
from torch import Tensor

from pyro_gcm.distributions import families, register_cost_family
from pyro_gcm.distributions.numerics import log1mexp


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cost families registered in the test are forgotten after it, and earlier ones in it."""
    built_in = {cls: own for cls, own in families._FAMILIES.items() if cls in families.BUILT_IN}
    monkeypatch.setattr(families, "_FAMILIES", built_in)
    monkeypatch.setattr(families, "_NAMES", dict(families._NAMES))


@pytest.fixture
def gumbel(registry: None) -> type:
    """The Gumbel distribution, registered by its two tails alone."""

    def log_cdf(d: dist.Gumbel, value: Tensor) -> Tensor:
        return -((d.loc - value) / d.scale).exp()

    register_cost_family(
        dist.Gumbel, log_cdf, lambda d, value: log1mexp(log_cdf(d, value)), name="gumbel"
    )
    return dist.Gumbel

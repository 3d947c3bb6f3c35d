"""Simulation-based calibration of the posteriors of stories of one's own."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import pytest
import torch

from pyro_gcm import GCM
from pyro_gcm.diagnostics import simulation_based_calibration
from pyro_gcm.distributions import shifted
from pyro_gcm.inference import of_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*effective sample size below 100")


def observed(sample: Any, x: Any) -> Any:
    u = sample("u", dist.Normal(0.0, 1.0))
    sample("proxy", lambda: dist.Normal(u, 0.5), obs=x[..., 1])
    return u


def shared(sample: Any, x: Any) -> Any:
    return of_rows(sample.shared, x[..., 2])


def discrete(sample: Any, x: Any) -> Any:
    return sample("m", dist.Categorical(torch.tensor([0.2, 0.3, 0.5])))


def exponential(sample: Any, x: Any) -> Any:
    return sample("u", dist.Exponential(torch.ones(len(x))))


class Story(GCM):
    """A GCM whose costs are shifted by what `lines` gives."""

    lines: Any

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        z = sample("z", lambda: self.z_dist(x))
        by = self.lines(sample, x)
        c = sample("c", lambda: shifted(self.c_dist(z, x), by))
        return sample("y", lambda: self.y_dist(c, x, r), obs=y)


@pytest.mark.parametrize("lines", [observed, shared, discrete, exponential])
def test_posteriors_of_stories_are_calibrated(lines: Any) -> None:
    def effects(self: Any, sample: Any) -> Any:
        return sample("effect", dist.Normal(torch.zeros(4), 1.0).to_event(1))

    own = {"lines": staticmethod(lines), **({"shared": effects} if lines is shared else {})}
    response = "continuous" if lines is exponential else "binary"
    model: Any = type("Own", (Story,), own)(3, 2, seed=0, response=response)
    g, size = torch.Generator().manual_seed(0), 100 if lines is shared else 200
    x, r = torch.randn(size, 3, generator=g), torch.rand(size, 2, generator=g)
    x[:, 2] = (torch.arange(size) % 4).float()
    found = simulation_based_calibration(model, x, r, seed=1, progress=False)
    # A right posterior fails one time in 10,000.
    assert found.p_value() > 1e-4, str(found)

"""Stories that subclasses change, of every kind of model."""

from __future__ import annotations

import functools
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

from pyro_gcm.distributions import shifted
from pyro_gcm.inference import of_rows
from pyro_gcm.inference.reading import of
from pyro_gcm.io import recorded

GROUPS = 3


class Shifted:
    """A reader for which the costs are others."""

    def __init__(self, sample: Any, by: Any) -> None:
        self.sample, self.by = sample, by

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sample, name)

    def __call__(self, name: str, p: Any, obs: Any = None) -> Any:
        costs = (lambda: shifted(of(p), self.by)) if name == "c" else p
        return self.sample(name, costs, obs)


class _Site:
    """A new latent site u of a row, which moves its costs."""

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        rows = len(r) if x is None else len(x)
        u = sample("u", dist.Normal(torch.full((rows, 1), 0.7).double(), 0.8).to_event(1))
        return super().story(Shifted(sample, u.squeeze(-1)), x, r, y)


class _Prior:
    """Another p(z|x), or p(z)."""

    def z_dist(self, x: Tensor | None) -> Any:
        base = super().z_dist(x).base_dist
        return dist.Normal(base.loc + 0.8, 1.3 * base.scale).to_event(1)


class _Costs:
    """Other costs."""

    def c_dist(self, z: Tensor, covariates: Tensor) -> Any:
        return shifted(super().c_dist(z, covariates), torch.tensor(0.8).double())


class _Outcome:
    """Another outcome: r counts less."""

    def y_dist(self, cost: Any, covariates: Tensor, *kernel_and_r: Tensor) -> Any:
        *kernel, r = kernel_and_r
        if kernel:
            return super().y_dist(cost, covariates, kernel[0] - 0.5, r)
        return super().y_dist(cost, covariates, r - 0.5 * self.r_standardizer.scale.to(r))


class _Shared:
    """An effect of a group, which the first column of x tells, that all rows share."""

    def shared(self, sample: Any) -> Tensor:
        return sample("effect", dist.Normal(torch.zeros(GROUPS).double(), 1.0).to_event(1))

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        groups = torch.zeros(1) if x is None else x[:, 0].nan_to_num()
        effect = of_rows(sample.shared, groups.abs() % GROUPS)
        return super().story(Shifted(sample, effect), x, r, y)


CHANGES = {"site": _Site, "z_dist": _Prior, "c_dist": _Costs, "y_dist": _Outcome, "shared": _Shared}
_CLASSES: dict[tuple[str, type], Any] = {}


def class_of(change: str, family: type) -> Any:
    """A model with a change, which `save` knows."""
    key = change, family
    if key not in _CLASSES:
        name = f"{change}_{family.__name__}"
        made = type(name, (CHANGES[change], family), {"__init__": _constructor(family)})
        _CLASSES[key] = globals()[name] = recorded(f"tests.{name}")(made)  # for pickle
    return _CLASSES[key]


def _constructor(family: Any) -> Any:
    @functools.wraps(family.__init__)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        family.__init__(self, *args, **kwargs)

    return __init__

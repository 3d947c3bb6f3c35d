"""An error in place of -inf when an explicit program is trained as it stands."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import TorchDistribution
from pyro.ops.provenance import get_provenance
from pyro.poutine.messenger import Messenger
from torch import Tensor


class CostGuard(Messenger):
    """Around the sites c and y of an explicit program.

    A cost drawn from p(c|z) contradicts an observed y most of the time, so that the density of y is
    0. Drawing is harmless (it shows the program's graph); asking for that density raises.
    """

    _infer: Any = None
    _from_prior = False

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] == "c":
            self._infer = msg["infer"]
        elif msg["name"] == "y" and msg["is_observed"] and self._from_prior:
            msg["fn"] = _ContradictedCost(msg["fn"])

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["name"] == "c":
            # A guide's replay and `collapse` each bring an `infer` of their own.
            self._from_prior = not msg["is_observed"] and msg["infer"] is self._infer


class _ContradictedCost(TorchDistribution):
    arg_constraints: dict[str, Any] = {}

    def __init__(self, fn: TorchDistribution) -> None:
        self.base_dist = fn
        super().__init__(fn.batch_shape, fn.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        return self.base_dist.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> _ContradictedCost:
        return _ContradictedCost(self.base_dist.expand(batch_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        draw: Tensor = self.base_dist.sample(torch.Size(sample_shape))
        return draw

    def log_prob(self, value: Tensor) -> Tensor:
        if get_provenance(value):  # render_model asks what y depends on, not for a density
            log_p: Tensor = self.base_dist.log_prob(value)
            return log_p
        raise RuntimeError(
            "site 'c' was drawn from p(c|z) although y is observed, so the draw contradicts y. "
            "Integrate the cost out with inference.collapse(model) (or inference.conditional), or "
            "give the guide a site 'c' from the exact CostPosterior."
        )

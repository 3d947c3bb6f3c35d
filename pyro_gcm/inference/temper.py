"""Latent densities raised to a power."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyro.poutine.scale_messenger import ScaleMessenger

from pyro_gcm._validation import positive
from pyro_gcm.inference.collapse import Program


def temper(program: Program, scale: float, *, sites: Collection[str] = ("z",)) -> Program:
    """`pyro.poutine.scale` for some sites alone: their log-densities count `scale` times.

    Put around a program and its guide it weighs the prior against the likelihood, as the factor
    beta of a beta-VAE does: below 1 the guide may leave the prior at a lower price. The value is
    then no bound on an evidence. Where the guide is the prior the two cancel at any scale.

    :param scale: factor above 0.
    :param sites: names of the sites.
    """
    handler = _ScaleSites(positive("scale", scale), sites)
    tempered: Program = handler(getattr(program, "model", program))
    return tempered


class _ScaleSites(ScaleMessenger):
    def __init__(self, scale: float, sites: Collection[str]) -> None:
        super().__init__(scale)
        self.sites = frozenset(sites)

    def _process_message(self, msg: Any) -> None:
        if msg["name"] in self.sites:
            super()._process_message(msg)

"""IGCM on toy rows, trained once for each kind, and the sites of its programs."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.poutine as poutine
import torch
import zoo
from torch import Tensor

from pyro_gcm import IGCM

Rows = tuple[Tensor, Tensor, Tensor]

KERNELS: dict[str, dict[str, Any]] = {
    "K=1": {"k_dim": 1},
    "K=2": {},
    "alternatives": {"alternatives": 2, "costs": 3},
}


def data(count: int, response: str = "binary", seed: int = 2) -> Rows:
    """Rows in float32."""
    x, r, y = zoo.rows(response, count, seed)
    return x.float(), r.float(), y.float()


def trained(objective: str = "conditional", response: str = "binary", **options: Any) -> IGCM:
    """A model that has learned something; no test changes more of it than its objective."""
    guide = {"kernel_guide": "amortised"} if objective == "paper" else {}
    model: IGCM = zoo.learned(IGCM, response, objective, **{"hidden": 8, **guide, **options})
    model.objective = objective
    return model


def some(count: int, response: str = "binary") -> Rows:
    """Other rows."""
    return zoo.rows(response, count, 3)[:3]


def sites(program: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    trace = poutine.trace(program).get_trace(*args, **kwargs)
    trace.compute_log_prob(lambda name, site: name in ("z", "k", "x", "r"))
    nodes = {name: node for name, node in trace.nodes.items() if node["type"] == "sample"}
    return {name: node for name, node in nodes.items() if name not in ("data", "draws")}


def drawn(program: Any, draws: int, *args: Any) -> dict[str, Any]:
    """Sites of a program that runs `draws` times for every row."""
    with torch.no_grad(), pyro.plate("draws", draws, dim=-2):
        return sites(program, *args)

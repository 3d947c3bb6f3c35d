"""Models and options of `fit`, for every objective, bound and kind of guide."""

from __future__ import annotations

from typing import Any

import torch
from pyro.infer import RenyiELBO
from toy_rows import Rows

from pyro_gcm import GCM, IGCM
from pyro_gcm.inference import ImportanceWeightedELBO, PooledELBO
from pyro_gcm.models import MemberGCM
from pyro_gcm.nets import FactorCosts, MixedCosts

RENYI = RenyiELBO(0.5, 4, max_plate_nesting=1, vectorize_particles=True)
MEMBERS = {"members": 3}
CASES: dict[str, tuple[type[Any], dict[str, Any], dict[str, Any]]] = {
    "prior guide": (GCM, {}, {}),
    "one draw": (GCM, {}, {"num_particles": 1}),
    "amortised guide": (GCM, {"guide": "amortised"}, {"elbo": "elbo"}),
    "posterior guide": (GCM, {"guide": "posterior_full"}, {"temperature": 0.5}),
    "laplace": (GCM, {"prior": "laplace"}, {}),
    "dreg": (GCM, {"guide": "posterior"}, {"elbo": "dreg"}),
    "mean field": (GCM, {"guide": "amortised"}, {"elbo": "mean_field"}),
    "mean field, no closed form": (GCM, {"guide": "amortised_flow"}, {"elbo": "mean_field"}),
    "alpha": (GCM, {}, {"elbo": ImportanceWeightedELBO(4, 0.5, max_plate_nesting=1)}),
    "renyi": (GCM, {"guide": "amortised"}, {"elbo": "renyi"}),
    "alternatives": (GCM, {"alternatives": 2, "guide": "posterior"}, {}),
    "alternatives, p0": (GCM, {"alternatives": 2, "p0": "conditional"}, {}),
    "continuous": (GCM, {"response": "continuous", "revenue_map": "piecewise_linear"}, {}),
    "quantile": (GCM, {"response": "quantile"}, {}),
    "categorical": (GCM, {"prior": "categorical"}, {}),
    "common factor": (GCM, {"cost_family": lambda: FactorCosts(2, (2,), "logistic", 4)}, {}),
    "modes of costs": (GCM, {"cost_family": lambda: MixedCosts(2, (2,), 2, "normal", 4)}, {}),
    "modes, one draw": (
        GCM,
        {"cost_family": lambda: MixedCosts(2, (2,), 2, "normal", 4), "guide": "posterior"},
        {"elbo": "enum"},
    ),
    "members": (MemberGCM, MEMBERS, {"objective": "members"}),
    "members, pooled": (MemberGCM, MEMBERS, {"objective": "members", "elbo": PooledELBO(0.3)}),
    "members, evidence": (MemberGCM, MEMBERS, {"objective": "conditional"}),
    "joint": (GCM, {"prior": "standard"}, {"objective": "joint"}),
    "joint, mean field": (GCM, {"prior": "standard"}, {"objective": "joint", "elbo": "mean_field"}),
    "implicit": (IGCM, {}, {}),
    "implicit, guide of k": (IGCM, {"kernel_guide": "posterior"}, {}),
    "implicit, one kernel": (IGCM, {"k_dim": 1}, {}),
    "implicit, response and revenue": (IGCM, {}, {"objective": "response_revenue"}),
    "implicit, joint": (IGCM, {"prior": "standard"}, {"objective": "joint", "elbo": "elbo"}),
    "implicit, paper": (IGCM, {"kernel_guide": "amortised"}, {"objective": "paper"}),
    "implicit, paper, one kernel": (
        IGCM,
        {"kernel_guide": "amortised", "k_dim": 1, "guide": "amortised"},
        {"objective": "paper"},
    ),
    "implicit, categorical": (IGCM, {"prior": "categorical"}, {"objective": "response_revenue"}),
}


def case_of(name: str, rows: int = 48) -> tuple[Any, Rows, dict[str, Any]]:
    """A model in float64, rows for it, and the options of `fit`."""
    kind, options, training = CASES[name]
    g = torch.Generator().manual_seed(3)
    x, r, noise = (torch.randn(rows, n, generator=g).double() for n in (3, 2, 1))
    y = (r.sum(1) + x[:, 0] + noise[:, 0] > 0.0).double()
    if options.get("response") == "quantile":
        r = torch.rand(rows, 1, generator=g).double() * 0.9 + 0.05
    if options.get("response") in ("quantile", "continuous"):
        y = y + x[:, 0]
    sizes: dict[str, Any] = {} if kind is MemberGCM else {"z_dim": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parts = {key: part() if callable(part) else part for key, part in options.items()}
    model = kind(3, r.shape[1], hidden=4, seed=1, **sizes, **parts).double()
    return model, Rows(x, r, y), training

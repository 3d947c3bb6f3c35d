"""Pairs that must be in order: how many fall, of every kind of model, at a tolerance of 0.

Small models of every kind, in both floating-point types, as they were trained and as they were
saved and loaded.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

import pyro_gcm
from pyro_gcm import GCM, IGCM, fit, load, save
from pyro_gcm._utils.torch_state import torch_threads
from pyro_gcm.estimators.plans import build_members
from pyro_gcm.models.members import MemberSettings
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores, as_json
from reproduce.study import Study

X_DIM = 3
#: Columns of r for each response; those of "quantile" are levels.
REVENUES = {"binary": 2, "continuous": 2, "quantile": 1}
_SETTINGS = MemberSettings(members=4, width=16, dropout=0.2)


class Rows(NamedTuple):
    """x [n, 3], r [n, 2] and y [n]."""

    x: Tensor
    r: Tensor
    y: Tensor


class Kind(NamedTuple):
    """How to make a model, its response, and how to train it in a fraction of a second."""

    make: Callable[[], Any]
    response: str = "binary"
    fit: dict[str, Any] = {}


def _members(response: str = "binary") -> Kind:
    r_dim = REVENUES[response]
    return Kind(lambda: build_members(_SETTINGS, X_DIM, r_dim, response=response), response)


def _gcm(response: str = "binary", fit: dict[str, Any] | None = None, **options: Any) -> Kind:
    options = {"response": response, "hidden": 8, "num_samples": 32, **options}
    return Kind(lambda: GCM(X_DIM, REVENUES[response], **options), response, fit or {})


def _igcm(response: str = "binary", fit: dict[str, Any] | None = None, **options: Any) -> Kind:
    options = {"response": response, "hidden": 8, "num_samples": 32, **options}
    return Kind(lambda: IGCM(X_DIM, REVENUES[response], **options), response, fit or {})


KINDS = {
    "members": _members(),
    "members, continuous": _members("continuous"),
    "members, quantile": _members("quantile"),
    "GCM": _gcm(),
    "GCM, continuous": _gcm("continuous"),
    "GCM, quantile": _gcm("quantile"),
    "GCM, alternatives": _gcm(alternatives=3, costs=2),
    "GCM, p0": _gcm(p0="conditional"),
    "GCM, Laplace prior": _gcm(prior="laplace", guide="amortised"),
    "GCM, mixture prior": _gcm(prior="mixture"),
    "GCM, flow prior": _gcm(prior="flow"),
    "GCM, categorical prior": _gcm(prior="categorical"),
    "GCM, posterior guide": _gcm(guide="posterior", fit={"elbo": "dreg"}),
    "GCM, joint": _gcm(prior="standard", fit={"objective": "joint"}),
    "GCM, splines and logistic costs": _gcm(
        revenue_map="piecewise_linear", cost_family="logistic", fit={"elbo": "elbo"}
    ),
    "GCM, sigmoid and Laplace costs": _gcm(revenue_map="sigmoid", cost_family="laplace"),
    "IGCM": _igcm(),
    "IGCM, continuous": _igcm("continuous"),
    "IGCM, paper": _igcm(prior="standard", kernel_guide="amortised", fit={"objective": "paper"}),
}


@lru_cache
def rows(response: str, dtype: torch.dtype = torch.float32, count: int = 300) -> Rows:
    """The same rows at every call, on which y increases in r on the whole."""
    g = torch.Generator().manual_seed(count)
    x, r = torch.randn(count, X_DIM, generator=g), torch.randn(count, 2, generator=g)
    score = r.sum(1) + x[:, 0] + 0.5 * torch.randn(count, generator=g)
    if response == "quantile":
        r = torch.rand(count, 1, generator=g)
    target = (score > 0.0).float() if response == "binary" else score
    return Rows(x.to(dtype), r.to(dtype), target.to(dtype))


def trained(name: str, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    """A model of a kind after a short `fit`."""
    kind = KINDS[name]
    model = kind.make().to(dtype)
    defaults = {"epochs": 2, "batch_size": 100, "progress": False, "num_particles": 4}
    fit(model, *rows(kind.response, dtype), **{**defaults, **kind.fit, **options})
    return model


def loaded(model: Any, **options: Any) -> Any:
    """A model as it is after it was saved and loaded, with these options."""
    with tempfile.TemporaryDirectory() as folder:
        return load(save(model, Path(folder) / "model"), **options)


DTYPES = {"float32": torch.float32, "float64": torch.float64}
PLACES = ("trained", "loaded")
#: Pairs of one search of `falls`: eleven million of all kinds together that promise something.
PAIRS = 85_404
#: Kinds that predict so slowly that they get a tenth of them.
SLOW = {"GCM, flow prior": 8_541}
#: Kinds that promise that no prediction falls.
STRICT = [kind for kind in KINDS if not kind.startswith("IGCM")]
#: Not a kind: a model of members whose predictions are rounded up and down by turns.
FALLING = "members, made to fall"


def cells(fit: Fit) -> Iterable[Fit]:
    """The searches of a kind with a number of threads; one of the model that was made to fall."""
    settings = as_json({"pairs": SLOW.get(fit.dataset, PAIRS)})
    found = [
        replace(fit, variant=dtype, protocol=place, settings=settings)
        for dtype, place in itertools.product(DTYPES, PLACES)
    ]
    if fit.dataset == FALLING:
        return found[:1] if fit.split == "1 threads" else []
    return found


def run(fit: Fit, device: str = "cpu") -> Scores:
    """Ten million pairs of revenues of every kind of model: which predictions fall where they rise.

    With one thread of torch and with two. IGCM, which promises nothing, is searched as well and
    counted apart; a model whose predictions were made to fall shows that the search would find it.
    """
    kind = "members" if fit.dataset == FALLING else fit.dataset
    model = trained(kind, DTYPES[fit.variant], device=device)
    if fit.protocol == "loaded":
        model = loaded(model, device=device)

    def made_to_fall(x: Any, r: Any) -> Any:
        return model.predict(x, r).numpy() - 0.01 * (r.sum(1) > 0.0)

    x, r, _ = rows(KINDS[kind].response, DTYPES[fit.variant])
    started = time.perf_counter()
    with torch_threads(int(fit.split.split()[0])):
        audit = pyro_gcm.audit_monotonicity(
            made_to_fall if fit.dataset == FALLING else model,
            x,
            r,
            pairs=fit.options["pairs"],
            margin=0.0 if KINDS[kind].response == "quantile" else 0.25,
            tolerance=0.0,
            dtype=fit.variant,
            progress=False,
        )
    found: Scores = {"falls": audit.violations, "pairs": audit.pairs}
    return {**found, "seconds": time.perf_counter() - started, "epochs": 0}


def report(table: pd.DataFrame) -> str:
    """Pairs and falls of every kind, and of those together that promise that there is none."""
    counts = table.pivot_table("value", "dataset", "metric", aggfunc="sum")
    counts = counts.reindex([*KINDS, FALLING]).dropna().astype(int)
    lines = [
        [str(name), "no" if name in STRICT else "yes", f"{row['pairs']:,}", f"{row['falls']:,}"]
        for name, row in counts.iterrows()
    ]
    strict = counts[counts.index.isin(STRICT)].sum()
    told = f"Of those that may not fall, {strict['falls']} in {strict['pairs']:,} pairs fell."
    return f"{markdown(['Kind', 'May fall', 'Pairs', 'Falls'], lines)}\n\n{told}"


STUDY = Study(
    *("falls", str(run.__doc__), [*KINDS, FALLING], {"audit": None}, run, "10"),
    count=2,
    counted="threads",
    splits=lambda count: ((f"{threads + 1} threads", 0) for threads in range(count)),
    cells=cells,
    quick={"pairs": 250},
)

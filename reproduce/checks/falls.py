"""Pairs that must be in order: how many fall, of every kind of model, at a tolerance of 0.

Small models of every kind, in both floating-point types, as they were trained and as they were
saved and loaded.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_gcm import GCM, IGCM, audit_monotonicity, fit, load, save
from pyro_gcm._utils.torch_state import torch_threads
from pyro_gcm.models import MemberGCM
from reproduce.rendering.markdown import markdown
from reproduce.runs import Fit, Scores, Settings, as_json, read_json
from reproduce.study import Study

X_DIM = 3
#: Columns of r for each response; those of "quantile" are levels.
REVENUES = {"binary": 2, "continuous": 2, "quantile": 1}
#: The start of a kind's name -> class with the options of all of its kinds.
CLASSES: dict[str, Any] = {
    "members": partial(MemberGCM, members=4, hidden=16),
    **{of.__name__: partial(of, hidden=8, num_samples=32) for of in (GCM, IGCM)},
}
#: Kinds of models, whose names have their class and response -> what they have beside the defaults,
#: and the options of `fit` that they need.
KINDS: dict[str, Settings] = read_json(__file__, "falls.json")


def response_of(kind: str) -> str:
    """The response of a kind."""
    last = kind.partition(", ")[2]
    return last if last in REVENUES else "binary"


@lru_cache
def rows(response: str, dtype: torch.dtype, count: int = 300) -> tuple[Tensor, Tensor, Tensor]:
    """The same x, r and y at every call, on which y increases in r on the whole."""
    g = torch.Generator().manual_seed(count)
    x, r = torch.randn(count, X_DIM, generator=g), torch.randn(count, 2, generator=g)
    score = r.sum(1) + x[:, 0] + 0.5 * torch.randn(count, generator=g)
    if response == "quantile":
        r = torch.rand(count, 1, generator=g)
    target = (score > 0.0).float() if response == "binary" else score
    return x.to(dtype), r.to(dtype), target.to(dtype)


def trained(kind: str, dtype: torch.dtype, device: str) -> Any:
    """A small model of a kind after a `fit` of a fraction of a second."""
    response, make = response_of(kind), CLASSES[kind.partition(",")[0]]
    options = {**KINDS[kind], "response": response}
    training: Any = {"epochs": 2, "batch_size": 100, "num_particles": 4, "progress": False}
    training |= {"device": device, **options.pop("fit", {})}
    model = make(X_DIM, REVENUES[response], **options)
    fit(model.to(dtype), *rows(response, dtype), **training)
    return model


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
        for dtype, place in itertools.product(("float32", "float64"), ("trained", "loaded"))
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
    dtype, response = getattr(torch, fit.variant), response_of(kind)
    model = trained(kind, dtype, device)
    if fit.protocol == "loaded":
        with tempfile.TemporaryDirectory() as folder:
            model = load(save(model, Path(folder) / "model"), device=device)

    def made_to_fall(x: Any, r: Any) -> Any:
        return model.predict(x, r).numpy() - 0.01 * (r.sum(1) > 0.0)

    options: Any = {"pairs": fit.options["pairs"], "tolerance": 0.0, "dtype": fit.variant}
    options |= {"margin": 0.0 if response == "quantile" else 0.25, "progress": False}
    searched = made_to_fall if fit.dataset == FALLING else model
    with torch_threads(int(fit.split.split()[0])):
        audit = audit_monotonicity(searched, *rows(response, dtype)[:2], **options)
    return {"falls": audit.violations, "pairs": audit.pairs}


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

"""Monotone probabilities as order events between a revenue and a latent cost, in Pyro."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyro_gcm import (
        baselines,
        data,
        diagnostics,
        distributions,
        inference,
        models,
        nets,
        plots,
        sampling,
    )
    from pyro_gcm.arviz_export import to_arviz
    from pyro_gcm.audit import MonotonicityAudit, audit_monotonicity
    from pyro_gcm.diagnostics import compare_assumptions, render_model
    from pyro_gcm.inference import FitResult, fit
    from pyro_gcm.models import GCM, IGCM
    from pyro_gcm.sampling import PosteriorDraws

__version__ = "0.1.0"

#: Where each name comes from; it is imported when it is first used.
_HOMES = {
    "GCM": "models",
    "IGCM": "models",
    "FitResult": "inference",
    "MonotonicityAudit": "audit",
    "PosteriorDraws": "sampling",
    "audit_monotonicity": "audit",
    "compare_assumptions": "diagnostics",
    "fit": "inference",
    "render_model": "diagnostics",
    "to_arviz": "arviz_export",
}
_MODULES = (
    "audit",
    "baselines",
    "data",
    "diagnostics",
    "distributions",
    "inference",
    "models",
    "nets",
    "plots",
    "sampling",
)
__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"pyro_gcm.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"pyro_gcm.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'pyro_gcm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

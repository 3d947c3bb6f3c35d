"""Monotone probabilities as order events between a revenue and a latent cost, in Pyro.

Where to start:

- With a table: `estimators`, which have scikit-learn's interface, such as
  `estimators.GCMClassifier(monotonic_cst={"debt": 1}).fit(X, y)`. The same from a shell:
  `pyro-gcm --help`.
- With tensors x, r, y, or as a Pyro program: `GCM(x_dim, r_dim)`, strictly monotone, or `IGCM`,
  which may fall; `fit` trains them, `model.predict(x, r)` and `model.cost_posterior(x, r, y)` ask.
- With a model of any other library: `audit_monotonicity`, or `audit.audit_table` for tables,
  searches for predictions that fall.

`save` and `load` keep models and estimators in folders. `help` of each name says more.

>>> import torch
>>> from pyro_gcm import GCM, fit
>>> x, r = torch.randn(200, 3), torch.rand(200, 2)  # free and monotone inputs
>>> y = x[:, 0] + r.sum(1) > 1
>>> model = GCM(x_dim=3, r_dim=2)
>>> result = fit(model, x, r, y, epochs=2, progress=False)
>>> bool((model.predict(x, r + 0.1) >= model.predict(x, r)).all())
True
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from pyro_gcm._utils.torch_state import one_thread
    from pyro_gcm.audit import MonotonicityAudit, audit_monotonicity
    from pyro_gcm.baselines import Baseline
    from pyro_gcm.data import SurvivalTimes
    from pyro_gcm.diagnostics.arviz_export import to_arviz
    from pyro_gcm.estimators.estimator import MonotoneEstimator
    from pyro_gcm.estimators.plans import fit_members
    from pyro_gcm.inference import FitResult, fit
    from pyro_gcm.io import save
    from pyro_gcm.io.export import export
    from pyro_gcm.io.tree import Factories
    from pyro_gcm.models import GCM, IGCM, MemberGCM
    from pyro_gcm.prediction import PosteriorDraws

    def load(
        folder: str | Path, *, factories: Factories | None = ..., device: str | torch.device = ...
    ) -> GCM | IGCM | MonotoneEstimator | Baseline:
        """`io.load`, whose result `isinstance` tells apart."""


__version__ = "0.3.0"
__all__ = [
    "GCM",
    "IGCM",
    "FitResult",
    "MemberGCM",
    "MonotonicityAudit",
    "PosteriorDraws",
    "SurvivalTimes",
    "audit",
    "audit_monotonicity",
    "baselines",
    "data",
    "decisions",
    "diagnostics",
    "distributions",
    "estimators",
    "export",
    "fit",
    "fit_members",
    "inference",
    "io",
    "load",
    "models",
    "nets",
    "one_thread",
    "plots",
    "prediction",
    "report",
    "responses",
    "save",
    "to_arviz",
]
#: Where the names of `__all__` are that are no modules themselves.
_NAMES = {
    "_utils.torch_state": ("one_thread",),
    "audit": ("MonotonicityAudit", "audit_monotonicity"),
    "data": ("SurvivalTimes",),
    "diagnostics.arviz_export": ("to_arviz",),
    "estimators.plans": ("fit_members",),
    "inference": ("FitResult", "fit"),
    "io": ("load", "save"),
    "io.export": ("export",),
    "models": ("GCM", "IGCM", "MemberGCM"),
    "prediction": ("PosteriorDraws",),
}


def __getattr__(name: str) -> Any:
    """A module or a name of `__all__`, imported when it is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'pyro_gcm' has no attribute {name!r}")
    home = next((home for home, names in _NAMES.items() if name in names), None)
    module = importlib.import_module(f"pyro_gcm.{home or name}")
    globals()[name] = value = getattr(module, name) if home else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

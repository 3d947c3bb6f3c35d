"""Modules by the names that they had in 0.2.0, for one release."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Old name -> new name.
MOVED = {
    "pyro_gcm.encoders": "pyro_gcm.boosted",
    "pyro_gcm.encoders.boosted": "pyro_gcm.boosted.model",
    "pyro_gcm.encoders.boosted_score": "pyro_gcm.boosted.score",
    "pyro_gcm.sampling": "pyro_gcm.prediction",
    "pyro_gcm.sampling.base_samples": "pyro_gcm.prediction.base_samples",
    "pyro_gcm.sampling.draws": "pyro_gcm.prediction.draws",
    "pyro_gcm.sampling.posterior": "pyro_gcm.prediction.posterior",
    "pyro_gcm.sampling.psis": "pyro_gcm.prediction.psis",
    "pyro_gcm.sampling.rejection": "pyro_gcm.prediction.rejection",
    "pyro_gcm.estimators.gcm": "pyro_gcm.estimators",
    "pyro_gcm.models.axis_responses": "pyro_gcm.responses",
    "pyro_gcm.models.guessed": "pyro_gcm.responses",
    "pyro_gcm.models.known_responses": "pyro_gcm.responses",
    "pyro_gcm.models.ordinal": "pyro_gcm.responses",
    "pyro_gcm.models.response": "pyro_gcm.responses",
    "pyro_gcm.models.responses": "pyro_gcm.responses",
    "pyro_gcm.models.several": "pyro_gcm.responses",
    "pyro_gcm.models.survival": "pyro_gcm.responses",
}


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = MOVED[spec.name]
        message = f"{spec.name} has moved: import from {new}; the old name goes with 0.4.0"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        module = importlib.import_module(new)
        old = ModuleType(spec.name, module.__doc__)
        old.__dict__.update({k: v for k, v in vars(module).items() if not k.startswith("__")})
        return old

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []  # it may have had modules of its own


def install() -> None:
    """Find modules by their old names from now on."""
    sys.meta_path.append(_Finder())


def moved_method(old: str, new: str) -> Callable[..., Any]:
    """A method of 0.2.0 that is one of `predictive` now."""

    def method(self: Any, x: Any, r: Any, *args: Any, **options: Any) -> Any:
        message = f"{old}(x, r, ...) has moved: use predictive(x, r).{new}(...) by 0.4.0"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        count = {} if old == "sample" else {"num_samples": options.pop("num_samples", None)}
        return getattr(self.predictive(x, r, **count), new)(*args, **options)

    method.__name__, method.__doc__ = old, f"Deprecated: `predictive(x, r).{new}`."
    return method

"""What every public call of a prediction has around it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import ArrayLike, column_names, full_precision
from pyro_gcm.prediction.draws import PosteriorDraws, SurfaceDraws

Method = TypeVar("Method", bound=Callable[..., Any])
#: A number of draws of z, by default that of the model.
Count = int | None


def prediction(method: Method) -> Method:
    """A public method without gradients, in evaluation mode, on one thread.

    Its first argument may be on any device; tensors come back on that device, and arrays of other
    kinds count as being on the CPU. A distribution stays where the model is.
    """

    @functools.wraps(method)
    def predict(self: Any, x: ArrayLike, *args: Any, **kwargs: Any) -> Any:
        full_precision(self)
        self.check_story("model")
        if not self.is_trained:
            self.warn_once(
                f"{self.name} has not been fitted: its predictions are those of its initial weights"
            )
        known = (self.training_summary or {}).get("columns", {})
        if any(known.values()):
            given = x, kwargs.get("r"), kwargs.get("revenues"), *args[:1]
            for name, value in zip("xrrr", given, strict=False):
                _check_names(name, value, known.get(name))
        home = x.device if isinstance(x, Tensor) else torch.device("cpu")
        with evaluating(self), torch.no_grad():
            result = method(self, x, *args, **kwargs)
        if home != self.device and isinstance(result, Tensor | PosteriorDraws | SurfaceDraws):
            return result.to(home)
        return result

    return cast(Method, predict)


def _check_names(name: str, value: Any, known: Sequence[str] | None) -> None:
    """Check that a DataFrame has the columns that the training rows had, in their order."""
    given = column_names(value) or []
    if known is not None and len(given) == len(known) and list(known) != given:
        raise ValueError(f"{name} must have the columns of fit, {list(known)}, got {given}")

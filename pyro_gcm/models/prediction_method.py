"""How the public methods of a model that predict are called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pyro_gcm._utils.evaluating import evaluating
from pyro_gcm._utils.interrupts import shielded
from pyro_gcm._utils.validation import ArrayLike, check_names, full_precision
from pyro_gcm.distributions.base import rounding
from pyro_gcm.models.surfaces import SurfaceDraws
from pyro_gcm.prediction.base_samples import BatchInvariantProducts
from pyro_gcm.prediction.posterior import PosteriorDraws

Method = TypeVar("Method", bound=Callable[..., Any])


def prediction(method: Method) -> Method:
    """A public method without gradients, in evaluation mode, with batch-invariant products.

    Its first argument may be on any device; tensors come back on that device, and arrays of other
    kinds count as being on the CPU. A distribution stays where the model is.
    """
    return _evaluated(method, BatchInvariantProducts)


def random_prediction(method: Method) -> Method:
    """The same for a method of random draws, in which a row may round as its batch does."""
    return _evaluated(method, nullcontext)


def _evaluated(method: Method, products: Callable[[], AbstractContextManager[Any]]) -> Method:
    @functools.wraps(method)
    def predict(self: Any, x: ArrayLike, *args: Any, **kwargs: Any) -> Any:
        full_precision(self)
        self.check_story("model")
        if not self.is_trained:
            self.warn_once(
                f"{self.name} has not been fitted: its predictions are those of its initial weights"
            )
        known = (self.training_summary or {}).get("columns", {})
        others = [*args[:1], *(kwargs[name] for name in ("r", "revenues") if name in kwargs)]
        check_names("x", x, known.get("x"))
        for r in others:
            check_names("r", r, known.get("r"))
        home = x.device if isinstance(x, Tensor) else torch.device("cpu")
        with shielded(), evaluating(self), torch.no_grad(), rounding(), products():
            result = method(self, x, *args, **kwargs)
        if home != self.device and isinstance(result, Tensor | PosteriorDraws | SurfaceDraws):
            return result.to(home)
        return result

    return cast(Method, predict)

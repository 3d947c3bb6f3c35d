"""How the public methods of a model that predict are called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pyro_gcm._evaluating import evaluating
from pyro_gcm._validation import ArrayLike
from pyro_gcm.models.surfaces import SurfaceDraws
from pyro_gcm.sampling.base_samples import BatchInvariantProducts
from pyro_gcm.sampling.posterior import PosteriorDraws

Method = TypeVar("Method", bound=Callable[..., Any])


def prediction(method: Method) -> Method:
    """A public method without gradients, in evaluation mode, with batch-invariant products.

    Its first argument may be on any device; tensors come back on that device, and arrays of other
    kinds count as being on the CPU. A distribution stays where the model is.
    """

    @functools.wraps(method)
    def predict(self: Any, x: ArrayLike, *args: Any, **kwargs: Any) -> Any:
        if not self.is_trained:
            self.warn_once(
                f"{self.name} has not been fitted: its predictions are those of its initial weights"
            )
        home = x.device if isinstance(x, Tensor) else torch.device("cpu")
        with torch.no_grad(), evaluating(self), BatchInvariantProducts():
            result = method(self, x, *args, **kwargs)
        if home != self.device and isinstance(result, Tensor | PosteriorDraws | SurfaceDraws):
            return result.to(home)
        return result

    return cast(Method, predict)

"""The weights of a model as sites that all rows share, and the likelihood given them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro
import torch
from torch import Tensor, nn
from torch.func import functional_call

from pyro_gcm._utils.torch_state import evaluating
from pyro_gcm._utils.validation import ArrayLike, positive_int, shown
from pyro_gcm.prediction.draws import Rows
from pyro_gcm.prediction.predicted import Predicted

#: A name and a tensor of weights to their prior, of the shape of the tensor.
Prior = Callable[[str, Tensor], Any]


class WeightSites:
    """The weights of a model as sites of a program; see `inference.bayesian`."""

    def __init__(self, model: Any, prior: Prior, parts: Sequence[str], num_samples: int) -> None:
        trained = model.trained_parameters(model.objective)
        chosen = {n: p for n, p in trained.items() if not parts or n.startswith(tuple(parts))}
        for part in parts:
            if not any(name.startswith(part) for name in trained):
                raise ValueError(f"parts must begin names of weights, got {part!r}")
        #: The weights by name, as the model has them.
        self.weights: dict[str, Tensor] = {n: p.detach().clone() for n, p in chosen.items()}
        self.model, self.prior = model, prior
        for name, weight in self.weights.items():
            shape = getattr(prior(name, weight), "batch_shape", None)
            if shape != weight.shape:
                raise ValueError(
                    f"prior must give independent distributions of shape {tuple(weight.shape)} for "
                    f"{name!r}, got {shown(shape)}"
                )
        self._likelihood = _Likelihood(model, positive_int("num_samples", num_samples))

    def program(
        self, x: ArrayLike, r: ArrayLike, y: ArrayLike, rows: int | None = None
    ) -> dict[str, Tensor]:
        """The Pyro program: weights from their prior, and the likelihood of rows.

        :param x, r, y: as in `fit`.
        :param rows: of the whole data set, if these are a batch of it.
        """
        values = {
            name: pyro.sample(name, self.prior(name, weight).to_event(weight.dim()))
            for name, weight in self.weights.items()
        }
        scale = 1.0 if rows is None else rows / len(x)
        with pyro.plate("data", len(x)), pyro.poutine.scale(scale=scale):
            pyro.factor("log_likelihood", self.log_likelihood(values, x, r, y))
        return values

    def log_likelihood(
        self, weights: Mapping[str, Tensor], x: ArrayLike, r: ArrayLike, y: ArrayLike
    ) -> Tensor:
        """log p(y | x, r, weights) of rows, [B], differentiable in the weights."""
        named = {f"model.{name}": value for name, value in weights.items()}
        found: Tensor = functional_call(self._likelihood, named, (x, r, y))
        return found

    def with_weights(self, weights: Mapping[str, Tensor]) -> Any:
        """A copy of the model with these weights: a draw of a guide, of NUTS, or of `program`."""
        made: Any = copy.deepcopy(self.model)
        with torch.no_grad():
            for name, value in weights.items():
                made.get_parameter(name).copy_(value)
        made.is_trained = True
        return made

    def log_posterior(
        self, weights: Mapping[str, Tensor], batch: Rows, rows: int
    ) -> tuple[Tensor, Tensor]:
        """log p(weights), and the log-likelihoods of a batch, [B]."""
        log_prior = sum(self.prior(n, w).log_prob(w).sum() for n, w in weights.items())
        assert batch.y is not None
        log_p = self.log_likelihood(weights, batch.x, batch.r, batch.y)
        return torch.as_tensor(log_prior), log_p

    def start(self) -> dict[str, Tensor]:
        """Copies of the weights, to be trained."""
        return {n: w.clone().requires_grad_() for n, w in self.weights.items()}

    def unflatten(self, flat: Tensor) -> dict[str, Tensor]:
        """Weights by name from one vector of them."""
        sizes = [weight.numel() for weight in self.weights.values()]
        parts = zip(self.weights.items(), flat.split(sizes), strict=True)
        return {name: part.reshape(weight.shape) for (name, weight), part in parts}


class _Likelihood(nn.Module):
    """log p(y | x, r) of a model, for weights that stand in for its own in a `functional_call`."""

    def __init__(self, model: Any, num_samples: int) -> None:
        super().__init__()
        self.model: Any = model
        self.num_samples = num_samples

    def forward(self, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> Tensor:
        """Return log p(y | x, r) of every row, [B]."""
        model = self.model
        rows = model.rows(x, r, y, required="xry")
        noise = model.noise(self.num_samples)
        with evaluating(model):
            draws = Predicted(model, model.prediction_plan, noise).read(rows.x, rows.r)
        draws = draws.of_selected(model.response, rows)
        return draws.log_mean(draws.log_likelihood(rows).expand(draws.num_draws, -1))

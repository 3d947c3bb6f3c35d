"""Every weight of a model as a site with a prior, and models whose weights are posterior draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoLowRankMultivariateNormal, AutoNormal
from pyro.infer.autoguide.initialization import init_to_value
from pyro.optim import ClippedAdam
from torch import Tensor
from tqdm.auto import tqdm

from pyro_gcm._utils.torch_state import Randomness, one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    flag,
    kind,
    one_of,
    positive,
    positive_int,
    seed_of,
    share,
)
from pyro_gcm.inference.weight_sites import Prior, WeightSites
from pyro_gcm.prediction.blocks import mean_of_draws
from pyro_gcm.prediction.draws import Rows

GUIDES = ("normal", "low_rank", "laplace", "sgld")
#: Gradients of so many rows that are taken together.
_AT_ONCE = 64


def scaled_normal(name: str, weight: Tensor) -> Any:
    """N(0, 4 / columns) for a matrix of weights, and N(0, 1) for a vector, such as biases."""
    scale = 2.0 / math.sqrt(weight.shape[-1]) if weight.dim() > 1 else 1.0
    return dist.Normal(torch.zeros_like(weight), scale)


def bayesian(
    model: Any,
    *,
    prior: Prior = scaled_normal,
    parts: Sequence[str] = (),
    num_samples: int = 32,
) -> Bayesian:
    """The weights of a model as sites that all rows share, with a prior, in place of parameters.

    The likelihood of a row is p(y | x, r) of the model with z averaged out, over the draws that its
    predictions use. `Bayesian.program` has no other sites than the weights, so that any autoguide,
    NUTS or HMC runs on it; `Bayesian.fit` has four ways to posterior draws.

    :param model: a `GCM`, `IGCM` or `MemberGCM`, best after `fit`: its weights are where training
        begins. It has to know its units (`fit`, or `learn_units`), and is not changed.
    :param prior: function (name, weights) -> distribution of the shape of the weights.
    :param parts: beginnings of the names of the weights that are uncertain, such as "cost_net"; by
        default all that are trained for its objective.
    :param num_samples: draws of z behind a likelihood.
    :raises ValueError: for parts of no name, a prior of another shape, and a model without units.

    >>> import torch
    >>> from pyro_gcm import GCM, fit
    >>> from pyro_gcm.inference import bayesian
    >>> x, r, y = torch.randn(200, 2), torch.randn(200, 1), torch.arange(200) % 2
    >>> model = GCM(2, 1, hidden=4)
    >>> result = fit(model, x, r, y, epochs=2, progress=False)
    >>> posterior = bayesian(model).fit(x, r, y, steps=50, num_draws=8, progress=False)
    >>> posterior.predict_draws(x[:5], r[:5]).shape
    torch.Size([8, 5])
    """
    if not model.is_trained:
        raise ValueError("model must know its units: call fit or model.learn_units(x, r, y) first")
    return Bayesian(model, prior, [parts] if isinstance(parts, str) else parts, num_samples)


class Bayesian(WeightSites):
    """A model whose weights have priors, as `bayesian` returns it."""

    @one_thread()
    def fit(
        self,
        x: ArrayLike,
        r: ArrayLike,
        y: ArrayLike,
        *,
        guide: str | Callable[[Any], Any] = "normal",
        steps: int = 2000,
        batch_size: int = 256,
        learning_rate: float = 0.005,
        num_draws: int = 32,
        seed: int = 0,
        progress: bool = True,
    ) -> WeightPosterior:
        """Draws of the weights given the rows.

        - "normal", "low_rank": variational, by `AutoNormal` and `AutoLowRankMultivariateNormal`.
        - "laplace": a normal around the mode, whose precision is that of the prior and the sum of
          the squared gradients of the rows (the empirical Fisher information). For the weights of
          last layers, by `parts`: along directions of all weights of which the data say nothing,
          draws lie so far away that the networks are no longer linear in them.
        - "sgld": Langevin dynamics with gradients of batches (Welling & Teh 2011), whose steps are
          scaled by running means of the squared gradients (Li et al. 2016); the second half of the
          steps gives the draws.

        :param x, r, y: as in `pyro_gcm.fit`.
        :param guide: one of these names, or a function of the program that returns a Pyro guide.
        :param steps: of training, or of the dynamics.
        :param learning_rate: of Adam, or the size of the dynamics' first step.
        :param num_draws: of the weights.
        :raises ValueError: for a wrong option.
        """
        if isinstance(guide, str):
            one_of("guide", guide, GUIDES)
        elif not callable(guide):
            wanted = f"one of {list(GUIDES)}, or a function"
            raise TypeError(f"guide must be {wanted}, got {kind(guide)}")
        steps, batch_size = positive_int("steps", steps), positive_int("batch_size", batch_size)
        count, rate = positive_int("num_draws", num_draws), positive("learning_rate", learning_rate)
        seed = seed_of(seed)
        data = self.model.rows(x, r, y, required="xry")
        bar = tqdm(range(steps), disable=not flag("progress", progress), desc="weights")

        def batches() -> Iterator[Rows]:
            order = torch.Generator().manual_seed(seed)
            for _ in bar:
                chosen = torch.randint(len(data.x), (batch_size,), generator=order)
                yield data.take(chosen.to(data.x.device))

        with Randomness(seed, self.model.device).in_use():
            if guide == "sgld":
                draws = self._langevin(batches(), len(data.x), steps, rate, count)
            elif guide == "laplace":
                draws = self._laplace(batches(), data, rate, count)
            else:
                draws = self._variational(guide, batches(), len(data.x), rate, steps, count)
        return WeightPosterior([self.with_weights(values) for values in draws])

    def _variational(
        self, guide: Any, batches: Iterator[Rows], rows: int, rate: float, steps: int, count: int
    ) -> list[dict[str, Tensor]]:
        kinds: Any = {"normal": AutoNormal, "low_rank": AutoLowRankMultivariateNormal}
        start: Any = {"init_loc_fn": init_to_value(values=self.weights), "init_scale": 0.02}
        known = isinstance(guide, str)
        q = kinds[guide](self.program, **start) if known else guide(self.program)
        store = pyro.get_param_store()
        with store.scope():  # what others trained stays as it is
            decay = 0.1 ** (1.0 / steps)
            optimizer = ClippedAdam({"lr": rate, "lrd": decay})
            svi = SVI(self.program, q, optimizer, Trace_ELBO())
            for batch in batches:
                svi.step(batch.x, batch.r, batch.y, rows)
            with torch.no_grad():
                drawn = [q(batch.x, batch.r, batch.y, rows) for _ in range(count)]
            return [{n: v for n, v in sites.items() if n in self.weights} for sites in drawn]

    def _langevin(
        self, batches: Iterator[Rows], rows: int, steps: int, rate: float, count: int
    ) -> list[dict[str, Tensor]]:
        weights = self.start()
        squares = {n: torch.zeros_like(w) for n, w in weights.items()}
        wanted = torch.linspace(steps // 2, steps - 1, count).long().tolist()
        draws = []
        for step, batch in enumerate(batches):
            log_prior, log_p = self.log_posterior(weights, batch, rows)
            total = log_prior / rows + log_p.mean()
            gradients = torch.autograd.grad(total, list(weights.values()))
            size = rate * (1.0 + 10.0 * step / steps) ** -0.55
            with torch.no_grad():
                for (name, weight), g in zip(weights.items(), gradients, strict=True):
                    squares[name].mul_(0.99).addcmul_(g, g, value=0.01)
                    unbiased = squares[name] / (1.0 - 0.99 ** (step + 1))
                    scale = size / (unbiased.sqrt() + 1e-3)
                    noise = torch.randn_like(weight) * (2.0 * scale / rows).sqrt()
                    weight.add_(scale * g).add_(noise)
            draws += [{n: w.detach().clone() for n, w in weights.items()}] * wanted.count(step)
        return draws

    def _laplace(
        self, batches: Iterator[Rows], data: Rows, rate: float, count: int
    ) -> list[dict[str, Tensor]]:
        weights, rows = self.start(), len(data.x)
        adam = torch.optim.Adam(weights.values(), lr=rate)
        for batch in batches:
            log_prior, log_p = self.log_posterior(weights, batch, rows)
            adam.zero_grad()
            (-log_prior / rows - log_p.mean()).backward()
            adam.step()
        mode = torch.cat([w.detach().flatten() for w in weights.values()])
        flat = mode.double().requires_grad_()
        log_prior = sum(self.prior(n, w).log_prob(w).sum() for n, w in self.unflatten(flat).items())
        (slope,) = torch.autograd.grad(torch.as_tensor(log_prior), flat, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.sum(), flat)  # priors are independent
        precision = torch.diag(-curvature)
        for index in torch.arange(rows, device=mode.device).split(_AT_ONCE):
            _, log_p = self.log_posterior(weights, data.take(index), rows)
            eye = torch.eye(len(log_p)).to(log_p)
            each = torch.autograd.grad(log_p, list(weights.values()), eye, is_grads_batched=True)
            g = torch.cat([part.flatten(1) for part in each], 1).double()
            precision += g.T @ g
        factor = torch.linalg.cholesky(precision)
        noise = torch.randn(len(mode), count, dtype=torch.float64, device=mode.device)
        steps = torch.linalg.solve_triangular(factor.T, noise, upper=True).T
        return [self.unflatten(mode + step.to(mode)) for step in steps]


class WeightPosterior(NamedTuple):
    """Models whose weights are draws from their posterior.

    :param models: S of them, each with all that a model has; as `replicates` of
        `diagnostics.marginal_effects`, too.
    """

    models: list[Any]

    def predict(self, x: ArrayLike, r: ArrayLike) -> Tensor:
        """The mean prediction of every row, [B]; it never falls in r, as no draw does."""
        return mean_of_draws(self.predict_draws(x, r))

    def predict_draws(self, x: ArrayLike, r: ArrayLike) -> Tensor:
        """The prediction of every draw of the weights, [S, B]."""
        return torch.stack([model.predict(x, r) for model in self.models])

    def bands(self, x: ArrayLike, r: ArrayLike, level: float = 0.9) -> Tensor:
        """Central intervals of the prediction under the posterior of the weights, [B, 2]."""
        share("level", level, "a probability")
        draws, tail = self.predict_draws(x, r).double(), 0.5 * (1.0 - level)
        ends = torch.tensor([tail, 1.0 - tail], dtype=torch.float64, device=draws.device)
        return draws.quantile(ends, 0).T

    def log_likelihood(self, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> Tensor:
        """log p(y | x, r, weights) of every draw and row, [S, B]: for PSIS-LOO of `to_arviz`."""
        return torch.stack([model.log_prob(x, r, y) for model in self.models])

    def replicated(self, x: ArrayLike, r: ArrayLike, seed: int = 0) -> Tensor:
        """An outcome of every row from every draw of the weights, [S, B]: what checks compare."""
        models = enumerate(self.models)
        drawn = [m.predictive(x, r).sample(1, seed=seed + s)[0] for s, m in models]
        return torch.stack(drawn)

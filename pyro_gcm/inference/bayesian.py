"""Every weight of a model as a site with a prior, and models whose weights are posterior draws."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoLowRankMultivariateNormal, AutoNormal
from pyro.infer.autoguide.initialization import init_to_value
from pyro.optim import ClippedAdam
from torch import Tensor, nn
from torch.func import functional_call
from tqdm.auto import tqdm

from pyro_gcm._utils.torch_state import Randomness, evaluating, one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    one_of,
    positive,
    positive_int,
    seed_of,
    share,
    shown,
)
from pyro_gcm.prediction.draws import Rows, mean_of_draws
from pyro_gcm.prediction.predicted import Predicted

#: A name and a tensor of weights to their prior, of the shape of the tensor.
Prior = Callable[[str, Tensor], Any]
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


class Bayesian(nn.Module):
    """A model whose weights have priors, as `bayesian` returns it."""

    def __init__(self, model: Any, prior: Prior, parts: Sequence[str], num_samples: int) -> None:
        super().__init__()
        trained = model.trained_parameters(model.objective)
        chosen = {n: p for n, p in trained.items() if not parts or n.startswith(tuple(parts))}
        for part in parts:
            if not any(name.startswith(part) for name in trained):
                raise ValueError(f"parts must begin names of weights, got {part!r}")
        #: The weights by name, as the model has them.
        self.weights: dict[str, Tensor] = {n: p.detach().clone() for n, p in chosen.items()}
        self.model: Any = model
        self.prior, self.num_samples = prior, positive_int("num_samples", num_samples)
        for name, weight in self.weights.items():
            shape = getattr(prior(name, weight), "batch_shape", None)
            if shape != weight.shape:
                raise ValueError(
                    f"prior must give independent distributions of shape {tuple(weight.shape)} for "
                    f"{name!r}, got {shown(shape)}"
                )

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

    def forward(self, x: ArrayLike, r: ArrayLike, y: ArrayLike) -> Tensor:
        """log p(y | x, r) of rows, [B], with the weights of the model."""
        rows, noise = self.model.rows(x, r, y, required="xry"), self.model.noise(self.num_samples)
        with evaluating(self.model):
            reader = Predicted(self.model, self.model.prediction_plan, noise)
            draws = reader.read(rows.x, rows.r).of_selected(self.model.response, rows)
        return draws.log_mean(draws.log_likelihood(rows).expand(draws.num_draws, -1))

    def log_likelihood(
        self, weights: Mapping[str, Tensor], x: ArrayLike, r: ArrayLike, y: ArrayLike
    ) -> Tensor:
        """log p(y | x, r, weights) of rows, [B], differentiable in the weights."""
        named = {f"model.{name}": value for name, value in weights.items()}
        found: Tensor = functional_call(self, named, (x, r, y))
        return found

    def with_weights(self, weights: Mapping[str, Tensor]) -> Any:
        """A copy of the model with these weights: a draw of a guide, of NUTS, or of `program`."""
        made: Any = copy.deepcopy(self.model)
        with torch.no_grad():
            for name, value in weights.items():
                made.get_parameter(name).copy_(value)
        made.is_trained = True
        return made

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
          draws lie so far away that the networks are no longer linear in them. Its intervals held
          a few weights as often as they say; those of the variational guides did not.
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
        steps, batch_size = positive_int("steps", steps), positive_int("batch_size", batch_size)
        count, rate = positive_int("num_draws", num_draws), positive("learning_rate", learning_rate)
        seed = seed_of(seed)
        data = self.model.rows(x, r, y, required="xry")
        bar = tqdm(range(steps), disable=not progress, desc="weights")

        def batches() -> Iterator[Rows]:
            order = torch.Generator().manual_seed(seed)
            for _ in bar:
                chosen = torch.randint(len(data.x), (batch_size,), generator=order)
                yield data.take(chosen.to(data.x.device))

        with Randomness(seed, self.model.device).in_use():
            if guide in ("sgld", "laplace"):
                draw = self._langevin if guide == "sgld" else self._laplace
                draws = draw(batches(), data, steps, rate, count)
                return WeightPosterior([self.with_weights(values) for values in draws])
            if isinstance(guide, str):
                made: Any = AutoNormal if guide == "normal" else AutoLowRankMultivariateNormal
                start = init_to_value(values=self.weights)
                q = made(self.program, init_loc_fn=start, init_scale=0.02)
            else:
                q = guide(self.program)
            with pyro.get_param_store().scope():  # what others trained stays as it is
                optimizer = ClippedAdam({"lr": rate, "lrd": 0.1 ** (1.0 / steps)})
                svi = SVI(self.program, q, optimizer, Trace_ELBO())
                for batch in batches():
                    svi.step(batch.x, batch.r, batch.y, len(data.x))
                with torch.no_grad():
                    drawn = [q(*batch[:3], len(data.x)) for _ in range(count)]
        return WeightPosterior(
            [self.with_weights({n: sites[n] for n in self.weights}) for sites in drawn]
        )

    def _log_density(self, weights: Mapping[str, Tensor], batch: Rows, rows: int) -> Tensor:
        """The mean over rows of the log-posterior of the weights, estimated from a batch."""
        log_prior = sum(self.prior(n, w).log_prob(w).sum() for n, w in weights.items())
        assert batch.y is not None
        return log_prior / rows + self.log_likelihood(weights, batch.x, batch.r, batch.y).mean()

    def _langevin(
        self, batches: Iterator[Rows], data: Rows, steps: int, rate: float, count: int
    ) -> list[dict[str, Tensor]]:
        weights = {n: w.clone().requires_grad_() for n, w in self.weights.items()}
        squares = {n: torch.zeros_like(w) for n, w in weights.items()}
        wanted = torch.linspace(steps // 2, steps - 1, count).long().tolist()
        draws, rows = [], len(data.x)
        for step, batch in enumerate(batches):
            total = self._log_density(weights, batch, rows)
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
        self, batches: Iterator[Rows], data: Rows, steps: int, rate: float, count: int
    ) -> list[dict[str, Tensor]]:
        weights = {n: w.clone().requires_grad_() for n, w in self.weights.items()}
        adam = torch.optim.Adam(weights.values(), lr=rate)
        for batch in batches:
            adam.zero_grad()
            (-self._log_density(weights, batch, len(data.x))).backward()
            adam.step()
        mode = {n: w.detach() for n, w in weights.items()}
        curvature = []
        for name, weight in mode.items():
            w = weight.double().requires_grad_()
            log_p = self.prior(name, w).log_prob(w).sum()
            (slope,) = torch.autograd.grad(log_p, w, create_graph=True)
            curvature += [torch.autograd.grad(slope.sum(), w)[0].flatten()]  # priors: independent
        precision = torch.diag(-torch.cat(curvature))
        for _, part in data.split(_AT_ONCE):
            assert part.y is not None
            log_p = self.log_likelihood(weights, part.x, part.r, part.y)
            eye = torch.eye(len(log_p)).to(log_p)
            each = torch.autograd.grad(log_p, list(weights.values()), eye, is_grads_batched=True)
            g = torch.cat([row.flatten(1) for row in each], 1).double()
            precision += g.T @ g
        factor = torch.linalg.cholesky(precision)
        noise = torch.randn(len(factor), count, dtype=torch.float64, device=factor.device)
        moved = torch.linalg.solve_triangular(factor.T, noise, upper=True).T
        sizes = [weight.numel() for weight in mode.values()]
        return [
            {
                name: weight + part.reshape(weight.shape).to(weight)
                for (name, weight), part in zip(mode.items(), step.split(sizes), strict=True)
            }
            for step in moved
        ]


class WeightPosterior(NamedTuple):
    """Models whose weights are draws from their posterior.

    :param models: S of them, each with all that a model has, such as `log_prob`; as `replicates` of
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

"""Every weight of a model as a site with a prior, and models whose weights are posterior draws."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
from pyro_gcm._utils.validation import ArrayLike, one_of, positive_int, seed_of, share
from pyro_gcm.prediction.draws import mean_of_draws
from pyro_gcm.prediction.predicted import Predicted

#: A name and a tensor of weights to their prior, of the shape of the tensor.
Prior = Callable[[str, Tensor], Any]
GUIDES: dict[str, Any] = {"normal": AutoNormal, "low_rank": AutoLowRankMultivariateNormal}


def scaled_normal(name: str, weight: Tensor) -> Any:
    """N(0, 4 / columns) for a matrix of weights, and N(0, 1) for a vector, such as biases."""
    scale = 2.0 / math.sqrt(weight.shape[-1]) if weight.dim() > 1 else 1.0
    return dist.Normal(torch.zeros_like(weight), scale)


class Bayesian(nn.Module):
    """The weights of a model as sites that all rows share, with a prior, in place of parameters.

    The likelihood of a row is p(y | x, r) of the model with z averaged out, over the draws that its
    predictions use. `program` has no other sites than the weights, so that any autoguide,
    NUTS or HMC runs on it; `fit` draws from a variational posterior.

    :param model: a `GCM`, `IGCM` or `MemberGCM`, best after `fit`: its weights are where training
        begins. It has to know its units (`fit`, or `learn_units`), and is not changed.
    :param prior: function (name, weights) -> distribution of the shape of the weights.
    :param parts: beginnings of the names of the weights that are uncertain, such as "cost_net"; by
        default all that are trained for its objective.
    :param num_samples: draws of z behind a likelihood.
    :raises ValueError: for parts of no name, and a model without units.

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

    def __init__(
        self,
        model: Any,
        *,
        prior: Prior = scaled_normal,
        parts: Sequence[str] = (),
        num_samples: int = 32,
    ) -> None:
        if not model.is_trained:
            raise ValueError("model must know its units: call fit or model.learn_units first")
        super().__init__()
        trained = model.trained_parameters(model.objective)
        parts = (parts,) if isinstance(parts, str) else tuple(parts or ("",))
        if wrong := [part for part in parts if not any(n.startswith(part) for n in trained)]:
            raise ValueError(f"parts must begin names of weights, got {wrong[0]!r}")
        chosen = {n: p.detach().clone() for n, p in trained.items() if n.startswith(parts)}
        #: The weights by name, as the model has them.
        self.weights: dict[str, Tensor] = chosen
        self.model: Any = model
        self.prior, self.num_samples = prior, positive_int("num_samples", num_samples)

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
        """Draws of the weights given the rows, by variational inference.

        Its intervals are too narrow where weights depend on each other. NUTS on `program` has no
        such error, and can be run for a few weights.

        :param x, r, y: as in `pyro_gcm.fit`.
        :param guide: "normal" (`AutoNormal`), "low_rank" (`AutoLowRankMultivariateNormal`), or a
            function of the program that returns a Pyro guide.
        :param steps: of training.
        :param learning_rate: of Adam at the start, a tenth of that at the end.
        :param num_draws: of the weights.
        :raises ValueError: for a wrong option.
        """
        steps, count = positive_int("steps", steps), positive_int("num_draws", num_draws)
        make: Any = guide
        if isinstance(guide, str):
            one_of("guide", guide, list(GUIDES))
            start = init_to_value(values=self.weights)
            make = partial(GUIDES[guide], init_loc_fn=start, init_scale=0.02)
        data, seed = self.model.rows(x, r, y, required="xry"), seed_of(seed)
        order = torch.Generator().manual_seed(seed)
        # What others have in Pyro's store stays as it is.
        with Randomness(seed, self.model.device).in_use(), pyro.get_param_store().scope():
            made = make(self.program)
            optimizer = ClippedAdam({"lr": learning_rate, "lrd": 0.1 ** (1.0 / steps)})
            svi = SVI(self.program, made, optimizer, Trace_ELBO())
            for _ in tqdm(range(steps), disable=not progress, desc="weights"):
                chosen = torch.randint(len(data.x), (batch_size,), generator=order)
                batch = data.take(chosen.to(data.x.device))[:3]
                svi.step(*batch, len(data.x))
            with torch.no_grad():
                draws = [made(*batch, len(data.x)) for _ in range(count)]
        return WeightPosterior(
            [self.with_weights({n: sites[n] for n in self.weights}) for sites in draws]
        )


bayesian = Bayesian


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

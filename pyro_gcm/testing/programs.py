"""What Pyro says of a model's program: the losses of its bounds, and draws weighed by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import pyro
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_gcm.inference import conditional
from pyro_gcm.inference.reading import of
from pyro_gcm.inference.scored import Scored

Rows = tuple[Tensor, Tensor, Tensor]


@contextmanager
def in_doubles() -> Iterator[None]:
    """New tensors are in float64, as those of a story that names no type; Pyro's store is left."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with pyro.get_param_store().scope():
            yield
    finally:
        torch.set_default_dtype(before)


class _Drawn(Messenger):
    """Gives the sites of a guide values, as if it had drawn them."""

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.values = values

    def _pyro_sample(self, msg: Any) -> None:
        if msg["value"] is None:
            msg["value"] = self.values.get(msg["name"])


def losses(model: Any, pair: Any, elbo: str, rows: Rows) -> tuple[Tensor, Tensor]:
    """The loss of `fit` for a training pair and a bound, and Pyro's own for the same draws."""
    bound = pair.bound(elbo, 1 if model.shared_sites() else 4)
    read = Scored(model, pair.plan, bound).read(*rows)
    values = {name: read.values[name] for name in pair.sampled if name in read.values}
    guide = _Drawn({**values, **read.known_shared})(pair.guide)
    by_pyro: Tensor = bound.differentiable_loss(pair.program, guide, *rows)
    return read.row_losses(len(rows[0])).sum(), by_pyro


class ProgramDraws(NamedTuple):
    """Draws of the sites of a program, [N, B, ...], what a prediction is the mean of, and weights.

    The weights, [N, B], sum to 1 over the draws, without and with the density of the observed y.
    """

    sites: dict[str, Tensor]
    predicted: Tensor
    weights: Tensor
    given_y: Tensor


def weighed(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean of values [N, B, ...], their deviation, and the effective size of the sample.

    The deviation is infinite where a sample is too small to tell.
    """
    wide = weights.reshape(*weights.shape, *(1,) * (values.dim() - 2))
    mean, size = (wide * values).sum(0).nan_to_num(), (1.0 / wide.square().sum(0)).nan_to_num()
    deviation = (wide * (values - mean).square()).sum(0).sqrt()
    return mean, deviation.masked_fill(~(size > 100.0), torch.inf), size


@torch.no_grad()
def program_draws(model: Any, rows: Rows, count: int) -> Iterator[ProgramDraws]:
    """Brute force: draws of the program of a model from its priors, where x and r are inputs.

    First those with costs integrated out; where y has finitely many values then those of the
    explicit program, in which a draw counts for the posterior if its outcome is the one observed
    (not of an `IGCM`, whose kernel depends on r). Sites that all rows share are drawn from their
    guide, over which predictions average.
    """
    x, r, y = rows
    shared: dict[str, Tensor] = {}
    if model.shared_sites():
        model.guide_shared(lambda n, q: shared.setdefault(n, of(q).expand((count, 1)).sample()))
    for explicit in (False, True):
        program = model.model if explicit else conditional(model.model)
        with pyro.plate("draws", count, dim=-2), torch.no_grad():
            conditioned = poutine.condition(program, data=shared)
            trace = poutine.trace(conditioned).get_trace(x, r, None if explicit else y)
        trace.compute_log_prob()
        nodes, inputs = cast(Any, trace.nodes), ("x", "r", "y", *shared)
        log_w = torch.zeros(count, len(x), dtype=torch.float64)
        for name in trace.observation_nodes:
            log_p = nodes[name].get("log_prob")
            if name not in inputs and log_p is not None and log_p.dim():
                log_w = log_w + log_p
        p_y, log_y = nodes["y"]["fn"], nodes["y"]["log_prob"]
        log_y = (nodes["y"]["value"] == y).double().log() if explicit else log_y
        each = {n: nodes[n]["value"].double() for n in trace.stochastic_nodes if n not in inputs}
        each = {n: v.expand(count, len(x), *v.shape[2:]) for n, v in each.items()}
        weights = log_w.softmax(0), (log_w + log_y).softmax(0)
        predicted = model.response.predict(p_y).double().expand(log_w.shape)
        yield ProgramDraws(each, predicted, *weights)
        if not p_y.has_enumerate_support or model.plan("conditional").exact:
            return

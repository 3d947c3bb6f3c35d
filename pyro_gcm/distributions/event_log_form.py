"""The probability of an order event by logarithms, for all sizes and all families of costs."""

from __future__ import annotations

from torch import Tensor

from pyro_gcm.distributions.infinite_cost import prepend_atom
from pyro_gcm.distributions.numerics import log_any


def event_log_probs(
    log_hit: Tensor, log_miss: Tensor, logits: Tensor | None, alternatives: bool
) -> tuple[Tensor, Tensor]:
    """log Pr(y = 0) and log Pr(y = 1), by the "first miss" identity.

    If not c < r, some coordinate is the first with c_i >= r_i, so that

        log Pr(c < r)     = sum_i log F_i
        log Pr(not c < r) = logsumexp_i [sum_{j<i} log F_j + log(1 - F_i)]

    with F_i = Pr(c_i < r_i); and over alternatives the same once more with the "first hit".

    :param log_hit: log F_i of every coordinate, float64, [..., (G,) K].
    :param log_miss: log(1 - F_i).
    :param logits: log-odds of an infinite cost, [..., (G)], or None.
    :param alternatives: whether there is a dimension G.
    """
    if logits is not None:
        log_hit, log_miss = prepend_atom(logits, log_hit, log_miss)
    log_one = log_hit.sum(-1)
    log_zero = log_any(log_miss, log_hit)  # the first miss
    if alternatives:
        log_one = log_any(log_one, log_zero)  # the first alternative that hits
        log_zero = log_zero.sum(-1)
    return log_zero, log_one

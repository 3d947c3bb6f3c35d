"""Order events in mpmath at 60 digits, as products and complements of exact inputs.

The first-miss identity of the package is not used: Pr(c < r) is a product, and every complement
is taken where the logarithm has all digits (log1p below one half, expm1 above): nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import mpmath
from mpmath import mp, mpf

DIGITS = 60


class Tails(NamedTuple):
    """log Pr(c < u), log Pr(c >= u) and the log-density at u, for loc 0 and scale 1."""

    log_p: mpf
    log_q: mpf
    log_density: mpf


def complement(log_p: mpf) -> mpf:
    """log(1 - p)."""
    if log_p == 0:
        return mpf("-inf")
    return mp.log1p(-mp.exp(log_p)) if log_p < -mp.ln2 else mp.log(-mp.expm1(log_p))


def _normal(u: mpf) -> tuple[mpf, mpf]:
    return mp.log(mp.erfc(abs(u) / mp.sqrt(2)) / 2), -u * u / 2 - mp.log(2 * mp.pi) / 2


def _logistic(u: mpf) -> tuple[mpf, mpf]:
    log_tail = -abs(u) - mp.log1p(mp.exp(-abs(u)))
    return log_tail, log_tail + complement(log_tail)


def _laplace(u: mpf) -> tuple[mpf, mpf]:
    return -abs(u) - mp.ln2, -abs(u) - mp.ln2


SYMMETRIC: dict[str, Callable[[mpf], tuple[mpf, mpf]]] = {
    "Normal": _normal,
    "Logistic": _logistic,
    "Laplace": _laplace,
}


@cache
def tails(family: str, u: mpf) -> Tails:
    with mp.workdps(DIGITS):
        if mpmath.isinf(u):
            ends = (mpf(0), mpf("-inf"))
            return Tails(*(ends if u > 0 else ends[::-1]), mpf("-inf"))
        if family == "Gumbel":
            log_p = -mp.exp(-u)
            return Tails(log_p, complement(log_p), -u + log_p)
        smaller, log_density = SYMMETRIC[family](u)
        larger = complement(smaller)
        return Tails(*((smaller, larger) if u < 0 else (larger, smaller)), log_density)


def standardized(value: float, loc: float, scale: float) -> mpf:
    with mp.workdps(DIGITS):
        return (mpf(value) - mpf(loc)) / mpf(scale)


def _log_hit(family: str, row: Sequence[mpf], logit: float) -> mpf:
    """log of (1 - p0) prod_k F_k, with the log-odds of p0."""
    return mp.fsum(tails(family, v).log_p for v in row) - mp.log1p(mp.exp(mpf(logit)))


def event_log_probs(
    family: str, u: Sequence[Sequence[mpf]], logits: Sequence[float] | None = None
) -> tuple[mpf, mpf]:
    """log Pr(y = 0) and log Pr(y = 1) for standardised revenues [G][K] and log-odds of p0 [G]."""
    with mp.workdps(DIGITS):
        rows = zip(u, logits or [-mpmath.inf] * len(u), strict=True)
        log_zero = mp.fsum(complement(_log_hit(family, *row)) for row in rows)
        return log_zero, complement(log_zero)


def event_gradients(
    family: str, u: Sequence[Sequence[mpf]], logits: Sequence[float] | None, outcome: int
) -> tuple[list[list[mpf]], list[mpf]]:
    """Derivatives of log Pr(y = outcome) in every standardised revenue and in every log-odds."""
    with mp.workdps(DIGITS):
        log_zero, log_one = event_log_probs(family, u, logits)
        sign = mp.exp(log_zero - log_one) if outcome else mpf(-1)
        by_u, by_logit = [], []
        for row, logit in zip(u, logits or [-mpmath.inf] * len(u), strict=True):
            log_hit = _log_hit(family, row, logit)
            odds = log_hit - complement(log_hit)
            terms = [tails(family, v) for v in row]
            by_u.append([sign * mp.exp(odds + t.log_density - t.log_p) for t in terms])
            by_logit.append(-sign * mp.exp(odds) / (1 + mp.exp(-mpf(logit))))
        return by_u, by_logit


def normal_quantile(log_p: float, start: float) -> mpf:
    """Phi^-1(exp(log_p)) by Newton steps on log Phi, for which the normal is concave."""
    with mp.workdps(DIGITS):
        x = mpf(start)
        for _ in range(100):
            at = tails("Normal", x)
            step = (at.log_p - mpf(log_p)) * mp.exp(at.log_p - at.log_density)
            x -= step
            if abs(step) <= abs(x) * mpf(10) ** -40:
                return x
    raise ArithmeticError(f"no quantile for log_p={log_p} from {start}")


def worst_error(got: Iterable[float], want: Iterable[mpf], floor: float) -> float:
    """Largest error relative to the reference, and absolute to `floor` where it is smaller."""
    with mp.workdps(DIGITS):
        errors = [
            abs(mpf(a) - b) / max(abs(b), mpf(floor)) if a != b else mpf(0)
            for a, b in zip(got, want, strict=True)
        ]
        assert all(mpmath.isfinite(error) for error in errors)
        return float(max(errors))

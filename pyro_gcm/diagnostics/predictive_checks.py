"""Predictions and draws against outcomes: reliability, replicated data, Kaplan-Meier, coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.stats import kstest, norm
from torch import Tensor

from pyro_gcm._utils.torch_state import one_thread
from pyro_gcm._utils.validation import (
    ArrayLike,
    as_tensor,
    one_of,
    positive_int,
    same_rows,
    seed_of,
    share,
    vector,
    without_tensor,
)
from pyro_gcm.data.survival_times import SurvivalTimes

Statistic = Callable[[Tensor], Tensor]

#: Statistics by name; each takes values [..., n] to [...].
STATISTICS: dict[str, Statistic] = {
    "mean": lambda values: values.mean(-1),
    "std": lambda values: values.std(-1, correction=0),
    "min": lambda values: values.amin(-1),
    "median": lambda values: values.quantile(0.5, -1),
    "max": lambda values: values.amax(-1),
}


@one_thread()
def reliability_curve(probability: ArrayLike, y: ArrayLike, bins: int = 10) -> pd.DataFrame:
    """Observed frequency of y = 1 against its predicted probability, in bins of the probability.

    If probabilities are calibrated, observed - predicted is noise of the size of standard_error.

    :param probability: predicted Pr(y = 1), [n]; `y`: outcomes 0 or 1, [n].
    :param bins: number of bins with about as many rows each; equal probabilities stay together, and
        empty bins are left out.
    :returns: one row per bin with the columns predicted (mean probability), observed (share of
        y = 1), count, and standard_error of observed if the probabilities are calibrated.
    :raises ValueError: for probabilities outside [0, 1], y other than 0 and 1, or wrong options.

    >>> reliability_curve([0.2] * 5 + [0.9] * 2, [0, 0, 1, 0, 0, 1, 1], bins=2).round(3)
       predicted  observed  count  standard_error
    0        0.2       0.2      5           0.179
    1        0.9       1.0      2           0.212
    """
    p, outcome = vector("probability", probability).double(), vector("y", y).double()
    same_rows(probability=p, y=outcome)
    if ((p < 0.0) | (p > 1.0)).any():
        raise ValueError(f"probability must lie in [0, 1], got {p.min():g} to {p.max():g}")
    if ((outcome != 0.0) & (outcome != 1.0)).any():
        raise ValueError(f"y must be 0 or 1, got {outcome.unique().tolist()[:5]}")
    levels = np.linspace(0.0, 1.0, positive_int("bins", bins) + 1)[1:-1]
    # Not torch.quantile, which takes at most 16 million values.
    edges = torch.from_numpy(np.quantile(p.cpu().numpy(), levels))
    table = pd.DataFrame({"predicted": p.cpu(), "observed": outcome.cpu()})
    table["variance"] = table["predicted"] * (1.0 - table["predicted"])
    grouped = table.groupby(torch.searchsorted(edges, p.cpu()).numpy())
    curve: pd.DataFrame = grouped[["predicted", "observed"]].mean()
    curve["count"] = grouped.size()
    curve["standard_error"] = grouped["variance"].sum() ** 0.5 / curve["count"]
    return curve.reset_index(drop=True)


@one_thread()
def predictive_check(
    replicated: ArrayLike,
    y: ArrayLike,
    statistic: str | Statistic = "mean",
    groups: Any = None,
    *,
    quantiles: Sequence[float] = (0.025, 0.5, 0.975),
) -> pd.DataFrame:
    """Posterior predictive check (Gelman, Meng and Stern 1996) of a statistic of the data.

    The observed statistic is compared with those of replicated data: outcomes drawn from the
    predictive distribution for the same x and r. Groups of rows, such as the deciles of a
    covariate, show misfit that an average over all rows hides.

    :param replicated: replicated outcomes, [S, n]; `y`: outcomes, [n].
    :param statistic: "mean", "std" (with divisor n), "min", "median", "max", or a function of
        values [..., n] that reduces the last dimension.
    :param groups: labels of groups of rows, [n], or None for all rows.
    :param quantiles: probabilities of the quantiles of the replicated statistic to return.
    :returns: one row per group, in the order of the labels, with the columns count, observed, one
        for each quantile ("2.5%", "50%", ...), and tail_probability, twice the smaller share of
        replications with a statistic at most, or at least, the observed one, but at most 1. It is
        conservative for the data on which the model was trained.
    :raises ValueError: for wrong shapes, replications that are not finite, an unknown statistic, or
        missing labels.

    >>> y = torch.tensor([0.0, 0.0, 5.0, 7.0])
    >>> replicated = y.mean() + torch.linspace(-1.0, 1.0, 5)[:, None] * torch.ones(4)
    >>> table = predictive_check(replicated, y, groups=["a", "a", "b", "b"], quantiles=[0.5])
    >>> table.loc["b", ["observed", "50%", "tail_probability"]].tolist()
    [6.0, 3.0, 0.0]
    """
    outcome = vector("y", y).double()
    drawn = as_tensor("replicated", replicated).to(outcome.device).double()
    if not drawn.isfinite().all():
        raise ValueError("replicated must be finite")
    if not callable(statistic):
        one_of("statistic", statistic, list(STATISTICS))
        statistic = STATISTICS[statistic]
    labels_of_rows = pd.Series(["all"] * len(outcome) if groups is None else without_tensor(groups))
    if labels_of_rows.isna().any():
        raise ValueError("groups must have a label for each row")
    codes, labels = pd.factorize(labels_of_rows, sort=True)
    table = []
    for code in range(len(labels)):
        member = torch.as_tensor(codes == code, device=outcome.device)
        observed = statistic(outcome[member].unsqueeze(0))[0].double()
        values = statistic(drawn[:, member]).double()
        shares = (values <= observed).double().mean(), (values >= observed).double().mean()
        row: dict[str, float] = {"count": int(member.sum()), "observed": float(observed)}
        for level, value in zip(quantiles, np.quantile(values.cpu(), quantiles), strict=True):
            row[f"{100 * float(level):g}%"] = float(value)
        row["tail_probability"] = min(1.0, 2.0 * float(min(shares)))
        table.append(row)
    return pd.DataFrame(table, index=pd.Index(labels, name="group"))


def kaplan_meier(y: SurvivalTimes, level: float = 0.95) -> pd.DataFrame:
    """The product-limit estimate of Pr(T > t), with a band for each time by itself.

    Rows that entered late are at risk from their entry on. The band is that of log(-log S) with
    Greenwood's variance (Kalbfleisch and Prentice 2002, section 1.4).

    :param y: exact and right-censored times.
    :param level: of the band, in (0, 1).
    :returns: a row for each time of an event, in rising order: "time", "survival" from that time
        on, "lower" and "upper" (NaN where the estimate is 0), "at_risk", the rows that were
        observed just before, and "events".
    :raises ValueError: for left- or interval-censored times, and if no event was seen.

    >>> from pyro_gcm.data.survival_times import SurvivalTimes
    >>> y = SurvivalTimes.right_censored([2.0, 3.0, 3.0, 5.0], [True, True, False, True])
    >>> kaplan_meier(y)[["time", "survival", "at_risk"]].values.tolist()
    [[2.0, 0.75, 4.0], [3.0, 0.5, 3.0], [5.0, 0.0, 1.0]]
    """
    share("level", level, "a probability")
    event = y.is_exact.numpy()
    if not (event | y.upper.isinf().numpy()).all():
        raise ValueError(f"y must have exact and right-censored times, got {y!r}")
    if not event.any():
        raise ValueError("y must have at least one exact time, got censored ones alone")
    last, entry = y.lower.numpy(), y.entry.numpy()
    time, events = np.unique(last[event], return_counts=True)
    at_risk = np.searchsorted(np.sort(entry), time) - np.searchsorted(np.sort(last), time)
    with np.errstate(divide="ignore", invalid="ignore"):
        survival = np.cumprod(1.0 - events / at_risk)
        variance = np.cumsum(events / (at_risk * (at_risk - events)))
        width = norm.ppf(0.5 + 0.5 * level) * np.sqrt(variance) / -np.log(survival)
        lower, upper = survival ** np.exp(width), survival ** np.exp(-width)
    ends = {"lower": lower, "upper": upper}
    ends = {name: np.where(survival > 0.0, end, np.nan) for name, end in ends.items()}
    columns = {"time": time, "survival": survival, **ends, "at_risk": at_risk, "events": events}
    return pd.DataFrame(columns)


#: Simulations that a test needs, at least.
_FEWEST = 20


@dataclass(frozen=True)
class JointCoverage:
    """Whether balls around random points hold the true values as often as posterior draws say.

    :param shares: for each simulation the share of its draws that are closer to a random point than
        the true value is, [n]; uniform in (0, 1) for draws from the posterior.
    """

    shares: npt.NDArray[np.float64]

    @property
    def p_value(self) -> float:
        """That of a Kolmogorov-Smirnov test of uniform shares."""
        return float(kstest(self.shares, "uniform").pvalue)


def joint_coverage(truth: ArrayLike, draws: ArrayLike, *, seed: int = 0) -> JointCoverage:
    """Test posterior draws of simulated data in joint space (Lemos et al. 2023, TARP).

    `simulation_based_calibration` ranks one number at a time, and may miss coordinates that are
    each right and go together wrongly. Here the ball around a random point whose surface goes
    through the true value is compared with the draws: how many of them lie inside is uniform over
    simulations if, and over all such points only if, the draws are those of the posterior.

    :param truth: what the data of each simulation were drawn from, [n, d], such as z and c side by
        side; each column is standardised.
    :param draws: those of the posterior given these data, [S, n, d], drawn with another seed.
    :param seed: of the random points, which are normal and as wide as the truth, and of the order
        of equal distances.
    :raises ValueError: for other shapes, values that are not finite, and fewer than 20 simulations.

    >>> import torch
    >>> from pyro_gcm.diagnostics import joint_coverage
    >>> truth, draws = torch.randn(500, 2), torch.randn(99, 500, 2)
    >>> round(float(joint_coverage(truth, draws / 3).shares.mean()), 1)  # too narrow
    0.7
    """
    true, drawn = (as_tensor(name, v).double() for name, v in (("truth", truth), ("draws", draws)))
    if true.dim() != 2 or drawn.dim() != 3 or drawn.shape[1:] != true.shape:
        raise ValueError(
            "truth and draws must have shapes [n, d] and [S, n, d], got "
            f"{tuple(true.shape)} and {tuple(drawn.shape)}"
        )
    if len(true) < _FEWEST:
        raise ValueError(f"truth must have at least {_FEWEST} simulations, got {len(true)}")
    if not (true.isfinite().all() and drawn.isfinite().all()):
        raise ValueError("truth and draws must be finite")
    # Not torch's generator: with the seed of a simulation the points would be its draws.
    generator = np.random.default_rng(seed_of(seed))
    spread, mean = true.std(0), true.mean(0)
    spread = torch.where(spread > 0.0, spread, 1.0)
    points = torch.from_numpy(generator.standard_normal(true.shape))

    def distance(values: Tensor) -> Tensor:
        return ((values.cpu() - mean.cpu()) / spread.cpu() - points).norm(dim=-1)

    of_truth, of_draws = distance(true), distance(drawn)
    closer, as_far = (of_draws < of_truth).sum(0), (of_draws == of_truth).sum(0)
    # The place of the truth among all distances, anywhere in its cell and among equal ones.
    place = closer.numpy() + generator.random(len(true)) * (as_far.numpy() + 1)
    return JointCoverage(place / (len(drawn) + 1))

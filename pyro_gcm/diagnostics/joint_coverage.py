"""Coverage of posterior draws in all coordinates at once, at random points (TARP)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.stats import kstest
from torch import Tensor

from pyro_gcm._utils.validation import ArrayLike, as_tensor, seed_of

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

    @property
    def frame(self) -> pd.DataFrame:
        """The share of the simulations whose ball of a credibility holds the truth, by `level`.

        `coverage` is below `level` at high levels where draws are too narrow, and above it where
        they are too wide; `standard_error` is that of a right posterior.
        """
        level = np.linspace(0.05, 0.95, 19)
        coverage = (self.shares[:, None] < level).mean(0)
        error = np.sqrt(level * (1.0 - level) / len(self.shares))
        return pd.DataFrame({"level": level, "coverage": coverage, "standard_error": error})


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

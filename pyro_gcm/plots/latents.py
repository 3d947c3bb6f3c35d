"""The posterior of the latent variable, coloured by the outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pyro_gcm._utils.validation import ArrayLike
from pyro_gcm.plots.axes import (
    PALETTE,
    Array,
    as_it_is,
    axes_or_new,
    index_of,
    legend_above,
    legend_name,
    numbers,
)

#: Maximum number of draws of all rows together; more would be slow and unreadable.
_MAX_DRAWS = 20_000
#: Perceptually uniform and colour-blind safe.
_COLORMAP = "cividis"


def plot_latent(
    z: ArrayLike,
    y: ArrayLike,
    *,
    dims: tuple[int, int] = (0, 1),
    num_draws: int = 20,
    latent_name: str = "z",
    outcome_name: str = "y",
    ax: Axes | None = None,
) -> Axes:
    """Posterior means of two dimensions of z, one point per row, coloured by the outcome.

    Draws of z are shown faintly behind the means; a wide spread of draws means that z is uncertain.
    An outcome of zeros and ones has two colours and a legend, another outcome a colour bar.

    :param z: draws [S, B, D], such as those of `cost_posterior`, or means [B, D].
    :param y: outcomes, [B].
    :param dims: the two dimensions of z.
    :param num_draws: maximum number of draws that are shown for each row.
    :param latent_name: name of z, which has no unit.
    :param outcome_name: name of y, with its unit.
    :param ax: axes to draw on and to return; by default new ones.
    :raises ValueError: for shapes that do not match, or dimensions out of range.

    >>> from matplotlib.figure import Figure
    >>> import torch
    >>> z, y = torch.zeros(100, 3, 4), torch.tensor([0, 1, 1])
    >>> plot_latent(z, y, dims=(0, 2), ax=Figure().subplots()).get_ylabel()
    'posterior mean of z[2] (no unit)'
    """
    draws, outcome = numbers("z", z), numbers("y", y)
    if draws.ndim not in (2, 3) or outcome.shape != draws.shape[-2:-1]:
        raise ValueError(
            "z must have shape [S, B, D] or [B, D], and y [B], one outcome per row of z, got "
            f"{draws.shape} and {outcome.shape}"
        )
    first, second = (index_of("dims", dim, draws.shape[-1]) for dim in dims)
    draws = draws[..., [first, second]]
    means, shown = draws, 0
    if draws.ndim == 3:
        means, shown = draws.mean(0), min(num_draws, _MAX_DRAWS // len(outcome), len(draws))
    chosen = draws[np.linspace(0, len(draws) - 1, shown).astype(int)]  # [shown, B, 2]
    ax = axes_or_new(ax)
    if np.isin(outcome, (0.0, 1.0)).all():
        for value, marker in ((0, "o"), (1, "^")):
            rows, label = outcome == value, legend_name(f"{outcome_name} = {value}")
            if rows.any():
                _draws(ax, chosen[:, rows] if shown else chosen, color=PALETTE[value])
                _means(ax, means[rows], color=PALETTE[value], marker=marker, label=label)
        legend_above(ax)
    else:
        scale = {"cmap": _COLORMAP, "vmin": outcome.min(), "vmax": outcome.max()}
        _draws(ax, chosen, c=np.tile(outcome, shown), **scale)
        points = _means(ax, means, c=outcome, **scale)
        as_it_is(ax.figure.colorbar(points, ax=ax, label=outcome_name).ax)
    ax.set_xlabel(f"posterior mean of {latent_name}[{first}] (no unit)")
    ax.set_ylabel(f"posterior mean of {latent_name}[{second}] (no unit)")
    return as_it_is(ax)


def _means(ax: Axes, means: Array, **style: Any) -> Any:
    """One point per row, in front of the draws."""
    front: Any = {"s": 22, "edgecolors": "white", "linewidths": 0.4, "zorder": 3}
    return ax.scatter(means[:, 0], means[:, 1], **front, **style)


def _draws(ax: Axes, draws: Array, **style: Any) -> None:
    """Small and faint points, rasterised to keep vector graphics small."""
    if draws.size:
        faint: Any = {"s": 4, "alpha": 0.15, "linewidths": 0, "rasterized": True}
        ax.scatter(draws[..., 0].ravel(), draws[..., 1].ravel(), **faint, **style)

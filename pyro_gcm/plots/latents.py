"""The posterior of the latent variable, coloured by the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pyro_gcm._utils.validation import ArrayLike, positive_int
from pyro_gcm.plots._axes import (
    COLORMAP,
    PALETTE,
    Array,
    as_it_is,
    axes_or_new,
    is_index,
    legend_above,
    legend_name,
    numbers,
)

#: Maximum number of draws of all rows together; more would be slow and unreadable.
_MAX_DRAWS = 20_000


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
    if draws.ndim not in (2, 3) or draws.size == 0:
        raise ValueError(f"z must have shape [S, B, D] or [B, D], got {draws.shape}")
    if outcome.shape != draws.shape[-2:-1]:
        raise ValueError(
            f"y must have shape {draws.shape[-2:-1]}, one outcome per row of z, got {outcome.shape}"
        )
    for name, values in (("z", draws), ("y", outcome)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite, got NaN or infinite entries")
    size = draws.shape[-1]
    different = isinstance(dims, Sequence) and len(dims) == 2 and dims[0] != dims[1]
    if not different or not all(is_index(d, size) for d in dims):
        raise ValueError(
            f"dims must be two different dimensions of z, in 0..{size - 1}, got {dims!r}"
        )
    first, second = dims
    num_draws = positive_int("num_draws", num_draws, minimum=0)
    ax = axes_or_new(ax)

    if draws.ndim == 2:
        means, chosen = draws, draws[None][:0]
    else:
        shown = min(num_draws, _MAX_DRAWS // len(outcome), len(draws))
        means = draws.mean(0)
        chosen = draws[np.linspace(0, len(draws) - 1, shown).astype(int)]  # [shown, B, D]

    if np.isin(outcome, (0.0, 1.0)).all():
        for value, marker in ((0, "o"), (1, "^")):
            rows = outcome == value
            if not rows.any():
                continue
            color, label = PALETTE[value], legend_name(f"{outcome_name} = {value}")
            _draws(ax, chosen[:, rows, first], chosen[:, rows, second], color=color)
            style = {"color": color, "marker": marker, "label": label}
            _means(ax, means[rows, first], means[rows, second], **style)
        legend_above(ax)
    else:
        scale = {"cmap": COLORMAP, "vmin": outcome.min(), "vmax": outcome.max()}
        repeated = np.tile(outcome, len(chosen))
        _draws(ax, chosen[..., first], chosen[..., second], c=repeated, **scale)
        points = _means(ax, means[:, first], means[:, second], c=outcome, **scale)
        as_it_is(ax.figure.colorbar(points, ax=ax, label=outcome_name).ax)
    ax.set_xlabel(f"posterior mean of {latent_name}[{first}] (no unit)")
    ax.set_ylabel(f"posterior mean of {latent_name}[{second}] (no unit)")
    return as_it_is(ax)


def _means(ax: Axes, first: Array, second: Array, **style: Any) -> Any:
    """One point per row, in front of the draws."""
    return ax.scatter(first, second, s=22, edgecolors="white", linewidths=0.4, zorder=3, **style)


def _draws(ax: Axes, first: Array, second: Array, **style: Any) -> None:
    """Small and faint draws, rasterised to keep vector graphics small."""
    if first.size:
        points = first.ravel(), second.ravel()
        ax.scatter(*points, s=4, alpha=0.15, linewidths=0, rasterized=True, **style)

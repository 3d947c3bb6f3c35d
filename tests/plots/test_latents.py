"""Posterior means and draws of z, coloured by the outcome."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import to_hex
from plot_toys import BINARY, DRAWS, legend

from pyro_gcm.plots import plot_latent
from pyro_gcm.plots.axes import PALETTE

CONTINUOUS = 10.0 + torch.arange(12.0)


def offsets(collection: Any) -> Any:
    return np.asarray(collection.get_offsets())


def points(ax: Any) -> tuple[list[Any], list[Any]]:
    """The collections of means and of draws."""
    faint = [c for c in ax.collections if c.get_alpha() is not None]
    return [c for c in ax.collections if c not in faint and len(c.get_offsets())], faint


def test_binary_outcomes_have_two_colours() -> None:
    means = DRAWS.mean(0)
    for z in (DRAWS, means):  # means can be given without draws
        axes = plt.subplots()[1]
        ax = plot_latent(z, BINARY, dims=(2, 0), ax=axes)
        assert ax is axes
        for value, shown in enumerate(points(ax)[0]):
            np.testing.assert_allclose(offsets(shown), means[value == BINARY][:, [2, 0]], atol=1e-6)
            assert to_hex(shown.get_facecolor()[0]) == PALETTE[value].lower()
        assert legend(ax) == ["y = 0", "y = 1"]
    assert not points(ax)[1]
    assert legend(plot_latent(DRAWS, torch.ones(12))) == ["y = 1"]  # only those that occur
    assert legend(plot_latent(DRAWS, BINARY.bool(), outcome_name="won")) == ["won = 0", "won = 1"]
    assert ax.get_xlabel() == "posterior mean of z[2] (no unit)"
    assert ax.get_ylabel() == "posterior mean of z[0] (no unit)"


def test_continuous_outcome_has_a_colour_bar() -> None:
    ax = plot_latent(DRAWS, CONTINUOUS, outcome_name="consumption (mpg)", latent_name="u")
    (shown,), _ = points(ax)
    np.testing.assert_allclose(offsets(shown), DRAWS.mean(0)[:, :2], atol=1e-6)
    np.testing.assert_array_equal(shown.get_array(), CONTINUOUS)
    assert shown.get_clim() == (10.0, 21.0)
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    assert bar.get_ylabel() == "consumption (mpg)"
    assert ax.get_legend() is None
    assert ax.get_xlabel() == "posterior mean of u[0] (no unit)"


def test_draws_are_faint_and_have_the_colour_of_their_row() -> None:
    _, (faint,) = points(plot_latent(DRAWS, CONTINUOUS, num_draws=500))
    every = {
        tuple(draw): y
        for row, y in zip(DRAWS.movedim(1, 0), CONTINUOUS.tolist(), strict=True)
        for draw in row[:, :2].double().tolist()
    }
    colours = zip(map(tuple, offsets(faint).tolist()), faint.get_array(), strict=True)
    assert dict(colours) == every
    _, faint = points(plot_latent(DRAWS, BINARY, num_draws=5))
    assert [len(offsets(c)) for c in faint] == [5 * 4, 5 * 8]
    assert not points(plot_latent(DRAWS, CONTINUOUS, num_draws=0))[1]
    _, (faint,) = points(plot_latent(torch.zeros(30, 3000, 2), torch.arange(3000.0)))
    assert len(offsets(faint)) <= 20_000

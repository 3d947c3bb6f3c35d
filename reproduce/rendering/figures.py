"""The picture of the README, from simulated auctions; the figures of the report from its results.

For the picture a model is trained on bids and whether they won; it is never shown the price that a
bid has to exceed. For three auctions it shows the probability of winning against the bid, the
density of the latent price, and the smallest bid that wins with probability 0.9.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from pyro_gcm import GCM, fit
from pyro_gcm._utils.files import write_figure
from reproduce.data import simulation


def draw_curves(curves: pd.DataFrame, path: Path) -> None:
    """One column a method, one row a training stage, five curves: the paper's Figure 6.

    :param curves: columns method, step, r, and y at every x that a column is named for.
    """
    methods, steps = curves["method"].unique(), sorted(curves["step"].unique())
    size: Any = {"figsize": (3.6 * len(methods), 1.9 * len(steps)), "squeeze": False}
    shared: Any = {"sharex": True, "sharey": True, "layout": "constrained"}
    figure, axes = plt.subplots(len(steps), len(methods), **size, **shared)
    x, _, points = simulation.sample(600, seed=0)
    at = curves.columns.difference(["method", "step", "r"], sort=False)
    grid = torch.linspace(*simulation.X_RANGE, 121)
    for row, step in zip(axes, steps, strict=True):
        for ax, method in zip(row, methods, strict=True):
            ax.scatter(x[:, 0], points, s=4, color="0.65", linewidths=0, label="data")
            for level in simulation.LEVELS:
                truth = simulation.quantile(grid, level)
                ax.plot(grid, truth, color="0.3", linewidth=0.8, linestyle=":", label="true")
            shown = curves[(curves["method"] == method) & (curves["step"] == step)]
            for y in shown[at].to_numpy():
                ax.plot(at.astype(float), y, color="tab:red", linewidth=1.1, label="predicted")
            ax.set_ylim(-2.0, 2.0)
        row[0].set_ylabel(f"step {step}\ny")
    for first, last, method in zip(axes[0], axes[-1], methods, strict=True):
        first.set_title(method)
        last.set_xlabel("x")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside upper center", ncols=3)
    write_figure(path, figure, dpi=110)
    plt.close(figure)


def curve_groups(methods: list[str]) -> dict[str, list[str]]:
    """Name of a figure -> the methods in it: four at most, and GCM beside them."""
    others = [method for method in methods if method != "GCM"]
    gcm = [method for method in methods if method == "GCM"]
    groups = [[*others[at : at + 4], *gcm] for at in range(0, len(others), 4)]
    return {f"quantile_curves_{n}.png": group for n, group in enumerate(groups, start=1)}


# The picture of the README.

#: At any bid the range of this many holds a new refit with probability (19 - 1) / (19 + 1) = 0.9.
REFITS = 19
ROWS, WANTED, HIGHEST = 2000, 0.9, 200.0
AUCTIONS = {"low demand": (-1.3, 0.3), "medium demand": (0.3, -1.0), "high demand": (1.4, -0.4)}
#: Okabe and Ito's blue, vermilion and green.
COLORS = ("#0072B2", "#D55E00", "#009E73")
INK, MUTED, FAINT = "0.15", "0.42", "0.88"
ABOUT = (
    "Probability that a bid wins, and the hidden price it has to exceed, learned from 2,000 bids "
    "and whether they won"
)


def log_price(x: Tensor) -> Tensor:
    """Mean and standard deviation of the logarithm of the price, [2, n]."""
    demand, variety = x.unbind(-1)
    spread = 0.15 + 0.3 * torch.sigmoid(2.0 * variety)
    return torch.stack([math.log(60.0) + 0.75 * demand.tanh(), spread])


def trained(columns: list[Tensor], seed: int, epochs: int) -> GCM:
    """A model of default form, trained on x, the logarithm of the bid, and whether it won."""
    model = GCM(x_dim=2, r_dim=1, seed=seed)
    options: Any = {"num_particles": 16, "device": "cpu", "progress": False}
    fit(model, *columns, epochs=epochs, seed=seed, **options)
    return model


def draw_auctions(epochs: int = 20, refits: int = REFITS) -> Figure:
    """The picture, 9 inches wide.

    One model is trained on simulated auctions, and others on samples of them with replacement.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 2, generator=generator)
    loc, scale = log_price(x)
    price = loc + scale * torch.randn(ROWS, generator=generator)
    bid = math.log(20.0) + math.log(10.0) * torch.rand(ROWS, generator=generator)
    columns = [x, bid.unsqueeze(1), (price < bid).float()]
    model = trained(columns, 0, epochs)
    generator.manual_seed(0)
    samples = [torch.randint(ROWS, (ROWS,), generator=generator) for _ in range(refits)]
    others = [
        trained([column[index] for column in columns], seed, epochs)
        for seed, index in enumerate(samples, start=1)
    ]
    x, bids = torch.tensor(list(AUCTIONS.values())), torch.linspace(0.5, HIGHEST, 400)
    log_bids = bids.log().unsqueeze(1)
    loc, scale = log_price(x).unsqueeze(-1)
    low, high = torch.stack([each.surface(x, log_bids) for each in others]).aminmax(dim=0)
    density = model.cost(x).log_prob(log_bids.reshape(-1, 1, 1)).T.exp() / bids  # of the price
    density *= 0.4 / density.max()  # which has no axis of its own
    mean, truth = model.surface(x, log_bids), torch.special.ndtr((bids.log() - loc) / scale)
    required = model.required_revenue(x, WANTED).exp()

    figure, ax = plt.subplots(figsize=(9.0, 5.0))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.85, bottom=0.065)
    title: Any = {"fontsize": 17, "fontweight": "bold", "color": INK}
    figure.text(0.0125, 0.945, "What does it take to win?", **title)
    figure.text(0.0125, 0.893, ABOUT, fontsize=10.5, color=MUTED)
    ax.set(xlim=(0.0, HIGHEST), ylim=(0.0, 1.09))
    ax.set_yticks([0.0, 0.5, WANTED, 1.0], ["0 %", "50 %", "90 %", "100 %"])
    ax.set_xlabel("bid", fontsize=11, color=MUTED, loc="right", labelpad=-11)
    ax.set_xticks(range(0, 181, 30))
    ax.tick_params(length=0, labelsize=10.5, labelcolor=MUTED)
    ax.grid(axis="y", color=FAINT, linewidth=0.8)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(MUTED)
    for i, (name, color) in enumerate(zip(AUCTIONS, COLORS, strict=True)):
        ax.fill_between(bids, density[i], color=color, alpha=0.16, linewidth=0, zorder=1)
        ax.fill_between(bids, low[i], high[i], color=color, alpha=0.24, linewidth=0, zorder=2)
        ax.plot(bids, truth[i], ":", color=INK, linewidth=1.1, zorder=3)
        ax.plot(bids, mean[i], color=color, linewidth=2.4, zorder=4)
        wins, bold = float(required[i]), dict[str, Any](color=color, fontweight="bold")
        ax.plot([wins, wins], [0.0, WANTED], color=color, linewidth=0.9, linestyle=(0, (4, 3)))
        ax.plot(wins, WANTED, "o", color=color, markersize=9, markeredgecolor="white", zorder=5)
        ax.text(wins + 3, 0.835, f"{wins:.0f}", fontsize=14, **bold)
        ax.text(wins, 1.035, name, fontsize=11.5, ha="center", **bold)
    notes = (
        *("the bid that wins\n9 times in 10", "band: 19 refits on\nresampled bids"),
        *("dotted: the truth", "shaded: density of\nthe hidden price"),
    )
    for height, text in zip((0.745, 0.59, 0.415, 0.24), notes, strict=True):
        ax.text(163.0, height, text, color=MUTED, fontsize=10, va="center", linespacing=1.25)
    return figure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce readme_figure`."""
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="folder")
    parser.add_argument("--quick", action="store_true", help="one epoch and two refits, as a test")


def main(arguments: argparse.Namespace) -> None:
    """Draw the picture."""
    figure = draw_auctions(1, 2) if arguments.quick else draw_auctions()
    path = arguments.output / "response_curves.png"
    write_figure(path, figure, dpi=130)
    plt.close(figure)
    print(path)

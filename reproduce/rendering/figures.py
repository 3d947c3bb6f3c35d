"""The picture of the README, from simulated auctions; the figures of the report from its results.

For the picture a model is trained on bids and whether they won; it is never shown the price that a
bid has to exceed. For three auctions it shows the probability of winning against the bid, the
density of the latent price, and the smallest bid that wins with probability 0.9.
"""

from __future__ import annotations

import argparse
import io
import math
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor
from tqdm.auto import tqdm

from pyro_gcm import GCM, fit
from pyro_gcm._utils.files import write_figure, write_file
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
WANTED, HIGHEST = 0.9, 200.0
AUCTIONS = {"low demand": (-1.3, 0.3), "medium demand": (0.3, -1.0), "high demand": (1.4, -0.4)}
#: Okabe and Ito's blue, vermilion and green.
COLORS = ("#0072B2", "#D55E00", "#009E73")
INK, MUTED, FAINT = "0.15", "0.42", "0.88"
ABOUT = (
    "Probability that a bid wins, and the hidden price it has to exceed, learned from 2,000 bids "
    "and whether they won"
)


class Curves(NamedTuple):
    """For B rows at R bids: probabilities [B, R], their range over refits, density, 90 % bids."""

    bids: Tensor
    mean: Tensor
    low: Tensor
    high: Tensor
    density: Tensor
    required: Tensor
    true: Tensor


def simulate(rows: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Covariates [n, 2], bids [n, 1] between 20 and 200, and whether each was above the price."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 2, generator=generator)
    loc, scale = log_price(x)
    price = torch.exp(loc + scale * torch.randn(rows, generator=generator))
    bid = 20.0 * 10.0 ** torch.rand(rows, generator=generator)
    return x, bid.unsqueeze(1), (price < bid).float()


def log_price(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the logarithm of the price."""
    demand, variety = x.unbind(-1)
    return math.log(60.0) + 0.75 * demand.tanh(), 0.15 + 0.3 * torch.sigmoid(2.0 * variety)


def trained(x: Tensor, bid: Tensor, won: Tensor, seed: int, epochs: int) -> GCM:
    """A model of default form, trained on the logarithms of the bids."""
    model = GCM(x_dim=2, r_dim=1, seed=seed)
    options: Any = {"num_particles": 16, "device": "cpu", "progress": False}
    fit(model, x, bid.log(), won, epochs=epochs, seed=seed, **options)
    return model


def curves(*, rows: int = 2000, epochs: int = 20, refits: int = REFITS) -> Curves:
    """Train one model on the simulated auctions, and others on samples of them with replacement."""
    x, bid, won = simulate(rows, seed=0)
    auctions, bids = torch.tensor(list(AUCTIONS.values())), torch.linspace(0.5, HIGHEST, 400)
    log_bids = bids.log().unsqueeze(1)
    model = trained(x, bid, won, seed=0, epochs=epochs)
    generator = torch.Generator().manual_seed(0)
    surfaces = []
    for seed in tqdm(range(1, refits + 1), desc="refits"):
        i = torch.randint(rows, (rows,), generator=generator)
        refit = trained(x[i], bid[i], won[i], seed=seed, epochs=epochs)
        surfaces.append(refit.surface(auctions, log_bids))
    low, high = torch.stack(surfaces).aminmax(dim=0)
    log_density = model.cost(auctions).log_prob(log_bids.reshape(-1, 1, 1)).T  # of the log-price
    loc, scale = (column.unsqueeze(1) for column in log_price(auctions))
    return Curves(
        bids,
        model.surface(auctions, log_bids),
        low,
        high,
        log_density.exp() / bids,
        model.required_revenue(auctions, WANTED).exp(),
        torch.special.ndtr((bids.log() - loc) / scale),
    )


def draw_auctions(shown: Curves) -> Figure:
    """The picture, 9 inches wide."""
    figure, ax = plt.subplots(figsize=(9.0, 5.0))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.85, bottom=0.065)
    title: Any = {"fontsize": 17, "fontweight": "bold", "color": INK}
    figure.text(0.0125, 0.945, "What does it take to win?", **title)
    figure.text(0.0125, 0.893, ABOUT, fontsize=10.5, color=MUTED)
    ax.set(xlim=(0.0, HIGHEST), ylim=(0.0, 1.09))
    ax.set_yticks([0.0, 0.5, WANTED, 1.0], ["0 %", "50 %", "90 %", "100 %"])
    ax.set_xticks(range(0, 181, 30))
    ax.set_xlabel("bid", fontsize=11, color=MUTED, loc="right", labelpad=-11)
    ax.tick_params(length=0, labelsize=10.5, labelcolor=MUTED)
    ax.grid(axis="y", color=FAINT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(MUTED)
    height = 0.40 / float(shown.density.max())  # the densities have no axis of their own
    for i, (name, color) in enumerate(zip(AUCTIONS, COLORS, strict=True)):
        density, band = height * shown.density[i], (shown.low[i], shown.high[i])
        ax.fill_between(shown.bids, density, color=color, alpha=0.16, linewidth=0, zorder=1)
        ax.plot(shown.bids, density, color=color, alpha=0.45, linewidth=0.8, zorder=1)
        ax.fill_between(shown.bids, *band, color=color, alpha=0.24, linewidth=0, zorder=2)
        ax.plot(shown.bids, shown.true[i], ":", color=INK, linewidth=1.1, zorder=3)
        ax.plot(shown.bids, shown.mean[i], color=color, linewidth=2.4, zorder=4)
        bid, bold = float(shown.required[i]), dict[str, Any](color=color, fontweight="bold")
        ax.plot([bid, bid], [0.0, WANTED], color=color, linewidth=0.9, linestyle=(0, (4, 3)))
        ax.plot(bid, WANTED, "o", color=color, markersize=9, markeredgecolor="white", zorder=5)
        ax.text(bid + 3, 0.835, f"{bid:.0f}", fontsize=14, **bold)
        ax.text(bid, 1.035, name, fontsize=11.5, ha="center", **bold)
    for text, y, target in (
        ("the bid that wins\n9 times in 10", 0.745, None),
        ("band: 19 refits on\nresampled bids", 0.585, (126.0, 0.585)),
        ("dotted: the truth", 0.415, (110.5, 0.415)),
        ("density of the\nhidden price", 0.21, (137.0, 0.10)),
    ):
        ax.text(162.0, y, text, color=MUTED, fontsize=10, va="center", linespacing=1.25)
        if target is not None:
            ax.plot([160.5, target[0]], [y, target[1]], color=MUTED, linewidth=0.8)
    return figure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce readme_figure`."""
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="folder")
    parser.add_argument("--quick", action="store_true", help="one epoch and two refits, as a test")


def main(arguments: argparse.Namespace) -> None:
    """Draw the picture."""
    size = {"epochs": 1, "refits": 2} if arguments.quick else {}
    figure, png = draw_auctions(curves(**size)), io.BytesIO()
    figure.savefig(png, dpi=200)
    plt.close(figure)
    # 256 colours are as many as the picture needs, at a third of the bytes.
    small = io.BytesIO()
    Image.open(png).convert("RGB").quantize(256).save(small, format="png", optimize=True)
    path = arguments.output / "response_curves.png"
    write_file(path, small.getvalue())
    print(path)

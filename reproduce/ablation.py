"""Latent dimension D and sample number N on Adult: Tables 6 and 7 of the paper."""

from __future__ import annotations

import argparse
import json

import pandas as pd

from reproduce.arguments import positive_count
from reproduce.methods import methods_of
from reproduce.public import published_settings, run
from reproduce.runs import Fit, add_run_arguments, as_json, run_fits

LATENT_DIMENSIONS = (4, 8, 12, 16)
SAMPLE_NUMBERS = (8, 16, 24, 32)
ABLATED = methods_of("ablation")


def fits(seeds: int, variants: list[str], quick: bool) -> list[Fit]:
    """Every cell, under the published protocol, the other settings those of Table 5."""
    sizes = [(d, n) for d in LATENT_DIMENSIONS for n in SAMPLE_NUMBERS]
    cells = []
    for seed in range(1 if quick else seeds):
        for variant in variants:
            for method in ABLATED:
                for d, n in sizes[:: 5 if quick else 1]:
                    settings = _settings(method, d, n, quick)
                    cells.append(
                        Fit("ablation", "adult", variant, "published", "0", seed, method, settings)
                    )
    return cells


def _settings(method: str, latent: int, samples: int, quick: bool) -> str:
    settings = json.loads(published_settings("adult", method, quick))
    sizes = {"z_dim": latent, "num_particles": samples, "num_samples": samples}
    return as_json({**settings, **sizes})


def with_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Results of the cells: the AUC, with D and N as columns."""
    table = table[table["metric"] == "AUC"]
    options = [json.loads(settings) for settings in table["settings"]]
    sizes = {"D": "z_dim", "N": "num_particles"}
    return table.assign(**{to: [option[key] for option in options] for to, key in sizes.items()})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m reproduce ablation`."""
    parser.add_argument("--seeds", type=positive_count, default=3, help="seeds a cell, from 0")
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=["published", "default"],
        default=["published", "default"],
        help="of the label",
    )
    add_run_arguments(parser)


def main(arguments: argparse.Namespace) -> None:
    """Run the cells that the table lacks, and print their means."""
    path = arguments.output / "ablation.csv"
    cells = fits(arguments.seeds, arguments.variants, arguments.quick)
    table = with_sizes(run_fits(path, cells, run, arguments))
    for (variant, method), cell in table.groupby(["variant", "method"]):
        print(f"\nAUC of {method}, label {variant}, best epoch on the test rows")
        print(cell.pivot_table("value", "N", "D").round(4).to_string())
    print(f"\nwritten: {path}")

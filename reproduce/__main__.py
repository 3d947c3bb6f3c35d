"""`python -m reproduce NAME`: the experiments."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from pyro_gcm.cli.errors import one_line
from reproduce import report
from reproduce.arguments import Refused, a_path, check_output
from reproduce.data import datasets
from reproduce.defaults import own_study
from reproduce.in_pairs import run_in_pairs
from reproduce.rendering import figures
from reproduce.studies import OTHERS, STUDIES, listed
from reproduce.study import Study

COMMANDS: dict[str, Any] = {
    **STUDIES,
    **OTHERS,
    "study": own_study,
    "datasets": datasets,
    "report": report,
    "readme_figure": figures,
}
#: Commands of seconds or minutes that keep no part of their work.
WHOLE = (
    "list",
    "datasets",
    "credit_witnesses",
    "timing",
    "report",
    "readme_figure",
    "smoke",
)
#: What `smoke` runs with --quick, one process each; a chain reads what it wrote.
SMOKE = [
    ["quantile --jobs 1", "quantile --jobs 1 --setting paper --methods MLP GCM"],
    ["auctions --jobs 1"],
    ["untouched --jobs 1 --datasets fair --methods Members"],
    ["study --jobs 1 --tasks fair --methods HistGradientBoosting"],
    ["calibration --jobs 1 --datasets fair"],
    ["falls --jobs 1 --datasets members IGCM 'members, made to fall'"],
    ["survival --jobs 1 --datasets veteran"],
    ["reference_posteriors --jobs 1 --datasets levels"],
    ["stories --jobs 1 --datasets groups"],
    ["ordinal --jobs 1 --datasets simulated"],
    ["distribution --jobs 1 --datasets simulated --methods 'LightGBM quantiles' 'Linear normal'"],
]
#: The same for experiments on data sets, for which `PYRO_GCM_DATA` has to name their folder.
SMOKE_WITH_DATA = [
    [
        "public --jobs 1 --datasets compas auto_mpg",
        "public --jobs 1 --protocol confirmation --datasets compas",
        "public --jobs 1 --protocol published",
        "public --jobs 1 --protocol members --datasets compas",
    ],
    ["public --jobs 1 --protocol released --datasets auto_mpg"],
    ["public --jobs 1 --protocol positive --datasets auto_mpg --methods MM"],
    ["public --jobs 1 --protocol changes --datasets auto_mpg --methods SMM Hint GCM"],
    ["search --jobs 1 --datasets adult --methods Members"],
    ["ablation --jobs 1", "ablation --jobs 1 --protocol released"],
    ["members_ablation --jobs 1 --datasets adult"],
    [
        f"{name} --jobs 1 --datasets compas --methods LightGBM 'Logistic regression'"
        for name in ("credit", "credit_falls")
    ],
    ["timing"],
]


def main() -> None:
    """Parse the command line and run one experiment."""
    parser = argparse.ArgumentParser(prog="python -m reproduce", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, study in COMMANDS.items():
        about = study.about if isinstance(study, Study) else str(study.__doc__)
        text = about.replace("%", "%%")  # argparse fills in help with the operator %
        command = commands.add_parser(name, help=text, description=about)
        study.add_arguments(command)
        command.set_defaults(main=study.main)
    command = commands.add_parser("list", help=listed.__doc__, description=listed.__doc__)
    command.set_defaults(main=lambda arguments: print(listed()))
    command = commands.add_parser("smoke", help=smoke.__doc__, description=smoke.__doc__)
    command.add_argument("--output", type=a_path, default=Path("results"), help="folder of results")
    command.set_defaults(main=smoke)
    arguments = parser.parse_args()
    try:
        if "output" in arguments:
            check_output(arguments.output)
        arguments.main(arguments)
    except (Refused, OSError) as error:
        parser.exit(2, f"{parser.prog} {arguments.command}: error: {one_line(error)}\n")
    except KeyboardInterrupt:
        kept = "" if arguments.command in WHOLE else ": what was finished is kept for the next run"
        print(f"\nInterrupted{kept}.", file=sys.stderr)
        sys.exit(130)


def smoke(arguments: argparse.Namespace) -> None:
    """Every experiment at a size that takes seconds, two at a time, and the report on them."""
    out, with_data = str(arguments.output), "PYRO_GCM_DATA" in os.environ
    chains = [*(SMOKE_WITH_DATA if with_data else []), *SMOKE]

    def command(*words: str) -> list[str]:
        return ["reproduce", *words, "--output", out]

    failed = run_in_pairs(
        [[command(*shlex.split(w), "--quick") for w in chain] for chain in chains]
    )
    report = ["reproduce", "report", "--results", out, "--output", str(Path(out) / "report")]
    failed += run_in_pairs([[*([command("datasets")] if with_data else []), report]])
    if failed:
        raise Refused(f"failed: {'; '.join(failed)}")


if __name__ == "__main__":
    main()

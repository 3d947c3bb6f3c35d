"""What it costs that every step is looked at and that a run has torch's generators for itself.

    python -m reproduce.benchmarks.guards

A short fit of a GCM and of members as it is, without looking whether loss, gradient and weights are
finite, and without turns of threads and states of generators of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from unittest.mock import patch

from pyro_gcm._utils.process_state import Randomness
from pyro_gcm.training.finite_steps import FiniteSteps
from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired, show
from reproduce.kinds import trained


def _unlooked(fit: Callable[[], object]) -> None:
    with patch.multiple(
        FiniteSteps,
        add=lambda *_: None,
        read=lambda *_: None,
        check_weights=lambda *_: None,
    ):
        fit()


def _without_turns(fit: Callable[[], object]) -> None:
    with patch.object(Randomness, "in_use", lambda self: nullcontext()):
        fit()


def main() -> None:
    """Print milliseconds of every side, and its ratio to the fit without looking."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=positive_count, default=30)
    parser.add_argument("--epochs", type=positive_count, default=20, help="of three steps each")
    options = parser.parse_args()
    for kind in ("GCM", "members"):
        print(f"\n{kind}, {3 * options.epochs} steps")
        fit = partial(trained, kind, epochs=options.epochs)
        sides: dict[str, Callable[[], object]] = {
            "as it is": fit,
            "without looking": partial(_unlooked, fit),
            "without turns": partial(_without_turns, fit),
        }
        seconds = paired(sides, options.repeats, warm_up=1)
        show(seconds, "without looking")
        show(seconds, "without turns")


if __name__ == "__main__":
    main()

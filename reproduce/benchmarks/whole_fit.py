"""Time of a whole `fit`, by plain steps against every step through Pyro.

    python -m reproduce.benchmarks.whole_fit

GCM of default sizes on public data sets, a few epochs, in CPU time; and plain steps with 16 points
of a Sobol sequence in place of 32 random draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from pyro_gcm import GCM, FitResult, data, fit
from pyro_gcm.training import FitSettings
from reproduce.arguments import positive_count
from reproduce.benchmarks.paired import paired, show

#: Data set -> epochs, for a fit of seconds.
EPOCHS = {"compas": 10, "adult": 2, "auto_mpg": 60}
SIDES: dict[str, dict[str, Any]] = {
    "engine pyro": {"settings": FitSettings(engine="pyro")},
    "engine plain": {},
    "plain, 16 points": {"settings": FitSettings(particles="qmc"), "num_particles": 16},
}


def fits(name: str, epochs: int) -> dict[str, Callable[[], FitResult]]:
    """A fit by every side; each call trains a new model."""
    dataset = data.load(name)
    rows = dataset.x.float(), dataset.r.float(), dataset.y.float()

    def run(**options: Any) -> FitResult:
        model = GCM(dataset.x_dim, dataset.r_dim, response=dataset.response)
        return fit(model, *rows, epochs=epochs, device="cpu", progress=False, **options)

    return {side: partial(run, **options) for side, options in SIDES.items()}


def main() -> None:
    """Print median milliseconds of every side and its ratio to the fit through Pyro."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", choices=list(EPOCHS), default=list(EPOCHS))
    parser.add_argument("--epochs", type=positive_count, help="of every data set")
    parser.add_argument("--repeats", type=positive_count, default=5)
    options = parser.parse_args()
    for name in options.datasets:
        epochs = options.epochs or EPOCHS[name]
        print(f"\n{name}, {epochs} epochs")
        show(paired(fits(name, epochs), options.repeats, warm_up=1), "engine pyro")


if __name__ == "__main__":
    main()

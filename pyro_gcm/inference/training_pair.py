"""What an objective trains: a program, its guide, and what the trainer must know of them."""

from __future__ import annotations

from typing import NamedTuple

from pyro.infer import ELBO

from pyro_gcm.inference.collapse import Program


class TrainingPair(NamedTuple):
    """The program and the guide of one objective, for `fit`, `pyro.infer.SVI` or any Pyro ELBO.

    `shared` are the sites that the guide draws from the program's own distribution, so that their
    densities cancel. `enumerated` says that the program sums over a finite z, `sampled` that the
    guide has sites, `missing` that x and r may be NaN where a value is missing. `loss` is the only
    loss of the objective, or None where any ELBO will do.
    """

    program: Program
    guide: Program
    shared: tuple[str, ...] = ()
    enumerated: bool = False
    sampled: bool = True
    missing: bool = False
    loss: ELBO | None = None

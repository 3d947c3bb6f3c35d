"""What every kind of model of the zoo computes, kept in `golden.npz`.

    PYTHONPATH=tests python tests/golden/golden_models.py            compares with the file
    PYTHONPATH=tests python tests/golden/golden_models.py --write    writes it anew

The file is to be written anew only where numbers are meant to change, and the commit says why.

Everything is computed in float64. The kernels of torch for AVX2 and those for any processor differ
by at most 1e-13 there, far less than TOLERANCE, since nothing here makes much of a rounding error:
models are trained for two steps of plain gradient descent (Adam divides a gradient by its own size,
and so makes whole steps of rounding errors around 0); draws are those at these weights, and whether
one is accepted compares numbers of float64, which a processor exchanges once in 1e12.
The Pareto k is left out: `tests/prediction/test_psis.py` has shapes that are known.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from zoo import KINDS, Rows, predictions, rows_of, trained

FILE = Path(__file__).with_name("golden.npz")
TOLERANCE = 1e-9
DRAWS: dict[str, Any] = {"num_proposals": 64, "progress": False}


def model_of(name: str) -> Any:
    """A model of one kind after two steps of gradient descent."""
    return trained(name, optimizer=torch.optim.SGD, epochs=1, learning_rate=0.05)


def computed(model: Any, data: Rows) -> dict[str, np.ndarray]:
    """Fitted weights, predictions and draws of one kind."""
    few = data.map(lambda column: column[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few proposals
        draws = model.posterior(*few, num_samples=4, **DRAWS)
        prior_draws = model.posterior(few.x[:2], few.r[:2], num_samples=2, **DRAWS)
    found = {
        f"weights {key}": value.sum(-1) if value.dim() > 1 else value
        for key, value in model.named_parameters()
    }
    found |= {f"draw {key}": value for key, value in draws.items()}
    found |= {f"quality {key}": value for key, value in draws.quality().items()}
    found |= {f"prior draw {key}": value for key, value in prior_draws.items()}
    found |= predictions(model, data)
    found["log_likelihood"] = model.log_likelihood(*few, sites=draws)
    found["loss"] = torch.tensor(model.training_summary["loss"], dtype=torch.float64)
    if model.objective == "joint":
        given = {"x": few.x} if model.reads_x else {"size": 4}
        found |= {f"simulated {k}": v for k, v in model.simulate(**given, seed=2).items()}
    del found["quality pareto_k"]
    return {key: value.detach().numpy() for key, value in found.items()}


def stored(name: str) -> dict[str, np.ndarray]:
    """The numbers of one kind in the file."""
    with np.load(FILE) as golden:
        record = golden[name]
    return {key: record[key] for key in record.dtype.names}


def compare(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """Raise an AssertionError where a number differs from the wanted one."""
    for key, values in found.items():
        np.testing.assert_allclose(values, wanted[key], rtol=TOLERANCE, atol=TOLERANCE, err_msg=key)


def as_record(found: dict[str, np.ndarray]) -> np.ndarray:
    """Arrays of any shapes as the fields of one: a file of few large arrays is a small one."""
    record = np.empty((), [(key, values.dtype, values.shape) for key, values in found.items()])
    for key, values in found.items():
        record[key] = values
    return record


def main() -> None:
    """Compare or write."""
    torch.set_num_threads(1)
    arrays = {name: computed(model_of(name), rows_of(name)) for name in KINDS}
    if "--write" in sys.argv:
        np.savez_compressed(FILE, **{name: as_record(found) for name, found in arrays.items()})
    for name, found in arrays.items():
        compare(found, stored(name))
    print(f"{len(KINDS)} kinds are as in {FILE.name}")


if __name__ == "__main__":
    main()

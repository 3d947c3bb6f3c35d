"""What 28 kinds of model computed when the file `golden.npz` was written.

    python tests/golden/golden_models.py            compares with the file, bit by bit
    python tests/golden/golden_models.py --write    writes it anew
    python tests/golden/golden_models.py --predictions FILE
        largest relative differences of the predictions of this code, at the weights in FILE, from
        the predictions in FILE: for a change that keeps what is computed, but not its last bits
    python tests/golden/golden_models.py --engines  which engine of `fit` trains each kind, and why

The file is to be written anew only where numbers are meant to change, and the commit says why.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pyro.distributions as dist
import torch

from pyro_gcm import GCM, IGCM, FitResult, fit
from pyro_gcm.models.responses import Continuous
from pyro_gcm.nets import Conditional

FILE = Path(__file__).with_name("golden.npz")
ROWS, X_DIM, R_DIM = 64, 3, 2
_IGCM = {"class": IGCM}
_JOINT = {"fit": {"objective": "joint"}, "missing": True}

#: Options of the constructor; "class", "fit", "missing", "costs_seen" and "dtype" are taken out.
KINDS: dict = {
    "plain": {},
    "continuous": {"response": "continuous"},
    "constant noise": {"response": lambda: Continuous(X_DIM, 4, noise="constant")},
    "quantile": {"response": "quantile"},
    "alternatives": {"alternatives": 3, "costs": 2},
    "constant p0": {"p0": "constant"},
    "conditional p0": {"p0": "conditional", "alternatives": 2},
    "laplace prior": {"prior": "laplace", "guide": "amortised"},
    "mixture prior": {"prior": "mixture"},
    "flow prior": {"prior": "flow", "guide": "amortised_full"},
    "categorical prior": {"prior": "categorical", "response": "continuous"},
    "posterior guide": {"guide": "posterior", "fit": {"elbo": "dreg"}},
    "full posterior guide": {"guide": "posterior_full", "fit": {"temperature": 0.5}},
    "literal loss": {"prior": "standard", "fit": {"elbo": "mean_field"}},
    "joint": {"prior": "standard", **_JOINT},
    "joint, continuous": {"prior": "standard", "response": "continuous", **_JOINT},
    "costs seen": {"costs_seen": True},
    "splines and logistic costs": {
        "revenue_map": "piecewise_linear",
        "cost_family": "logistic",
        "fit": {"elbo": "elbo"},
    },
    "sigmoid and laplace costs": {
        "revenue_map": "sigmoid",
        "cost_family": "laplace",
        "dtype": torch.float64,
    },
    "members": {"prior": "members", "members": 3},
    "members, continuous": {"prior": "members", "members": 3, "response": "continuous"},
    "implicit": {**_IGCM},
    "implicit, one kernel": {**_IGCM, "k_dim": 1, "p0": "constant"},
    "implicit, continuous": {**_IGCM, "response": "continuous", "alternatives": 2},
    "implicit, paper": {**_IGCM, "kernel_guide": "amortised", "fit": {"objective": "paper"}},
    "implicit, categorical": {
        **_IGCM,
        "prior": "categorical",
        "kernel_prior": "conditional",
        "fit": {"objective": "response_revenue"},
    },
    "implicit, joint": {**_IGCM, "prior": "standard", "fit": {"objective": "joint"}},
    "implicit, laplace kernel": {
        **_IGCM,
        "kernel_prior": lambda: Conditional(dist.Laplace, X_DIM, (R_DIM,), 4),
        "kernel_guide": "amortised",
        "fit": {"objective": "response_revenue"},
    },
}


def data(response: object, missing: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows x, r and y in odd units."""
    g = torch.Generator().manual_seed(1)
    x = 3.0 + 2.0 * torch.randn(ROWS, X_DIM, generator=g)
    r = 50.0 + 10.0 * torch.randn(ROWS, R_DIM, generator=g)
    score = (r - 50.0).sum(1) / 15.0 + torch.tanh(x[:, 0] - 3.0) + torch.randn(ROWS, generator=g)
    if response == "quantile":
        r = torch.rand(ROWS, 1, generator=g) * 0.98 + 0.01
    if missing:
        x[::5, 1], r[::7, 0] = torch.nan, torch.nan
    y = (score > 0).float() if response in ("binary", "quantile") else 20.0 + 5.0 * score
    return x, r, 7.0 * score if response == "quantile" else y


def built(name: str) -> tuple[GCM | IGCM, dict, tuple[torch.Tensor, ...]]:
    """An untrained model of one kind, the options of its training, and its data."""
    options = dict(KINDS[name])
    build, training = options.pop("class", GCM), options.pop("fit", {})
    missing, dtype = options.pop("missing", False), options.pop("dtype", torch.float32)
    costs_seen = options.pop("costs_seen", False)
    response = options.get("response", "binary")
    torch.manual_seed(0)
    options = {key: value() if callable(value) else value for key, value in options.items()}
    x, r, y = data("continuous" if callable(response) else response, missing)
    columns = [x, r, y]
    if costs_seen:
        c = torch.where(y.unsqueeze(1) > 0, r - 5.0, torch.nan)
        c[::2] = torch.nan
        columns.append(c)
    default_dtype = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = build(X_DIM, r.shape[1], hidden=4, z_dim=2, num_samples=16, seed=3, **options)
    finally:
        torch.set_default_dtype(default_dtype)
    return model, training, tuple(columns)


def predictions(
    model: GCM | IGCM, x: torch.Tensor, r: torch.Tensor, y: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What depends on the weights alone."""
    rows = slice(0, 12)
    whole_r = r[~r.isnan().any(1)]
    whole_x = x[~x.isnan().any(1)]
    found = {
        "predict": model.predict(x[rows], r[rows]),
        "log_prob": model.log_prob(x[rows], r[rows], y[rows]),
        "surface": model.surface(whole_x[:5], whole_r[:9]),
        "surface_draws": model.surface_draws(whole_x[:2], whole_r[:3]).values,
        "effective_sample_size": model.effective_sample_size(x[rows], r[rows]),
    }
    if model.objective != "joint" or isinstance(model, GCM):
        cost = model.cost(x[:6])
        found |= {"cost mean": cost.mean, "cost cdf": cost.cdf(cost.mean.nan_to_num(posinf=1.0))}
    if model.response.has_cdf:
        found["cdf"] = model.cdf(x[rows], r[rows], y[rows])
    if isinstance(model, GCM) and model.response.standardizes_revenue:
        level = 0.6 if model.response.is_probability else 20.0
        found["required_revenue"] = model.required_revenue(whole_x[:5], level)
    return found


def trained(name: str) -> tuple[GCM | IGCM, FitResult, tuple[torch.Tensor, ...]]:
    """A model of one kind after a few steps, how it was trained, and its data."""
    model, training, columns = built(name)
    training = {"epochs": 2, "batch_size": 16, "num_particles": 4, "seed": 5, **training}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fit(model, *columns, progress=False, **training)
    return model, result, columns


def computed(name: str) -> dict[str, np.ndarray]:
    """Fitted weights, predictions and draws of one kind."""
    model, result, (x, r, y, *extra) = trained(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = model.posterior(
            x[:4],
            r[:4],
            y[:4],
            *(part[:4] for part in extra),
            num_samples=8,
            num_proposals=64,
            units="standard",
            progress=False,
        )
        prior_draws = model.posterior(x[:3], r[:3], num_samples=4, units="standard", progress=False)
    found = {f"weight {key}": value for key, value in model.named_parameters()}
    found |= {f"draw {key}": value for key, value in draws.items()}
    found |= {f"quality {key}": value for key, value in draws.quality().items()}
    found |= {f"prior draw {key}": value for key, value in prior_draws.items()}
    found |= predictions(model, x, r, y)
    found["log_likelihood"] = model.log_likelihood(
        x[:4], r[:4], y[:4], *(part[:4] for part in extra), sites=draws
    )
    found["history"] = torch.tensor(result.history["loss"].to_numpy())
    if model.objective in ("response_revenue", "joint"):
        simulated = {"size": 4} if not model.reads_x else {"x": x[:4]}
        found |= {f"simulated {k}": v for k, v in model.simulate(**simulated, seed=2).items()}
    return {key: value.detach().numpy() for key, value in found.items()}


def largest_difference(name: str, stored: dict[str, np.ndarray]) -> dict[str, float]:
    """The largest relative difference of every prediction at stored weights."""
    model, training, (x, r, y, *_) = built(name)
    model.learn_units(x, r, y)
    model.objective = training.get("objective", model.default_objective)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(stored[f"weight {key}"]))
    worst = {}
    for key, value in predictions(model, x, r, y).items():
        if key not in stored:
            continue
        mine, theirs = value.detach().double(), torch.from_numpy(stored[key]).double()
        equal = (mine == theirs) | (mine.isnan() & theirs.isnan())
        gap = torch.where(equal, 0.0, (mine - theirs).abs() / theirs.abs().clamp(min=1e-30))
        worst[key] = float(gap.max())
    return worst


def compare_predictions(file: str) -> int:
    """Print the largest difference of every kind; the number of kinds with one above 1e-6."""
    differ = 0
    with np.load(file) as golden:
        for kind in KINDS:
            prefix = f"{kind}: "
            stored = {k.removeprefix(prefix): golden[k] for k in golden if k.startswith(prefix)}
            worst = largest_difference(kind, stored)
            where = max(worst, key=worst.__getitem__)
            print(f"{kind:28s} {worst[where]:.1e} in {where}")
            differ += worst[where] > 1e-6
    return differ


def main() -> int:
    """Compare or write; the number of arrays that differ."""
    torch.set_num_threads(1)
    if "--engines" in sys.argv:
        for kind in KINDS:
            _, result, _ = trained(kind)
            print(f"{kind:28s} {result.engine:6s} {result.engine_reason}")
        return 0
    if "--predictions" in sys.argv:
        return compare_predictions(sys.argv[-1])
    arrays = {f"{kind}: {k}": v for kind in KINDS for k, v in computed(kind).items()}
    if "--write" in sys.argv:
        np.savez_compressed(FILE, **arrays)
        print(f"wrote {len(arrays)} arrays of {len(KINDS)} kinds")
        return 0
    differ = 0
    with np.load(FILE) as golden:
        for key in sorted(set(golden) | set(arrays)):
            if key not in arrays or key not in golden:
                print(f"{key}: only {'there' if key in golden else 'here'}")
                differ += 1
            elif not np.array_equal(golden[key], arrays[key], equal_nan=True):
                gap = np.abs(golden[key].astype(float) - arrays[key].astype(float)).max()
                print(f"{key}: differs by {gap:.3g}")
                differ += 1
        print(f"{len(golden)} arrays of {len(KINDS)} kinds, {differ} differ")
    return differ


if __name__ == "__main__":
    sys.exit(min(main(), 1))

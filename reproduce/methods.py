"""The table of methods: how each is made, and its one knob of the search."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

import pyro_gcm
from pyro_gcm import GCM, IGCM, FitResult, baselines, data
from pyro_gcm.models.responses import Continuous
from reproduce.runs import Settings

#: Name of a setting, and the three values of the search, the default first.
Knob = tuple[str, tuple[Any, Any, Any]]
#: The same for several settings.
Grid = dict[str, tuple[Any, Any, Any]]

GRID: Grid = {
    "learning_rate": (0.01, 0.003, 0.03),
    "hidden": (32, 16, 64),
    "weight_decay": (0.0, 1e-4, 1e-2),
}


class Predictor(Protocol):
    """A trained method."""

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1), the mean or the quantile, [B]."""


@dataclass(frozen=True)
class Rows:
    """Rows to train on, and what their response is."""

    x: Tensor
    r: Tensor
    y: Tensor
    response: str


def rows_of(dataset: data.Dataset, index: Tensor) -> Rows:
    """Some rows of a data set."""
    return Rows(dataset.x[index], dataset.r[index], dataset.y[index], dataset.response)


@dataclass(frozen=True)
class Method:
    """A method of the tables.

    :param make: function (x_dim, r_dim, response=, hidden=, seed=, ...) -> model.
    :param knob: its own main setting, where it has one.
    :param grid: what the search goes over besides; a booster has names of its own.
    :param fixed: settings that are part of what it is.
    :param strict: monotone by construction.
    :param trees: a booster's name for the number of its trees.
    """

    make: Callable[..., Any]
    knob: Knob | None = None
    grid: Grid = field(default_factory=lambda: GRID)
    fixed: Settings = field(default_factory=dict)
    strict: bool = True
    trees: str = ""

    @property
    def boosting(self) -> bool:
        """Whether this is a booster, and not a network."""
        return bool(self.trees)


def _seeded(make: Callable[..., Any]) -> Callable[..., Any]:
    """A maker of a module, the weights drawn from a seed."""

    def seeded(*sizes: Any, seed: int, **options: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return make(*sizes, **options)

    return seeded


#: Forms of GCM: the paper's, that with alternatives, and that with splines of the revenues as well.
_GCM_FORMS: dict[str, Settings] = {
    "plain": {},
    "alternatives": {"alternatives": 3, "costs": 3},
    "splines": {"alternatives": 3, "costs": 3, "revenue_map": "piecewise_linear"},
}


def _gcm(x_dim: int, r_dim: int, form: str = "plain", **options: Any) -> GCM:
    return GCM(x_dim, r_dim, **_GCM_FORMS[form], **_with_noise(x_dim, options))


def _igcm(x_dim: int, r_dim: int, alternatives: int = 1, **options: Any) -> IGCM:
    costs = None if alternatives == 1 else 3
    options = _with_noise(x_dim, options)
    return IGCM(x_dim, r_dim, alternatives=alternatives, costs=costs, **options)


def _with_noise(x_dim: int, options: Settings) -> Settings:
    """The response of a continuous y by its `noise`: "constant" suits RMSE, as least squares do."""
    options = dict(options)
    noise = options.pop("noise", "conditional")
    if options.get("response") == "continuous":
        size = {"hidden": options["hidden"]} if "hidden" in options else {}
        options["response"] = _seeded(Continuous)(x_dim, **size, noise=noise, seed=options["seed"])
    return options


def _booster(library: Any, leaves: str, shrinkage: str, smallest: Knob) -> Method:
    """A library of boosting, by its names for the same settings."""
    grid = {"learning_rate": (0.1, 0.03, 0.3), leaves: (31, 7, 15), shrinkage: (0.0, 1.0, 10.0)}
    threads: dict[str, Any] = {} if library == "sklearn" else {"n_jobs": 1}
    make = partial(baselines.MonotoneBoosting, library, **threads)
    return Method(
        make, smallest, grid, trees="max_iter" if library == "sklearn" else "n_estimators"
    )


_LITERAL = {"prior": "standard"}
_PAPER = {"kernel_guide": "amortised", "objective": "paper"}
_FORM = ("form", ("paper", "canonical", "paper"))

#: Name -> method, in the order of the tables.
METHODS: dict[str, Method] = {
    "PosNN": Method(_seeded(baselines.PosNN), _FORM),
    "MM": Method(_seeded(baselines.MM), _FORM),
    "SMM": Method(_seeded(baselines.SMM), _FORM),
    "CMNN": Method(_seeded(baselines.CMNN), ("form", ("paper", "type1", "type2"))),
    "SMNN": Method(_seeded(baselines.SMNN), ("layers", (2, 1, 3))),
    "Hint": Method(_seeded(baselines.Hint), ("weight", (1.0, 0.1, 10.0)), strict=False),
    "PWL": Method(_seeded(baselines.PWL), ("weight", (0.01, 0.001, 0.1)), strict=False),
    "MLP": Method(_seeded(baselines.MLP), strict=False),
    "Lipschitz": Method(_seeded(baselines.LipschitzMonotone), ("bound", (1.0, 3.0, 10.0))),
    "Switch": Method(_seeded(baselines.SwitchMonotone)),
    "HistGradientBoosting": _booster(
        "sklearn", "max_leaf_nodes", "l2_regularization", ("min_samples_leaf", (20, 5, 80))
    ),
    "XGBoost": _booster("xgboost", "max_leaves", "reg_lambda", ("min_child_weight", (1, 5, 20))),
    "LightGBM": _booster(
        "lightgbm", "num_leaves", "reg_lambda", ("min_child_samples", (20, 5, 80))
    ),
    "GCM": Method(_gcm, ("form", ("plain", "alternatives", "splines"))),
    "IGCM": Method(_igcm, ("alternatives", (1, 3, 6)), strict=False),
    "GCM (literal)": Method(_gcm, fixed=_LITERAL),
    "IGCM (paper loss)": Method(_igcm, fixed=_PAPER, strict=False),
}

_TRAINING = (
    "epochs", "batch_size", "learning_rate", "validation", "num_particles", "objective", "elbo",
)  # fmt: skip


def train(
    method: str,
    rows: Rows,
    settings: Settings,
    seed: int,
    *,
    device: str = "cpu",
    watch: Callable[[int, Predictor], None] | None = None,
) -> tuple[Predictor, FitResult | None]:
    """Train a method on rows; boosting has no history.

    :param settings: of the model and of the training: epochs, batch_size, learning_rate,
        weight_decay, optimizer ("adam" or "sgd", both without decay of the rate unless `schedule`
        is "cosine"), validation, num_particles, objective, elbo; the others go to the model.
    :param watch: called with the number of steps and the model, before the first and after each.
    """
    entry = METHODS[method]
    options = {**settings, **entry.fixed}
    training = {name: options.pop(name) for name in _TRAINING if name in options}
    sizes = rows.x.shape[1], rows.r.shape[1]
    if entry.boosting:
        booster = entry.make(response=rows.response, seed=seed, **options, **training)
        return booster.fit(rows.x, rows.r, rows.y), None
    training["optimizer"] = _optimizer(options.pop("optimizer"), options.pop("weight_decay", 0.0))
    training["schedule"] = options.pop("schedule", None)
    model = entry.make(*sizes, response=rows.response, seed=seed, **options)
    fit: Any = baselines.fit if isinstance(model, baselines.Baseline) else pyro_gcm.fit
    with warnings.catch_warnings():
        # The literal loss is asked for by name.
        warnings.filterwarnings("ignore", message="prior='standard'")
        result = fit(
            model,
            rows.x,
            rows.r,
            rows.y,
            seed=seed,
            device=device,
            progress=False,
            callback=None if watch is None else partial(_watched, watch, model),
            **training,
        )
    return model, result


def _watched(watch: Callable[[int, Predictor], None], model: Predictor, step: int) -> None:
    watch(step, model)


def check_weights(model: Any) -> None:
    """What a watcher calls before it predicts: `fit` looks at the loss after an epoch only.

    :raises RuntimeError: as `fit` does, for weights that are not finite.
    """
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise RuntimeError("the loss is not finite, nor are the weights")


def diverged(failure: RuntimeError) -> bool:
    """Whether this is how `fit` says that the loss became infinite or NaN."""
    return str(failure).startswith("the loss is")


def _optimizer(name: str, weight_decay: float) -> Callable[..., torch.optim.Optimizer]:
    if name == "sgd":
        return partial(torch.optim.SGD, weight_decay=weight_decay)
    return partial(torch.optim.AdamW, weight_decay=weight_decay, fused=True)

"""The table of methods: how each is made, what it is, and which experiments run it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

import torch
from torch import Tensor

import pyro_gcm
from pyro_gcm import GCM, IGCM, FitResult, baselines, data, fit_members
from pyro_gcm.baselines import MonotoneBoosting
from pyro_gcm.responses import Continuous
from pyro_gcm.training import AdamW
from reproduce.methods import levels
from reproduce.runs import Settings, read_json

#: Experiment -> (data set ->) method -> the best of six settings on training rows, or on rows of
#: another seed. Commit a7b7e747 has the search.
CHOSEN: dict[str, dict[str, Any]] = read_json(__file__, "chosen.json")


class Predictor(Protocol):
    """A trained method."""

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """Pr(y = 1), the mean or the quantile, [B]."""


@dataclass(frozen=True)
class Rows:
    """Rows to train on, and the kind of their response."""

    x: Tensor
    r: Tensor
    y: Tensor
    response: str
    names: tuple[str, ...] = ()  # of x

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, index: slice | Tensor) -> Rows:
        """Some of the rows."""
        return replace(self, x=self.x[index], r=self.r[index], y=self.y[index])


def rows_of(dataset: data.Dataset, index: Tensor) -> Rows:
    """Some rows of a data set."""
    x, r, y = dataset.x[index], dataset.r[index], dataset.y[index]
    return Rows(x, r, y, dataset.response, dataset.x_names)


@dataclass(frozen=True)
class Method:
    """A method of the tables.

    :param make: function (x_dim, r_dim, response=, hidden=, seed=, ...) -> model; of an estimator,
        function (rows, seed=, device=, ...) -> trained model and what `fit` returned, or None.
    :param experiments: the experiments and protocols that run it.
    :param fixed: settings of the model and of the training that are part of what it is.
    :param strict: monotone by construction.
    :param latent: GCM or IGCM: trained with draws of z, and with a density of y.
    :param estimator: trained by `make`, without epochs.
    :param paper: the method of the paper's tables that it stands beside.
    :param package: the module whose version decides what its defaults are.
    :param density: whether it has a density of a continuous y. Where it has not, the density is
        normal around its prediction, as wide as its errors on a fifth of the training rows that it
        was not trained on.
    """

    make: Callable[..., Any]
    experiments: tuple[str, ...]
    fixed: Settings = field(default_factory=dict)
    strict: bool = True
    latent: bool = False
    estimator: bool = False
    paper: str | None = None
    package: str = "pyro_gcm"
    density: bool = False


def seeded(make: Callable[..., Any]) -> Callable[..., Any]:
    """A maker of a module, the weights drawn from a seed."""

    def made(*sizes: Any, seed: int, **options: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return make(*sizes, **options)

    return made


def _default_members(rows: Rows, seed: int, device: str) -> tuple[Any, FitResult]:
    """What `pyro_gcm.fit_members` makes of a table when nothing else is chosen."""
    if levels.many_levels(rows.names, len(rows)):
        return levels.fitted(rows, seed, device)
    options: Any = {"response": rows.response, "seed": seed, "device": device, "progress": False}
    fitted = fit_members(rows.x, rows.r, rows.y, **options)
    return fitted.model, fitted.result


def _boosted(package: Any, rows: Rows, seed: int, device: str, **options: Any) -> tuple[Any, None]:
    response: Any = rows.response
    model = MonotoneBoosting(package, response=response, seed=seed, **options)
    return model.fit(rows.x, rows.r, rows.y), None


class _Outside:
    """A model of a user's function (rows, seed) -> model; its predictions may be an array."""

    def __init__(self, name: str, rows: Rows, seed: int) -> None:
        self.model = resolve_name(name)(rows, seed)

    def predict(self, x: Tensor, r: Tensor) -> Tensor:
        """The predictions, [B], float64."""
        return torch.as_tensor(self.model.predict(x, r)).detach().double().reshape(len(x))


def _outside(name: str, rows: Rows, seed: int, device: str) -> tuple[_Outside, None]:
    return _Outside(name, rows, seed), None


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
    """The options with a response whose `noise`, where given, is "constant" or "conditional"."""
    options = dict(options)
    noise = options.pop("noise", None)
    if noise is not None:
        size = {"hidden": options["hidden"]} if "hidden" in options else {}
        options["response"] = seeded(Continuous)(x_dim, **size, noise=noise, seed=options["seed"])
    return options


_PUBLIC = ("held-out", "published")


def _network(make: Callable[..., Any], *more: str, **attributes: Any) -> Method:
    """A network of the comparison; `more` are experiments beyond those that have all networks."""
    return Method(seeded(make), (*_PUBLIC, "quantile", *more), **attributes)


_PAPER_LOSS = {"kernel_guide": "amortised", "objective": "paper"}
_gcm_method = partial(Method, _gcm, latent=True, density=True)
_igcm_method = partial(Method, _igcm, latent=True, strict=False, density=True)
_members = partial(Method, _default_members, estimator=True, density=True)


def _boosting(package: str, *experiments: str) -> Method:
    return Method(partial(_boosted, package), experiments, estimator=True, package=package)


def _additive(name: str, package: str) -> Method:
    make = partial(_outside, f"reproduce.methods.additive:{name}")
    return Method(make, (), estimator=True, package=package)


#: Name -> method, in the order of the tables.
METHODS: dict[str, Method] = {
    "PosNN": _network(baselines.PosNN, paper="PosNN"),
    "MM": _network(baselines.MM, "timing", paper="MM"),
    "SMM": _network(baselines.SMM, paper="SMM"),
    "CMNN": _network(baselines.CMNN, "timing", paper="CMNN"),
    "SMNN": _network(baselines.SMNN, paper="SMNN"),
    "Hint": _network(baselines.Hint, strict=False, paper="Hint"),
    "PWL": _network(baselines.PWL, "timing", strict=False, paper="PWL"),
    "MLP": _network(baselines.MLP, strict=False),
    "Lipschitz": _network(baselines.LipschitzMonotone),
    "Switch": _network(baselines.SwitchMonotone),
    "HistGradientBoosting": _boosting("sklearn", "held-out"),
    "XGBoost": _boosting("xgboost"),
    "LightGBM": _boosting("lightgbm"),
    "GCM": _gcm_method((*_PUBLIC, "quantile", "ablation", "timing"), paper="GCM"),
    "IGCM": _igcm_method((*_PUBLIC, "ablation"), paper="IGCM"),
    # The losses of the paper that were found wanting are in the published protocol only.
    "GCM (literal)": _gcm_method(("published",), fixed={"prior": "standard"}, paper="GCM"),
    "IGCM (paper loss)": _igcm_method(("published",), fixed=_PAPER_LOSS, paper="IGCM"),
    "Members, default": _members(("members",)),
    "CatBoost": _boosting("catboost"),
    "Members": _members(()),
    "Linear": _additive("linear", "sklearn"),
    "Additive": _additive("additive", "pygam"),
}
#: The neural methods that the paper compares with.
NETWORKS = ("PosNN", "MM", "SMM", "CMNN", "SMNN", "Hint", "PWL")
#: Rivals that add up columns, run on the later data sets of `untouched` in place of networks.
ADDITIVE = ("Linear", "Additive")
#: Methods that are also run with the defaults of their libraries.
DEFAULTS = (
    *("HistGradientBoosting", "XGBoost", "LightGBM", "CatBoost", "Members", "GCM", "IGCM"),
    *NETWORKS,
    *ADDITIVE,
)


def method_of(name: str) -> Method:
    """The method of a name in the table, or that of "module:function"."""
    return METHODS.get(name) or Method(partial(_outside, name), (), estimator=True)


def version_of(method: str) -> Settings:
    """The version of the library whose defaults a method has, or the source of one from outside.

    :raises ImportError: if the library is not installed.
    """
    if method not in METHODS:
        source = Path(str(inspect.getsourcefile(resolve_name(method)))).read_bytes()
        return {"source": hashlib.sha256(source).hexdigest()[:12]}
    package = METHODS[method].package
    return {package: import_module(package).__version__}


def methods_of(experiment: str) -> list[str]:
    """The methods that an experiment or a protocol runs, in the order of the table."""
    return [name for name, method in METHODS.items() if experiment in method.experiments]


def least_squares(metric: str, method: str) -> Settings:
    """For RMSE, the mean outside the logarithm, as in the paper's appendix D.3, and one spread.

    The importance-weighted bound fits a mixture over z: a better density, a worse mean.
    """
    if metric != "RMSE":
        return {}
    bound = {} if METHODS[method].fixed.get("objective") == "paper" else {"elbo": "elbo"}
    return {"noise": "constant", **bound}


_TRAINING = (
    "epochs", "batch_size", "learning_rate", "validation", "num_particles",
    "objective", "elbo", "standardize",
)  # fmt: skip
_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": AdamW,
}


def train(
    method: str,
    rows: Rows,
    settings: Settings | None,
    seed: int,
    *,
    device: str = "cpu",
) -> tuple[Predictor, FitResult | None]:
    """Train a method on rows; a booster has no history.

    :param settings: of the model and of the training: epochs, batch_size, learning_rate,
        optimizer ("adam" or "sgd"; torch's Adam where it is left out), weight_decay, schedule
        ("cosine"; a constant rate where it is left out), validation, num_particles,
        objective, elbo, standardize; the others go to the model. None for all defaults.
    :raises Diverged: if the loss is infinite or NaN.
    """
    entry = method_of(method)
    if entry.estimator:
        options = {**(settings or {}), **entry.fixed, "seed": seed, "device": device}
        trained: tuple[Predictor, FitResult | None] = entry.make(rows, **options)
        return trained
    model, training = made(method, rows, settings, seed)
    fit: Any = pyro_gcm.fit if entry.latent else baselines.fit
    columns = rows.x, rows.r, rows.y
    result = fit(model, *columns, seed=seed, device=device, progress=False, **training)
    return model, result


def made(method: str, rows: Rows, settings: Settings | None, seed: int) -> tuple[Any, Settings]:
    """A model of a method that is no estimator, for such rows, and the options of its training.

    :param settings: as in `train`.
    """
    entry = METHODS[method]
    options = {**(settings or {}), **entry.fixed}
    training = {name: options.pop(name) for name in _TRAINING if name in options}
    if settings is not None:
        training["schedule"] = options.pop("schedule", None)
    decay = options.pop("weight_decay", 0.0)
    if "optimizer" in options:
        make_optimizer = _OPTIMIZERS[options.pop("optimizer")]
        training["optimizer"] = partial(make_optimizer, weight_decay=decay)
    sizes = rows.x.shape[1], rows.r.shape[1]
    return entry.make(*sizes, response=rows.response, seed=seed, **options), training

"""Public functions and methods with arguments that are right, of which a test makes one wrong."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pandas as pd
import torch
import zoo

import pyro_gcm
from pyro_gcm import baselines, diagnostics, estimators

#: A function and all its arguments, those by default too.
Call = tuple[Callable[..., Any], dict[str, Any]]
ROWS = 24
X, R, Y = zoo.rows("binary", ROWS).map(torch.Tensor.float)
REAL_Y = zoo.rows("continuous", ROWS).y.float()
TABLE = pd.DataFrame(torch.cat([X, R], 1).numpy(), columns=list("abcde"))
FEW: dict[str, Any] = {"x": X[:4], "r": R[:4]}
DATA: dict[str, Any] = {"x": X, "r": R, "y": Y}


@functools.cache
def fitted(kind: Any) -> Any:
    """An estimator."""
    made = kind(monotonic_cst={"d": 1, "e": 1}, members=2, hidden=4, epochs=1, random_state=0)
    return made.fit(TABLE, (Y if kind is estimators.GCMClassifier else REAL_Y).numpy())


def model(name: str = "plain") -> Any:
    """A trained model of the zoo, in float32."""
    return zoo.trained(name, torch.float32)


def call(function: Callable[..., Any], **given: Any) -> Call:
    """A function with the arguments given and the defaults of all others."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return function, {p.name: p.default for p in named if p.name not in given} | given


def method(make: Callable[[], Any], name: str, **given: Any) -> Callable[[], Call]:
    """A method of an object that is made when it is called for."""
    return lambda: call(getattr(make(), name), **given)


def of_model(function: Callable[..., Any]) -> Callable[[], Call]:
    """A function of a model and its rows."""
    return lambda: call(function, model=model(), **DATA)


#: The programs of the models.
PROGRAMS: dict[str, Callable[[], Call]] = {
    f"{name} of {kind}": method(functools.partial(model, kind), name, **DATA)
    for kind in ("plain", "implicit")
    for name in ("model", "guide")
}
#: Calls that read rows x and r for a model or a baseline.
OF_ROWS: dict[str, Callable[[], Call]] = {
    **{
        f"{name} of {kind}": method(functools.partial(model, kind), name, **given)
        for kind in ("plain", "implicit")
        for name, given in {
            "predict": FEW,
            "predict_draws": FEW,
            "surface": {"x": X, "revenues": R},
            "surface_draws": {"x": X, "revenues": R},
            "log_prob": DATA,
            "cost": {"x": X},
            "effective_sample_size": FEW,
            "posterior": DATA,
            "cost_posterior": DATA,
            "log_likelihood": {
                **DATA,
                "sites": {"z": torch.zeros(2, ROWS, 2), "k": torch.zeros(2, ROWS, 2)},
            },
        }.items()
    },
    "fit": lambda: call(pyro_gcm.fit, model=zoo.build("plain"), **DATA),
    "required_revenue": method(model, "required_revenue", x=X, level=0.5),
    "kernel": method(lambda: model("implicit"), "kernel", **FEW),
    "baselines.fit": lambda: call(baselines.fit, model=baselines.SMM(3, 2), **DATA),
    "Baseline.predict": method(lambda: baselines.SMM(3, 2), "predict", **FEW),
    "Baseline.surface": method(lambda: baselines.SMM(3, 2), "surface", x=X, revenues=R),
    "importance_diagnostics": of_model(diagnostics.importance_diagnostics),
    "bound_by_particles": of_model(diagnostics.bound_by_particles),
    "to_arviz": of_model(pyro_gcm.to_arviz),
}

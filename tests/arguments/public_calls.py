"""Public functions and methods with arguments that are right, of which a test makes one wrong."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyro.distributions as dist
import torch
import zoo
from called_objects import (
    LEVELS,
    REAL_Y,
    ROWS,
    SURVIVAL_TIMES,
    TABLE,
    TARGETS,
    TIMES,
    R,
    X,
    Y,
    audit,
    boosting,
    fitted,
    folder,
)

import pyro_gcm
from pyro_gcm import (
    GCM,
    IGCM,
    baselines,
    data,
    diagnostics,
    estimators,
    nets,
    plots,
    report,
)
from pyro_gcm.audit import audit_table
from pyro_gcm.inference import ImportanceWeightedELBO

Call = tuple[Callable[..., Any], dict[str, Any]]
FEW: dict[str, Any] = {"x": X[:4], "r": R[:4]}
DATA: dict[str, Any] = {"x": X, "r": R, "y": Y}
SIZES = {"x_dim": 3, "r_dim": 2}
CURVE = pd.DataFrame({"a": [0.0, 1.0], "prediction": [0.1, 0.2]})
CLASSIFIER, REGRESSOR, ORDINAL, SURVIVAL = (functools.partial(fitted, kind) for kind in TARGETS)


def model(name: str = "plain") -> Any:
    """A trained model of the zoo, in float32."""
    return zoo.trained(name, torch.float32)


def call(function: Callable[..., Any], **given: Any) -> Call:
    """A function with the arguments given and the defaults of all others."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return function, {p.name: p.default for p in named if p.name not in given} | given


def method(of: Callable[[], Any], name: str, **given: Any) -> Callable[[], Call]:
    """A method of an object that is made when it is called for."""
    return lambda: call(getattr(of(), name), **given)


def function(made: Callable[..., Any], **given: Any) -> Callable[[], Call]:
    """A function; `model` is that of the zoo with this name."""
    return lambda: call(
        made,
        **{k: model(v) if k == "model" and isinstance(v, str) else v for k, v in given.items()},
    )


def estimator(kind: Any, target: Any, **options: Any) -> Callable[[], Call]:
    """All options of a kind of estimator, which are checked when it is fitted."""
    given = {**kind(epochs=1, random_state=0).get_params(), **options}
    return lambda: ((lambda **chosen: kind(**chosen).fit(TABLE, target)), given)


#: The programs of the models.
PROGRAMS: dict[str, Callable[[], Call]] = {
    f"{name} of {kind}": method(functools.partial(model, kind), name, **DATA)
    for kind in ("plain", "implicit")
    for name in ("model", "guide")
}
#: Calls that read rows x and r for a model or a baseline.
OF_ROWS: dict[str, Callable[[], Call]] = {
    **{
        f"{kind}{name}": method(functools.partial(model, of), name, **given)
        for kind, of in (("", "plain"), ("IGCM.", "implicit"))
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
    "fit": function(pyro_gcm.fit, model=zoo.build("plain"), **DATA),
    "required_revenue": method(model, "required_revenue", x=X, level=0.5),
    "predict_given_kernel": method(lambda: model("implicit"), "predict_given_kernel", x=X, k=R),
    "kernel": method(lambda: model("implicit"), "kernel", **FEW),
    "baselines.fit": function(baselines.fit, model=baselines.SMM(3, 2), **DATA),
    "Baseline.predict": method(lambda: baselines.SMM(3, 2), "predict", **FEW),
    "Baseline.surface": method(lambda: baselines.SMM(3, 2), "surface", x=X, revenues=R),
    "importance_diagnostics": function(diagnostics.importance_diagnostics, model="plain", **DATA),
    "bound_by_particles": function(diagnostics.bound_by_particles, model="plain", **DATA),
    "to_arviz": function(pyro_gcm.to_arviz, model="plain", **DATA),
}
CALLS: dict[str, Callable[[], Call]] = {
    **OF_ROWS,
    "learn_units": method(lambda: zoo.build("plain"), "learn_units", **DATA),
    "predictive": method(lambda: model("continuous"), "predictive", **FEW),
    "cdf": method(lambda: model("continuous").predictive(**FEW), "cdf", y=DATA["y"]),
    "GCM": function(GCM, **SIZES),
    "IGCM": function(IGCM, **SIZES),
    "fit_members": function(pyro_gcm.fit_members, **DATA),
    "responsibilities": method(lambda: model("members"), "responsibilities", **DATA),
    "simulate": method(lambda: model("joint"), "simulate", size=3),
    "ImportanceWeightedELBO": function(ImportanceWeightedELBO, num_particles=2),
    "baselines.SMM": function(baselines.SMM, **SIZES),
    "baselines.MLP": function(baselines.MLP, **SIZES),
    "MonotoneBoosting": function(baselines.MonotoneBoosting),
    "MonotoneBoosting.fit": method(boosting, "fit", **DATA),
    "MonotoneBoosting.predict": method(boosting, "predict", **FEW),
    "data.load": function(data.load, name="auto_mpg"),
    "simulate_auctions": function(data.simulate_auctions, num_auctions=20),
    "audit_monotonicity": lambda: call(
        pyro_gcm.audit_monotonicity, predictor=model(), x=X, r=R, pairs=20
    ),
    "audit_table": lambda: call(audit_table, predictor=CLASSIFIER(), X=TABLE, pairs=20),
    "reliability_curve": function(diagnostics.reliability_curve, probability=Y * 0.5, y=Y),
    "predictive_check": function(
        diagnostics.predictive_check, replicated=Y.expand(4, -1), y=Y, quantiles=(0.1, 0.9)
    ),
    "pareto_k": function(diagnostics.pareto_k, log_weights=torch.randn(50, 3)),
    "guide_draws": function(diagnostics.guide_draws, model="plain", **DATA),
    "simulation_based_calibration": function(
        diagnostics.simulation_based_calibration, model="plain", x=X
    ),
    "plot_response_curves": function(plots.plot_response_curves, model="plain", x=X[:2]),
    "plot_cost_density": function(plots.plot_cost_density, model="plain", x=X[:1]),
    "plot_cost_pairs": function(plots.plot_cost_pairs, model="plain", x=X[:1]),
    "plot_latent": function(plots.plot_latent, z=torch.randn(ROWS, 2), y=Y),
    "plot_ranks": function(plots.plot_ranks, ranks=torch.arange(10), num_draws=10),
    "plot_feature_curve": function(plots.plot_feature_curve, curve=CURVE),
    "kaplan_meier": function(diagnostics.kaplan_meier, y=SURVIVAL_TIMES),
    "plot_survival": function(
        plots.plot_survival,
        times=[1.0, 2.0],
        survival=torch.full((ROWS, 2), 0.5),
        y=SURVIVAL_TIMES,
        groups=[0, 1] * (ROWS // 2),
    ),
    "plot_audit": lambda: call(plots.plot_audit, audit=audit()),
    "GCMClassifier": estimator(estimators.GCMClassifier, Y.numpy()),
    "GCMOrdinal": estimator(estimators.GCMOrdinal, LEVELS, levels=[0, 1, 2, 3]),
    "GCMRegressor": estimator(estimators.GCMRegressor, REAL_Y.numpy(), response="distribution"),
    "IGCMRegressor": estimator(estimators.IGCMRegressor, REAL_Y.numpy()),
    "GCMSurvival": estimator(estimators.GCMSurvival, TIMES),
    "GCMSurvival.fit": method(SURVIVAL, "fit", X=TABLE, y=TIMES),
    "GCMSurvival.predict_survival_function": method(
        SURVIVAL, "predict_survival_function", X=TABLE, return_array=True, times=[1.0, 2.0]
    ),
    "GCMSurvival.predict_cumulative_hazard_function": method(
        SURVIVAL, "predict_cumulative_hazard_function", X=TABLE, return_array=True, times=[1.0, 2.0]
    ),
    "GCMSurvival.predict_quantile": method(SURVIVAL, "predict_quantile", X=TABLE, levels=[0.5]),
    "GCMSurvival.sample_times": method(SURVIVAL, "sample_times", X=TABLE, y=TIMES),
    "GCMSurvival.score": method(SURVIVAL, "score", X=TABLE, y=TIMES),
    "estimator.fit": method(CLASSIFIER, "fit", X=TABLE, y=TARGETS[estimators.GCMClassifier]),
    "estimator.predict": method(CLASSIFIER, "predict", X=TABLE),
    "estimator.predict_proba": method(CLASSIFIER, "predict_proba", X=TABLE),
    "estimator.predict_bands": method(CLASSIFIER, "predict_bands", X=TABLE),
    "estimator.predict_interval": method(REGRESSOR, "predict_interval", X=TABLE),
    "estimator.predict_quantiles": method(REGRESSOR, "predict_quantiles", X=TABLE, levels=[0.5]),
    "estimator.cdf": method(REGRESSOR, "cdf", X=TABLE, values=[0.0]),
    "estimator.sample": method(REGRESSOR, "sample", X=TABLE),
    "estimator.crps": method(REGRESSOR, "crps", X=TABLE, y=REAL_Y.numpy()),
    "estimator.log_prob": method(REGRESSOR, "log_prob", X=TABLE, y=REAL_Y.numpy()),
    "ordinal.predict_cumulative": method(ORDINAL, "predict_cumulative", X=TABLE),
    "ordinal.predict_median": method(ORDINAL, "predict_median", X=TABLE),
    "ordinal.explain": method(ORDINAL, "explain", X=TABLE, above=0),
    "estimator.required": method(CLASSIFIER, "required", X=TABLE, feature="d", probability=0.5),
    "estimator.explain": method(REGRESSOR, "explain", X=TABLE, above=0.0),
    "estimator.response_curve": method(CLASSIFIER, "response_curve", X=TABLE, feature="d"),
    "save": lambda: call(
        pyro_gcm.save, model_or_estimator=model(), folder=folder() / "other", overwrite=True
    ),
    "load": lambda: call(pyro_gcm.load, folder=folder() / "model"),
    "write_report": lambda: call(
        report.write_report, estimator=CLASSIFIER(), X=TABLE, path=folder() / "a.html", pairs=3
    ),
    "read_card": lambda: call(pyro_gcm.io.read_card, folder=folder() / "model"),
    **{
        f"nets.{made.__name__}": function(made, **given)
        for made, given in (
            (nets.Conditional, {"family": dist.Normal, "in_dim": 3, "event_shape": (2,)}),
            (nets.ConditionalCategorical, {"in_dim": 3, "categories": 2}),
            (nets.ConditionalFlow, {"in_dim": 3, "dim": 2}),
            (nets.ConditionalMixture, {"in_dim": 3, "dim": 2}),
            (nets.ConditionalMultivariateNormal, {"in_dim": 3, "dim": 2}),
            (nets.ConstantLogits, {"shape": (2,)}),
            (nets.PositiveLinear, {"r_dim": 2, "event_shape": (2,)}),
            (nets.StandardNormal, {"dim": 2}),
            (nets.Standardizer, {"dim": 2}),
        )
    },
    "export": lambda: call(pyro_gcm.export, model=model("members"), path=folder() / "a.pt2"),
    "Dataset.split": method(
        lambda: data.Dataset("toy", "default", X, R, Y, tuple("abc"), tuple("de"), "binary", "auc"),
        "split",
    ),
}

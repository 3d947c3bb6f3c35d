"""Diagnostics, figures, estimators and files, with arguments with which they work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import torch
from called_objects import ROWS, Toys

import pyro_gcm
from pyro_gcm import data, diagnostics, estimators, plots, report

Call = tuple[Callable[..., Any], dict[str, Any]]


def estimating_of(kind: Any) -> dict[str, Any]:
    """All options of a kind of estimator, for a quick fit."""
    options: dict[str, Any] = kind(epochs=1, random_state=0).get_params()
    return options


def calls_from_outside(t: Toys) -> dict[str, Call]:
    """By a name: a function that looks at models from outside, and its arguments."""
    x, r, y = t.x, t.r, t.y
    estimating = estimating_of(estimators.GCMClassifier)
    implicit = estimating_of(estimators.IGCMRegressor)
    surviving = estimating_of(estimators.GCMSurvival)
    curve = pd.DataFrame({"a": [0.0, 1.0], "prediction": [0.1, 0.2]})
    ax = {"ax": None}
    model, c = t.model, {"c": None}
    return {
        "reliability_curve": (
            diagnostics.reliability_curve,
            {"probability": y * 0.5, "y": y, "bins": 2, "strategy": "quantile"},
        ),
        "predictive_check": (
            diagnostics.predictive_check,
            {
                "replicated": y.expand(4, -1),
                "y": y,
                "statistic": "mean",
                "groups": None,
                "quantiles": (0.1, 0.9),
            },
        ),
        "importance_diagnostics": (
            diagnostics.importance_diagnostics,
            {
                "model": model,
                **t.rows,
                **c,
                "num_particles": 32,
                "objective": None,
                "batch_size": 16,
                "seed": 0,
                "progress": False,
            },
        ),
        "bound_by_particles": (
            diagnostics.bound_by_particles,
            {
                "model": model,
                **t.rows,
                **c,
                "num_particles": (1, 2),
                "objective": None,
                "batch_size": 16,
                "seed": 0,
                "progress": False,
            },
        ),
        "pareto_k": (diagnostics.pareto_k, {"log_weights": torch.randn(50, 3)}),
        "compare_assumptions": (
            diagnostics.compare_assumptions,
            {
                "data": (x, r, y),
                "response": "binary",
                "strict": None,
                "implicit": None,
                "implicit_objective": "conditional",
                "folds": 2,
                "seed": 0,
                "progress": False,
                "epochs": 1,
            },
        ),
        "simulation_based_calibration": (
            diagnostics.simulation_based_calibration,
            {"model": model, "x": x, "num_draws": 3, "seed": 0, "progress": False},
        ),
        "render_model": (
            diagnostics.render_model,
            {
                "model": model,
                "view": "model",
                "model_args": None,
                "model_kwargs": None,
                "path": None,
            },
        ),
        "to_arviz": (pyro_gcm.to_arviz, {"model": model, **t.rows, **c, "num_samples": 8}),
        "plot_response_curves": (
            plots.plot_response_curves,
            {
                "model": model,
                "x": x[:2],
                "revenue": 0,
                "grid": None,
                "r": None,
                "probability": 0.9,
                "band": True,
                "num_samples": 4,
                "labels": None,
                "revenue_name": None,
                "outcome_name": None,
                **ax,
            },
        ),
        "plot_cost_density": (
            plots.plot_cost_density,
            {
                "model": model,
                "x": x[:1],
                "r": None,
                "cost": 0,
                "draws": None,
                "num_samples": 4,
                "label": None,
                **ax,
            },
        ),
        "plot_cost_pairs": (
            plots.plot_cost_pairs,
            {
                "model": model,
                "x": x[:1],
                "r": None,
                "pair": (0, 1),
                "masses": (0.5,),
                "draws": None,
                "num_samples": 4,
                "labels": None,
                **ax,
            },
        ),
        "plot_latent": (
            plots.plot_latent,
            {
                "z": torch.randn(ROWS, 2),
                "y": y,
                "dims": (0, 1),
                "num_draws": 2,
                "latent_name": "z",
                "outcome_name": "y",
                **ax,
            },
        ),
        "plot_ranks": (
            plots.plot_ranks,
            {"ranks": torch.arange(10), "num_draws": 10, "bins": None, "label": None, **ax},
        ),
        "plot_feature_curve": (
            plots.plot_feature_curve,
            {
                "curve": curve,
                "rows": None,
                "base_rate": None,
                "feature_name": None,
                "outcome_name": None,
                "band_name": None,
                "percent": False,
                **ax,
            },
        ),
        "kaplan_meier": (diagnostics.kaplan_meier, {"y": t.survival_times, "level": 0.9}),
        "plot_survival": (
            plots.plot_survival,
            {
                "times": [1.0, 2.0],
                "survival": torch.full((ROWS, 2), 0.5),
                "y": t.survival_times,
                "groups": [0, 1] * (ROWS // 2),
                "level": 0.9,
                "at_risk": True,
                "time_name": "days",
                **ax,
            },
        ),
        "plot_audit": (plots.plot_audit, {"audit": t.audit, "outcome_name": "p"}),
        "GCMClassifier": (
            lambda **options: estimators.GCMClassifier(**options).fit(t.X, y.numpy()),
            estimating,
        ),
        "GCMOrdinal": (
            lambda **options: estimators.GCMOrdinal(**options).fit(t.X, t.levels),
            {**estimating_of(estimators.GCMOrdinal), "levels": [0, 1, 2]},
        ),
        "GCMRegressor": (
            lambda **options: estimators.GCMRegressor(**options).fit(t.X, t.t.numpy()),
            {"epochs": 1, "random_state": 0, "response": "distribution"},
        ),
        "IGCMRegressor": (
            lambda **options: estimators.IGCMRegressor(**options).fit(t.X, t.t.numpy()),
            implicit,
        ),
        "GCMSurvival": (
            lambda **options: estimators.GCMSurvival(**options).fit(t.X, t.times),
            surviving,
        ),
        "GCMSurvival.fit": (
            estimators.GCMSurvival(epochs=1).fit,
            {"X": t.X, "y": t.times, "sample_weight": None},
        ),
        **{
            f"GCMSurvival.{name}": (
                getattr(t.survival, name),
                {"X": t.X, "return_array": True, "times": [1.0, 2.0]},
            )
            for name in ("predict_survival_function", "predict_cumulative_hazard_function")
        },
        "GCMSurvival.predict_quantile": (
            t.survival.predict_quantile,
            {"X": t.X, "levels": [0.5]},
        ),
        "GCMSurvival.sample_times": (
            t.survival.sample_times,
            {"X": t.X, "y": t.times, "num_samples": 4, "seed": 0},
        ),
        "GCMSurvival.score": (
            t.survival.score,
            {"X": t.X, "y": t.times, "sample_weight": None},
        ),
        "estimator.fit": (
            estimators.GCMClassifier(epochs=1).fit,
            {"X": t.X, "y": y.numpy(), "sample_weight": None},
        ),
        "estimator.predict": (t.classifier.predict, {"X": t.X}),
        "estimator.predict_proba": (t.classifier.predict_proba, {"X": t.X}),
        "estimator.predict_bands": (t.classifier.predict_bands, {"X": t.X, "level": 0.5}),
        "estimator.predict_interval": (t.regressor.predict_interval, {"X": t.X, "level": 0.5}),
        "estimator.predict_quantiles": (
            t.regressor.predict_quantiles,
            {"X": t.X, "levels": [0.5]},
        ),
        "estimator.cdf": (t.regressor.cdf, {"X": t.X, "values": [0.0]}),
        "estimator.sample": (t.regressor.sample, {"X": t.X, "count": 2, "random_state": 0}),
        "estimator.crps": (t.regressor.crps, {"X": t.X, "y": t.t.numpy()}),
        "estimator.log_prob": (t.regressor.log_prob, {"X": t.X, "y": t.t.numpy()}),
        "ordinal.predict_cumulative": (t.ordinal.predict_cumulative, {"X": t.X}),
        "ordinal.predict_median": (t.ordinal.predict_median, {"X": t.X}),
        "ordinal.explain": (t.ordinal.explain, {"X": t.X, "above": 0, "level": 0.5}),
        "estimator.required": (
            t.classifier.required,
            {"X": t.X, "feature": "d", "probability": 0.5, "below": False, "level": 0.5},
        ),
        "estimator.explain": (t.regressor.explain, {"X": t.X, "above": 0.0, "level": 0.5}),
        "estimator.response_curve": (
            t.classifier.response_curve,
            {"X": t.X, "feature": "d", "values": None, "level": 0.5},
        ),
        "save": (
            pyro_gcm.save,
            {
                "model_or_estimator": model,
                "folder": t.folder / "model",
                "factories": None,
                "metrics": None,
                "overwrite": True,
            },
        ),
        "load": (
            pyro_gcm.load,
            {"folder": pyro_gcm.save(model, t.folder / "load"), "factories": None, "device": "cpu"},
        ),
        "write_report": (
            report.write_report,
            {
                "estimator": t.classifier,
                "X": t.X,
                "y": None,
                "path": t.folder / "report.html",
                "title": None,
                "target": "y",
                "labels": None,
                "event": "the event",
                "source": None,
                "folder": None,
                "card": None,
                "pairs": 3,
                "level": 0.9,
                "seed": 0,
                "progress": False,
            },
        ),
        "read_card": (pyro_gcm.io.read_card, {"folder": t.folder / "load"}),
        "export": (
            pyro_gcm.export,
            {"model": t.members, "path": t.folder / "a.pt2", "format": "torch", "batch": 32},
        ),
        "Dataset.split": (
            data.Dataset(
                "toy", "default", x, r, y, ("a", "b", "c"), ("d", "e"), "binary", "auc"
            ).split,
            {"seed": 0},
        ),
    }

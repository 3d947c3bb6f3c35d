"""Public functions and methods with arguments that are right, of which a test makes one wrong."""

from __future__ import annotations

import copy
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import pyro_gcm
from pyro_gcm import GCM, IGCM, audit, baselines, data, diagnostics, encoders, estimators, plots
from pyro_gcm.inference import ImportanceWeightedELBO, PooledELBO
from pyro_gcm.models.member_settings import MemberSettings

Call = tuple[Callable[..., Any], dict[str, Any]]
ROWS = 24


class Toys:
    """Data, and objects that were made of them."""

    def __init__(self) -> None:
        g = torch.Generator().manual_seed(0)
        self.x, self.r = torch.randn(ROWS, 3, generator=g), torch.randn(ROWS, 2, generator=g)
        self.y = (self.r.sum(1) + torch.randn(ROWS, generator=g) > 0).float()
        self.t = self.r.sum(1) + self.x[:, 0]
        self.rows = {"x": self.x, "r": self.r, "y": self.y}
        self.X = pd.DataFrame(torch.cat([self.x, self.r], 1).numpy(), columns=list("abcde"))
        self.folder = Path(tempfile.mkdtemp())

    @functools.cached_property
    def model(self) -> GCM:
        """Of binary y."""
        return self._trained(GCM(3, 2, hidden=4, num_samples=8, seed=0), self.y)

    @functools.cached_property
    def members(self) -> GCM:
        """Of members."""
        return self._trained(GCM(3, 2, prior="members", members=2, hidden=4, seed=0), self.y)

    @functools.cached_property
    def continuous(self) -> GCM:
        """Of continuous y."""
        model = GCM(3, 2, response="continuous", hidden=4, num_samples=8, seed=0)
        return self._trained(model, self.t)

    @functools.cached_property
    def joint(self) -> GCM:
        """Of the whole program."""
        model = GCM(3, 2, prior="standard", hidden=4, num_samples=8, seed=0)
        return self._trained(model, self.y, objective="joint")

    @functools.cached_property
    def implicit(self) -> IGCM:
        """An IGCM."""
        return self._trained(IGCM(3, 2, hidden=4, num_samples=8, seed=0), self.y)

    def _trained(self, model: Any, y: torch.Tensor, **options: Any) -> Any:
        quick: dict[str, Any] = {"epochs": 1, "num_particles": 2, "progress": False, **options}
        pyro_gcm.fit(model, self.x, self.r, y, **quick)
        return model

    @functools.cached_property
    def network(self) -> baselines.SMM:
        """A baseline."""
        return baselines.SMM(3, 2)

    @functools.cached_property
    def boosting(self) -> baselines.MonotoneBoosting:
        """Fitted."""
        return baselines.MonotoneBoosting(max_iter=2).fit(self.x, self.r, self.y)

    @functools.cached_property
    def classifier(self) -> estimators.GCMClassifier:
        """Fitted."""
        made = estimators.GCMClassifier(monotonic_cst={"d": 1, "e": 1}, epochs=1, random_state=0)
        return made.fit(self.X, self.y.numpy())

    @functools.cached_property
    def regressor(self) -> estimators.GCMRegressor:
        """Fitted."""
        made = estimators.GCMRegressor(monotonic_cst={"d": 1, "e": 1}, epochs=1, random_state=0)
        return made.fit(self.X, self.t.numpy())

    @functools.cached_property
    def audit(self) -> pyro_gcm.MonotonicityAudit:
        """Of a predictor that falls."""
        return pyro_gcm.audit_monotonicity(
            lambda x, r: -r[:, 0], self.x, self.r, pairs=50, progress=False
        )

    @functools.cached_property
    def boosted(self) -> encoders.Boosted:
        """A model with the score of boosters."""
        score = encoders.BoostedScore("revenue", "sklearn", folds=2, max_iter=2)
        columns = score.columns(self.x, self.r, score.fit(self.x, self.r, self.y))
        model = GCM(3, 3, hidden=4, num_samples=8)
        pyro_gcm.fit(model, *columns, self.y, epochs=1, progress=False)
        return encoders.Boosted(model, score)


def public_calls() -> dict[str, Call]:
    """By a name: a function, and arguments with which it works."""
    t = Toys()
    x, r, y = t.x, t.r, t.y
    few = {"x": x[:4], "r": r[:4]}
    sizes: dict[str, Any] = {"x_dim": 3, "r_dim": 2}
    training: dict[str, Any] = {
        "standardize": True,
        "epochs": 1,
        "batch_size": 16,
        "learning_rate": 0.01,
        "optimizer": None,
        "schedule": "cosine",
        "clip_norm": 10.0,
        "validation": 0.3,
        "patience": 1,
        "seed": 0,
        "device": "cpu",
        "progress": False,
        "checkpoint": None,
        "callback": None,
    }
    bound: dict[str, Any] = {
        "objective": None,
        "elbo": None,
        "num_particles": 2,
        "particles": "random",
        "temperature": 1.0,
        "engine": "auto",
        "sample_weight": None,
        "c": None,
    }
    posterior: dict[str, Any] = {
        "num_samples": 4,
        "units": None,
        "method": "auto",
        "num_proposals": 64,
        "seed": 0,
        "progress": False,
    }
    searching: dict[str, Any] = {
        "pairs": 20,
        "searches": ("random",),
        "margin": 0.0,
        "tolerance": None,
        "batch_size": 64,
        "seed": 0,
        "progress": False,
    }
    shared: dict[str, Any] = {
        "response": "binary",
        "prior": "conditional",
        "guide": None,
        "z_dim": 2,
        "hidden": 4,
        "alternatives": 1,
        "costs": None,
        "cost_family": "normal",
        "p0": None,
        "num_samples": 8,
        "seed": 0,
        "name": None,
    }
    of_igcm: dict[str, Any] = {
        "k_dim": None,
        "kernel_prior": "standard",
        "kernel_guide": "exact",
        "kernel_map": None,
        "dr_net": None,
        "x_decoder": None,
    }
    of_gcm: dict[str, Any] = {
        "members": 2,
        "member_weights": "uniform",
        "revenue_map": None,
        "x_decoder": None,
        "r_decoder": None,
    }
    estimating: dict[str, Any] = {
        k: v for k, v in estimators.GCMClassifier(epochs=1, random_state=0).get_params().items()
    }
    implicit: dict[str, Any] = {
        k: v for k, v in estimators.IGCMRegressor(epochs=1, random_state=0).get_params().items()
    }
    curve = pd.DataFrame({"a": [0.0, 1.0], "prediction": [0.1, 0.2]})
    ax = {"ax": None}
    model, c = t.model, {"c": None}
    calls: dict[str, Call] = {
        "GCM": (GCM, {**sizes, **shared, **of_gcm}),
        "IGCM": (IGCM, {**sizes, **shared, **of_igcm}),
        "fit": (
            lambda model, **given: pyro_gcm.fit(copy.deepcopy(model), **given),
            {"model": GCM(3, 2, hidden=4), **t.rows, **bound, **training},
        ),
        "fit_members": (
            pyro_gcm.fit_members,
            {
                **t.rows,
                "sample_weight": None,
                "response": "binary",
                "settings": MemberSettings(members=2, width=4, epochs=1),
                "early_stopping": False,
                "ordered": (),
                "seed": 0,
                "device": "cpu",
                "progress": False,
            },
        ),
        "predict": (model.predict, {**few, "num_samples": 4}),
        "predict_draws": (model.predict_draws, {**few, "num_samples": 4}),
        "surface": (
            model.surface,
            {"x": x, "revenues": r, "num_samples": 4, "reduce": None, "memory": 256.0},
        ),
        "surface_draws": (model.surface_draws, {"x": x, "revenues": r, "num_samples": 4}),
        "log_prob": (model.log_prob, {**t.rows, **c, "num_samples": 4}),
        "cdf": (t.continuous.cdf, {**t.rows, "num_samples": 4}),
        "cost": (model.cost, {"x": x, "num_samples": 4}),
        "effective_sample_size": (model.effective_sample_size, {**few, "num_samples": 4}),
        "required_revenue": (
            model.required_revenue,
            {"x": x, "level": 0.5, "revenue": 0, "r": None, "num_samples": 4},
        ),
        "posterior": (model.posterior, {**t.rows, **c, **posterior}),
        "cost_posterior": (model.cost_posterior, {**t.rows, **c, **posterior}),
        "responsibilities": (t.members.responsibilities, t.rows),
        "log_likelihood": (
            model.log_likelihood,
            {**t.rows, **c, "sites": {"z": torch.zeros(2, ROWS, 4)}},
        ),
        "simulate": (t.joint.simulate, {"size": 3, "x": None, "r": None, "seed": 0}),
        "learn_units": (GCM(3, 2, hidden=4).learn_units, t.rows),
        "predict_given_kernel": (
            t.implicit.predict_given_kernel,
            {"x": x, "k": r, "num_samples": 4},
        ),
        "kernel": (t.implicit.kernel, few),
        "ImportanceWeightedELBO": (
            ImportanceWeightedELBO,
            {"num_particles": 2, "alpha": 0.0, "gradient": "iwae"},
        ),
        "PooledELBO": (PooledELBO, {"pooling": 0.5}),
        "baselines.SMM": (baselines.SMM, {**sizes, "response": "binary"}),
        "baselines.MLP": (baselines.MLP, {**sizes, "response": "binary"}),
        "baselines.fit": (
            lambda model, **given: baselines.fit(copy.deepcopy(model), **given),
            {"model": baselines.SMM(3, 2), **t.rows, **training},
        ),
        "Baseline.predict": (t.network.predict, few),
        "Baseline.surface": (t.network.surface, {"x": x, "revenues": r, "cached": True}),
        "MonotoneBoosting": (
            baselines.MonotoneBoosting,
            {"library": "sklearn", "response": "binary", "seed": 0},
        ),
        "MonotoneBoosting.fit": (
            baselines.MonotoneBoosting(max_iter=2).fit,
            {**t.rows, "validation": None, "patience": 2},
        ),
        "MonotoneBoosting.predict": (t.boosting.predict, few),
        "BoostedScore": (
            encoders.BoostedScore,
            {
                "role": "revenue",
                "library": "sklearn",
                "response": "binary",
                "folds": 2,
                "seed": 0,
                "select_trees": True,
            },
        ),
        "BoostedScore.score": (t.boosted.score.score, few),
        "BoostedScore.columns": (t.boosted.score.columns, {**few, "scores": None}),
        "Boosted": (encoders.Boosted, {"model": t.boosted.model, "score": t.boosted.score}),
        "Boosted.predict": (t.boosted.predict, few),
        "Boosted.required_revenue": (
            t.boosted.required_revenue,
            {"x": x[:2], "level": 0.5, "revenue": 0, "r": None},
        ),
        "data.load": (data.load, {"name": "auto_mpg", "variant": "default"}),
        "simulate_auctions": (
            data.simulate_auctions,
            {"num_auctions": 20, "x_dim": 3, "seed": 0, "current_status_share": 0.3},
        ),
        "audit_monotonicity": (
            pyro_gcm.audit_monotonicity,
            {
                "predictor": model,
                "x": x,
                "r": r,
                "increasing": True,
                "adapter": "auto",
                "columns": None,
                "dtype": None,
                **searching,
            },
        ),
        "audit_table": (
            audit.audit_table,
            {"predictor": t.classifier, "X": t.X, "directions": None, **searching},
        ),
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
        "plot_audit": (plots.plot_audit, {"audit": t.audit, "outcome_name": "p"}),
        "GCMClassifier": (
            lambda **options: estimators.GCMClassifier(**options).fit(t.X, y.numpy()),
            estimating,
        ),
        "IGCMRegressor": (
            lambda **options: estimators.IGCMRegressor(**options).fit(t.X, t.t.numpy()),
            implicit,
        ),
        "estimator.fit": (
            estimators.GCMClassifier(epochs=1).fit,
            {"X": t.X, "y": y.numpy(), "sample_weight": None},
        ),
        "estimator.predict": (t.classifier.predict, {"X": t.X}),
        "estimator.predict_proba": (t.classifier.predict_proba, {"X": t.X}),
        "estimator.predict_bands": (t.classifier.predict_bands, {"X": t.X, "level": 0.5}),
        "estimator.predict_interval": (t.regressor.predict_interval, {"X": t.X, "level": 0.5}),
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
    return calls


#: What is right all the same for an argument, of one function or of all: kinds of `WRONG`.
ACCEPTED: dict[str, Any] = {
    "num_samples": ("None",),
    "patience": ("None",),
    "schedule": ("None",),
    "clip_norm": ("None", "a number", "a large number"),
    "learning_rate": ("None", "a number", "a large number"),
    "learn_units.r": ("a half",),
    "epochs": ("None",),
    "batch_size": ("None",),
    "callback": ("a class", "a function"),
    "checkpoint": ("text",),
    "progress": ("a bool",),
    "memory": ("a number", "a large number"),
    "revenues": ("a half",),
    "alpha": ("a number", "a negative number", "a large number"),
    "margin": ("a number", "a large number", "a bool"),
    "tolerance": ("a number", "a large number", "a bool"),
    "directions": ("a dict",),
    "quantiles": ("an empty list",),
    "groups": ("text",),
    "name": ("text",),
    "label": ("text",),
    "latent_name": ("text",),
    "outcome_name": ("text",),
    "revenue_name": ("text",),
    "feature_name": ("text",),
    "band_name": ("text",),
    "base_rate": ("a number", "a negative number", "a large number"),
    "percent": ("a bool",),
    "folder": ("text",),
    "metrics": ("a dict",),
    "above": ("a number", "a negative number", "a large number", "a bool"),
    "hidden": ("None", "an empty list"),
    "alternatives": ("None",),
    "GCM.cost_family": ("None",),
    "posterior.y": ("None",),
    "cost_posterior.y": ("None",),
    "to_arviz.y": ("None",),
    "early_stopping": ("a bool", "None"),
    "ordered": ("an empty list",),
    "settings": ("None",),
    "categorical_features": ("None", "an empty list"),
    "class_weight": ("an empty list", "a dict"),
    "monotonic_cst": ("None", "a dict"),
    "verbose": "all",
    "warm_start": ("a bool",),
    "random_state": ("None", "a bool"),
    "sample_weight": ("None", "a number", "a large number", "a bool"),
    "below": ("a bool",),
    "draws": ("a half",),
    "plot_cost_density.r": ("a number", "a negative number", "a large number", "a bool"),
    "plot_feature_curve.rows": "all",
    "audit_table.X": ("a half", "complex"),
    "render_model.model": "all",
    "render_model.model_args": "all",
    "render_model.model_kwargs": ("a dict",),
    "compare_assumptions.strict": ("a dict",),
    "compare_assumptions.implicit": ("a dict",),
    "compare_assumptions.response": ("None",),
    "compare_assumptions.epochs": ("None",),
    "export.batch": ("None",),
}

#: Values that hardly any argument can have, by what they are.
WRONG: dict[str, Any] = {
    "text": "0.5",
    "a list of a name": ["adult"],
    "None": None,
    "a number": 3.7,
    "a negative number": -2,
    "a large number": 10**40,
    "NaN": float("nan"),
    "a bool": True,
    "a half": torch.full((3, 2), 0.5, dtype=torch.bfloat16),
    "complex": torch.ones(3, 2, dtype=torch.complex64),
    "objects": np.array([object(), None]),
    "a dict": {"a": 1},
    "a class": int,
    "a function": len,
    "an empty list": [],
    "a nested list": [[1, 2], [3]],
}

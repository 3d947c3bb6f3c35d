"""Public functions and methods with arguments that are right, of which a test makes one wrong."""

from __future__ import annotations

import copy
from typing import Any

import torch
from called_objects import ROWS, Toys
from outside_calls import Call, calls_from_outside

import pyro_gcm
from pyro_gcm import GCM, IGCM, audit, baselines, data, encoders
from pyro_gcm.inference import ImportanceWeightedELBO, PooledELBO
from pyro_gcm.models.member_settings import MemberSettings


def public_calls(t: Toys) -> dict[str, Call]:
    """By a name: a function, and arguments with which it works."""
    x, r = t.x, t.r
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
    }
    return calls | calls_from_outside(t)

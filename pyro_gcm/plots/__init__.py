"""Figures of models, costs, latent variables, training, calibration, survival and audits."""

from pyro_gcm.plots.calibration import plot_ranks, plot_reliability, plot_survival
from pyro_gcm.plots.costs import plot_cost_density, plot_cost_pairs
from pyro_gcm.plots.curves import plot_feature_curve, plot_response_curves
from pyro_gcm.plots.directions import plot_audit, plot_directions, plot_marginal_effects
from pyro_gcm.plots.training import plot_bound, plot_history, plot_latent

__all__ = [
    "plot_audit",
    "plot_bound",
    "plot_cost_density",
    "plot_cost_pairs",
    "plot_directions",
    "plot_feature_curve",
    "plot_history",
    "plot_latent",
    "plot_marginal_effects",
    "plot_ranks",
    "plot_reliability",
    "plot_response_curves",
    "plot_survival",
]

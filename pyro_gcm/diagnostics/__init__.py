"""Whether draws, bounds, posteriors and predictions can be relied on."""

from pyro_gcm.diagnostics.columns import marginal_effects, suggest_directions
from pyro_gcm.diagnostics.importance import bound_by_particles, guide_draws, importance_diagnostics
from pyro_gcm.diagnostics.predictive_checks import (
    JointCoverage,
    joint_coverage,
    kaplan_meier,
    predictive_check,
    reliability_curve,
)
from pyro_gcm.diagnostics.sbc import SBCResult, simulation_based_calibration
from pyro_gcm.prediction.proposals import effective_sample_size, pareto_k

__all__ = [
    "JointCoverage",
    "SBCResult",
    "bound_by_particles",
    "effective_sample_size",
    "guide_draws",
    "importance_diagnostics",
    "joint_coverage",
    "kaplan_meier",
    "marginal_effects",
    "pareto_k",
    "predictive_check",
    "reliability_curve",
    "simulation_based_calibration",
    "suggest_directions",
]

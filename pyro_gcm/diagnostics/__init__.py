"""Whether draws, bounds, posteriors and predictions can be relied on."""

from pyro_gcm.diagnostics.importance import bound_by_particles, importance_diagnostics
from pyro_gcm.diagnostics.predictive_checks import predictive_check, reliability_curve
from pyro_gcm.diagnostics.sbc import SBCResult, simulation_based_calibration
from pyro_gcm.inference.pareto import effective_sample_size, pareto_k

__all__ = [
    "SBCResult",
    "bound_by_particles",
    "effective_sample_size",
    "importance_diagnostics",
    "pareto_k",
    "predictive_check",
    "reliability_curve",
    "simulation_based_calibration",
]

"""Program views, bounds and training."""

from pyro_gcm.inference.bayesian import Bayesian, WeightPosterior, bayesian
from pyro_gcm.inference.elbo import ImportanceWeightedELBO, TrainingPair
from pyro_gcm.inference.epochs import Crossed, cross_fit, search_epochs
from pyro_gcm.inference.fit import fit
from pyro_gcm.inference.program_arviz import program_to_arviz
from pyro_gcm.inference.reading import of_rows
from pyro_gcm.inference.story_check import check_story
from pyro_gcm.inference.views import (
    collapse,
    conditional,
    given_inputs,
    temper,
    uncollapse,
)
from pyro_gcm.training import FitResult

__all__ = [
    "Bayesian",
    "Crossed",
    "FitResult",
    "ImportanceWeightedELBO",
    "TrainingPair",
    "WeightPosterior",
    "bayesian",
    "check_story",
    "collapse",
    "conditional",
    "cross_fit",
    "fit",
    "given_inputs",
    "of_rows",
    "program_to_arviz",
    "search_epochs",
    "temper",
    "uncollapse",
]

"""The base of the models: their story, the parts and units that they share, who reads the story."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from pyro_gcm._utils.standardizer import KnownMoments
from pyro_gcm._utils.validation import matrix, one_of, positive_int
from pyro_gcm._utils.warn import warn_user
from pyro_gcm.inference import programs
from pyro_gcm.inference.reading import Plan
from pyro_gcm.inference.training_pair import TrainingPair, training_pair
from pyro_gcm.models import build, factors
from pyro_gcm.nets import Conditional, Standardizer
from pyro_gcm.nets.products import with_even_rows
from pyro_gcm.prediction.base_samples import BaseSamples, Latent
from pyro_gcm.prediction.predicted import Dry
from pyro_gcm.responses import Response
from pyro_gcm.training import TrainingDefaults

Made = TypeVar("Made")
_names = itertools.count()


class OrderEventModel(nn.Module):
    """Base of the models: `story`, who reads it, and what a subclass may change.

    `story`, with its factors `*_dist`, is the only definition of a model. Program, guide, training,
    predictions and posteriors all read it, and so follow whoever overrides it.
    """

    # What `build` makes.
    response: Response
    z_prior: Any
    z_guide: Any
    cost_net: Any
    infinite_net: Any
    cost_shape: tuple[int, ...]
    reads_x: bool
    enumerates: bool
    starts_p0: bool
    x_standardizer: Standardizer
    r_standardizer: Standardizer
    base_samples: BaseSamples
    places: dict[str, int]
    #: What a model can be trained for, by name; the first is the default of `fit`.
    objective_records: ClassVar[dict[str, Plan]] = {}
    objectives: ClassVar[tuple[str, ...]]
    #: Whether there is one cost in the units of each revenue.
    costs_have_units = False
    #: Number of members that z chooses from; 0 where it does not.
    members = 0
    #: How `fit` trained it last, in plain data, if it did.
    training_summary: dict[str, Any] | None = None
    _objective: Tensor

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.objectives = tuple(cls.objective_records)

    def __init__(self, x_dim: int, r_dim: int, z_dim: int, name: str | None) -> None:
        super().__init__()
        self._own_name = name
        self.name = name or f"{type(self).__name__.lower()}{next(_names)}"
        self.x_dim = positive_int("x_dim", x_dim)
        self.r_dim = positive_int("r_dim", r_dim, minimum=0)
        self.z_dim = positive_int("z_dim", z_dim)
        #: Columns of `covariates`, and of what sets the costs.
        self.out_dim, self.cost_dim = self.x_dim, self.z_dim
        self.is_trained = False
        self._warned: set[str] = set()
        self.shared_guide = nn.ParameterDict()
        self.register_buffer("_objective", torch.tensor(0))

    def story(self, sample: Any, x: Any, r: Any, y: Any) -> Any:
        """The generative story, the lines of the paper's figure.

        :param sample: what a line does: `sample(name, distribution, obs=None)` returns the value of
            a site, see `inference.reading`.
        :param x: [B, x_dim] in data units; `r`: [B, r_dim]; `y`: [B]; None where not observed.
        """
        raise NotImplementedError

    def guide_story(self, sample: Any, x: Tensor, r: Tensor, y: Tensor | None) -> None:
        """The guide: `sample(name, q)` for every latent site that has a q of its own.

        It returns a draw, so that one q may depend on the draw of another. A latent site that it
        leaves out is drawn from the story's own distribution; so is one with `own=True`, in the
        order of the guide.
        """
        if not self.enumerates:
            sample("z", lambda: self.z_guide_dist(x, r, y), own=self.z_guide is None)

    def shared(self, sample: Any) -> Any:
        """Sites that all rows share, drawn before them; what it returns is `sample.shared`.

        A value broadcasts against [..., B, *event]; `inference.of_rows` takes those of the groups
        of rows from it. Predictions average over the guide of these sites.
        """

    def guide_shared(self, sample: Any) -> None:
        """The guide of `shared`: by default independent normals, mapped to each site's support."""
        for name, site in self.shared_sites().items():
            sample(name, site.guide(self.shared_guide))

    def shared_sites(self) -> dict[str, programs.SharedSite]:
        """The sites that all rows share, by name; their guide has parameters from here on."""
        if type(self).shared is OrderEventModel.shared:
            return {}
        return self._once("shared", lambda: programs.shared_sites(self))

    # Functions of a model: programs of Pyro, and the factors that the models share.
    model, guide, guide_of = programs.model, programs.guide, programs.guide_of
    z_dist, z_guide_dist, c_dist = factors.z_dist, factors.z_guide_dist, factors.c_dist
    covariates, read_covariates = factors.covariates, factors.read_covariates
    outcome_dist = factors.outcome_dist

    def conditional_hidden(self, hidden: Any) -> Any:
        """Hidden layers of a network of `covariates`."""
        return hidden

    def cost_part(self, family: type[Any], event_shape: tuple[int, ...], hidden: Any) -> nn.Module:
        """A network of the costs of a family."""
        return Conditional(family, self.cost_dim, event_shape, hidden)

    def map_shape(self, cost_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a mapped row of revenues: a value for each cost (of each member)."""
        return cost_shape

    def learn_features(self, x: Tensor) -> None:
        """Learn from rows [n, x_dim] what standardisation does not."""

    @property
    def objective(self) -> str:
        """The objective of the last training, which predictions follow."""
        return self.objectives[int(self._objective)]

    @objective.setter
    def objective(self, objective: str) -> None:
        one_of("objective", objective, self.objectives)
        self._objective.fill_(self.objectives.index(objective))
        self.is_trained = True

    @property
    def default_objective(self) -> str:
        """The objective of `fit` by default."""
        return self.objectives[0]

    def check_objective(self, objective: str) -> None:
        """Raise ValueError if the objective does not apply to this model."""
        if objective == "joint" and self.reads_x:
            raise ValueError(
                "objective='joint' needs prior='standard': with p(z|x) the program has no density "
                "of x, and must not be maximised"
            )

    def training_pair(self, objective: str = "conditional") -> TrainingPair:
        """The program and the guide that one of `objectives` trains.

        :raises ValueError: if the objective does not apply to this model.
        """
        one_of("objective", objective, self.objectives)
        self.check_objective(objective)
        return training_pair(self, objective)

    def trained_parameters(self, objective: str = "conditional") -> dict[str, nn.Parameter]:
        """The parameters that an objective trains, by name; the others it leaves as they are."""
        one_of("objective", objective, self.objectives)
        untrained = self.objective_records[objective].untrained
        trainable = ((n, p) for n, p in self.named_parameters() if p.requires_grad)
        return {n: p for n, p in trainable if not n.startswith(untrained)}

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out, for a number of rows."""
        return TrainingDefaults()

    def adapt(self, rows: int, *, epochs: int | None) -> None:
        """Choose what was left to the number of training rows, as `fit` asks for, with `epochs`."""

    def learn_units(self, x: Tensor, r: Tensor, y: Tensor, moments: KnownMoments = None) -> None:
        """Take location and scale of x, r and a continuous y from rows, as `fit` does first.

        To be called before `pyro.infer.SVI` trains on data that are not standardised.
        :param x: [n, x_dim]; `r`: [n, r_dim]; `y`: [n], on any device.
        :param moments: those of "x" and "r", where the rows are only a sample of the data.
        """
        known = moments or {}
        x, r = matrix("x", x, self.x_dim, "x_dim"), matrix("r", r, self.r_dim, "r_dim")
        y = self.response.outcome(y)
        self.x_standardizer.learn(x, known.get("x"))
        self.learn_features(x.to(self.device))
        if self.response.r_dist() is None:
            self.r_standardizer.learn(r, known.get("r"))
        self.response.learn_unit(y)
        if self.starts_p0:
            never = self.response.initial_cured_fraction(y)
            build.start_infinite(self.infinite_net, never, self.cost_shape[:-1])
        self.is_trained = True

    def make_plan(self, objective: str) -> Plan:
        """How the sites are treated in training for an objective."""
        return self.objective_records[objective]

    def make_prediction_plan(self) -> Plan:
        """How the sites are treated in predictions, which follow the last training."""
        raise NotImplementedError

    def plan(self, objective: str) -> Plan:
        """`make_plan`, made once."""
        return self._once(("plan", objective), lambda: self.make_plan(objective))

    @property
    def prediction_plan(self) -> Plan:
        """`make_prediction_plan`, made once after a training."""
        return self._once(("plan after", self.objective), self.make_prediction_plan)

    def latents(self, plan: Plan) -> dict[str, Latent]:
        """The latent sites that are drawn or summed out in a reading, by name, in order."""
        return self._once(("latents", id(plan)), lambda: Dry(self, plan).latents)

    @property
    def draws_equally(self) -> bool:
        """Whether z is drawn from p(z|x), or from members of equal weight, by guide and story."""
        return self.reads_x and self.z_guide is None and not self.enumerates

    def _once(self, key: Any, make: Callable[[], Made]) -> Made:
        """Compute a value that follows from the parts, and keep it until a part is replaced."""
        known: Any = self.__dict__.setdefault("_kept", {})
        if key not in known:
            known[key] = make()
        return known[key]

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, nn.Module):
            self.__dict__.pop("_kept", None)
            with_even_rows(value)  # parts of the user, too
        super().__setattr__(name, value)

    def overrides(self, *names: str) -> tuple[str, ...]:
        """Those of the methods that a subclass outside of the library has in place of its own."""
        kind: Any = type(self)
        return _overridden(kind, names)

    def check_story(self, *views: str) -> None:
        """Refuse a subclass that overrides a view of its story, which the caller would not follow.

        :raises TypeError: for one of `views`, "model" or "guide".
        """
        for view in self.overrides(*views):
            instead = "story" if view == "model" else "guide_story"
            raise TypeError(
                f"{type(self).__name__} overrides {view}, a view of its story in Pyro that fit, "
                f"predictions and posteriors do not read: override {instead}, which all of them do"
            )

    def warn_once(self, message: str) -> None:
        """Warn the user, once in the life of this model for each message."""
        if message not in self._warned:
            self._warned.add(message)
            warn_user(message)

    @property
    def seed(self) -> int:
        """Seed of the prediction noise, a part of the state."""
        return self.base_samples.seed

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.base_samples.samples.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of predictions."""
        return self.base_samples.samples.dtype

    def saved_attributes(self) -> dict[str, Any]:
        """Return the state that `pyro_gcm.save` keeps besides arguments and tensors."""
        name, training = self._own_name and self.name, self.training_summary
        return {"is_trained": self.is_trained, "name": name, "training": training}

    def restore_attributes(self, saved: dict[str, Any]) -> None:
        """Restore the result of `saved_attributes`; a name that was not chosen stays unique."""
        summary = saved["training"] or {}
        for names in summary.get("columns", {}).values():
            if names is not None and not all(isinstance(name, str) for name in names):
                raise ValueError(f"it must have names of columns, or None, got {names!r}")
        self.is_trained, self.training_summary = saved["is_trained"], saved["training"]
        self.name = saved["name"] or self.name

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Return the module's state, which includes the guide of sites that all rows share."""
        self.shared_sites()
        return super().state_dict(*args, **options)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.shared_sites()  # whose guide has parameters
        super()._load_from_state_dict(*args)
        self.is_trained = True

    def __getstate__(self) -> dict[str, Any]:
        # Pyro's store leaves weak references on parameters, and sets them again when it needs them.
        for parameter in self.parameters():
            parameter.__dict__.pop("unconstrained", None)
        state = self.__dict__.copy()
        state.pop("_kept", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy has parameters of its own, so it needs a name of its own in Pyro's store.
        super().__setstate__(state)
        self.name = f"{self.name}.copy{next(_names)}"


@functools.lru_cache(maxsize=256)
def _overridden(cls: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    library = next(base for base in cls.__mro__ if base.__module__.startswith(__package__))
    return tuple(name for name in names if getattr(cls, name) is not getattr(library, name))

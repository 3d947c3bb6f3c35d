"""The base of the models: a story, its factors, how it is read and trained, and its state."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

from torch import Tensor, nn

from pyro_gcm._utils.validation import one_of
from pyro_gcm.distributions import InfiniteCost, OrderEvent
from pyro_gcm.distributions.base import sides
from pyro_gcm.inference import programs
from pyro_gcm.inference.elbo import TrainingPair, training_pair
from pyro_gcm.inference.programs import SharedSite, sites_of
from pyro_gcm.inference.reading import READER, Plan
from pyro_gcm.inference.story_check import check_story
from pyro_gcm.models.parts import NUMBERS, Parts
from pyro_gcm.nets.latent import corrected
from pyro_gcm.prediction.base_samples import Latent
from pyro_gcm.prediction.predicted import SiteReader
from pyro_gcm.training.options import TrainingDefaults

Method = TypeVar("Method", bound=Callable[..., Any])
#: Rows that are kept as an example.
_EXAMPLES = 3
#: What a story is made of.
_FACTORS = ("story", "guide_story", "shared", "z_dist", "c_dist", "y_dist", "covariates")


def once(method: Method) -> Method:
    """A method of a model whose result is kept until a part, or the objective, is another one."""

    @functools.wraps(method)
    def kept(self: Any, *args: Any) -> Any:
        known, key = self.__dict__.setdefault("_kept", {}), (method.__qualname__, *args)
        if key not in known:
            known[key] = method(self, *args)
        return known[key]

    return cast(Method, kept)


class OrderEventModel(Parts):
    """The lines of a generative story and of its guide, and the plans by which readers read them.

    `story`, with its factors `*_dist`, is the only definition of a model. Program, guide, training,
    predictions and posteriors all read it, and so follow whoever overrides it.
    """

    #: What a model can be trained for, by name; the first is the default of `fit`.
    objectives: ClassVar[dict[str, Plan]] = {}
    #: The objective of `fit` by default.
    default_objective = "conditional"

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
        leaves out is drawn from the story's own distribution.
        """
        if self.z_guide is not None:
            sample("z", lambda: self.z_guide_dist(x, r, y))

    def shared(self, sample: Any) -> Any:
        """Sites that all rows share, drawn before them; what it returns is `sample.shared`.

        A value broadcasts against [..., B, *event]; `inference.of_rows` takes those of the groups
        of rows from it. Predictions average over the guide of these sites.
        """

    def guide_shared(self, sample: Any) -> None:
        """The guide of `shared`: by default independent normals, mapped to each site's support."""
        for name, site in self.shared_sites().items():
            sample(name, site.guide(self.shared_guide))

    def shared_sites(self) -> dict[str, SharedSite]:
        """The sites that all rows share, by name; their guide has parameters from here on."""
        return {} if type(self).shared is OrderEventModel.shared else self._shared_sites()

    _shared_sites = once(sites_of)
    model, guide = programs.model, programs.guide

    # The factors that stories share; x, r and y are in the units of the data

    def z_dist(self, x: Tensor | None) -> Any:
        """p(z|x) for x [B, x_dim] in data units, or p(z)."""
        if not self.reads_x:
            return self.z_prior()
        if x is None:
            raise ValueError("x must be given: the prior p(z|x) reads it")
        return self.z_prior(self.x_standardizer(x))

    def z_guide_dist(self, x: Tensor | None, r: Tensor | None, y: Tensor | None) -> Any:
        """q(z|x, r, y), or p(z|x) where the guide is the prior; arguments in data units."""
        if self.z_guide is None:
            return self.z_dist(x)
        e = self.x_standardizer(x)
        r = None if r is None else self.r_standardizer(r)
        q = self.z_guide(e, r, None if y is None else self.response.standardized(y).to(e.dtype))
        return corrected(self.z_dist(x), q) if getattr(self.z_guide, "from_prior", False) else q

    def covariates(self, z: Any, x: Tensor) -> Tensor:
        """Return x [B, x_dim] as the factors of the model read it after z: standardised."""
        standard: Tensor = self.x_standardizer(x)
        return standard

    def _read_covariates(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """`covariates` of x in data units, computed once for all lines of a story."""
        story = READER.get()
        found: Tensor = self.covariates(z, x) if story is None else story.covariates(z, x)
        return found

    def c_dist(self, z: Tensor, x: Tensor) -> Any:
        """p(c|z), or p(c|z, x) where a cost may be infinite or z is a member; x in data units.

        Costs are in the units of what they are compared with, the standardised and mapped revenues;
        see `cost_units` for those of site c.
        """
        cost = self.cost_net(z)
        if self.infinite_net is None:
            return cost
        return InfiniteCost(cost, self.infinite_net(self._read_covariates(x, z)))

    def outcome_dist(self, cost: Any, revenue: Any, covariates: Tensor, r: Tensor) -> Any:
        """p(y | z, x, r): what the response makes of the order event between cost and revenue.

        :param cost: the costs as the story's site gave them, or their distribution.
        :param revenue: what they are compared with; `r`: the revenues in data units.
        """
        p_c, c = sides(cost)
        event = OrderEvent(p_c, revenue, validate_args=False)
        p_y = self.response.distribution(event, covariates, r)
        return p_y if c is None else p_y.given_cost(c)

    # How it is read

    @property
    def objective(self) -> str:
        """The objective of the last training, which predictions follow."""
        return list(self.objectives)[int(self._objective)]

    @objective.setter
    def objective(self, objective: str) -> None:
        one_of("objective", objective, list(self.objectives))
        self.__dict__.pop("_kept", None)
        self._objective.fill_(list(self.objectives).index(objective))
        self.is_trained = True

    def plan(self, objective: str) -> Plan:
        """How the sites are treated in training for an objective."""
        return self.objectives[objective]

    @property
    def prediction_plan(self) -> Plan:
        """How the sites are treated in predictions, which follow the last training."""
        raise NotImplementedError

    def latents(self, plan: Plan) -> dict[str, Latent]:
        """The latent sites that are drawn or summed out in a reading, by name, in order."""
        return self._sites(plan)[0]

    def observed(self, plan: Plan) -> list[str]:
        """The observed sites that weigh draws in a reading, besides y."""
        return self._sites(plan)[1]

    @once
    def _sites(self, plan: Plan) -> tuple[dict[str, Latent], list[str]]:
        read = SiteReader(self, plan)
        return read.latents, read.observed

    @property
    def tells_own_story(self) -> bool:
        """Whether a subclass of the user's, or the instance, may have changed the story."""
        of_library = type(self).__module__.startswith("pyro_gcm.")
        return not (of_library and self.__dict__.keys().isdisjoint(_FACTORS))

    def show(self, x: Tensor, r: Tensor) -> None:
        """Keep a few rows to read a story of the user's with."""
        if self.tells_own_story:
            self.example = x[:_EXAMPLES], r[:_EXAMPLES]

    def read_rows(self, x: Tensor, r: Tensor) -> None:
        """Check a story of the user's, the first time, on a few of these rows."""
        if self.tells_own_story and "story" not in self.__dict__.get("_kept", ()):
            self.show(x, r)
            check_story(self, x, r)
            self.__dict__.setdefault("_kept", {})["story"] = True

    @once
    def drawing(self, plan: Plan) -> Plan:
        """The plan in which the costs alone are left as their distributions."""
        return replace(plan, left=("c",))

    @property
    def draws_equally(self) -> bool:
        """Whether z is drawn from p(z|x), or from members of equal weight, by guide and story."""
        return self.reads_x and self.z_guide is None and not self.enumerates

    def _overrides(self, *names: str) -> tuple[str, ...]:
        """Those of the methods that a subclass of the user's, or the instance, has of its own."""
        kind: Any = type(self)
        library = next(base for base in kind.__mro__ if base.__module__.startswith(__package__))
        found = (n for n in names if getattr(kind, n) is not getattr(library, n))
        return (*found, *(name for name in names if name in self.__dict__))

    def check_story(self, *views: str) -> None:
        """Refuse a subclass that overrides a view of its story, which the caller would not follow.

        :raises TypeError: for one of `views`, "model" or "guide".
        """
        for view in self._overrides(*views):
            instead = "story" if view == "model" else "guide_story"
            raise TypeError(
                f"{type(self).__name__} overrides {view}, a view of its story in Pyro that fit, "
                f"predictions and posteriors do not read: override {instead}, which all of them do"
            )

    # Its training

    def _check_objective(self, objective: str) -> None:
        """Raise ValueError if the objective does not apply to this model."""
        if objective == "joint" and self.reads_x:
            raise ValueError(
                "objective='joint' needs prior='standard': with p(z|x) the program has no density "
                "of x, and must not be maximised"
            )
        if objective == "joint" and self.response.r_dist() is not None:
            raise ValueError(
                "objective='joint' needs revenues that are observed; the levels of "
                "response='quantile' are chosen, and the pinball loss is no density of the data"
            )

    def training_pair(self, objective: str = "conditional") -> TrainingPair:
        """The program and the guide that one of `objectives` trains.

        :raises ValueError: if the objective does not apply to this model.
        """
        one_of("objective", objective, list(self.objectives))
        self._check_objective(objective)
        return training_pair(self, objective)

    def trained_parameters(self, objective: str = "conditional") -> dict[str, nn.Parameter]:
        """The parameters that an objective trains, by name; the others it leaves as they are."""
        one_of("objective", objective, list(self.objectives))
        untrained = self.objectives[objective].untrained
        trainable = ((n, p) for n, p in self.named_parameters() if p.requires_grad)
        return {n: p for n, p in trainable if not n.startswith(untrained)}

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out, for a number of rows."""
        return TrainingDefaults()

    def adapt(self, rows: int, *, epochs: int | None) -> None:
        """Choose what was left to the number of training rows, as `fit` asks for, with `epochs`."""

    # Its state

    def saved_attributes(self) -> dict[str, Any]:
        """Return the state that `pyro_gcm.save` keeps besides arguments and tensors."""
        name, training = self._own_name and self.name, self.training_summary
        return {"is_trained": self.is_trained, "name": name, "training": training}

    def restore_attributes(self, saved: dict[str, Any]) -> None:
        """Restore the result of `saved_attributes`; a name that was not chosen stays unique."""
        self.is_trained, self.training_summary = saved["is_trained"], saved["training"]
        self.name = saved["name"] or self.name

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Return the module's state, which includes the guide of sites that all rows share."""
        self.shared_sites()
        return super().state_dict(*args, **options)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.shared_sites()  # whose guide has parameters
        super()._load_from_state_dict(*args)
        self.__dict__.pop("_kept", None)
        self.is_trained = True

    def __getstate__(self) -> dict[str, Any]:
        # Pyro's store leaves weak references on parameters, and sets them again when it needs them.
        for parameter in self.parameters():
            parameter.__dict__.pop("unconstrained", None)
        state = self.__dict__.copy()
        state.pop("_kept", None)
        state.pop("example", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy has parameters of its own, so it needs a name of its own in Pyro's store.
        super().__setstate__(state)
        self.name = f"{self.name}.copy{next(NUMBERS)}"

"""A model as a story: the method that tells it, its views in Pyro, how its sites are treated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import pyro
import torch
from pyro.infer.util import is_validation_enabled
from torch import Tensor, nn

from pyro_gcm._utils.process_state import Randomness
from pyro_gcm._utils.validation import checked_data, one_of, positive_int
from pyro_gcm.inference.guards import SiteGuard
from pyro_gcm.inference.programs import Guided, Programmed, SharedSite
from pyro_gcm.inference.reading import Plan, of
from pyro_gcm.inference.training_pair import TrainingPair, training_pair
from pyro_gcm.inference.views import announce, is_announcing
from pyro_gcm.models.base import Parts
from pyro_gcm.prediction.predicted import Dry, Latent

Made = TypeVar("Made")
#: A column that may be left out.
Given = Tensor | None
#: Root mean square of a column above which a model that has not learned its units warns.
_LARGE = 4.0


class OrderEventModel(Parts):
    """Base of the models: `story`, who reads it, and what a subclass may change.

    `story`, with its factors `*_dist`, is the only definition of a model. The program, the
    guide, training, predictions and posteriors all read it, and so follow whoever overrides it::

        class WithEffect(GCM):
            def story(self, sample, x, r, y):
                ...
                u = sample("u", lambda: dist.Normal(torch.zeros(len(x), 1), 1.0).to_event(1))

    """

    #: What a model can be trained for, by name; the first is the default of `fit`.
    objectives: ClassVar[tuple[str, ...]]
    _objective: Tensor

    def __init__(self, x_dim: int, r_dim: int, z_dim: int, name: str | None) -> None:
        super().__init__(x_dim, r_dim, z_dim, name)
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

        Each is a line `sample(name, distribution)`. A value broadcasts against [..., B, *event], in
        whatever reading; `inference.of_rows` takes those of the groups of rows from it. Predictions
        average over the guide of these sites, and posteriors have its draws.
        """

    def guide_shared(self, sample: Any) -> None:
        """The guide of `shared`: by default independent normals, mapped to each site's support."""
        for name, site in self.shared_sites().items():
            sample(name, site.guide(self.shared_guide))

    def shared_sites(self) -> dict[str, SharedSite]:
        """The sites that all rows share, by name; their guide has parameters from here on."""
        if type(self).shared is OrderEventModel.shared:
            return {}
        return self._once("shared", self._find_shared)

    def _find_shared(self) -> dict[str, SharedSite]:
        sites = {}

        def line(name: str, p: Any) -> Tensor:
            p = of(p)
            sites[name] = SharedSite(name, p.event_shape, p.support)
            sites[name].add_parameters(self.shared_guide, self.base_samples.samples)
            return p.sample()

        with torch.no_grad(), Randomness(0, self.device).in_use():
            self.shared(line)
        return sites

    def model(self, x: Given = None, r: Given = None, y: Given = None, *, size: int = 1) -> Tensor:
        """The story as an explicit Pyro program; what is not given is drawn.

        :param x: [B, x_dim] in data units; needed with a conditional prior. `r`: [B, r_dim].
        :param y: [B].
        :param size: number of rows when neither x nor r is given.
        :returns: y, [B].
        """
        x, r, y, rows = self.program_inputs(x, r, y, size)
        averages = self.objective_records[self.objective].averages
        plan = Plan(given=(), averages=averages)
        reader = Programmed(self, plan, self.plan("conditional"), x, r)
        reader.shared = self.shared(reader.share)
        with pyro.plate("data", rows, dim=-1), SiteGuard():
            return self.story(reader, x, r, y)

    def guide(
        self, x: Given = None, r: Given = None, y: Given = None, *, size: int = 1
    ) -> Tensor | None:
        """Guide of `inference.conditional(model)`: the latent sites from `guide_story`.

        A z with a finite support is summed out, so that it has no site here.

        :returns: the value of the first site, or None.
        """
        plan = self._once("guide", lambda: replace(self.plan("conditional"), left=("c",)))
        return self.guide_of(plan, x, r, y)

    def guide_of(self, plan: Plan, x: Given, r: Given = None, y: Given = None) -> Tensor | None:
        """The guide for a plan; where it averages, a finite z is summed over, q(z) = p(z)."""
        if x is None:
            raise ValueError("x must be given: the guide reads it")
        x, r, y, rows = self.program_inputs(x, r, y)
        reader = Guided(self, plan, x, r)
        self.guide_shared(reader.share_guided)
        reader.shared = self.shared(reader.share)
        with pyro.plate("data", rows, dim=-1):
            return reader.run(x, r, y, self.latents(plan))

    def program_inputs(
        self, x: Given, r: Given, y: Given, size: int = 1
    ) -> tuple[Any, Any, Any, int]:
        """Inputs, their values checked while Pyro's validation is on, and the number of rows."""
        if is_validation_enabled():
            data = checked_data(self, x, r, y, device=self.device)
            # The checks see copies without a gradient; programs may be differentiated by x and r.
            x, r = (given_or(v, data.get(n)) for n, v in (("x", x), ("r", r)))
            y = data.get("y")
        if y is not None and is_announcing() and torch.is_grad_enabled():
            self._note_training({"x": x, "r": r, "y": y})
        self.shared_sites()  # whose guide has parameters
        announce(self.name, self)
        given = r if x is None else x
        return x, r, y, positive_int("size", size) if given is None else len(given)

    def _note_training(self, data: dict[str, Tensor | None]) -> None:
        """A program that runs with y and with gradients is being trained, by SVI say."""
        if self.is_trained:
            return
        self.is_trained = True
        for name, values in data.items():
            if values is None or not (values.double().square().nanmean(0).sqrt() > _LARGE).any():
                continue
            self.warn_once(
                f"{self.name} is trained on values of {name} that are not standardised, and has "
                "not learned their units: call model.learn_units(x, r, y) before pyro.infer.SVI"
            )

    # What it is trained for

    @property
    def objective(self) -> str:
        """The objective of the last training, which predictions follow."""
        return self.objectives[int(self._objective)]

    @objective.setter
    def objective(self, objective: str) -> None:
        one_of("objective", objective, self.objectives)
        self._objective.fill_(self.objectives.index(objective))
        self.is_trained = True

    def training_pair(self, objective: str = "conditional") -> TrainingPair:
        """The program and the guide that one of `objectives` trains.

        :raises ValueError: if the objective does not apply to this model.
        """
        one_of("objective", objective, self.objectives)
        self.check_objective(objective)
        return training_pair(self, objective)

    def check_objective(self, objective: str) -> None:
        """Raise ValueError if the objective does not apply to this model."""
        if objective == "joint" and self.reads_x:
            raise ValueError(
                "objective='joint' needs prior='standard': with p(z|x) the program has no density "
                "of x, and must not be maximised"
            )

    @property
    def default_objective(self) -> str:
        """The objective of `fit` by default."""
        return self.objectives[0]

    def trained_parameters(self, objective: str = "conditional") -> dict[str, nn.Parameter]:
        """The parameters that an objective trains, by name; the others it leaves as they are."""
        one_of("objective", objective, self.objectives)
        untrained = self.objective_records[objective].untrained
        trainable = ((n, p) for n, p in self.named_parameters() if p.requires_grad)
        return {n: p for n, p in trainable if not n.startswith(untrained)}

    # How its sites are treated

    def make_plan(self, objective: str) -> Plan:
        """How the sites are treated in training for an objective."""
        record = self.objective_records[objective]
        return Plan(record.given, record.hidden, averages=record.averages)

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
        return self._once(("latents", id(plan)), lambda: Dry.of(self, plan).latents)

    def _once(self, key: Any, make: Callable[[], Made]) -> Made:
        """Compute a value that follows from the parts, and keep it until a part is replaced."""
        known: Any = self.__dict__.setdefault("_kept", {})
        if key not in known:
            known[key] = make()
        return known[key]

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, nn.Module):
            self.__dict__.pop("_kept", None)
        super().__setattr__(name, value)

    @property
    def latent_dim(self) -> int:
        """Coordinates that a guide draws for a row."""
        own = sum(site.size for site in self.latents(self.plan(self.objective)).values())
        return max(own, self.base_samples.dim)

    def overrides(self, *names: str) -> tuple[str, ...]:
        """Those of the methods that a subclass outside of the library has in place of its own."""
        kind: Any = type(self)
        return _overridden(kind, names)

    def check_story(self, *views: str) -> None:
        """Refuse a subclass that overrides a view of its story, which the caller would not follow.

        :raises TypeError: for one of `views`, "model" or "guide".
        """
        kind: Any = type(self)
        for view in _overridden(kind, views):
            instead = "story" if view == "model" else "guide_story"
            raise TypeError(
                f"{type(self).__name__} overrides {view}, a view of its story in Pyro that fit, "
                f"predictions and posteriors do not read: override {instead}, which all of them do"
            )

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Return the module's state, which includes the guide of sites that all rows share."""
        self.shared_sites()
        return super().state_dict(*args, **options)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.shared_sites()  # whose guide has parameters
        super()._load_from_state_dict(*args)
        self.is_trained = True


@functools.lru_cache(maxsize=256)
def _overridden(cls: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    library = next(base for base in cls.__mro__ if base.__module__.startswith(__package__))
    return tuple(name for name in names if getattr(cls, name) is not getattr(library, name))


def given_or(given: Any, checked: Any) -> Any:
    """Return the checked tensor, or the given one if it has a gradient."""
    if isinstance(given, Tensor) and given.requires_grad and checked is not None:
        return given.to(checked.device)
    return checked

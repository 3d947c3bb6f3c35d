"""A model as a story: the method that tells it, its views in Pyro, how its sites are treated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import pyro
import torch
from torch import Tensor, nn

from pyro_gcm._utils.process_state import Randomness
from pyro_gcm.inference.guards import SiteGuard
from pyro_gcm.inference.programs import Guided, Programmed, SharedSite
from pyro_gcm.inference.reading import Objective, Plan, of
from pyro_gcm.prediction.predicted import Dry, Latent

Made = TypeVar("Made")


class Story(nn.Module):
    """Base of the models: `story`, who reads it, and what a subclass may change."""

    objective_records: ClassVar[dict[str, Objective]]
    #: First coordinates of the base samples that drive a latent site, by its name.
    places: dict[str, int]
    #: What `OrderEventModel` has.
    objective: Any
    base_samples: Any
    device: Any
    program_inputs: Any
    z_dist: Any
    z_guide_dist: Any
    z_guide: Any
    enumerates: bool

    def __init__(self) -> None:
        super().__init__()
        self.shared_guide = nn.ParameterDict()

    def story(self, sample: Any, x: Any, r: Any, y: Any, c: Any = None) -> Any:
        """The generative story, the lines of the paper's figure.

        :param sample: what a line does: `sample(name, distribution, obs=None)` returns the value of
            a site, see `inference.reading`.
        :param x: [B, x_dim] in data units; `r`: [B, r_dim]; `y`: [B]; None where not observed.
        :param c: observed costs, [B, r_dim] in the units of r, NaN for the others.
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
        if type(self).shared is Story.shared:
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

    def model(
        self,
        x: Tensor | None = None,
        r: Tensor | None = None,
        y: Tensor | None = None,
        c: Tensor | None = None,
        *,
        size: int = 1,
    ) -> Tensor:
        """The story as an explicit Pyro program; what is not given is drawn.

        :param x: [B, x_dim] in data units; needed with a conditional prior. `r`: [B, r_dim]. With
            prior "standard" of `GCM`, NaN is a missing value in both.
        :param y: [B]; NaN where it was not observed, if c is given.
        :param c: observed costs, [B, r_dim] in the units of r, NaN for the others: their density is
            site `c_observed`, and site c is drawn given them.
        :param size: number of rows when neither x nor r is given.
        :returns: y, [B].
        """
        x, r, y, rows = self.program_inputs(x, r, y, c, size)
        averages = self.objective_records[self.objective].averages
        plan = Plan(given=(), averages=averages)
        reader = Programmed(self, plan, self.plan("conditional"), x, r)
        reader.shared = self.shared(reader.share)
        with pyro.plate("data", rows, dim=-1), SiteGuard():
            return self.story(reader, x, r, y, c)

    def guide(
        self,
        x: Tensor | None = None,
        r: Tensor | None = None,
        y: Tensor | None = None,
        c: Tensor | None = None,
        *,
        size: int = 1,
    ) -> Tensor | None:
        """Guide of `inference.conditional(model)`: the latent sites from `guide_story`.

        A z with a finite support is summed out, so that it has no site here.

        :returns: the value of the first site, or None.
        """
        plan = self._once("guide", lambda: replace(self.plan("conditional"), left=("c",)))
        return self.guide_of(plan, x, r, y, c)

    def guide_of(
        self,
        plan: Plan,
        x: Tensor | None,
        r: Tensor | None = None,
        y: Tensor | None = None,
        c: Tensor | None = None,
    ) -> Tensor | None:
        """The guide for a plan; where it averages, a finite z is summed over, q(z) = p(z)."""
        if x is None:
            raise ValueError("x must be given: the guide reads it")
        x, r, y, rows = self.program_inputs(x, r, y, c)
        reader = Guided(self, plan, x, r)
        self.guide_shared(reader.share_guided)
        reader.shared = self.shared(reader.share)
        with pyro.plate("data", rows, dim=-1):
            return reader.run(x, r, y, c, self.latents(plan))

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
        return self._once(("latents", id(plan)), lambda: Dry.of(self, plan))

    def _once(self, key: Any, make: Callable[[], Made]) -> Made:
        """What follows from the parts of the model, and is kept until one is exchanged."""
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
        for view in self.overrides(*views):
            instead = "story" if view == "model" else "guide_story"
            raise TypeError(
                f"{type(self).__name__} overrides {view}, a view of its story in Pyro that fit, "
                f"predictions and posteriors do not read: override {instead}, which all of them do"
            )


@functools.lru_cache(maxsize=256)
def _overridden(cls: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    library = next(base for base in cls.__mro__ if base.__module__.startswith(__package__))
    return tuple(name for name in names if getattr(cls, name) is not getattr(library, name))

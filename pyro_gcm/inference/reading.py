"""A generative story is read by several readers; what they have in common.

A model tells its story once::

    def story(self, sample, x, r, y):
        z = sample("z", lambda: self.z_dist(x))
        ...
        return sample("y", lambda: self.y_dist(c, e, r), obs=y)

and whoever reads it hands in `sample`, which says what a line does: `inference.programs` runs it as
a Pyro program, `inference.scored` scores it for training, and `prediction.predicted` draws latent
sites from fixed noise, or goes through it once more with known values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyro.distributions as dist
import torch
from pyro.poutine.mask_messenger import MaskMessenger
from torch import Tensor
from torch.distributions import Independent

from pyro_gcm.distributions.base import Left
from pyro_gcm.inference.story_lines import OUTCOME, Listener
from pyro_gcm.nets import Standardizer

#: A program of Pyro's.
Program = Callable[..., Any]
#: A site's distribution as a function of the reader, which knows the values read so far.
OfReader = Callable[["Reader"], Any]
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_Distribution = torch.distributions.Distribution
#: Who reads a story at the moment, for the factors of the model that its lines call.
READER: ContextVar[Reader | None] = ContextVar("reader", default=None)


@dataclass(frozen=True, eq=False)
class Plan:
    """How the sites of a story are treated in one reading, such as that of a training objective.

    :param given: sites that are inputs, whose density does not count.
    :param hidden: sites that are not read at all.
    :param left: sites that are left as their distributions.
    :param averages: whether each value of a finite z is trained on a likelihood of its own.
    :param untrained: prefixes of the parameters that an objective leaves as they are.
    :param exact: sites whose distribution given the inputs takes the place of the story's.
    :param proposals: what predictions draw sites from in the place of the story's distribution.
    :param unweighted: those of them whose draws are not weighted by p / q.
    :param informed: sites that predictions do not read, so that r says nothing of a row; a
        posterior draws them, with weights of their own.
    """

    given: tuple[str, ...] = ("x", "r")
    hidden: tuple[str, ...] = ()
    left: tuple[str, ...] = ("c",)
    averages: bool = False
    untrained: tuple[str, ...] = ()
    exact: Mapping[str, OfReader] = field(default_factory=lambda: _NOTHING)
    proposals: Mapping[str, OfReader] = field(default_factory=lambda: _NOTHING)
    unweighted: tuple[str, ...] = ()
    informed: tuple[str, ...] = ()


class Reader:
    """Base of the readers: `reader(name, distribution, obs=value)` is what a line of a story does.

    A subclass says what becomes of each kind of site.

    :param model: whose story is read.
    :param inputs: x and r as they were given.
    """

    #: Whether a line makes a site of Pyro at the moment.
    speaks_to_pyro = False

    def __init__(self, model: Any, plan: Plan, x: Any = None, r: Any = None) -> None:
        self.model, self.plan = model, plan
        self.x, self.r = x, r
        #: Values of the sites that were read, by name.
        self.values: dict[str, Any] = {}
        #: What the model's `shared` returned: sites that all rows share.
        self.shared: Any = None
        #: Values of those sites, by name, which broadcast against [..., b, *event].
        self.known_shared: dict[str, Tensor] = {}
        self._covariates: tuple[Tensor, Tensor] | None = None
        #: Hears what a story of the user's says to Pyro beside its lines.
        self._listener: Listener | None = None

    def tell(self, x: Any, r: Any, y: Any = None) -> Any:
        """Have the model tell its story to this reader."""
        token = READER.set(self)
        try:
            if not self.model.tells_own_story:
                return self.model.story(self, x, r, y)
            with Listener(self, y) as self._listener:
                told = self.model.story(self, x, r, y)
            self._listener.check_whole()
            return told
        finally:
            READER.reset(token)

    def __call__(self, name: str, p: Any, obs: Any = None) -> Any:
        """One line of the story.

        :param name: of the site.
        :param p: its distribution, or a function that returns it and is called only if needed.
        :param obs: what was observed.
        :returns: the value; for a cost a `Left`.
        """
        if self._listener is not None:
            p = self._listener.line(name, p, obs)
        if name in self.plan.hidden:
            return None
        if name == OUTCOME:
            return self.outcome(p, obs)
        if name in self.plan.left:
            return self.leave(name, p)
        if name in self.plan.given:
            if obs is None:
                raise RuntimeError(f"'{name}' is an input of this objective and must be given")
            value = obs
        elif obs is None:
            value = self.latent(name, p)
        else:
            value = self.observe(name, p, obs)
        self.values[name] = value
        return value

    @property
    def line(self) -> str:
        """The line of a story of the user's that is read."""
        return self._listener.lines[-1] if self._listener and self._listener.lines else ""

    def covariates(self, z: Tensor | None, x: Tensor) -> Tensor:
        """What the factors of a model read of x, computed once for all lines; the first is a site.

        :param z: of the line, or None for that of the story.
        """
        if self._covariates is None or self._covariates[0] is not x:
            if (z := self.values.get("z") if z is None else z) is None:
                raise ValueError("the story has no line 'z' before the one that reads x with it")
            if self.model.members and "e" not in self.values:
                found = self.deterministic("e", lambda: self.model.covariates(z, x))
            else:
                found = self.model.covariates(z, x)
            self._covariates = x, found
        return self._covariates[1]

    def deterministic(self, name: str, value: Callable[[], Tensor]) -> Tensor:
        """A site that is a function of others, with one event dimension."""
        self.values[name] = found = value()
        return found

    def speak(self, statement: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Make a statement to Pyro, such as `pyro.sample`, as a line of the story does."""
        self.speaks_to_pyro = True
        try:
            return statement(*args, **options)
        finally:
            self.speaks_to_pyro = False

    def log_density(self, p: Any, value: Tensor) -> Tensor:
        """log p of an observed site, under the scales and masks that the line is inside of."""
        log_p: Tensor = of(p).log_prob(value)
        for handler in self._listener.around() if self._listener else ():
            if isinstance(handler, MaskMessenger):
                log_p = torch.where(torch.as_tensor(handler.mask, device=log_p.device), log_p, 0.0)
            else:
                log_p = log_p * handler.scale
        return log_p

    def distribution(self, name: str, p: Any) -> Any:
        """The distribution of a latent site: that of the story, or the one given the inputs."""
        exact = self.plan.exact.get(name)
        return of(p) if exact is None else exact(self)

    def leave(self, name: str, p: Any) -> Any:
        """A site that is left as its distribution."""
        return Left(name, self.distribution(name, p))

    def read_shared(self) -> None:
        """The sites that all rows share, from their guide, if the model has any."""
        if self.model.shared_sites():
            self.model.guide_shared(self.share_guided)
            self.shared = self.model.shared(self.share)

    def of_all_rows(self, name: str, p: Any) -> Any:
        """The distribution of a site that all rows share, a single event."""
        return of(p).to_event(self.model.shared_sites()[name].folded)

    def share(self, name: str, p: Any) -> Tensor:
        """A site that all rows share: the value that its guide gave."""
        return self.known_shared[name]

    def guided(self, name: str, q: Any, *, exact: bool = False) -> Any:
        """One line of the guide's story: a draw, or None of a site that this reading has not.

        :param q: a distribution, or a function that returns it and is called only if needed.
        :param exact: whether it is the one given the inputs, which the plan may have in its place.
        """
        if name in (*self.plan.hidden, *self.plan.left) or (exact and name in self.plan.exact):
            return None
        return self.guide(name, q)

    # What a subclass says

    def share_guided(self, name: str, q: Any) -> Tensor:
        """A line of the guide of the sites that all rows share."""
        raise NotImplementedError

    def guide(self, name: str, q: Any) -> Any:
        """A site of the guide: its draw."""
        raise NotImplementedError

    def latent(self, name: str, p: Any) -> Any:
        """A site that was not observed: its value."""
        raise NotImplementedError

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """A site that was: its value."""
        raise NotImplementedError

    def outcome(self, p: Any, obs: Any) -> Any:
        """The outcome, the last site."""
        raise NotImplementedError


def of_rows(values: Tensor, group: Tensor) -> Tensor:
    """The values [..., b] that belong to the groups of rows, of a site that all rows share.

    :param values: of all groups, [..., G], as `sample.shared` has them in any reading.
    :param group: the number of the group of each row, [b].
    """
    index = group.long()
    if values.dim() == 1 or values.shape[-2] == 1:
        return values.reshape(*values.shape[:-2], values.shape[-1])[..., index]
    shape = (*values.shape[:-1], 1)
    return values.gather(-1, index[:, None].expand(shape)).squeeze(-1)


class StopReading(Exception):
    """Ends a reading at a site beyond which nothing is wanted."""


def of(p: Any) -> Any:
    """A distribution, or what a function returns."""
    return p if isinstance(p, _Distribution) else p()


#: Values of a finite site of several coordinates, at most.
_MOST_VALUES = 4096


def is_finite(q: Any) -> bool:
    """Whether a distribution, or that of each coordinate, has finitely many values."""
    found: bool = q.has_enumerate_support
    return found or (isinstance(q, Independent) and is_finite(q.base_dist))


def every_value(q: Any) -> Tensor:
    """The values [D, *event] of a distribution with a finite support.

    :raises ValueError: for several coordinates with too many values together.
    """
    event: tuple[int, ...] = q.event_shape
    if not (isinstance(q, Independent) and q.reinterpreted_batch_ndims):
        support: Tensor = q.enumerate_support(expand=False)
        return support.reshape(len(support), *event)
    values, size = every_value(q.base_dist), event.numel()  # type: ignore[attr-defined]
    if values.dim() > 1 or len(values) ** size > _MOST_VALUES:
        raise ValueError(
            f"a finite site of shape {list(event)} has more than {_MOST_VALUES} values, which are "
            "summed over: make it several sites, or a continuous one"
        )
    return torch.cartesian_prod(*[values] * size).reshape(-1, *event)


# Columns of x and r in the units of the data


def in_units(standard: Any, units: Standardizer) -> Any:
    """The distribution of standardised columns in the units of the data."""
    affine = dist.transforms.AffineTransform(units.loc, units.scale, event_dim=1)
    return dist.TransformedDistribution(standard, [affine])

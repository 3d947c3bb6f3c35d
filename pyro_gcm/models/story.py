"""The story of a model as programs of Pyro's, and the sites that all rows share."""

from __future__ import annotations

from typing import Any

import pyro
import torch
from pyro.infer.util import is_validation_enabled
from torch import Tensor

from pyro_gcm._utils.process_state import Randomness
from pyro_gcm._utils.validation import checked_data, positive_int
from pyro_gcm.inference.guards import SiteGuard
from pyro_gcm.inference.programs import Guided, Programmed, SharedSite
from pyro_gcm.inference.reading import Plan, of
from pyro_gcm.inference.views import announce, is_announcing

#: Root mean square of a column above which a model that has not learned its units warns.
_LARGE = 4.0


def run_program(model: Any, x: Any, r: Any, y: Any, size: int) -> Any:
    """The story as an explicit program, see `GCM.model`."""
    x, r, y, rows = _inputs(model, x, r, y, size)
    plan = Plan(given=(), averages=model.objective_records[model.objective].averages)
    reader = Programmed(model, plan, model.plan("conditional"), x, r)
    reader.shared = model.shared(reader.share)
    with pyro.plate("data", rows, dim=-1), SiteGuard():
        return model.story(reader, x, r, y)


def run_guide(model: Any, plan: Plan, x: Any, r: Any, y: Any) -> Any:
    """The guide for a plan, as a program."""
    if x is None:
        raise ValueError("x must be given: the guide reads it")
    x, r, y, rows = _inputs(model, x, r, y, 1)
    reader = Guided(model, plan, x, r)
    model.guide_shared(reader.share_guided)
    reader.shared = model.shared(reader.share)
    with pyro.plate("data", rows, dim=-1):
        return reader.run(x, r, y, model.latents(plan))


def _inputs(model: Any, x: Any, r: Any, y: Any, size: int) -> tuple[Any, Any, Any, int]:
    """Inputs, their values checked while Pyro's validation is on, and the number of rows."""
    if is_validation_enabled():
        data = checked_data(model, x, r, y, device=model.device)
        # The checks see copies without a gradient; programs may be differentiated by x and r.
        x, r = (given_or(v, data.get(n)) for n, v in (("x", x), ("r", r)))
        y = data.get("y")
    if y is not None and not model.is_trained and is_announcing() and torch.is_grad_enabled():
        _note_training(model, {"x": x, "r": r, "y": y})
    model.shared_sites()  # whose guide has parameters
    announce(model.name, model)
    given = r if x is None else x
    return x, r, y, positive_int("size", size) if given is None else len(given)


def _note_training(model: Any, data: dict[str, Tensor | None]) -> None:
    """A program that runs with y and with gradients is being trained, by SVI say."""
    model.is_trained = True
    for name, values in data.items():
        if values is not None and (values.double().square().nanmean(0).sqrt() > _LARGE).any():
            model.warn_once(
                f"{model.name} is trained on values of {name} that are not standardised, and has "
                "not learned their units: call model.learn_units(x, r, y) before pyro.infer.SVI"
            )


def given_or(given: Any, checked: Any) -> Any:
    """Return the checked tensor, or the given one if it has a gradient."""
    if isinstance(given, Tensor) and given.requires_grad and checked is not None:
        return given.to(checked.device)
    return checked


def shared_sites(model: Any) -> dict[str, SharedSite]:
    """The sites that all rows share, whose guide gets its parameters."""
    sites = {}

    def line(name: str, p: Any) -> Tensor:
        p = of(p)
        sites[name] = SharedSite(name, p.event_shape, p.support)
        sites[name].add_parameters(model.shared_guide, model.base_samples.samples)
        return p.sample()

    with torch.no_grad(), Randomness(0, model.device).in_use():
        model.shared(line)
    return sites
